"""The Kalman filter as a streaming method: the weights drift from task to task.

    W₁ ~ N(θ⁰, I/λ)     Wₜ = Wₜ₋₁ + N(0, Q)     Yₜ = Xₜ Wₜ + N(0, r)                              (K1)
    P = Σ/β + Q                                                                             (K2)   except before task 1
    [Z; ρ] = the rows rotated: R = triangle of X, log p(Y) = log p(Z | R) + log N(ρ; 0, r)          (K3)   if n > d
    score = −½ (c log det S + N log(eᵀS⁻¹e / N)) − ½ log N · [β < 1]                              (K4)

One `update` is one task, so for this method the division of rows into blocks matters. A given drift has β = 1; with
drift="auto" Q is 0 and filters with several forgetting coefficients β run in parallel, Qₜ = (1/β − 1) Σₜ₋₁ (RLS that
forgets by β per task). The filter with the best score (K4) is used: its predictive likelihood with the best scale of
the noise, minus a penalty for the additional parameter β < 1.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array, read_only
from remanence.errors import InputError, NumericalError
from remanence.kalman.model import LinearGaussian, check_covariances
from remanence.kalman.results import Filtered
from remanence.kalman.smoother import smooth
from remanence.kernels.constants import LOG_2PI
from remanence.memory import root as roots
from remanence.memory.gaussian import Gaussian, gain, symmetric
from remanence.memory.root import sums_of_squares, take_outputs
from remanence.methods.protocol import Method
from remanence.methods.signals.complex_numbers import InPairs, takes_complex
from remanence.validation import (
    check_block,
    check_count,
    check_number,
    check_numbers,
    check_result,
    check_rows,
    check_start,
    quiet,
)

FORGETTING = (1.0, 0.999, 0.997, 0.99, 0.97, 0.9, 0.7, 0.5)  # the bank of "auto"
WINDUP = (
    1e4,
    1e8,
)  # unobserved directions: variances above the second, in units of the prior's, are reset to the first
WHOLE_STREAM = 256  # rows of a first `track` that look like a stream and not like a task


@dataclass(frozen=True, slots=True)
class Member:
    """One filter: its estimate, and the statistics of its predictions."""

    known: Gaussian  # (d, c) and (d, d) after the last task
    past: tuple[Gaussian, ...]  # after the `lag` tasks before it, oldest first
    forget: float  # β
    logdet: float  # Σ log det S over the tasks
    squares: Array  # (c,) Σ eᵀS⁻¹e over the tasks

    def with_outputs(self, sources: Array) -> "Member":
        taken = [Gaussian(take_outputs(g.mean, sources), g.cov) for g in (*self.past, self.known)]
        squares = take_outputs(self.squares[None], sources)[0]
        return replace(self, known=taken[-1], past=tuple(taken[:-1]), squares=squares)


@dataclass(frozen=True, slots=True)
class KalmanState:
    """One filter, or with drift="auto" a bank of them."""

    members: tuple[Member, ...]
    drift: Array  # () , (d,) or (d, d): Q, or its diagonal
    tasks: int
    rows: int

    @property
    def best(self) -> Member:
        """The filter with the best predictive score so far."""
        if len(self.members) == 1 or not self.rows:
            return self.members[0]
        return self.members[int(np.argmax([self._score(m) for m in self.members]))]

    def _score(self, member: Member) -> float:
        outputs = len(member.squares)
        numbers = self.rows * outputs
        scale = max(float(member.squares.sum()) / numbers, float(np.finfo(float).tiny))
        price = np.log(numbers) if member.forget < 1 else 0.0
        return -0.5 * (outputs * member.logdet + numbers * float(np.log(scale)) + price)  # (K4)


@takes_complex
@dataclass(frozen=True, slots=True)
class Kalman(Method[KalmanState]):
    """Kalman filter over tasks whose weights drift; one call of `update` is one task.

    With drift, old tasks lose influence, and "auto" selects what predicts the next task best: if every task has
    new classes and no old ones, the old ones are forgotten; use RLS there.

    Parameters
    ----------
    drift : float, array or "auto"
        Q, the covariance of the change from task to task: a number (times I), one number per feature, or a matrix.
        "auto" selects the one of eight forgetting coefficients that predicts the tasks best (eight times the cost and
        memory).
    noise : float
        The variance of the observation noise.
    ridge : float
        One over the variance of a weight before the first task.
    lag : int
        The number of past tasks to keep for `smoothed`.

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 10, 2))
    >>> weights = np.cumsum(0.1 * rng.standard_normal((50, 2, 1)), axis=0)  # they drift
    >>> method = rm.Kalman(drift=0.01, noise=0.01)
    >>> state = method.init(2, 1)
    >>> for t in range(50):
    ...     state = method.update(state, X[t], X[t] @ weights[t])
    >>> bool(np.abs(method.weights(state) - weights[-1]).max() < 0.05)
    True

    References
    ----------
    Kalman (1960), "A new approach to linear filtering and prediction problems", Journal of Basic Engineering.
    """

    drift: Any
    noise: float = 1.0
    ridge: float = 1.0
    lag: int = 0

    summary = "drifting tasks: the Kalman filter, one update per task; later tasks improve earlier estimates"
    cost = "2d² + dc"
    memory = "(1 + lag)(d² + dc)"
    task_per_update = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "drift", _check_drift(self.drift))
        object.__setattr__(
            self, "noise", check_number(self.noise, "noise", hint="the variance of the observation noise, like 1.0")
        )
        object.__setattr__(self, "ridge", check_number(self.ridge, "ridge", hint="one over the prior variance"))
        object.__setattr__(
            self, "lag", check_count(self.lag, "lag", 0, "the number of past tasks to keep for `smoothed`")
        )

    # Learning

    def init(self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64) -> KalmanState:
        mean = check_start(start, features, outputs, dtype)
        if mean.dtype != np.float64:
            raise InputError(
                f"expected dtype float64 for Kalman, got {mean.dtype}: covariances square the condition number; "
                f"use float64, or RLS for float32"
            )
        drift = np.zeros(()) if self.drift == "auto" else np.array(self.drift)
        if drift.ndim and len(drift) != features:
            raise InputError(
                f"expected drift for {features} features, got {len(drift)}; a single number fits any width "
                f"(an intercept is a feature too, the first one)"
            )
        known = Gaussian(mean, np.eye(features) / self.ridge)
        bank = FORGETTING if self.drift == "auto" else (1.0,)
        members = tuple(Member(known, (), forget, 0.0, np.zeros(outputs)) for forget in bank)
        return KalmanState(members, drift, 0, 0)

    def track(self, state: KalmanState, X: Any, Y: Any, donate: bool = False) -> tuple[KalmanState, Array]:
        """Learn rows as one task, and report the error of each before any of them was learned.

        The weights drift before the task and not between its rows. For weights that drift from row to row, pass the
        rows one at a time: `rm.prequential(method, X, Y)`, or `method.live(features)`. A long first task is warned of.

        Parameters
        ----------
        state : KalmanState
        X, Y : array (n, d), array (n, c)
            The samples of one task.
        donate : bool
            Has no effect here.

        Returns
        -------
        state : KalmanState
        errors : array (n, c)
            Y − X W, with the weights W before the task: the same for all of its rows, unlike those of other methods.
        """
        result = self._task_learned(state, X, Y)
        if not state.tasks and result[0].rows >= WHOLE_STREAM:
            warnings.warn(
                f"Kalman learns these {result[0].rows} rows as one task, without drift between them; if the weights "
                f"drift from row to row, use rm.prequential(method, X, Y) or pass the rows one at a time",
                UserWarning,
                stacklevel=2,
            )
        return result

    def in_pairs(self) -> InPairs:
        if isinstance(self.drift, (str, float)):
            return InPairs(self)
        Q = np.array(self.drift)
        return InPairs(replace(self, drift=np.repeat(Q, 2) if Q.ndim == 1 else np.kron(Q, np.eye(2))))

    def update(self, state: KalmanState, X: Any, Y: Any, donate: bool = False) -> KalmanState:
        return self._task_learned(state, X, Y)[0]

    @quiet
    def _task_learned(self, state: KalmanState, X: Any, Y: Any) -> tuple[KalmanState, Array]:
        W = self.weights(state)
        X, Y = check_block(X, Y, W)
        errors = Y - X @ W
        rows, (features, outputs) = len(X), W.shape
        rest, spare = np.zeros(outputs), 0
        if rows > features:  # (K3)
            root = roots.empty(features, outputs).folded(X, Y)
            X, Y, rest, spare = np.ascontiguousarray(root.factor), root.target, root.rest / self.noise, rows - features
        members = []
        for member in state.members:
            before = _later(state, member)
            known, logdet, squares = self._conditioned(before, X, Y)
            past = (*member.past, member.known)[-self.lag :] if self.lag and state.tasks else ()
            logdet += member.logdet + spare * float(np.log(self.noise))
            members.append(Member(known, past, member.forget, logdet, member.squares + squares + rest))
        check_result(errors, *(part for m in members for part in (m.known.mean, m.known.cov, m.squares)))
        return KalmanState(tuple(members), state.drift, state.tasks + 1, state.rows + rows), errors

    def _conditioned(self, known: Gaussian, X: Array, Y: Array) -> tuple[Gaussian, float, Array]:
        """After one task; with log det S, and eᵀS⁻¹e of every output."""
        try:
            found = gain(known.cov, X, self.noise * np.eye(len(X)), self.noise)
        except np.linalg.LinAlgError:  # an overflow on the way
            found = None
        if found is None or not np.isfinite(found.logdet):
            raise NumericalError(
                "the covariance of the observations cannot be factored in this precision and the task was not learned; "
                "use a larger noise, or scale X and Y to similar magnitudes"
            )
        w = found.W @ (Y - X @ known.mean)
        return Gaussian(known.mean + found.G.T @ w, self._bounded(found.after)), found.logdet, sums_of_squares(w)

    def _bounded(self, cov: Array) -> Array:
        """Bound the variances: forgetting lets those of unobserved directions grow without limit."""
        low, high = WINDUP
        if self.drift != "auto" or not cov.diagonal().max() * self.ridge > high or not np.isfinite(cov).all():
            return cov
        values, vectors = np.linalg.eigh(cov)
        return symmetric((vectors * np.clip(values, 0, low / self.ridge)) @ vectors.T)

    # Queries

    def weights(self, state: KalmanState) -> Array:
        return read_only(state.best.known.mean)

    def forgetting(self, state: KalmanState) -> float:
        """With drift="auto": the forgetting coefficient per task, β, that has predicted the tasks best."""
        if self.drift != "auto":
            raise InputError(f'expected drift="auto" for a selected coefficient, got drift={self.drift!r:.60}')
        return state.best.forget

    @quiet
    def variance(self, state: KalmanState, X: Any) -> Array:
        """The predictive variance r + xᵀΣx of every output at every row of X, for the last task, (n, c)."""
        known = state.best.known
        X = check_rows(X, len(known.mean))
        spread = np.maximum(np.einsum("ij,ij->i", X @ known.cov, X), 0.0)
        variance = np.repeat((self.noise + spread)[:, None], known.mean.shape[1], axis=1)
        check_result(variance)
        return variance

    def evidence(self, state: KalmanState) -> float:
        """log p(all targets so far), summed over the outputs; with "auto" under the selected coefficient."""
        member = state.best
        outputs = len(member.squares)
        return float(-0.5 * (outputs * (member.logdet + state.rows * LOG_2PI) + member.squares.sum()))

    def smoothed(self, state: KalmanState) -> tuple[Gaussian, ...]:
        """Smoothed estimates of the last lag + 1 tasks given all tasks so far, oldest first."""
        member = state.best
        path = (*member.past, member.known)
        T, (d, c) = len(path), member.known.mean.shape
        if T == 1:
            return path
        mean, cov = np.array([g.mean.T for g in path]).transpose(1, 0, 2), np.array([g.cov for g in path])
        later = np.array([cov[0], *(_predicted(state, member.forget, F) for F in cov[:-1])])
        predicted = np.concatenate([mean[:, :1], mean[:, :-1]], axis=1)
        drift = np.zeros((d, d)) + (state.drift if state.drift.ndim == 2 else np.diag(np.broadcast_to(state.drift, d)))
        Q = drift if member.forget == 1 else np.array([drift, *((1 / member.forget - 1) * F for F in cov[:-1])])
        model = LinearGaussian(np.eye(d), Q, np.zeros((1, d)), np.eye(1), np.zeros(d), np.eye(d))
        covs = (np.broadcast_to(v, (c, T, d, d)) for v in (cov, later))
        filtered = Filtered(mean, next(covs), predicted, next(covs), np.zeros((c, T)), [np.arange(c)], model)
        better = smooth(model, filtered)  # (the outputs are series that share their covariances)
        return tuple(Gaussian(np.ascontiguousarray(better.mean[:, t].T), np.array(better.cov[0, t])) for t in range(T))

    # Changes

    def accepts_state(self, state: object) -> bool:
        return isinstance(state, KalmanState) and (len(state.members) > 1) == (self.drift == "auto")

    def with_outputs(self, state: KalmanState, sources: Array) -> KalmanState:
        return replace(state, members=tuple(m.with_outputs(sources) for m in state.members))


def _later(state: KalmanState, member: Member) -> Gaussian:
    """The prediction of the next task's weights."""
    if not state.tasks:
        return member.known
    return Gaussian(member.known.mean, _predicted(state, member.forget, member.known.cov))


def _predicted(state: KalmanState, forget: float, cov: Array) -> Array:
    P = cov / forget
    if state.drift.ndim == 2:
        P += state.drift
    else:
        P.ravel()[:: len(P) + 1] += state.drift
    return P  # (K2)


def _check_drift(drift: Any) -> Any:
    """The setting as a value that can be compared: a number, a tuple, a tuple of tuples, or "auto"."""
    hint = 'a number like 0.01, one per feature, a covariance matrix, or "auto"'
    if isinstance(drift, str):
        if drift != "auto":
            raise InputError(f"expected drift to be {hint}, got {drift!r}")
        return drift
    if not isinstance(drift, (list, tuple)) and np.ndim(drift) == 0:
        value = drift.item() if isinstance(drift, np.ndarray) else drift
        return check_number(value, "drift", closed=True, hint=hint)
    Q = np.array(check_numbers(drift, "drift", np.float64))
    if not Q.size or Q.ndim > 2 or (Q.ndim == 2 and Q.shape[0] != Q.shape[1]):
        raise InputError(f"expected drift to be {hint}, got shape {Q.shape}")
    if not np.isfinite(Q).all():
        raise InputError(f"expected finite numbers as drift, got NaN or infinity; {hint}")
    if Q.ndim == 1:
        if (Q < 0).any():
            raise InputError(f"expected drift of at least 0, it is a variance, got {Q.min():g}")
        return tuple(Q.tolist())
    check_covariances(Q[None], "drift")
    return tuple(map(tuple, Q.tolist()))
