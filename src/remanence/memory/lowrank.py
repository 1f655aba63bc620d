"""Soft memory of bounded size: the strongest directions of all rows so far, by incremental SVD.

[diag(s) Vᵀ; X] = Q diag(s') V'ᵀ,  cut to the r strongest        dropped += Σ of the squares cut off        (L)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from remanence.checks import Array


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The leading right singular vectors of all rows seen, their strengths, and the energy that was dropped."""

    basis: Array  # (d, r) V, orthonormal
    strength: Array  # (r,) s, falling
    dropped: float = 0.0  # Σ of squared singular values cut off so far

    @property
    def rank(self) -> int:
        return len(self.strength)

    def absorbed(self, X: Array, rank: int) -> "Spectrum":
        """With the rows X (n, d), cut to the `rank` strongest directions (L)."""
        V, s = self.basis, self.strength
        inside = X @ V  # (n, r)
        outside = X - inside @ V.T
        again = outside @ V
        outside, inside = outside - again @ V.T, inside + again
        Q, R = np.linalg.qr(outside.T)  # (d, k), (k, n)
        small = np.block([[np.diag(s), np.zeros((len(s), Q.shape[1]), s.dtype)], [inside, R.T]])
        _, strength, rotation = np.linalg.svd(small, full_matrices=False)
        basis = np.concatenate([V, Q], axis=1) @ rotation.T
        cut = strength[rank:].astype(np.float64)
        return Spectrum(basis[:, :rank], strength[:rank], self.dropped + float(cut @ cut))


def no_spectrum(features: int, dtype: DTypeLike = np.float64) -> Spectrum:
    """The spectrum of no rows."""
    return Spectrum(np.zeros((features, 0), dtype), np.zeros(0, dtype))


def energy(X: Any) -> float:
    """‖X‖²."""
    return float(np.einsum("ij,ij->", X, X, dtype=np.float64))
