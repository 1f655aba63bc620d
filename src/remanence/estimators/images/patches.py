"""Patches of images: normalised, whitened, and filtered for all places at once.

    p̂ = (p − mean(p)) / √(var(p) + floor)                                                                 (C1)
    z = (p̂ − m)ᵀ V (Λ + ε)^(−½) Vᵀ d = (pᵀw − mean(p) Σw) / √(var(p) + floor) − mᵀw                        (C2)
    pooled: the mean over each of pool × pool regions of max(z − a, 0) and of max(−z − a, 0)               (C3)

m, V, Λ are the mean and the covariance of normalised patches, d a whitened random patch of length 1. By (C2) a filter w
is one product per place, whatever the normalisation. In float32, block by block.
"""

from collections.abc import Iterator

import numpy as np

from remanence.arrays import Array

WHITENED = 100_000  # patches that the whitening looks at, at most
EPSILON = 0.1  # ε, beside variances of normalised patches of about 1
FLOOR = 0.005  # of the mean variance of patches
NUMBERS = 4_000_000  # of a block of patches


def patches(images: Array, size: int) -> Array:
    """(n, h, w, size²·c) The patches at all places of images (n, H, W, c)."""
    view = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(1, 2))  # (n, h, w, c, size, size)
    return view.reshape(*view.shape[:3], -1)


def learned_filters(images: Array, count: int, size: int, rng: np.random.Generator) -> tuple[Array, Array, float]:
    """Filters w (size²·c, count), shifts mᵀw (count,) and the floor of the variance, from random patches."""
    n, height, width, _ = images.shape
    picks = [rng.integers(0, top, WHITENED) for top in (n, height - size + 1, width - size + 1)]
    view = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(1, 2))
    P = view[tuple(picks)].reshape(WHITENED, -1).astype(np.float64)
    P -= P.mean(axis=1, keepdims=True)
    variance = np.square(P).mean(axis=1)
    floor = FLOOR * float(variance.mean()) or 1.0  # (images of one colour)
    P /= np.sqrt(variance + floor)[:, None]  # (C1)
    m = P.mean(axis=0)
    values, V = np.linalg.eigh(np.cov(P, rowvar=False))
    whiten = (V / np.sqrt(np.maximum(values, 0) + EPSILON)) @ V.T
    detailed = np.flatnonzero(variance > floor)
    chosen = rng.choice(detailed if len(detailed) else WHITENED, count, replace=len(detailed) < count)
    D = (P[chosen] - m) @ whiten
    lengths = np.linalg.norm(D, axis=1, keepdims=True)
    W = whiten @ (D / np.where(lengths > 0, lengths, 1)).T
    return W.astype(np.float32), (m @ W).astype(np.float32), floor


def pooled_responses(
    images: Array, W: Array, shifts: Array, floor: float, size: int, pool: int, threshold: float
) -> Iterator[Array]:
    """(block, 2·pool²·filters) The features (C3) of images (n, H, W, c), in blocks."""
    n, height, width, channels = images.shape
    h, w, count = height - size + 1, width - size + 1, W.shape[1]
    means = _pooling(h, w, pool)
    step = max(1, NUMBERS // (h * w * (size * size * channels + 2 * count)))
    sums = W.sum(axis=0)
    for start in range(0, n, step):
        P = patches(images[start : start + step].astype(np.float32, copy=False), size).reshape(-1, len(W))
        mean = P.mean(axis=1)
        scale = 1 / np.sqrt(np.maximum(np.einsum("ij,ij->i", P, P) / len(W) - mean**2, 0) + np.float32(floor))
        Z = P @ W
        Z -= mean[:, None] * sums
        Z *= scale[:, None]
        Z -= shifts  # (C2)
        Z = Z.reshape(-1, h * w, count)
        a = np.float32(threshold)
        up = means @ np.maximum(Z, a) - a  # (b, pool², count): regions partition the places
        down = -(means @ np.minimum(Z, -a)) - a
        yield np.concatenate([up, down], axis=1).reshape(len(Z), -1)  # (C3)


def _pooling(h: int, w: int, pool: int) -> Array:
    """(pool², h·w) The means over regions of an image of places."""
    rows, columns = (_bands(length, pool) for length in (h, w))
    return np.kron(rows, columns).astype(np.float32)


def _bands(length: int, pool: int) -> Array:
    """(pool, length) Means over consecutive bands of nearly equal length."""
    bands = np.zeros((pool, length))
    for band, places in zip(bands, np.array_split(np.arange(length), pool), strict=True):
        band[places] = 1 / len(places)
    return bands
