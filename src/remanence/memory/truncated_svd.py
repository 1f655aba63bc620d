"""Truncated singular value decomposition of all rows so far, updated incrementally: soft memory of bounded rank.

    [diag(s) Vᵀ; X] = P diag(s') V'ᵀ,   [z; Y] → Pᵀ[z; Y],   cut to the r strongest                            (L)

What is cut off is counted: the squares of the strengths as `dropped`, those of the targets in `rest`.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array
from remanence.memory.root import sums_of_squares, take_outputs, take_rows
from remanence.memory.sparse.absorbing import Cut, absorbed_sparse, eliminated_sparse, energy, significant
from remanence.memory.sparse.sparse_rows import SparseRows
from remanence.validation import check_result


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The leading singular directions of all rows seen, their singular values, and the rotated targets."""

    basis: Annotated[Array, "d r unit"]  # V, orthonormal
    strength: Annotated[Array, "r squarable"]  # s, falling
    target: Annotated[Array, "r c squarable"]  # z
    rest: Annotated[Array, "c float64"]  # squared targets outside of the kept directions
    dropped: float = 0.0  # Σ of squared strengths cut off so far

    @property
    def rank(self) -> int:
        return len(self.strength)

    def absorbed(self, X: Array | SparseRows, Y: Array, rank: int) -> "Spectrum":
        """With the rows X (n, d), Y (n, c), cut to the `rank` strongest directions (L)."""
        cut = absorbed_sparse(self.basis, self.strength, X, rank) if isinstance(X, SparseRows) else None
        basis, strength, P, lost = cut or self._decomposed(X.dense() if isinstance(X, SparseRows) else X, rank)
        aims = np.concatenate([self.target, Y])
        target = P.T @ aims
        unseen = sums_of_squares(aims) - sums_of_squares(target)
        return Spectrum(basis, strength, target, self.rest + np.maximum(unseen, 0), self.dropped + lost)

    def _decomposed(self, X: Array, rank: int) -> Cut:
        """The basis, the strengths and the rotation with more rows, and the energy that was cut off."""
        V, s = self.basis, self.strength
        inside = X @ V  # (n, r)
        outside = X - inside @ V.T
        again = outside @ V
        outside, inside = outside - again @ V.T, inside + again
        Q, R = np.linalg.qr(outside.T)  # (d, k), (k, n)
        small = np.zeros((len(s) + len(X), len(s) + Q.shape[1]), V.dtype)
        small[: len(s), : len(s)] = np.diag(s)
        small[len(s) :, : len(s)], small[len(s) :, len(s) :] = inside, R.T
        check_result(small)
        P, strength, rotation = np.linalg.svd(small, full_matrices=False)
        rank = min(rank, significant(strength, X.shape[1], len(small)))
        basis = V @ rotation[:rank, : len(s)].T
        basis += Q @ rotation[:rank, len(s) :].T
        return basis, strength[:rank], P[:, :rank], energy(strength[rank:])

    def rows(self) -> Array:
        """The rows diag(s)Vᵀ that stand for all rows seen."""
        return np.asarray((self.basis * self.strength).T)

    def kept(self) -> float:
        """The energy Σ s² that was kept."""
        return energy(self.strength)

    def with_columns(self, sources: Array) -> "Spectrum":
        """With feature j taken from feature sources[j], or zero so far where that is -1."""
        known = np.count_nonzero(sources >= 0)
        if known == len(self.basis):
            return Spectrum(take_rows(self.basis, sources), self.strength, self.target, self.rest, self.dropped)
        rows = take_rows((self.basis * self.strength), sources).T
        left = no_spectrum(len(sources), self.target.shape[1], self.basis.dtype).absorbed(rows, self.target, self.rank)
        return Spectrum(left.basis, left.strength, left.target, left.rest + self.rest, left.dropped + self.dropped)

    def with_outputs(self, sources: Array) -> "Spectrum":
        target, rest = take_outputs(self.target, sources), take_outputs(self.rest[None], sources)[0]
        return Spectrum(self.basis, self.strength, target, rest, self.dropped)


def no_spectrum(features: int, outputs: int, dtype: DTypeLike = np.float64) -> Spectrum:
    """The spectrum of no rows."""
    return Spectrum(
        np.zeros((features, 0), dtype), np.zeros(0, dtype), np.zeros((0, outputs), dtype), np.zeros(outputs), 0.0
    )


def eliminated(border: Array | None, X: Array | SparseRows, Y: Array) -> tuple[Array | None, Array | SparseRows, Array]:
    """The border [R T z] of leading features (u, d + c) with the rows X, Y rotated into it, and what is left of them.

    What is left is zero in the leading features, so that truncating it leaves the border exact. No border: the rows.
    """
    if border is None:
        return None, X, Y
    u, d = len(border), X.shape[1]
    if isinstance(X, SparseRows):
        if u == 1 and not X.sparse[:, :1].nnz:
            return eliminated_sparse(border, X, Y)
        X = X.dense()
    stacked = np.concatenate([border, np.concatenate([X, Y], axis=1)])
    for j in range(u):  # one reflection per column
        column = stacked[j:, j].copy()
        column[0] += np.copysign(np.linalg.norm(column), column[0])
        square = column @ column
        if square > 0:
            stacked[j:] -= np.outer(2 / square * column, column @ stacked[j:])
        stacked[j + 1 :, j] = 0
    return stacked[:u], stacked[u:, :d], stacked[u:, d:]
