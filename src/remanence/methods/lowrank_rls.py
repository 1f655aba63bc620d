"""RLS for very wide features: ridge least squares within the strongest directions of the data.

    W = V a,   (diag(s²) + λ(I − V₀ᵀV₀)) a = diag(s) z                                            (LR)

V, s, z: the truncated singular value decomposition of all rows, see memory/truncated_svd.py; V₀ the rows of V that
belong to unpenalized features. With `rank` at the number of features (or of samples) it is RLS. Truncation drops the
weakest directions, which for ill-conditioned features are mostly noise, and counts the energy that went with them.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array, read_only
from remanence.errors import InputError
from remanence.memory.pending_rows import PendingRows, RowBuffer
from remanence.memory.root import sums_of_squares, take_outputs
from remanence.memory.truncated_svd import Spectrum, no_spectrum
from remanence.methods.least_squares import SoftMethod
from remanence.methods.ridge_choice import chosen_ridge, directions
from remanence.validation import (
    check_block,
    check_count,
    check_free,
    check_number,
    check_result,
    check_rows,
    check_start,
    quiet,
)


@dataclass(slots=True)
class LowRankCache:
    """Results computed for one state on request."""

    spectrum: Spectrum | None = None
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
        return self._fresh(no_spectrum(features, outputs, dtype), start, 0, self.ridge, free)

    @quiet
    def update(self, state: LowRankState, X: Any, Y: Any, donate: bool = False) -> LowRankState:
        X, Y = check_block(X, Y, state.start)
        spectrum, pending, count = state.spectrum, state.pending, state.count + len(X)
        Y = Y - X @ state.start  # the spectrum knows what is left for it to explain
        while len(X) >= pending.space():
            space = pending.space()
            full = pending.appended(X[:space], Y[:space])
            spectrum = spectrum.absorbed(full.X, full.Y, self._rank(state))
            pending, X, Y = self._no_rows(state.start), X[space:], Y[space:]
        if len(X):
            pending = pending.appended(X, Y)
        check_result(spectrum.strength)
        return LowRankState(spectrum, pending, state.start, count, state.ridge, state.unpenalized)

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
            step = seen.basis @ np.linalg.solve(self._system(state), seen.strength[:, None] * seen.target)  # (LR)
            check_result(step)
            state.cache.weights = state.start + step
        return read_only(state.cache.weights)

    @quiet
    def variance(self, state: LowRankState, X: Any) -> Array:
        seen, ridge = self._spectrum(state), self.ridge_of(state)
        X = check_rows(X, len(state.start), state.start.dtype)
        inside = X @ seen.basis
        spread = np.einsum("ij,ji->i", inside, np.linalg.solve(self._system(state), inside.T))
        outside = np.maximum((X[:, state.unpenalized :] ** 2).sum(axis=1) - (inside**2).sum(axis=1), 0) / ridge
        noise = self._loss(state) / max(state.count - state.unpenalized, 1)
        return np.asarray((1 + spread + outside)[:, None] * np.maximum(noise, np.finfo(float).tiny))

    @quiet
    def loss(self, state: LowRankState) -> float:
        """The minimum of the objective, summed over the outputs, as far as the kept directions reach."""
        return float(self._loss(state).sum())

    def dropped(self, state: LowRankState) -> float:
        """The share of the energy ‖X‖² that truncation has dropped, 0 to 1."""
        seen = self._spectrum(state)
        total = seen.kept() + seen.dropped
        return seen.dropped / total if total else 0.0

    def ridge_of(self, state: LowRankState) -> float:
        if state.ridge != "auto":
            return float(state.ridge)
        if state.cache.ridge is None:
            seen = self._spectrum(state)
            rows, target = seen.rows(), seen.target
            if state.unpenalized:
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
        return seen.rows(), np.full(len(seen.basis), seen.strength.max(initial=0.0))

    def template(self, state: LowRankState) -> Array:
        return state.start

    @quiet
    def settled(self, state: LowRankState) -> LowRankState:
        """Truncation happens at this cut too, as at the end of every chunk."""
        if not state.pending.count:
            return state
        return self._fresh(self._spectrum(state), state.start, state.count, state.ridge, state.unpenalized)

    def remove(self, state: LowRankState, X: Any, Y: Any, accept_loss: bool = False) -> LowRankState:
        raise InputError("expected a method that keeps all directions to remove samples from, got LowRankRLS; use RLS")

    def precision_loss(self, state: LowRankState) -> float:
        return 0.0  # nothing is ever removed

    def merge(self, a: LowRankState, b: LowRankState) -> LowRankState:
        if a.start.shape != b.start.shape or a.unpenalized != b.unpenalized or not np.array_equal(a.start, b.start):
            raise InputError("expected two states of one shape with the same start, got different ones")
        mine, theirs = self._spectrum(a), self._spectrum(b)
        both = mine.absorbed(theirs.rows(), theirs.target, self._rank(a))
        both = Spectrum(both.basis, both.strength, both.target, both.rest + theirs.rest, both.dropped + theirs.dropped)
        return self._fresh(both, a.start, a.count + b.count, a.ridge, a.unpenalized)

    def shifted(self, state: LowRankState, by: Array) -> LowRankState:
        seen = self._spectrum(state)
        rows = seen.rows()
        rows[:, 1:] += rows[:, :1] * by
        d, c = state.start.shape
        fresh = no_spectrum(d, c, state.start.dtype).absorbed(rows, seen.target, self._rank(state))
        spectrum = Spectrum(
            fresh.basis, fresh.strength, fresh.target, fresh.rest + seen.rest, fresh.dropped + seen.dropped
        )
        return self._fresh(spectrum, state.start, state.count, state.ridge, state.unpenalized)

    def with_ridge(self, state: LowRankState, ridge: Any) -> LowRankState:
        ridge = LowRankRLS(1, ridge).ridge
        return LowRankState(state.spectrum, state.pending, state.start, state.count, ridge, state.unpenalized)

    def with_outputs(self, state: LowRankState, sources: Array) -> LowRankState:
        spectrum, start = state.spectrum.with_outputs(sources), take_outputs(state.start, sources)
        pending = self._no_rows(start)
        if state.pending.count:
            pending = pending.appended(state.pending.X, take_outputs(state.pending.Y, sources))
        return LowRankState(spectrum, pending, start, state.count, state.ridge, state.unpenalized)

    # Helpers

    def _rank(self, state: LowRankState) -> int:
        return min(self.rank, len(state.start))

    def _no_rows(self, start: Array) -> PendingRows:
        return PendingRows(RowBuffer(max(16, min(self.rank, 1000)), start))

    def _fresh(self, spectrum: Spectrum, start: Array, count: int, ridge: Any, unpenalized: int) -> LowRankState:
        return LowRankState(spectrum, self._no_rows(start), start, count, ridge, unpenalized)

    def _spectrum(self, state: LowRankState) -> Spectrum:
        """With the pending rows."""
        if state.cache.spectrum is None:
            seen, pending = state.spectrum, state.pending
            if pending.count:
                seen = seen.absorbed(pending.X, pending.Y, self._rank(state))
            state.cache.spectrum = seen
        return state.cache.spectrum

    def _system(self, state: LowRankState) -> Array:
        """diag(s²) + λ(I − V₀ᵀV₀), (r, r)."""
        seen, ridge = self._spectrum(state), self.ridge_of(state)
        system = np.diag(seen.strength**2 + ridge)
        if state.unpenalized:
            V0 = seen.basis[: state.unpenalized]
            system -= ridge * (V0.T @ V0)
        return system

    def _loss(self, state: LowRankState) -> Array:
        seen = self._spectrum(state)
        a = np.linalg.solve(self._system(state), seen.strength[:, None] * seen.target)
        left = seen.target - seen.strength[:, None] * a
        penalised = seen.basis[state.unpenalized :] @ a
        return np.asarray(seen.rest + (left**2).sum(axis=0) + self.ridge_of(state) * (penalised**2).sum(axis=0))
