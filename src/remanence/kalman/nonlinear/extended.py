"""The extended Kalman filter: nonlinear transitions and observations.

θ_t = g_t(θ_{t−1}) + w_t     y_t = f_t(θ_t) + v_t                                            (NGM)
θ_{t|t−1} = g_t(θ_{t−1|t−1})     A_t = ∂g_t at θ_{t−1|t−1}     X_t = ∂f_t at θ_{t|t−1}         (E1)
the innovation is y_t − f_t(θ_{t|t−1}), everything else as in the linear filter             (E2)
iterated: X = ∂f_t at θ', the innovation y_t − f_t(θ') − X(θ_{t|t−1} − θ'), θ' the last result  (E3)

If observations are angles, y_t − f_t is replaced by residual(y_t, f_t).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError, NumericalError
from remanence.kalman.complex.pairs import refuse_complex
from remanence.kalman.gains import at
from remanence.kalman.model import LinearGaussian
from remanence.kalman.nonlinear.jacobian_check import check_jacobian
from remanence.kalman.nonlinear.jacobians import Minus, linearized_at
from remanence.kalman.observations import check_observations
from remanence.kalman.results import Filtered, Smoothed
from remanence.kalman.smoother import smooth
from remanence.memory.gaussian import Gaussian
from remanence.validation import check_count, check_numbers


def extended(
    transition: Any,
    observe: Any,
    Y: Any,
    *,
    Q: Any,
    R: Any,
    mean: Any,
    cov: Any,
    transition_jacobian: Any = None,
    observe_jacobian: Any = None,
    residual: Any = None,
    check: bool = True,
    iterations: int = 1,
) -> Filtered:
    """Run the extended Kalman filter, which linearizes the model around its estimates.

    `smooth(f.model, f)` is the extended smoother, and `innovations(f.model, f, Y)` takes the residual into account.

    Parameters
    ----------
    transition, observe : function of θ, or a list of one per step
        θ_t without noise from θ_{t−1} (the first transition is not used), and y_t without noise from θ_t.
    Y : array (T, m), or a list of one array per step
        The observations; NaN entries are missing.
    Q, R, mean, cov : array
        As in `LinearGaussian`: mean and cov are those of θ at the first step.
    transition_jacobian, observe_jacobian : function of θ, or a list of one per step, optional
        The derivatives, (d, d) and (m, d). Default: torch.func for torch functions, else a complex step, else
        finite differences.
    residual : function of (y, predicted), or a list of one per step, optional
        The difference of an observation and its prediction, (m,); by default y − predicted. For an angle wrap it into
        ±π, so that a target that crosses the cut does not seem to jump by 2π. NaN entries of y must stay NaN.
    check : bool
        Compare each given Jacobian with finite differences of its function at the first step it is used, which takes
        6 d evaluations, and raise InputError if it is wrong.
    iterations : int
        The number of linearizations per step, each around the last result; 1 is the plain extended filter.

    Returns
    -------
    Filtered
        As of `filter`; its `.model` is the linearized model.

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> def observe(v):
    ...     return v**2
    >>> found = kalman.extended(
    ...     lambda v: v, observe, [[4.0], [4.1]], Q=0.01 * np.eye(1), R=0.1 * np.eye(1), mean=[1.5], cov=np.eye(1)
    ... )
    >>> found.mean.ravel().round(1)
    array([2.1, 2. ])

    References
    ----------
    Jazwinski (1970), "Stochastic processes and filtering theory", Academic Press.
    """
    iterations = check_count(iterations, "iterations", hint="1 is the plain extended filter")
    start, checked = check_linear_parts(Y, Q, R, mean, cov)
    y, s = checked[0], start.steps
    T, d = len(y), start.features
    g, dg = functions(transition, "transition", T, 1), functions(transition_jacobian, "transition_jacobian", T)
    f, df = functions(observe, "observe", T, 0), functions(observe_jacobian, "observe_jacobian", T)
    r = functions(residual, "residual", T)
    unchecked = {"transition", "observe"} if check else set()
    A, X, expected = np.tile(np.eye(d), (T, 1, 1)), np.zeros((T, y.shape[1], d)), np.full(y.shape, np.nan)
    results = []
    known = Gaussian(start.mean, start.cov)
    for t in range(T):
        if t:
            value, slope = linearized_at(g[t], dg[t], known.mean, "transition", cov=known.cov)
            A[t] = check_transition(value, slope, d)
            if dg[t] is not None and "transition" in unchecked:
                unchecked.remove("transition")
                check_jacobian(g[t], value, A[t], known.mean, known.cov, "transition", np.subtract, t)
            known = Gaussian(value, known.advanced(A[t], at(s.Q, t)).cov)  # (E1)
        before = known
        rows = int(s.rows[t if len(s.rows) > 1 else 0])
        noise = at(s.R, t)[:rows, :rows]
        minus: Minus = np.subtract if r[t] is None else partial(residual_of, r[t])
        value, slope = linearized_at(f[t], df[t], before.mean, "observe", minus, before.cov)
        if len(value) != rows:
            raise InputError(f"expected observe to return {rows} numbers, as Y has, got {len(value)}")
        if df[t] is not None and rows and "observe" in unchecked:
            unchecked.remove("observe")
            check_jacobian(f[t], value, slope, before.mean, before.cov, "observe", minus, t)
        error = minus(y[t, :rows], value)
        known, innovation = before.conditioned(slope, error + slope @ before.mean, noise)  # (E2)
        for _ in range(iterations - 1):
            point = known.mean
            again, slope = linearized_at(f[t], df[t], point, "observe", minus, known.cov)
            known, innovation = before.conditioned(slope, minus(y[t, :rows], again) + slope @ point, noise)  # (E3)
        X[t, :rows] = slope
        expected[t, :rows] = value if r[t] is None else np.where(np.isnan(error), value, y[t, :rows] - error)
        if not np.isfinite(known.mean).all():
            raise NumericalError(f"the extended filter overflowed at step {t}; start nearer, or use a smaller Q")
        results.append((known, before, innovation.loglik))
    means, covs = np.array([k.mean for k, _, _ in results]), np.array([k.cov for k, _, _ in results])
    predicted = np.array([b.mean for _, b, _ in results]), np.array([b.cov for _, b, _ in results])
    observed = list(X) if len(set(s.rows.tolist())) == 1 else [x[:m] for x, m in zip(X, s.rows, strict=True)]
    model = LinearGaussian(A, start.Q, observed, stepped(start, T), start.mean, start.cov)
    logliks = np.array([loglik for _, _, loglik in results])
    return Filtered(means, covs, *predicted, logliks, [np.arange(1)], model, expected)


def smooth_extended(filtered: Filtered) -> Smoothed:
    """Run the extended smoother: `smooth` with the model that `extended` linearized.

    Parameters
    ----------
    filtered : Filtered
        The result of `extended`.

    Returns
    -------
    Smoothed
        θ_{t|T} with its covariance, and the gains.

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> found = kalman.extended(
    ...     lambda v: v, np.sin, [[0.5], [0.6]], Q=0.01 * np.eye(1), R=0.1 * np.eye(1), mean=[0.0], cov=np.eye(1)
    ... )
    >>> bool(kalman.smooth_extended(found).cov[0] < found.cov[0])
    True

    References
    ----------
    Rauch, Tung and Striebel (1965), "Maximum likelihood estimates of linear dynamic systems", AIAA Journal.
    """
    if not isinstance(filtered, Filtered):
        raise InputError(f"expected what kalman.extended returned, got {type(filtered).__name__}; filter first")
    return smooth(filtered.model, filtered)


def functions(given: Any, name: str, T: int, needed: int | None = None) -> Sequence[Any]:
    """One function per step, or None, but not from the step on that is `needed`."""
    each = [given] * T if given is None or callable(given) else given
    listed = isinstance(each, (list, tuple)) and all(callable(v) or v is None for v in each)
    if not listed or (needed is not None and any(v is None for v in each[needed:])):
        raise InputError(f"expected {name} to be a function or a list of one per step, got {type(given).__name__}")
    if len(each) != T:
        raise InputError(f"expected {name} to hold {T} functions, one per step of Y, got {len(each)}")
    return each


def residual_of(residual: Any, y: Array, predicted: Array) -> Array:
    """The residual of y and its prediction; NaN where y is missing."""
    missing = np.isnan(y)
    error = np.atleast_1d(check_numbers(residual(y.copy(), predicted.copy()), "what residual returns", np.float64))
    if error.shape != y.shape:
        raise InputError(f"expected residual to return {len(y)} numbers, as Y has, got shape {error.shape}")
    if not np.isfinite(error[~missing]).all():
        raise InputError(
            f"expected residual to return finite numbers where y is not missing, got {error} for y = {y}; "
            f"compute every entry separately, so that a missing one does not affect the others"
        )
    return np.where(missing, np.nan, error)


def check_transition(value: Array, slope: Array, d: int) -> Array:
    """The linear part (d, d) of a transition, which leads from d numbers to as many."""
    if len(value) != d:
        raise InputError(f"expected transition to return {d} numbers, as mean has, got {len(value)}")
    return slope


def check_linear_parts(Y: Any, Q: Any, R: Any, mean: Any, cov: Any) -> tuple[LinearGaussian, Array]:
    """Check the linear parameters as a model with X = 0."""
    d = check_numbers(mean, "mean", np.float64).size
    ragged = isinstance(Y, (list, tuple)) and len({np.shape(y) for y in Y}) > 1
    if ragged:
        X: Any = [np.zeros((np.size(y), d)) for y in Y]
    elif np.ndim(Y) != 2:
        raise InputError(
            f"expected Y of shape (steps, observations), got {np.shape(Y)}; for one number per step pass y[:, None]"
        )
    else:
        X = np.zeros((np.shape(Y)[1], d))
    start = LinearGaussian(np.eye(d), Q, X, R, mean, cov)
    refuse_complex(start, "a nonlinear filter")
    return start, check_observations(start, Y).Y


def stepped(start: LinearGaussian, T: int) -> Any:
    """R of every step."""
    return start.R if isinstance(start.R, tuple) or start.R.ndim == 3 else np.tile(start.R, (T, 1, 1))
