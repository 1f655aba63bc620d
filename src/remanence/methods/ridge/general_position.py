"""The leave-one-out error of a ridge from the factor alone: its mean over all rows that have this factor.

Rows that are rotated, together with their targets, keep the factor and what it knows of the targets. With the shrinkage
k = λ/(sⱼ² + λ) along the singular directions and 1 along the others, p² the squared targets along each, and Gaussian z,
the mean over all rotations of n rows is

    e(λ) = (n − 2) E (Σ k z p)² / (Σ k z²)²                                                              (G1)
         = (n − 2) ∫ t Σ k²p²/(1 + 2kt) Π (1 + 2kt)^(−1/2) dt,   t from 0 to ∞                           (G2)

by 1/Q² = ∫ t exp(−tQ) dt. Where Σ k z² hardly varies, n Σ k²p² / (Σ k)² is left of it, generalized
cross-validation. Where few directions are left to tell the noise by, it varies much, and generalized cross-validation
takes a fit through all rows for a good one because the target along one direction happens to be small.
"""

from collections.abc import Iterator

import numpy as np

from remanence.arrays import Array

NODES = np.exp(np.arange(-6.0, 38.0))  # t Σ k: the integrand is smooth in log t, and these steps are exact to 1e-6
AT_ONCE = 1 << 18  # numbers


def left_out_errors(k: Array, power: Array, rest: Array, n: float) -> Array:
    """(G2), (m, c), for shrinkages k (m, r) and squared targets along the directions (r, c) and outside (c,)."""
    return np.concatenate(list(_parts(k, power, rest, n)))


def _parts(k: Array, power: Array, rest: Array, n: float) -> Iterator[Array]:
    outside = max(n - k.shape[1], 0.0)
    size = max(AT_ONCE // (k.shape[1] * len(NODES)), 1)
    for i in range(0, len(k), size):
        part = k[i : i + size]
        t = NODES / (part.sum(axis=1, keepdims=True) + outside)  # (some, nodes)
        grown = 1 + 2 * t[:, :, None] * part[:, None]
        weight = t**2 * np.exp(-0.5 * (np.log(grown).sum(axis=2) + outside * np.log1p(2 * t)))  # (dt = t d log t)
        squares = (part[:, None] ** 2 / grown) @ power + (rest / (1 + 2 * t)[:, :, None])
        yield max(n - 2, 1.0) * np.einsum("ij,ijk->ik", weight, squares)
