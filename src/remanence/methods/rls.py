"""Recursive least squares: all samples, weighted, through one triangular factor.

    minimise  λ‖W − θ⁰‖² + Σᵢ ‖yᵢ − Wᵀxᵢ‖² / βⁱ                                (RLS)

Where β < 1 everything is multiplied by βᵗ, so that no power overflows: the newest sample weighs 1, the one before β,
the prior λβᵗ. The state is in rls_state.py; β = 0 is read as exact constraints (Lemma 1: the same as ICL), with the
state of rls_exact.py.
"""

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array, read_only
from remanence.errors import InputError, NumericalError
from remanence.memory import lost
from remanence.memory import root as roots
from remanence.memory.forgetting import WeightSchedule
from remanence.memory.posterior import RENEWAL
from remanence.memory.products import scores_of
from remanence.memory.root import Root, add_rows, check_sources, sums_of_squares, take_rows
from remanence.memory.variances import CONSTANT, column_variances, constant_columns
from remanence.methods.banks.by_class import ByClassState
from remanence.methods.banks.rls_bank import BANK, BankState, ask
from remanence.methods.least_squares import SoftMethod
from remanence.methods.live.generic import Live
from remanence.methods.precision import check_loss
from remanence.methods.ridge.left_out_errors import LOO, chosen
from remanence.methods.rls_exact import ExactState
from remanence.methods.rls_state import RLSState
from remanence.methods.signals.complex_numbers import InPairs, takes_complex
from remanence.parallel.blas_threads import one_thread
from remanence.parallel.forking import unforked
from remanence.validation import (
    check_block,
    check_free,
    check_memory,
    check_number,
    check_result,
    check_rows,
    check_start,
    quiet,
)

NEWEST = 4  # rows that must weigh more than the prior, however much is forgotten
FAITHFUL = {np.dtype(np.float64): 1e6, np.dtype(np.float32): 1e3}  # how many times more

Several = BankState | ByClassState
Learned = RLSState | ExactState | Several


@lru_cache(maxsize=256)  # live rows ask for it several times each
def schedules(forget: float | Literal["auto"], floor: float) -> WeightSchedule:
    """The weights of rows; those of a bank have their own."""
    return WeightSchedule(1.0 if isinstance(forget, str) else forget, floor)


@takes_complex
@dataclass(frozen=True, slots=True)
class RLS(SoftMethod[Learned]):
    """Recursive least squares: after every row the ridge solution over all rows so far, by orthogonal rotations.

    With `forget=1` the order of the rows does not matter, and what was learned can be changed: `remove`, `merge`,
    `with_ridge`. States are values; `update` and `track` return a new one.

    Parameters
    ----------
    ridge : float, "auto", "loo" or "loo-accuracy", default=1.0
        λ: the weight of ‖W − start‖² beside the squared errors. "auto" chooses the one with which
        new rows should be predicted best (generalized cross-validation, with a guard), from all rows, when asked.
        "loo" chooses by leave-one-out while the rows are at hand: the smallest squared error of the rows of a block,
        each without itself, in the fit of all rows so far; "loo-accuracy" the most rows whose largest output is the
        right one. The first block of two rows or more decides, and later only a block of as many rows as were learned
        before; others keep the choice, as do `remove` and `merge` (that of the state with more rows). Until then, and
        for rows one by one, it is 1. So it depends on how rows are cut, which "auto" does not. It has no guard against
        new rows in which nearly equal columns differ, which "auto" has. Needs forget=1.
    forget : float or "auto", default=1.0
        β: 1 gives all samples the same weight; below 1 the weight of old ones decays; above 1 they weigh more than new
        ones; 0 requires that every sample is met exactly, and contradicting ones raise InputError.
        "auto" learns with seven factors side by side and uses the one that has predicted the latest rows best, see
        `forgetting`: seven times the cost and memory; rows cannot be removed nor states merged.
    floor : float, default=0.0
        With `forget` below 1 the prior weighs max(λβᵗ, floor), so that a part of it never decays.

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> X, Y = np.eye(3), np.array([[1.0], [2.0], [3.0]])
    >>> rls = rm.RLS(ridge=1.0)
    >>> state = rls.update(rls.init(features=3, outputs=1), X, Y)
    >>> rls.weights(state).ravel().round(6).tolist()
    [0.5, 1.0, 1.5]
    >>> without = rls.remove(state, X[:1], Y[:1])
    >>> rls.weights(without).ravel().round(6).tolist()
    [0.0, 1.0, 1.5]

    References
    ----------
    Sayed (2008), "Adaptive Filters", Wiley: the square-root forms of the filter.
    Zhuang et al. (2022), "ACIL: analytic class-incremental learning with absolute memorization and privacy protection",
    NeurIPS: as a classifier.
    Golub, Heath and Wahba (1979), "Generalized cross-validation as a method for choosing a good ridge parameter",
    Technometrics; MacKay (1992), "Bayesian interpolation", Neural Computation: the evidence.
    """

    ridge: float | Literal["auto", "loo", "loo-accuracy"] = 1.0
    forget: float | Literal["auto"] = 1.0
    floor: float = 0.0

    summary = "least squares over all samples, weighted; equals training on everything at once"
    cost = "d² + dc"
    memory = "d² + dc"

    def __post_init__(self) -> None:
        hint = 'a small positive number, "auto", or forget=0 for exact constraints'
        if not (isinstance(self.ridge, str) and self.ridge in ("auto", *LOO)):
            object.__setattr__(self, "ridge", check_number(self.ridge, "ridge", hint=hint))
        hint = '1 keeps everything, 0.99 fades, 0 is exact constraints, "auto" chooses'
        if not (isinstance(self.forget, str) and self.forget == "auto"):
            object.__setattr__(self, "forget", check_number(self.forget, "forget", closed=True, hint=hint))
        elif isinstance(self.ridge, str) or self.floor != 0:
            raise InputError(
                f'expected a number as ridge and floor=0 with forget="auto", got ridge={self.ridge!r} and '
                f"floor={self.floor!r}"
            )
        if self.ridge in LOO and self.forget != 1:
            raise InputError(
                f"expected forget=1 with ridge={self.ridge!r}, got forget={self.forget!r}; use another ridge"
            )
        hint = "0 lets all of the prior fade with the samples"
        object.__setattr__(self, "floor", check_number(self.floor, "floor", closed=True, hint=hint))

    @property
    def _schedule(self) -> WeightSchedule:
        return schedules(self.forget, self.floor)

    # Learning

    def init(
        self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64, free: int = 0
    ) -> Learned:
        start = check_start(start, features, outputs, dtype)
        check_free(free, features)
        if self.forget == "auto":
            made = (replace(self, forget=forget).init(features, outputs, start, dtype, free) for forget in BANK)
            return BankState.from_members(cast(tuple[RLSState, ...], tuple(made)))
        if self.forget == 0:
            return ExactState.from_start(start)
        self._check_forget(features, start.dtype)
        hint = "use LowRankRLS, whose memory grows with features times rank, or fewer features"
        check_memory(2 * features**2 * start.dtype.itemsize, f"RLS of {features} features", hint)
        data = roots.empty(features, outputs, dtype)
        ridge = 1.0 if self.ridge in LOO else cast(float | Literal["auto"], self.ridge)
        return RLSState.from_data(self._schedule, data, start, 0, ridge, free)

    @quiet
    def update(self, state: Learned, X: Any, Y: Any, donate: bool = False) -> Learned:
        X, Y = check_block(X, Y, state.start)
        new = state.learned(schedules(self.forget, self.floor), X, Y, donate)
        return new if self.ridge not in LOO else self._left_out_ridge(new, X, Y)

    @quiet
    def absorb(self, state: Learned, X: Array, Y: Array, donate: bool = False) -> Learned:
        if self.ridge in LOO:
            return self._left_out_ridge(state.learned(self._schedule, X, Y, donate), X, Y)
        return state.learned(self._schedule, X, Y, donate, scratch=True)

    @quiet
    def track(self, state: Learned, X: Any, Y: Any, donate: bool = False) -> tuple[Learned, Array]:
        X, Y = check_block(X, Y, state.start)
        new, errors = state.tracked(self._schedule, X, Y, donate)
        return (new if self.ridge not in LOO else self._left_out_ridge(new, X, Y)), errors

    def in_pairs(self) -> InPairs:
        if isinstance(self.ridge, str) or isinstance(self.forget, str):
            raise InputError(
                f"expected numbers as ridge and forget for complex rows, got {self.ridge!r} and {self.forget!r}"
            )
        if self.forget in (0, 1):
            return InPairs(self, variance=2.0)
        real = replace(self, forget=self.forget**0.5)
        track = partial(_track_pairs, real) if self.floor else None  # the prior is another one between two rows
        return InPairs(real, first=self.forget**-0.25, track=track, variance=2.0)

    def live_from(self, state: Learned) -> Live[Learned]:
        if not isinstance(state, RLSState) or not state.is_recursive(self._schedule) or state.start.dtype != np.float64:
            return Live(self, state)
        from remanence.methods.live.compiled import LiveRLS

        return cast(Live[Learned], LiveRLS(self, state))

    # Asking

    @quiet
    def weights(self, state: Learned) -> Array:
        W = state.weights(schedules(self.forget, self.floor))
        check_result(W)
        return read_only(W)

    @quiet
    def predict(self, state: Learned, X: Any) -> Array:
        W = state.weights(schedules(self.forget, self.floor))
        return scores_of(check_rows(X, len(W), W.dtype, finite=False), W)

    @quiet
    def variance(self, state: Learned, X: Any) -> Array:
        """The predictive variance σ²(1 + xᵀΦx) of every output at every row of X, (n, c); σ² = J/t is estimated."""
        if isinstance(state, BankState):
            return ask(self, state, "variance", X)  # type: ignore[no-any-return]
        state = state.as_least_squares("variance")
        X = check_rows(X, len(state.start), state.start.dtype)
        joint, schedule = self._joint_root(state), self._schedule
        leverage = schedule.gain(state.count) * sums_of_squares(joint.whitened(X))
        noise = joint.rest / max(schedule.effective_count(state.count) - state.unpenalized, 1.0)
        variance = np.asarray((1 + leverage)[:, None] * np.maximum(noise, np.finfo(float).tiny))
        check_result(variance)
        return variance

    @quiet
    def loss(self, state: Learned) -> float:
        """The minimum of the objective (RLS), summed over the outputs."""
        if isinstance(state, BankState):
            return ask(self, state, "loss")  # type: ignore[no-any-return]
        state = state.as_least_squares("loss")
        scaled = float(self._joint_root(state).rest.sum())
        loss = scaled * float(np.exp(-min(np.log(self.forget), 0.0) * state.count)) if scaled else 0.0
        if not np.isfinite(loss):
            raise NumericalError(
                f"the objective weighs the newest of {state.count} rows by 1/{self.forget:g}^{state.count}, and is "
                f"larger than a number can be; compare the errors that `track` returns, or use a forget nearer to 1"
            )
        return loss

    @quiet
    def evidence(self, state: Learned) -> float:
        """log p(Y | X, λ) for W ~ N(θ⁰, I/λ) and noise of variance βⁱ, summed over the outputs; no data are needed."""
        if isinstance(state, BankState):
            return ask(self, state, "evidence")  # type: ignore[no-any-return]
        state = state.as_least_squares("evidence")
        (d, c), t, log_forget = state.start.shape, state.count, float(np.log(self.forget))
        logdet = self._joint_root(state).logdet() - d * t * min(log_forget, 0.0)
        prior = (d - state.unpenalized) * np.log(self.ridge_of(state))
        if state.scaled:
            prior += float(np.log(column_variances(self.data(state))[state.unpenalized :]).sum())
        noise = t * np.log(2 * np.pi) + log_forget * t * (t + 1) / 2
        return float(-0.5 * (c * (noise + logdet - prior) + self.loss(state)))

    @quiet
    def left_out(self, state: Learned, X: Any, Y: Any) -> Array:
        """The error of every learned row X, Y if it had not been learned, (n, c): e/(1 − xᵀΦx); NaN where nothing else
        determines it."""
        state = self._additive(state, "left_out")
        X, Y = check_block(X, Y, state.start)
        joint = state.joint_root(self._schedule, self.ridge_of(state), keep=False)
        left = 1 - sums_of_squares(joint.whitened(X))
        determined = left > len(state.start) * float(np.sqrt(np.finfo(X.dtype).eps))
        return np.asarray((Y - X @ joint.solve()) / np.where(determined, left, np.nan)[:, None])

    def ridge_of(self, state: Learned) -> float:
        """The ridge λ in force: the setting, or with "auto" the one chosen for the rows seen."""
        if isinstance(state, BankState):
            return ask(self, state, "ridge_of")  # type: ignore[no-any-return]
        return state.as_least_squares("ridge_of").ridge_in_force(self._schedule)

    @quiet
    def precision_loss(self, state: Learned) -> float:
        """How far removals may have moved the predictions, relative to them; 0 where nothing was removed.

        An upper bound, from the sizes of the rows before every removal and what is left now: rows that are learned
        later make it smaller, rows that are removed make it larger.
        """
        return state.precision_loss(self._schedule)

    def data(self, state: Learned) -> Root:
        """The square-root information of every row learned so far, without the prior."""
        if isinstance(state, BankState):
            return ask(self, state, "data")  # type: ignore[no-any-return]
        return state.as_least_squares("data").shared_rows(self._schedule)

    def rows(self, state: Learned) -> tuple[Array, Array] | None:
        return state.representative_rows(self._schedule)

    def forgetting(self, state: Learned) -> float:
        """The forgetting factor β in use; with "auto" the one that has predicted the latest rows best."""
        return state.forget if isinstance(state, BankState) else float(self.forget)

    def template(self, state: Learned) -> Array:
        return state.start

    def accepts_state(self, state: object) -> bool:
        if isinstance(state, BankState) and not (
            len(state.members) == len(state.squares) == len(BANK) > state.used >= 0
        ):
            return False
        return (isinstance(state, ByClassState) and self.forget == 1) or SoftMethod.accepts_state(self, state)

    def by_class(self, state: Learned) -> ByClassState:
        """A state that keeps the rows of every class apart, to weigh them when asked; `state` has learned nothing."""
        return ByClassState.from_state(self._additive(state, "by_class"))

    # Changing

    @quiet
    def settled(self, state: Learned) -> Learned:
        return state.folded_state(self._schedule)

    @quiet
    def remove(self, state: Learned, X: Any, Y: Any, accept_loss: bool = False) -> RLSState | ByClassState:
        """The state that never saw these rows; refused when they cannot have been learned.

        Also refused, with NumericalError, when the rows are so much larger than what is left that rounding takes more
        digits than promised, see `precision_loss`; `accept_loss` goes on.
        """
        if isinstance(state, ByClassState):
            X, Y = check_block(X, Y, state.start)
            left = state.changed(X, Y, lambda own, x, y: cast(RLSState, self.remove(own, x, y, accept_loss=True)))
            if not accept_loss:
                check_loss(self.precision_loss(left), left.start.dtype)
            return left
        state = self._additive(state, "remove")
        X, Y = check_block(X, Y, state.start)
        if len(X) > state.count:
            raise InputError(f"expected at most {state.count} rows to remove, the number learned, got {len(X)}")
        data = self.data(state)
        size = max(256, len(state.start))
        for i in range(0, len(X), size):
            data = roots.removed(data, X[i : i + size], Y[i : i + size])
        if len(X) == state.count:
            data = roots.empty(*data.shape, data.dtype)
        new = state.with_data(self._schedule, data, state.count - len(X))
        if not accept_loss:
            check_loss(self.precision_loss(new), data.dtype)
        return new

    @quiet
    def merge(self, a: Learned, b: Learned, donate: bool = False) -> RLSState | ByClassState:
        """The state that saw the rows of both; the prior counts once.

        `donate=True` permits to reuse the arrays of both, as in `update`: neither may be used afterwards.
        """
        if isinstance(a, ByClassState) and isinstance(b, ByClassState) and a.start.shape == b.start.shape:
            both = a.merged(b, lambda mine, other: cast(RLSState, self.merge(mine, other, donate)))
            return cast(ByClassState, self.with_ridge(both, (b if b.count > a.count else a).members[0].ridge))
        a, b = self._additive(a, "merge"), self._additive(b, "merge")
        if a.start.shape != b.start.shape or a.unpenalized != b.unpenalized:
            raise InputError(f"expected two states of one shape, got {a.start.shape} and {b.start.shape}")
        if not np.array_equal(a.start, b.start):
            raise InputError("expected two states with the same start, got different ones; begin both from one model")
        if donate:
            more = b.own_rows(self._schedule, b.sharing is not a.sharing)  # (a copy where both are one state)
            data = a.own_rows(self._schedule, True).merged(more, donate=True, scratch=True)
        else:
            data = self.data(a).merged(self.data(b))
        larger = b if self.ridge in LOO and b.count > a.count else a
        return larger.with_data(self._schedule, data, a.count + b.count)

    def shifted(self, state: Learned, by: Array, donate: bool = False) -> RLSState | Several:
        """The state whose features 1, 2, … were larger by `by` times feature 0; `donate` as in `merge`."""
        if isinstance(state, Several):
            return state.each(lambda own, member: replace(self, forget=own.forget).shifted(member, by, donate))  # type: ignore[arg-type,return-value]
        state = state.as_least_squares("shifted")
        data = state.own_rows(self._schedule, donate)
        constant = constant_columns(data if state.scaled else replace(data, lost=None))[1:]
        data.factor[1:, 1:][:, constant] = 0  # what rounding left of a constant feature must not become one that varies
        moved = data.factor[0, 0] * by
        data.factor[0, 1:] += moved  # R times an upper triangular matrix stays one
        gone = np.abs(data.factor[0, 1:]) <= CONSTANT * np.finfo(data.dtype).eps * np.abs(moved)
        data.factor[0, 1:][constant & gone] = 0  # nor what it left of its mean
        data = replace(data, lost=lost.shifted(data.lost, by))
        return state.with_data(self._schedule, data, state.count)

    def with_ridge(self, state: Learned, ridge: Any) -> RLSState | Several:
        """The state as if it had been learned with another ridge."""
        if isinstance(ridge, str) and ridge in LOO:
            raise InputError(f'ridge={ridge!r} needs the rows, which are not kept; learn them anew, or use "auto"')
        if isinstance(state, Several):
            return state.each(lambda own, member: replace(self, forget=own.forget).with_ridge(member, ridge))  # type: ignore[arg-type,return-value]
        state = state.as_least_squares("with_ridge")
        return self._with_prior(state, cast(float | Literal["auto"], RLS(ridge).ridge), state.scaled)

    def with_scale(self, state: Learned, scaled: bool) -> RLSState | ByClassState:
        """The state with the ridge for standardized features, or for features as they are; feature 0 must be ones."""
        if isinstance(state, ByClassState):
            return state.each(lambda own, member: cast(RLSState, self.with_scale(member, scaled)))
        state = state.as_least_squares("with_scale")
        if scaled and state.unpenalized != 1:
            raise InputError('expected an intercept as the only unpenalized feature for scale="standard", got none')
        return self._with_prior(state, state.ridge, scaled)

    def with_outputs(self, state: Learned, sources: Array, donate: bool = False) -> Learned:
        """With output j taken from output sources[j], or new where that is -1; `donate` as in `merge`."""
        if donate and isinstance(state, RLSState):
            return state.with_outputs(self._schedule, sources, donate)
        return state.with_outputs(self._schedule, sources)

    def with_features(self, state: Learned, features: int) -> RLSState | Several:
        """The state with more features, which have been zero so far: as if it had been learned with them."""
        if isinstance(state, Several):
            return state.each(lambda own, member: replace(self, forget=own.forget).with_features(member, features))  # type: ignore[arg-type,return-value]
        state = state.as_least_squares("with_features")
        data, start = self.data(state).with_features(features), add_rows(state.start, features)
        prior = (state.ridge, state.unpenalized)
        return RLSState.from_data(self._schedule, data, start, state.count, *prior, scaled=state.scaled)

    def with_columns(self, state: Learned, sources: Array) -> RLSState | Several:
        """The state with feature j taken from feature sources[j], or zero so far where that is -1.

        A feature that is not taken is forgotten, as if it had been zero in all rows.
        """
        if isinstance(state, Several):
            return state.each(lambda own, member: replace(self, forget=own.forget).with_columns(member, sources))  # type: ignore[arg-type,return-value]
        state = state.as_least_squares("with_columns")
        sources = check_sources(sources, len(state.start), state.unpenalized)
        data, start = self.data(state).with_columns(sources), take_rows(state.start, sources)
        prior = (state.ridge, state.unpenalized)
        return RLSState.from_data(self._schedule, data, start, state.count, *prior, scaled=state.scaled)

    def without_features(self, state: Learned, columns: Any) -> RLSState | Several:
        """The state as if the features in these columns had been zero in all rows, without them."""
        d = len(state.start)
        gone = check_sources(columns, d)
        return self.with_columns(state, np.setdiff1d(np.arange(d), gone))

    # Helpers

    def _with_prior(self, state: RLSState, ridge: float | Literal["auto"], scaled: bool) -> RLSState:
        data, free = self.data(state), state.unpenalized
        rows = (self._schedule, data, state.start, state.count)
        return RLSState.from_data(*rows, ridge, free, shared=True, scaled=scaled)

    def _left_out_ridge(self, state: Learned, X: Array, Y: Array) -> Learned:
        """The state with the ridge that rows just learned choose, if they are enough to choose."""
        if len(X) < 2 or 2 * len(X) < state.count:  # type: ignore[union-attr]
            return state
        whole, rows = state.as_least_squares("leave-one-out"), (X, Y)
        if isinstance(state, ByClassState):
            by = np.sqrt(state.factors[np.abs(Y).argmax(axis=1)])[:, None]
            rows = X * by, Y * by
        with one_thread, unforked:
            ridge = chosen(str(self.ridge), whole, self.data(whole), *rows)
        return state if ridge is None else self.with_ridge(state, ridge)

    def _joint_root(self, state: RLSState) -> Root:
        """The root of all rows and the prior."""
        return state.joint_root(self._schedule, self.ridge_of(state))

    def joint(self, state: RLSState) -> tuple[Root, float]:
        """The root of all rows and the prior, and the weight of the next row times max(1, forget)."""
        return self._joint_root(state), self._schedule.gain(state.count)

    def _additive(self, state: Learned, call: str) -> RLSState:
        if self.forget != 1:
            raise InputError(
                f"{call} needs rows that weigh the same whenever they come, got forget={self.forget}; use forget=1"
            )
        return state.as_least_squares(call)

    def _check_forget(self, features: int, dtype: np.dtype[Any]) -> None:
        """Refuse a forget with which the prior, which never decays to zero, would outweigh one of the newest rows."""
        floor = RENEWAL * roots.prior_floor(1.0, dtype) * FAITHFUL[dtype]
        least = floor ** (1 / max(min(features, NEWEST) - 1, 1))
        if features > 1 and self.forget < least:
            raise InputError(
                f"expected forget to be 0 or at least {least:.1g} in {dtype}, got {self.forget:g}: the newest rows but "
                f"{NEWEST - 1} would weigh less than rounding; forget=0 meets every sample exactly"
            )


def _track_pairs(rls: RLS, state: Learned, X: Array, Y: Array) -> tuple[Learned, Array]:
    """Predict two rows with the same weights, then learn both."""
    errors = np.empty_like(Y)
    for i in range(0, len(X), 2):
        pair = slice(i, i + 2)
        errors[pair] = Y[pair] - X[pair] @ rls.weights(state)
        state = rls.update(state, X[pair], Y[pair])
    return state, errors
