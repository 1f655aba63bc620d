"""Patches of images: normalised, whitened, and filtered for all places at once.

    p̂ = (p − mean(p)) / √(var(p) + floor)                                                                 (C1)
    z = (p̂ − m)ᵀ V (Λ + ε)^(−½) Vᵀ d = pᵀ(w − mean(w)) / √(var(p) + floor) − mᵀw                            (C2)
    pooled: the mean over each of pool × pool regions of max(z − a, 0) and of max(−z − a, 0)               (C3)
    mirror: the average of (C3) over the image and its mirror image; power: (C3)ᵖ                          (C4)

m, V, Λ are the mean and the covariance of normalised patches, d a whitened random patch of length 1. By (C2) a filter w
is one product per place, whatever the normalisation. In float32, block by block, small enough for the cache; every
image is a product of its own, so that its features are the same bits whatever images come with it.
"""

from typing import NamedTuple

import numpy as np

from remanence.arrays import Array

WHITENED = 100_000  # patches that the whitening looks at, at most
NUMBERS = 400_000  # of a block of patches and responses


class Pooling(NamedTuple):
    """How responses become features (C3), (C4)."""

    pool: int
    overlap: float
    threshold: float
    power: float
    mirror: bool


def patches(images: Array, size: int) -> Array:
    """(n, h, w, size²·c) The patches at all places of images (n, H, W, c)."""
    view = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(1, 2))  # (n, h, w, c, size, size)
    return view.reshape(*view.shape[:3], -1)


def learned_filters(
    images: Array, count: int, size: int, share: float, epsilon: float, rng: np.random.Generator
) -> tuple[Array, Array, float]:
    """Filters w (size²·c, count) and shifts mᵀw (count,) of random patches, and the floor, a share of the variance."""
    n, height, width, _ = images.shape
    picks = [rng.integers(0, top, WHITENED) for top in (n, height - size + 1, width - size + 1)]
    view = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(1, 2))
    P = view[tuple(picks)].reshape(WHITENED, -1).astype(np.float64)
    P -= P.mean(axis=1, keepdims=True)
    variance = np.square(P).mean(axis=1)
    floor = share * float(variance.mean()) or 1.0  # (images of one colour)
    P /= np.sqrt(variance + floor)[:, None]  # (C1)
    m = P.mean(axis=0)
    values, V = np.linalg.eigh(np.cov(P, rowvar=False))
    whiten = (V / np.sqrt(np.maximum(values, 0) + epsilon)) @ V.T
    detailed = np.flatnonzero(variance > floor)
    chosen = rng.choice(detailed if len(detailed) else WHITENED, count, replace=len(detailed) < count)
    D = (P[chosen] - m) @ whiten
    lengths = np.linalg.norm(D, axis=1, keepdims=True)
    W = whiten @ (D / np.where(lengths > 0, lengths, 1)).T
    return W.astype(np.float32), (m @ W).astype(np.float32), floor


def pooled_responses(images: Array, W: Array, shifts: Array, floor: float, size: int, pooling: Pooling) -> Array:
    """(n, 2·pool²·filters) The features (C4) of images (n, H, W, c)."""
    n, height, width, channels = images.shape
    h, w, count = height - size + 1, width - size + 1, W.shape[1]
    means = _pooling(h, w, pooling)
    found = np.empty((n, 2, len(means), count), np.float32)
    offset = -shifts - np.float32(pooling.threshold)
    filters = np.concatenate([W - W.mean(axis=0), offset[None]]).astype(np.float32)
    step = max(1, NUMBERS // (h * w * (size * size * channels + 2 * count)))
    for start in range(0, n, step):
        block = images[start : start + step].astype(np.float32, copy=False)
        place = found[start : start + step]
        _pool(block, filters, floor, size, means, pooling.threshold, place)
        if pooling.mirror:
            other = np.empty_like(place)
            _pool(block[:, :, ::-1], filters, floor, size, means, pooling.threshold, other)
            np.multiply(np.add(place, other, out=place), np.float32(0.5), out=place)
        if pooling.power != 1:
            np.power(place, np.float32(pooling.power), out=place)  # (C4)
    return found.reshape(n, -1)


def _pool(images: Array, filters: Array, floor: float, size: int, means: Array, threshold: float, out: Array) -> None:
    """The features (C3) of a block, into `out` (block, 2, pool², filters); the last row of `filters` is a constant."""
    P = patches(images, size).reshape(-1, len(filters) - 1)
    mean = P.mean(axis=1)
    scale = 1 / np.sqrt(np.maximum(np.einsum("ij,ij->i", P, P) / P.shape[1] - mean**2, 0) + np.float32(floor))
    rows = np.ones((len(P), len(filters)), np.float32)
    np.multiply(P, scale[:, None], out=rows[:, :-1])
    Z = rows.reshape(len(images), -1, len(filters)) @ filters  # z − a (C2)
    out[:, 0] = means @ np.maximum(Z, 0)
    np.subtract(np.float32(-2 * threshold), Z, out=Z)  # −z − a
    out[:, 1] = means @ np.maximum(Z, 0, out=Z)  # (C3)


def _pooling(h: int, w: int, pooling: Pooling) -> Array:
    """(pool², h·w) The means over regions of an image of places."""
    rows, columns = (_bands(length, pooling) for length in (h, w))
    return np.kron(rows, columns).astype(np.float32)


def _bands(length: int, pooling: Pooling) -> Array:
    """(pool, length) Means over bands of nearly equal length, each wider by half of `overlap` on both sides."""
    bands = np.zeros((pooling.pool, length))
    wider = round(pooling.overlap / 2 * length / pooling.pool)
    for band, places in zip(bands, np.array_split(np.arange(length), pooling.pool), strict=True):
        reached = slice(max(0, places[0] - wider), places[-1] + 1 + wider)
        band[reached] = 1 / len(band[reached])
    return bands
