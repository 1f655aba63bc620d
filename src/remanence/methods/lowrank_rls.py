"""RLS for very wide features: ridge least squares within the strongest directions of the data.

    [U X] = Q [R T; 0 X̃]      X̃ ≈ P diag(s) Vᵀ                                                    (LR1)
    W = V a,   (diag(s²) + λI) a = diag(s) z          W₀ = R⁻¹(z₀ − T W)                           (LR2)

U are unpenalized features, as the column of ones of an intercept: their rows R, T, z₀ (the border) are kept exactly,
and only the rest X̃, which is centred then, is truncated (V, s, z: memory/truncated_svd.py). With `rank` at the number
of features (or of samples) it is RLS. Truncation drops the weakest directions, which for ill-conditioned features are
mostly noise, and counts the energy that went with them. States of earlier files have no border: theirs is inside V,
and λI is λ(I − V₀ᵀV₀) with V₀ the rows of V that belong to unpenalized features.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array, read_only
from remanence.errors import InputError
from remanence.memory.pending_rows import PendingRows, RowBuffer
from remanence.memory.root import check_sources, sums_of_squares, take_outputs, take_rows
from remanence.memory.sparse.sparse_rows import SparseRows, is_sparse, plain_rows
from remanence.memory.truncated_svd import Spectrum, eliminated, no_spectrum
from remanence.methods.least_squares import SoftMethod
from remanence.methods.ridge_choice import chosen_ridge, directions
from remanence.validation import (
    check_block,
    check_count,
    check_finite,
    check_free,
    check_number,
    check_result,
    check_rows,
    check_start,
    quiet,
)


@dataclass
class LowRankCache:
    """Results computed for one state on request."""

    spectrum: Spectrum | None = None
    border: Array | None = None
    weights: Array | None = None
    ridge: float | None = None


@dataclass(frozen=True, slots=True)
class LowRankState:
    """The spectrum of whole chunks of rows, and the rows that do not fill one yet: cuts leave no trace."""

    spectrum: Spectrum
    pending: PendingRows
    start: Array  # (d, c) θ⁰
    count: int
    ridge: float | Literal["auto"]
    unpenalized: int = 0
    cache: LowRankCache = field(default_factory=LowRankCache, repr=False, compare=False)
    border: Array | None = None  # (u, d + c) [R T z₀] of the unpenalized features; None where there are none


@dataclass(frozen=True, slots=True)
class LowRankRLS(SoftMethod[LowRankState]):
    """RLS within the strongest directions of the data: memory d·rank instead of d².

    Parameters
    ----------
    rank : int, default=500
        How many directions to keep; `dropped(state)` is the share of ‖X‖² outside of them.
    ridge : float or "auto", default=1.0
        λ, as in RLS.

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> X = np.outer([1.0, 2.0, 3.0], [1.0, 1.0, 0.0, 0.0])  # rows of rank 1
    >>> low = rm.LowRankRLS(rank=1, ridge=2.0)
    >>> state = low.update(low.init(features=4, outputs=1), X, X @ np.ones((4, 1)))
    >>> low.weights(state).ravel().round(4).tolist(), round(low.dropped(state), 6)
    ([0.9333, 0.9333, 0.0, 0.0], 0.0)

    References
    ----------
    Peng, Elenter, Agterberg, Ribeiro and Vidal (2024), "TSVD: bridging theory and practice in continual learning with
    pre-trained models", arXiv.
    """

    rank: int = 500
    ridge: float | Literal["auto"] = 1.0

    summary = "RLS within the `rank` strongest directions of the data, for widths where d² does not fit"
    cost = "4dr + dc"
    memory = "2dr + dc"

    def __post_init__(self) -> None:
        check_count(self.rank, "rank", hint="a few hundred directions, or the number of features for all")
        if not (isinstance(self.ridge, str) and self.ridge == "auto"):
            check_number(self.ridge, "ridge", hint='a small positive number or "auto"')

    def init(
        self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64, free: int = 0
    ) -> LowRankState:
        start = check_start(start, features, outputs, dtype)
        check_free(free, features)
        border = np.zeros((free, features + outputs), dtype) if free else None
        return self._fresh(no_spectrum(features, outputs, dtype), start, 0, self.ridge, free, border)

    @quiet
    def update(self, state: LowRankState, X: Any, Y: Any, donate: bool = False) -> LowRankState:
        X, Y = self._check_block(X, Y, state.start)
        spectrum, border, pending, count = state.spectrum, state.border, state.pending, state.count + len(X)
        Y = Y - X @ state.start  # the spectrum knows what is left for it to explain
        while len(X) >= pending.space():
            space = pending.space()
            chunk: tuple[Any, Array] = (X[:space], Y[:space])
            if pending.count or not isinstance(X, SparseRows):
                full = pending.appended(_dense(chunk[0]), chunk[1])
                chunk = (full.X, full.Y)
            border, rows, targets = eliminated(border, *chunk)
            spectrum = spectrum.absorbed(rows, targets, self._rank(state))
            pending, X, Y = self._no_rows(state.start), X[space:], Y[space:]
        if len(X):
            pending = pending.appended(_dense(X), Y)
        check_result(spectrum.strength)
        return LowRankState(spectrum, pending, state.start, count, state.ridge, state.unpenalized, border=border)

    def track(self, state: LowRankState, X: Any, Y: Any, donate: bool = False) -> tuple[LowRankState, Array]:
        X, Y = check_block(X, Y, state.start)
        errors = np.empty_like(Y)
        for i in range(len(X)):
            errors[i] = Y[i] - X[i] @ self.weights(state)
            state = self.update(state, X[i : i + 1], Y[i : i + 1])
        return state, errors

    @quiet
    def weights(self, state: LowRankState) -> Array:
        if state.cache.weights is None:
            seen = self._spectrum(state)
            step = seen.basis @ np.linalg.solve(self._system(state), seen.strength[:, None] * seen.target)  # (LR2)
            border, (d, u) = state.cache.border, (len(step), state.unpenalized)
            if border is not None:
                step[:u] = np.linalg.pinv(border[:, :u]) @ (border[:, d:] - border[:, u:d] @ step[u:])
            check_result(step)
            state.cache.weights = state.start + step
        return read_only(state.cache.weights)

    @quiet
    def variance(self, state: LowRankState, X: Any) -> Array:
        seen, ridge = self._spectrum(state), self.ridge_of(state)
        X = check_rows(X, len(state.start), state.start.dtype)
        border, u, fixed = state.cache.border, state.unpenalized, np.zeros(len(X))
        if border is not None:
            along = X[:, :u] @ np.linalg.pinv(border[:, :u])  # (n, u)
            fixed = (along**2).sum(axis=1)
            X = np.concatenate([np.zeros_like(X[:, :u]), X[:, u:] - along @ border[:, u : X.shape[1]]], axis=1)
        inside = X @ seen.basis
        spread = fixed + np.einsum("ij,ji->i", inside, np.linalg.solve(self._system(state), inside.T))
        outside = np.maximum((X[:, state.unpenalized :] ** 2).sum(axis=1) - (inside**2).sum(axis=1), 0) / ridge
        noise = self._loss(state) / max(state.count - state.unpenalized, 1)
        return np.asarray((1 + spread + outside)[:, None] * np.maximum(noise, np.finfo(float).tiny))

    @quiet
    def loss(self, state: LowRankState) -> float:
        """The minimum of the objective, summed over the outputs, as far as the kept directions reach."""
        return float(self._loss(state).sum())

    def dropped(self, state: LowRankState) -> float:
        """The share of the energy ‖X̃‖² that truncation has dropped, 0 to 1."""
        seen = self._spectrum(state)
        total = seen.kept() + seen.dropped
        return seen.dropped / total if total else 0.0

    def ridge_of(self, state: LowRankState) -> float:
        if state.ridge != "auto":
            return float(state.ridge)
        if state.cache.ridge is None:
            seen = self._spectrum(state)
            rows, target = seen.rows(), seen.target
            if state.unpenalized and state.border is None:
                Q = np.linalg.qr(rows[:, : state.unpenalized])[0]
                rows, target = (
                    rows[:, state.unpenalized :] - Q @ (Q.T @ rows[:, state.unpenalized :]),
                    target - Q @ (Q.T @ target),
                )
            U, s, Vt = np.linalg.svd(rows, full_matrices=False)
            known = directions(s**2, Vt.T, (U.T @ target) ** 2, seen.rest, sums_of_squares(rows), state.count)
            state.cache.ridge = chosen_ridge(known)
        return float(state.cache.ridge)

    def rows(self, state: LowRankState) -> tuple[Array, Array]:
        seen = self._spectrum(state)
        rows, size = seen.rows(), np.full(len(seen.basis), seen.strength.max(initial=0.0))
        if state.cache.border is None:
            return rows, size
        border = state.cache.border[:, : len(size)]
        return np.concatenate([border, rows]), np.maximum(size, np.abs(border).max(axis=0))

    def template(self, state: LowRankState) -> Array:
        return state.start

    @quiet
    def settled(self, state: LowRankState) -> LowRankState:
        """Truncation happens at this cut too, as at the end of every chunk."""
        if not state.pending.count:
            return state
        spectrum, prior = self._spectrum(state), (state.ridge, state.unpenalized)
        return self._fresh(spectrum, state.start, state.count, *prior, state.cache.border)

    def remove(self, state: LowRankState, X: Any, Y: Any, accept_loss: bool = False) -> LowRankState:
        raise InputError("expected a method that keeps all directions to remove samples from, got LowRankRLS; use RLS")

    def precision_loss(self, state: LowRankState) -> float:
        return 0.0  # nothing is ever removed

    def merge(self, a: LowRankState, b: LowRankState) -> LowRankState:
        if a.start.shape != b.start.shape or a.unpenalized != b.unpenalized or not np.array_equal(a.start, b.start):
            raise InputError("expected two states of one shape with the same start, got different ones")
        if (a.border is None) != (b.border is None):  # a state of an earlier file
            a, b = self._bordered(a), self._bordered(b)
        mine, theirs, d = self._spectrum(a), self._spectrum(b), len(a.start)
        border, X, Y = a.cache.border, theirs.rows(), theirs.target
        if b.cache.border is not None:
            border, *more = eliminated(border, b.cache.border[:, :d], b.cache.border[:, d:])
            X, Y = np.concatenate([X, more[0]]), np.concatenate([Y, more[1]])
        both = mine.absorbed(X, Y, self._rank(a))
        both = Spectrum(both.basis, both.strength, both.target, both.rest + theirs.rest, both.dropped + theirs.dropped)
        return self._fresh(both, a.start, a.count + b.count, a.ridge, a.unpenalized, border)

    def shifted(self, state: LowRankState, by: Array) -> LowRankState:
        seen, border = self._spectrum(state), state.cache.border
        d, c = state.start.shape
        if border is not None:
            border = border.copy()
            border[:, 1:d] += border[:, :1] * by  # (nothing but the border has a part along the column of ones)
            return self._fresh(seen, state.start, state.count, state.ridge, state.unpenalized, border)
        rows = seen.rows()
        rows[:, 1:] += rows[:, :1] * by
        fresh = no_spectrum(d, c, state.start.dtype).absorbed(rows, seen.target, self._rank(state))
        spectrum = Spectrum(
            fresh.basis, fresh.strength, fresh.target, fresh.rest + seen.rest, fresh.dropped + seen.dropped
        )
        return self._fresh(spectrum, state.start, state.count, state.ridge, state.unpenalized)

    def with_ridge(self, state: LowRankState, ridge: Any) -> LowRankState:
        ridge = LowRankRLS(1, ridge).ridge
        rows = (state.spectrum, state.pending, state.start, state.count)
        return LowRankState(*rows, ridge, state.unpenalized, border=state.border)

    def with_outputs(self, state: LowRankState, sources: Array) -> LowRankState:
        spectrum, start = state.spectrum.with_outputs(sources), take_outputs(state.start, sources)
        pending = self._no_rows(start)
        if state.pending.count:
            pending = pending.appended(state.pending.X, take_outputs(state.pending.Y, sources))
        border, d = state.border, len(start)
        if border is not None:
            border = np.concatenate([border[:, :d], take_outputs(border[:, d:], sources)], axis=1)
        return LowRankState(spectrum, pending, start, state.count, state.ridge, state.unpenalized, border=border)

    def with_columns(self, state: LowRankState, sources: Array) -> LowRankState:
        d, u = len(state.start), state.unpenalized
        sources = check_sources(sources, d, u)
        start, border, spectrum = take_rows(state.start, sources), state.border, state.spectrum.with_columns(sources)
        pending = self._no_rows(start)
        if state.pending.count:
            pending = pending.appended(take_outputs(state.pending.X, sources), state.pending.Y)
        if border is not None:
            border = np.concatenate([take_outputs(border[:, :d], sources), border[:, d:]], axis=1)
        return LowRankState(spectrum, pending, start, state.count, state.ridge, u, border=border)

    # Helpers

    def _check_block(self, X: Any, Y: Any, start: Array) -> tuple[Any, Array]:
        """A block to learn; rows of scipy.sparse as SparseRows."""
        if is_sparse(X):
            X = plain_rows(X, start.dtype)
        if not isinstance(X, SparseRows):
            return check_block(X, Y, start)
        check_finite(X.sparse.data, "X")
        stand_in = np.broadcast_to(start.dtype.type(0), X.shape)  # of the shape of X, without its entries
        return X, check_block(stand_in, Y, start, finite=False)[1]

    def _rank(self, state: LowRankState) -> int:
        return min(self.rank, len(state.start))

    def _no_rows(self, start: Array) -> PendingRows:
        return PendingRows(RowBuffer(max(16, min(self.rank, 1000)), start))

    def _fresh(
        self, spectrum: Spectrum, start: Array, count: int, ridge: Any, unpenalized: int, border: Array | None = None
    ) -> LowRankState:
        return LowRankState(spectrum, self._no_rows(start), start, count, ridge, unpenalized, border=border)

    def _bordered(self, state: LowRankState) -> LowRankState:
        """The same rows with a border, which states of earlier files do not have."""
        seen = self._spectrum(state)
        if state.border is not None:
            return state
        (d, c), dtype = state.start.shape, state.start.dtype
        border, X, Y = eliminated(np.zeros((state.unpenalized, d + c), dtype), seen.rows(), seen.target)
        found = no_spectrum(d, c, dtype).absorbed(X, Y, self._rank(state))
        spectrum = Spectrum(found.basis, found.strength, found.target, found.rest + seen.rest, seen.dropped)
        return self._fresh(spectrum, state.start, state.count, state.ridge, state.unpenalized, border)

    def _spectrum(self, state: LowRankState) -> Spectrum:
        """With the pending rows."""
        if state.cache.spectrum is None:
            seen, border, pending = state.spectrum, state.border, state.pending
            if pending.count:
                border, X, Y = eliminated(border, pending.X, pending.Y)
                seen = seen.absorbed(X, Y, self._rank(state))
            state.cache.border, state.cache.spectrum = border, seen
        return state.cache.spectrum

    def _system(self, state: LowRankState) -> Array:
        """diag(s²) + λI, (r, r), or without a border diag(s²) + λ(I − V₀ᵀV₀)."""
        seen, ridge = self._spectrum(state), self.ridge_of(state)
        system = np.diag(seen.strength**2 + ridge)
        if state.unpenalized and state.border is None:
            V0 = seen.basis[: state.unpenalized]
            system -= ridge * (V0.T @ V0)
        return system

    def _loss(self, state: LowRankState) -> Array:
        seen = self._spectrum(state)
        a = np.linalg.solve(self._system(state), seen.strength[:, None] * seen.target)
        left = seen.target - seen.strength[:, None] * a
        penalised = seen.basis[state.unpenalized :] @ a
        return np.asarray(seen.rest + (left**2).sum(axis=0) + self.ridge_of(state) * (penalised**2).sum(axis=0))


def _dense(rows: Any) -> Array:
    return rows.dense() if isinstance(rows, SparseRows) else rows
