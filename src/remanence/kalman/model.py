"""The linear Gaussian model: tasks that drift.

    θ₀ ~ N(mean, cov)     θₜ = Aₜ θₜ₋₁ + Bₜ uₜ + wₜ,  wₜ ~ N(0, Qₜ)     yₜ = Xₜ θₜ + vₜ,  vₜ ~ N(0, Rₜ)      (LGM)

Each of A, Q, X, R is constant or given per step. Q, R and cov may be singular: Q = 0 is RLS. Inputs u are known.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.kalman.complex.pairs import NAMES, any_complex, as_complex, real_model
from remanence.kalman.time.continuous import between_times
from remanence.kalman.time.inputs import check_inputs
from remanence.kernels.constants import ROUNDING
from remanence.memory.gaussian import least_noise
from remanence.validation import check_finite, check_numbers

CONSTANT_OR_STEPS = "constant, or one per step along the first axis"


@dataclass(frozen=True, slots=True)
class Steps:
    """The model as arrays with a first axis of 1 (constant) or T; tasks of fewer rows are padded with zeros."""

    A: Array  # (1 or T, d, d)
    Q: Array  # (1 or T, d, d)
    X: Array  # (1 or T, m, d)
    R: Array  # (1 or T, m, m)
    rows: Array  # (1 or T,) how many rows of X are real
    least_Q: Array  # (1 or T,) the smallest pivots
    least_R: Array  # (1 or T,)

    @property
    def constant(self) -> bool:
        return len(self.A) == len(self.Q) == len(self.X) == len(self.R) == 1


@dataclass(frozen=True, slots=True, eq=False)
class LinearGaussian:
    """Linear Gaussian state-space model: θ_t = A θ_{t−1} + N(0, Q), y_t = X θ_t + N(0, R).

    Each of A, Q, X, R is constant or has a leading axis T; A[t], Q[t] lead into step t (A[0], Q[0] are not used).

    Arrays may be complex; then θ and the noises are circular, cov is E[(θ − mean)(θ − mean)ᴴ], and so are Q and R.

    mean and cov are those of θ at the *first* step, before its observations. If yours are those of the step before,
    as in filterpy, whose loop predicts before its first update, advance them by one step first::

        mean, cov = A @ x, A @ P @ A.T + Q
        LinearGaussian(A, Q, X, R, mean, cov)

    Parameters
    ----------
    A, Q : array (d, d) or (T, d, d)
        Transition matrix, and covariance of the process noise; Q may be singular, or 0.
    X : array (m, d) or (T, m, d), or a list of arrays with their own m
        Observation matrix: the rows of each task.
    R : array (m, m) or (T, m, m), or a list
        Covariance of the observation noise.
    mean : array (d,)
        Mean of θ at the first step, before its observations.
    cov : array (d, d)
        Covariance of θ at the first step, before its observations.
    B : array (d, k) or (T, d, k), optional
        Input matrix: θ_t = A θ_{t−1} + B u_t + N(0, Q).
    u : array (k,) or (T, k), optional
        Known inputs, such as what a motor was told; u[t] leads into step t (u[0] is not used).

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> model = kalman.LinearGaussian(
    ...     A=np.eye(2), Q=0.1 * np.eye(2), X=np.eye(2), R=np.eye(2), mean=np.zeros(2), cov=np.eye(2)
    ... )
    >>> model.features, model.length
    (2, None)

    References
    ----------
    Kalman (1960), "A new approach to linear filtering and prediction problems", Journal of Basic Engineering.
    """

    A: Any
    Q: Any
    X: Any
    R: Any
    mean: Any  # (d,)
    cov: Any  # (d, d)
    B: Any = None  # (d, k)
    u: Any = None  # (k,)
    steps: Steps = field(init=False, repr=False)
    pushes: Array | None = field(init=False, repr=False)  # (1 or T, d) B u
    pairs: "LinearGaussian | None" = field(init=False, repr=False, default=None)  # the real model, of complex numbers

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in NAMES}
        if any_complex(list(given.values())):
            values = {name: as_complex(value) for name, value in given.items()}
            real = real_model(type(self), values)
            for name, value in {**values, "steps": real.steps, "pushes": real.pushes, "pairs": real}.items():
                _fixed(*(value if isinstance(value, tuple) else (value,)))
                object.__setattr__(self, name, value)
            return
        mean = _array(self.mean, "mean")
        if mean.ndim != 1 or not mean.size:
            raise InputError(f"expected mean of shape (features,), got {mean.shape}; it is θ at the first step")
        d = len(mean)
        cov = _square(self.cov, "cov", d)
        if cov.ndim == 3:
            raise InputError(f"expected cov of shape ({d}, {d}), got {cov.shape}; it is that of the first step alone")
        A, Q = _square(self.A, "A", d), _square(self.Q, "Q", d)
        X, Xs, rows = _observing(self.X, d)
        R, Rs = _noise(self.R, rows)
        lengths = {n: len(v) for n, v, k in (("A", A, A.ndim == 3), ("Q", Q, Q.ndim == 3)) if k}
        lengths |= {n: len(v) for n, v, k in (("X", Xs, _stepwise(X)), ("R", Rs, _stepwise(R))) if k}
        B, u, pushes = check_inputs(self.B, self.u, d)
        if pushes is not None and (B.ndim == 3 or u.ndim == 2):
            lengths["u"] = len(pushes)
        if len(set(lengths.values())) > 1 or 0 in lengths.values():
            raise InputError(
                f"expected A, Q, X, R, u {CONSTANT_OR_STEPS} of one length of at least 1, got lengths {lengths}; "
                f"give every step its own, or pass the constant itself"
            )
        check_covariances(cov[None], "cov")
        least_Q = check_covariances(_stacked(Q), "Q")
        least_R = _check_noise(R, Rs)
        known = {"A": A, "Q": Q, "X": X, "R": R, "mean": mean, "cov": cov, "B": B, "u": u, "pushes": pushes}
        inner = _fixed(_stacked(A), _stacked(Q), Xs, Rs, rows, least_Q, least_R)
        for name, value in {**known, "steps": Steps(*inner)}.items():
            _fixed(*(value if isinstance(value, tuple) else (value,)))
            object.__setattr__(self, name, value)

    @classmethod
    def from_continuous(
        cls, F: Any, L: Any, q: Any, times: Any, *, X: Any, R: Any, mean: Any, cov: Any, B: Any = None, u: Any = None
    ) -> "LinearGaussian":
        """The model dθ = (F θ + B u) dt + L dβ, observed at these times, however irregular.

        Parameters
        ----------
        F, L : array (d, d), array (d, k)
            The differential equation, and where the noise enters; `kalman.constant_velocity` and others make both.
        q : float or array (k, k)
            The spectral density of the noise: the variance that it adds per unit of time.
        times : array (T,)
            The times of the observations, ascending; A[t] and Q[t] lead from times[t − 1] to times[t].
        X, R : array
            As in `LinearGaussian`.
        mean, cov : array (d,), array (d, d)
            Mean and covariance of θ at times[0], before its observation.
        B, u : array (d, k), array (k,) or (T, k), optional
            Known inputs; u[t] holds from times[t − 1] to times[t].

        Returns
        -------
        LinearGaussian
            With A and Q for every step.

        Examples
        --------
        >>> from remanence import kalman
        >>> F, L, X = kalman.constant_velocity(1)
        >>> model = kalman.LinearGaussian.from_continuous(
        ...     F, L, 0.1, [0.0, 0.5, 3.0], X=X, R=[[1.0]], mean=[0.0, 0.0], cov=[[1.0, 0.0], [0.0, 1.0]]
        ... )
        >>> model.A[2]
        array([[1. , 2.5],
               [0. , 1. ]])

        References
        ----------
        Van Loan (1978), "Computing integrals involving the matrix exponential", IEEE Transactions on Automatic Control.
        """
        A, Q, held = between_times(F, L, q, times, B)
        return cls(A, Q, X, R, mean, cov, held, u)

    @property
    def features(self) -> int:
        """d, the number of unknowns."""
        return len(self.mean)

    @property
    def length(self) -> int | None:
        """T if any parameter is given per step, else None (any length)."""
        s = self.steps
        given = [len(v) for v, k in self._parts(s) if k]
        if self.pushes is not None and self.inputs_per_step:
            given.append(len(self.pushes))
        return max(given, default=None)

    @property
    def inputs_per_step(self) -> bool:
        """Whether B or u is given per step."""
        return self.pushes is not None and (self.B.ndim == 3 or self.u.ndim == 2)

    def _parts(self, s: Steps) -> list[tuple[Array, bool]]:
        return [(s.A, self.A.ndim == 3), (s.Q, self.Q.ndim == 3), (s.X, _stepwise(self.X)), (s.R, _stepwise(self.R))]


def _fixed(*parts: Any) -> tuple[Any, ...]:
    """The same arrays, which cannot be written to any more: a model was checked as a whole."""
    for part in parts:
        if isinstance(part, np.ndarray):
            part.flags.writeable = False
    return parts


def _stepwise(value: Any) -> bool:
    return isinstance(value, tuple) or value.ndim == 3


def _stacked(value: Array) -> Array:
    return value if value.ndim == 3 else value[None]


def _array(value: Any, name: str) -> Array:
    """A copy in float64, finite."""
    if any(np.ma.is_masked(part) for part in (value if isinstance(value, (list, tuple)) else (value,))):
        raise InputError(
            f"expected every entry of {name}, got a masked array that hides some; a model must be known (only Y may "
            f"have missing entries)"
        )
    array = np.array(check_numbers(value, name, np.float64), order="C")
    try:
        check_finite(array, name)
    except InputError as problem:
        raise InputError(
            f"{problem}".split(";")[0] + "; a model must be known (only Y may have missing entries)"
        ) from None
    return array


def _square(value: Any, name: str, d: int) -> Array:
    array = _array(value, name)
    if array.shape[-2:] != (d, d) or array.ndim not in (2, 3):
        hint = f"for a number q pass q * np.eye({d})" if array.ndim < 2 else f"mean has {d} entries"
        raise InputError(f"expected {name} of shape ({d}, {d}), {CONSTANT_OR_STEPS}, got {array.shape}; {hint}")
    return array


def _ragged(value: Any) -> bool:
    """A list of one array a step whose shapes differ."""
    return (
        isinstance(value, (list, tuple))
        and len({np.shape(v) for v in value}) > 1
        and all(np.ndim(v) == 2 for v in value)
    )


def _observing(value: Any, d: int) -> tuple[Any, Array, Array]:
    """X as kept, X filled up to (1 or T, m, d), and the rows of every step."""
    if not _ragged(value):
        X = _array(value, "X")
        if X.ndim not in (2, 3) or X.shape[-1] != d:
            raise InputError(
                f"expected X of shape (rows, {d}), {CONSTANT_OR_STEPS}, got {X.shape}; for one row pass x[None, :]"
            )
        if not len(_stacked(X)):
            raise InputError(f"expected X {CONSTANT_OR_STEPS} of at least 1 step, got {X.shape}; T = 0 leaves no model")
        return X, _stacked(X), np.full(len(_stacked(X)), X.shape[-2])
    kept = tuple(_array(v, "X") for v in value)
    wrong = [v.shape for v in kept if v.shape[1] != d]
    if wrong:
        raise InputError(f"expected every X[t] of shape (rows, {d}), got {wrong[0]}; mean has {d} entries")
    rows = np.array([len(v) for v in kept])
    full = np.zeros((len(kept), rows.max(), d))
    for t, v in enumerate(kept):
        full[t, : len(v)] = v
    return kept, full, rows


def _noise(value: Any, rows: Array) -> tuple[Any, Array]:
    """R as kept, and filled up to (1 or T, m, m)."""
    sizes = set(rows.tolist())
    if not _ragged(value):
        R = _array(value, "R")
        m = next(iter(sizes)) if len(sizes) == 1 else None
        if m is None and len(R) != len(rows):
            raise InputError(
                f"expected one R per step, since X has {min(sizes)} to {max(sizes)} rows, got shape {R.shape}; "
                f"pass a list, like [r * np.eye(len(x)) for x in X]"
            )
        if m is None or R.ndim not in (2, 3) or R.shape[-2:] != (m, m):
            raise InputError(
                f"expected R of shape ({m}, {m}), {CONSTANT_OR_STEPS}, to fit the rows of X, got {R.shape}; "
                f"for a number r pass r * np.eye({m})"
            )
        return R, _stacked(R)
    kept = tuple(_array(v, "R") for v in value)
    wanted = rows if len(rows) > 1 else np.repeat(rows, len(kept))
    for t, (v, m) in enumerate(zip(kept, wanted, strict=False)):
        if v.shape != (m, m):
            raise InputError(f"expected R[{t}] of shape ({m}, {m}) to fit the rows of X[{t}], got {v.shape}")
    full = np.zeros((len(kept), rows.max(), rows.max()))
    for t, v in enumerate(kept):
        full[t, : len(v), : len(v)] = v
    return kept, full


def check_covariances(P: Array, name: str) -> Array:
    """Check that matrices are symmetric and positive semidefinite; return the smallest pivot of each, 0 if singular."""
    size = np.abs(P).max(axis=(1, 2), initial=0.0)
    if P.size and (np.abs(P - P.transpose(0, 2, 1)).max(axis=(1, 2)) > 1e-10 * size).any():
        raise InputError(f"expected {name} to be symmetric, got one that is not; pass ({name} + {name}.T) / 2")
    d = P.shape[1]
    P[...] = (P + P.transpose(0, 2, 1)) / 2
    try:
        pivots = np.linalg.cholesky(P).diagonal(axis1=1, axis2=2) ** 2
        regular = (pivots > d * ROUNDING * P.diagonal(axis1=1, axis2=2)).all(axis=1)
        return np.where(regular, pivots.min(axis=1, initial=np.inf), 0.0)
    except np.linalg.LinAlgError:
        values = np.linalg.eigvalsh(P)[:, 0]
    if (values < -1e-10 * size).any():
        raise InputError(
            f"expected {name} to be positive semidefinite, got an eigenvalue {values.min():.2g}; "
            f"a covariance has none below 0 (it may be singular)"
        )
    return np.array([least_noise(p) for p in P])


def _check_noise(R: Any, full: Array) -> Array:
    if not isinstance(R, tuple):
        return check_covariances(full, "R")
    least = []
    for t, v in enumerate(R):
        least.append(check_covariances(v[None], f"R[{t}]")[0] if len(v) else 0.0)
        full[t, : len(v), : len(v)] = v
    return np.array(least)
