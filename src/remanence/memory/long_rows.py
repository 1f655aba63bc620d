"""The strongest directions of rows that are much longer than they are many, by matrix products alone.

    A Aᵀ = P diag(s²) Pᵀ,    B = Pᵀ A / s                   (W1)   where s is not too small: squares lose digits
    B ← (3I − BBᵀ)/2 B                                      (W2)   until orthonormal to rounding; same span
    A ← A − (A Bᵀ)B, and again from the top                 (W3)   what was lost in the squares, on its own scale

A QR of such rows goes column by column and is many times slower. Everything is kept row by row: B is the basis's
transpose.
"""

from dataclasses import replace

import numpy as np

from remanence.arrays import Array
from remanence.memory.truncated_svd import Spectrum

LONG = 4  # times longer than they are many
RESOLVED = 1e-4  # directions weaker than this share of the strongest are left to the next round


def absorbed_rows(spectrum: Spectrum, X: Array, rank: int) -> Spectrum:
    """A spectrum without targets, with the rows X (n, d), cut to the `rank` strongest directions."""
    if LONG * (spectrum.rank + len(X)) > X.shape[1]:
        found = spectrum.absorbed(X, np.zeros((len(X), 0)), rank)
        return replace(found, basis=orthonormal_rows(np.ascontiguousarray(found.basis.T)).T)
    A = np.concatenate([spectrum.rows(), X])
    B, strengths = np.zeros((0, X.shape[1])), np.zeros(0)
    floor = len(A) * float(np.finfo(A.dtype).eps) * float(np.linalg.norm(A))
    missing, lost = min(rank, len(A)), 0.0
    while missing:
        squares, P = np.linalg.eigh(A @ A.T)
        strength, P = np.sqrt(np.maximum(squares[::-1], 0)), P[:, ::-1]
        kept = min(missing, int((strength > max(RESOLVED * strength[0], floor)).sum()))
        lost = float((strength[kept:] ** 2).sum())
        if not kept:
            break
        new = (P[:, :kept] / strength[:kept]).T @ A  # (W1)
        if len(B):
            new -= (new @ B.T) @ B
        new = orthonormal_rows(new)
        missing -= kept
        if missing:
            A = A - (A @ new.T) @ new  # (W3)
        B, strengths = np.concatenate([B, new]) if len(B) else new, np.concatenate([strengths, strength[:kept]])
    none = np.zeros((len(strengths), 0))
    return Spectrum(orthonormal_rows(B).T, strengths, none, np.zeros(0), spectrum.dropped + lost)


def orthonormal_rows(B: Array) -> Array:
    """The orthonormal rows nearest to rows (r, d) that are almost orthonormal (W2)."""
    identity = np.eye(len(B))
    for _ in range(6):
        off = B @ B.T - identity
        if np.abs(off).max(initial=0.0) <= 16 * np.finfo(B.dtype).eps:
            break
        B = B - (off / 2) @ B
    return B
