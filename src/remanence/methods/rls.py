"""Recursive least squares: all samples, weighted, through one triangular factor.

    minimise  λ‖W − θ⁰‖² + Σᵢ ‖yᵢ − Wᵀxᵢ‖² / βⁱ                                (RLS)

Where β < 1 everything is multiplied by βᵗ, so that no power overflows: the newest sample weighs 1, the one before β,
the prior λβᵗ. The factor of the data alone is the memory; the prior joins when solving. β = 0 is read as exact
constraints (Lemma 1: the same as ICL); that is rls_exact.py.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array, read_only
from remanence.errors import InputError, NumericalError
from remanence.memory import lost
from remanence.memory import root as roots
from remanence.memory.forgetting import Fading
from remanence.memory.forking import unforked
from remanence.memory.memory_limit import check_memory
from remanence.memory.pending_rows import Store, Waiting
from remanence.memory.root import Root, sums_of_squares, take_outputs
from remanence.memory.tracking import Tracker, stretch
from remanence.methods.evidence import best_ridge
from remanence.methods.least_squares import SoftMethod
from remanence.methods.precision import check_loss, precision_loss, usual, warn_of_large_rows
from remanence.methods.rls_exact import Exact, track_exact
from remanence.methods.rls_state import Known, Owner, RLSState
from remanence.validation import check_block, check_free, check_number, check_result, check_rows, check_start, quiet

BLOCK = 8  # rows that are looked at when they come; fewer are a live stream, and must stay quick
NEWEST = 4  # rows that must weigh more than the prior, however much is forgotten
FAITHFUL = {np.dtype(np.float64): 1e6, np.dtype(np.float32): 1e3}  # how many times more
RENEWED = 100.0  # a prior that has faded to nothing is put back to this many times what counts as nothing


@dataclass(frozen=True, slots=True)
class RLS(SoftMethod):
    """Least squares over every sample so far, exact at every moment.

    With `forget=1` the order of samples is free, and what was learned can be changed: `remove`, `merge`, `with_ridge`.

    Parameters
    ----------
    ridge : float or "auto"
        λ: how strongly the weights are drawn to the start. "auto" takes the one of largest evidence whenever asked.
    forget : float
        β: 1 keeps all samples alike, below 1 old ones fade, above 1 they weigh more than new ones, and 0 demands that
        every sample is met exactly (a contradiction is refused).
    floor : float
        A part of the prior that never fades: with `forget` below 1 the prior weighs max(λβᵗ, floor).

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
    """

    ridge: float | Literal["auto"] = 1.0
    forget: float = 1.0
    floor: float = 0.0

    summary = "least squares over all samples, weighted; equals training on everything at once"
    cost = "d² + dc"
    memory = "d² + dc"

    def __post_init__(self) -> None:
        hint = 'a small positive number, "auto", or forget=0 for exact constraints'
        if not (isinstance(self.ridge, str) and self.ridge == "auto"):
            object.__setattr__(self, "ridge", check_number(self.ridge, "ridge", hint=hint))
        hint = "1 keeps everything, 0.99 fades, 0 is exact constraints"
        object.__setattr__(self, "forget", check_number(self.forget, "forget", closed=True, hint=hint))
        hint = "0 lets all of the prior fade with the samples"
        object.__setattr__(self, "floor", check_number(self.floor, "floor", closed=True, hint=hint))

    # Learning

    def init(self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64, free: int = 0) -> Any:
        start = check_start(start, features, outputs, dtype)
        check_free(free, features)
        if self.forget == 0:
            return Exact.begin(start)
        self._check_forget(features, start.dtype)
        check_memory(2 * features**2 * start.dtype.itemsize, features)
        return self._fresh(roots.empty(features, outputs, dtype), start, 0, self.ridge, free)

    @quiet
    def update(self, state: Any, X: Any, Y: Any, donate: bool = False) -> Any:
        X, Y = check_block(X, Y, state.start)
        return self._learned(state, X, Y, donate)

    @quiet
    def absorb(self, state: Any, X: Array, Y: Array, donate: bool = False) -> Any:
        return self._learned(state, X, Y, donate, scratch=True)

    def _learned(self, state: Any, X: Array, Y: Array, donate: bool, scratch: bool = False) -> Any:
        if isinstance(state, Exact):
            return track_exact(state, X, Y)[0]
        waiting = state.waiting
        if len(X) < waiting.room() and not waiting.store.broken:
            state.owner.shared |= not donate
            count = state.count + len(X)
            if len(X) >= BLOCK:
                self._look_at(state, X, Y)
            return RLSState(
                state.data, waiting.appended(X, Y), state.start, count, state.ridge, state.free, Known(), state.owner
            )
        return self._folded(state, X, Y, donate, scratch=scratch)

    @quiet
    def track(self, state: Any, X: Any, Y: Any, donate: bool = False) -> tuple[Any, Array]:
        X, Y = check_block(X, Y, state.start)
        if isinstance(state, Exact):
            return track_exact(state, X, Y)
        errors = np.empty_like(Y)
        if not self._recursive(state):  # the prior is another one at every row: a fit a row
            for i in range(len(X)):
                errors[i] = Y[i] - X[i] @ self.weights(state)
                state = self.update(state, X[i : i + 1], Y[i : i + 1])
            return state, errors
        self._open_door(state)
        fading, tracker = self._fading, Tracker(self._posterior(state).copy(), self.forget)
        held = state.waiting.store.held * fading.prior(state.waiting.count)
        size = stretch(state.start, self.forget)
        for i in range(0, len(X), size):
            part = slice(i, i + size)
            errors[part] = tracker.fold(X[part], Y[part], fading.gain(state.count + i))
            held *= fading.prior(len(X[part]))
            if self.forget < 1 and held < (faint := tracker.faint()):
                held = RENEWED * faint
                tracker.renew_prior(held, state.start, state.free)
        check_result(errors)
        return self._folded(state, X, Y, donate, (tracker.settled(), held)), errors

    # Asking

    @quiet
    def weights(self, state: Any) -> Array:
        W = self._solved(state)
        check_result(W)
        return read_only(W)

    @quiet
    def predict(self, state: Any, X: Any) -> Array:
        W = self._solved(state)
        X = check_rows(X, len(W), W.dtype)
        with unforked:
            answers = X @ W
        check_result(answers)
        return np.asarray(answers)

    def _solved(self, state: Any) -> Array:
        if isinstance(state, Exact):
            return state.W
        known: Known = state.known
        if known.weights is None:
            W = None
            if self._recursive(state):
                self._open_door(state)
                W = state.waiting.weights(self.forget, self._fading.gain(state.count - state.waiting.count))
            known.weights = self._posterior(state).solve() if W is None else W
        return known.weights

    @quiet
    def variance(self, state: Any, X: Any) -> Array:
        """The predictive variance σ²(1 + xᵀΦx) of every output at every row of X, (n, c); σ² = J/t is estimated."""
        state = self._soft(state, "variance")
        X = check_rows(X, len(state.start), state.start.dtype)
        posterior = self._posterior(state)
        S = posterior.whitened(X)
        spread = self._fading.gain(state.count) * sums_of_squares(S)
        noise = posterior.rest / max(self._fading.effective(state.count) - state.free, 1.0)
        variance = np.asarray((1 + spread)[:, None] * np.maximum(noise, np.finfo(float).tiny))
        check_result(variance)
        return variance

    @quiet
    def loss(self, state: Any) -> float:
        """The minimum of the objective (RLS), summed over the outputs."""
        state = self._soft(state, "loss")
        scaled = float(self._posterior(state).rest.sum())
        loss = scaled * float(np.exp(-min(np.log(self.forget), 0.0) * state.count)) if scaled else 0.0
        if not np.isfinite(loss):
            raise NumericalError(
                f"the objective weighs the newest of {state.count} rows by 1/{self.forget:g}^{state.count}, and is "
                f"larger than a number can be; compare the errors that `track` returns, or use a forget nearer to 1"
            )
        return loss

    @quiet
    def evidence(self, state: Any) -> float:
        """log p(Y | X, λ) for W ~ N(θ⁰, I/λ) and noise of variance βⁱ, summed over the outputs; no data are needed."""
        state = self._soft(state, "evidence")
        (d, c), t, log_forget = state.start.shape, state.count, float(np.log(self.forget))
        logdet = self._posterior(state).logdet() - d * t * min(log_forget, 0.0)
        prior = (d - state.free) * np.log(self.ridge_of(state))
        noise = t * np.log(2 * np.pi) + log_forget * t * (t + 1) / 2
        return float(-0.5 * (c * (noise + logdet - prior) + self.loss(state)))

    def ridge_of(self, state: Any) -> float:
        """The ridge λ in force: the setting, or with "auto" the one of largest evidence."""
        state = self._soft(state, "ridge_of")
        if state.ridge != "auto":
            return float(state.ridge)
        if state.known.ridge is None:
            state.known.ridge = best_ridge(
                self.data(state), state.start, state.free, self._fading.effective(state.count)
            )
        return float(state.known.ridge)

    @quiet
    def precision_loss(self, state: Any) -> float:
        """How far removals may have moved the predictions, relative to them; 0 where nothing was removed.

        An upper bound, from the sizes of the rows before every removal and what is left now: rows that are learned
        later make it smaller, rows that are removed make it larger.
        """
        if isinstance(state, Exact) or state.data.lost is None:
            return 0.0
        return precision_loss(self._ready(state), state.data.lost)

    def data(self, state: Any) -> Root:
        """The square-root information of every row learned so far, without the prior."""
        state = self._soft(state, "data")
        if state.waiting.count:
            return self._with_waiting(state, state.data)
        state.owner.shared = True
        data: Root = state.data
        return data

    def rows(self, state: Any) -> tuple[Array, Array] | None:
        if isinstance(state, Exact):
            return None
        factor = self.data(state).factor
        return factor, np.abs(factor).max(axis=0)  # rotations mix rows, never columns

    def template(self, state: Any) -> Array:
        return state.start  # type: ignore[no-any-return]

    # Changing

    @quiet
    def settled(self, state: Any) -> Any:
        if isinstance(state, Exact) or not state.waiting.count:
            return state
        data = self.data(state)
        check_result(np.diag(data.factor), data.target)
        return self._fresh(data, state.start, state.count, state.ridge, state.free)

    @quiet
    def remove(self, state: Any, X: Any, Y: Any, accept_loss: bool = False) -> RLSState:
        """The state that never saw these rows; refused when they cannot have been learned.

        Also refused, with NumericalError, when the rows are so much larger than what is left that rounding takes more
        digits than promised, see `precision_loss`; `accept_loss` goes on.
        """
        state = self._additive(state, "remove")
        X, Y = check_block(X, Y, state.start)
        if len(X) > state.count:
            raise InputError(f"expected at most {state.count} rows to remove, the number learned, got {len(X)}")
        left = self.data(state)
        size = max(256, len(state.start))
        for i in range(0, len(X), size):
            left = roots.removed(left, X[i : i + size], Y[i : i + size])
        if len(X) == state.count:
            left = roots.empty(*left.shape, left.dtype)
        new = self._fresh(left, state.start, state.count - len(X), state.ridge, state.free)
        if not accept_loss:
            check_loss(self.precision_loss(new), left.dtype)
        return new

    @quiet
    def merge(self, a: Any, b: Any) -> RLSState:
        """The state that saw the rows of both; the prior counts once."""
        a, b = self._additive(a, "merge"), self._additive(b, "merge")
        if a.start.shape != b.start.shape or a.free != b.free:
            raise InputError(f"expected two states of one shape, got {a.start.shape} and {b.start.shape}")
        if not np.array_equal(a.start, b.start):
            raise InputError("expected two states with the same start, got different ones; begin both from one model")
        return self._fresh(self.data(a).merged(self.data(b)), a.start, a.count + b.count, a.ridge, a.free)

    def shifted(self, state: Any, by: Array) -> RLSState:
        state = self._soft(state, "shifted")
        data = self.data(state).copy()
        data.factor[0, 1:] += data.factor[0, 0] * by  # R times an upper triangular matrix stays one
        data = replace(data, lost=lost.shifted(data.lost, by))
        return self._fresh(data, state.start, state.count, state.ridge, state.free)

    def with_ridge(self, state: Any, ridge: float | Literal["auto"]) -> RLSState:
        """The state as if it had been learned with another ridge."""
        state = self._soft(state, "with_ridge")
        return self._fresh(self.data(state), state.start, state.count, RLS(ridge).ridge, state.free, shared=True)

    def with_outputs(self, state: Any, sources: Array) -> Any:
        if isinstance(state, Exact):
            return state.with_outputs(sources)
        data, start = self.data(state).with_outputs(sources), take_outputs(state.start, sources)
        return self._fresh(data, start, state.count, state.ridge, state.free, shared=True)

    # The pieces: the prior, the door, and folding

    @property
    def _fading(self) -> Fading:
        return Fading(self.forget)

    def _soft(self, state: Any, call: str) -> RLSState:
        if isinstance(state, Exact):
            raise InputError(f"{call} needs a soft memory, got forget=0 (exact constraints); use forget=1 for it")
        return state  # type: ignore[no-any-return]

    def _additive(self, state: Any, call: str) -> RLSState:
        if self.forget != 1:
            raise InputError(
                f"{call} needs rows that weigh the same whenever they come, got forget={self.forget:g}; use forget=1"
            )
        return self._soft(state, call)

    def _fresh(
        self,
        data: Root,
        start: Array,
        count: int,
        ridge: Any,
        free: int,
        base: tuple[Root, float] | None = None,
        shared: bool = False,
    ) -> RLSState:
        store = Store(self._fading.widest(len(start)), start)
        if base is not None:
            store.attach(*base)
        return RLSState(data, Waiting(store), start, count, ridge, free, Known(), Owner(shared))

    def _check_forget(self, features: int, dtype: np.dtype[Any]) -> None:
        """Refuse a forget with which the prior, which never fades to nothing, would outweigh one of the newest rows."""
        nothing = RENEWED * roots.faint(1.0, dtype) * FAITHFUL[dtype]
        least = nothing ** (1 / max(min(features, NEWEST) - 1, 1))
        if features > 1 and self.forget < least:
            raise InputError(
                f"expected forget to be 0 or at least {least:.1g} in {dtype}, got {self.forget:g}: the newest rows but "
                f"{NEWEST - 1} would weigh less than rounding; forget=0 meets every sample exactly"
            )

    def _recursive(self, state: RLSState) -> bool:
        """Whether the prior fades as the rows do, so that new rows can join an old solution."""
        return state.ridge != "auto" and (self.floor == 0 or self.forget >= 1)

    def _prior(self, state: RLSState, count: int, data: Root) -> float:
        """The weight of the prior: it fades like the rows, down to `floor`, and never to nothing."""
        nothing = RENEWED * data.faint() if self.forget < 1 else data.least()
        ridge = self.ridge_of(state)
        if self.forget >= 1 and nothing > ridge:
            warnings.warn(
                f"ridge={ridge:.3g} cannot be told from none beside data of this size in {data.dtype}; {nothing:.3g} "
                f"is in force; rescale the features, or use a larger ridge",
                UserWarning,
                stacklevel=2,
            )
        return max(ridge * self._fading.prior(count), self.floor, nothing)

    def _anchored(self, state: RLSState, base: Root, held: float) -> tuple[Root, float]:
        """A root whose prior has faded to nothing, with one that counts again: unseen directions stay solvable."""
        if self.forget >= 1 or held > (faint := base.faint()):
            return base, held
        held = RENEWED * faint
        return base.without_traces().with_prior(held, state.start, state.free), held

    def _open_door(self, state: RLSState) -> None:
        """Work out the root with prior at which the rows wait, unless it is known."""
        store = state.waiting.store
        with store.lock:
            if store.base is None:
                count = state.count - state.waiting.count
                held = self._prior(state, count, state.data)
                if count:
                    base = state.data.with_prior(held, state.start, state.free)
                else:
                    base = roots.prior(held, state.start, state.free, dtype=state.data.dtype)
                store.attach(base, held)

    def _with_waiting(self, state: RLSState, root: Root, donate: bool = False) -> Root:
        waiting = state.waiting
        weights, decay = self._fading.rows(state.count - waiting.count, waiting.count)
        return root.folded(waiting.X, waiting.Y, weights, decay, donate)

    def _ready(self, state: RLSState) -> Root:
        """All rows and the prior, kept where the weights are asked for next."""
        if self._recursive(state):
            self._open_door(state)
        return self._posterior(state)

    def _posterior(self, state: RLSState) -> Root:
        """All rows and the prior, by rotations alone."""
        if state.known.posterior is None:
            store = state.waiting.store
            if store.base is not None and self._recursive(state):
                state.known.posterior = self._with_waiting(state, store.base) if state.waiting.count else store.base
            else:
                data = self.data(state)
                weight = self._prior(state, state.count, data)
                state.known.posterior = data.with_prior(weight, state.start, state.free)
        return state.known.posterior

    def _look_at(self, state: RLSState, X: Array, Y: Array) -> None:
        """Warn of rows that will be hard to take out again; single ones are looked at when they are folded in."""
        if self.forget != 1 or state.count == state.waiting.count:
            return
        prior = 0.0 if state.ridge == "auto" else float(state.ridge)
        store, flat = state.waiting.store, (X.ravel(order="K"), Y.ravel(order="K"))
        x, y = (float(np.vdot(v, v)) for v in flat)
        if store.usual is None or not (x <= store.usual[0] and y <= store.usual[1]):
            store.usual = usual(state.data, prior)
        if not (x <= store.usual[0] and y <= store.usual[1]):
            warn_of_large_rows(state.data, X, Y, prior)

    def _folded(
        self,
        state: RLSState,
        X: Array,
        Y: Array,
        donate: bool,
        base: tuple[Root, float] | None = None,
        scratch: bool = False,
    ) -> RLSState:
        """With the waiting rows and X, Y folded into the data; a known solution goes along where that is cheaper."""
        donate = donate and not state.owner.shared
        count = state.count + len(X)
        if base is not None and self.forget < 1 and base[1] <= RENEWED * base[0].faint():  # only the data count by now
            return self._fresh(base[0].copy(), state.start, count, state.ridge, state.free, base)
        weights, decay = self._fading.rows(state.count, len(X))
        store = state.waiting.store
        if base is None and store.base is not None and 3 * (state.waiting.count + len(X)) < len(state.start):
            faded = store.held * self._fading.prior(state.waiting.count + len(X))
            root = self._with_waiting(state, store.base, donate).folded(X, Y, weights, decay, donate=True)
            base = self._anchored(state, root, faded)
        if len(X) >= BLOCK:
            self._look_at(state, X, Y)
        elif state.waiting.count:  # rows that came one by one
            self._look_at(state, state.waiting.X, state.waiting.Y)
        data = self._with_waiting(state, state.data, donate) if state.waiting.count else state.data
        data = data.folded(X, Y, weights, decay, donate or data is not state.data, scratch)
        if self.forget < 1:
            data.without_traces()
        check_result(np.diag(data.factor), data.target)
        new = self._fresh(data, state.start, count, state.ridge, state.free, base)
        new.waiting.store.usual = store.usual  # columns only grow
        return new
