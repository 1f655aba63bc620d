"""The extended Kalman filter: tasks that move and answer by nonlinear functions.

θ_t = g_t(θ_{t−1}) + w_t     y_t = f_t(θ_t) + v_t                                            (NGM)
θ_{t|t−1} = g_t(θ_{t−1|t−1})     A_t = ∂g_t at θ_{t−1|t−1}     X_t = ∂f_t at θ_{t|t−1}         (E1)
the innovation is y_t − f_t(θ_{t|t−1}), everything else as in the linear filter             (E2)
iterated: X = ∂f_t at θ', the innovation y_t − f_t(θ') − X(θ_{t|t−1} − θ'), θ' the last result  (E3)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from remanence.checks import Array, check_count
from remanence.errors import InputError, NumericalError
from remanence.kalman.answers import check_answers
from remanence.kalman.gains import at
from remanence.kalman.jacobians import Function, linearized_at
from remanence.kalman.model import LinearGaussian
from remanence.kalman.results import Filtered, Smoothed
from remanence.kalman.smoothing import smooth
from remanence.memory.gaussian import Gaussian, Surprise


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
    iterations: int = 1,
) -> Filtered:
    """What `filter` returns, with `.model` linearised along the way; `smooth(f.model, f)` is the extended smoother.

    `transition`, `observe` and their Jacobians are functions of θ or lists of one a step (the first transition is not
    used). Without a Jacobian: torch.func for torch functions, else a complex step, else differences.
    """
    iterations = check_count(iterations, "iterations", hint="1 is the plain extended filter")
    start, answers = _door(Y, Q, R, mean, cov)
    y, s = answers[0], start.steps
    T, d = len(y), start.features
    g, dg = functions(transition, "transition", T), functions(transition_jacobian, "transition_jacobian", T)
    f, df = functions(observe, "observe", T), functions(observe_jacobian, "observe_jacobian", T)
    A, X, expected = np.tile(np.eye(d), (T, 1, 1)), np.zeros((T, y.shape[1], d)), np.full(y.shape, np.nan)
    results = []
    known = Gaussian(start.mean, start.cov)
    for t in range(T):
        if t:
            value, A[t] = linearized_at(g[t], dg[t], known.mean, "transition")
            known = Gaussian(value, known.advanced(A[t], at(s.Q, t)).cov)  # (E1)
        before = known
        rows = int(s.rows[t if len(s.rows) > 1 else 0])
        noise = at(s.R, t)[:rows, :rows]
        expected[t, :rows], X[t, :rows], known, surprise = _corrected(
            before, f[t], df[t], y[t, :rows], noise, iterations
        )
        if not np.isfinite(known.mean).all():
            raise NumericalError(f"the extended filter overflowed at step {t}; start nearer, or use a smaller Q")
        results.append((known, before, surprise.loglik))
    means, covs = np.array([k.mean for k, _, _ in results]), np.array([k.cov for k, _, _ in results])
    predicted = np.array([b.mean for _, b, _ in results]), np.array([b.cov for _, b, _ in results])
    observed = list(X) if len(set(s.rows.tolist())) == 1 else [x[:m] for x, m in zip(X, s.rows, strict=True)]
    model = LinearGaussian(A, start.Q, observed, _stepped(start, T), start.mean, start.cov)
    logliks = np.array([loglik for _, _, loglik in results])
    return Filtered(means, covs, *predicted, logliks, [np.arange(1)], model, expected)


def smooth_extended(filtered: Filtered) -> Smoothed:
    """The extended smoother: `smooth` with the model that `extended` linearised."""
    if not isinstance(filtered, Filtered):
        raise InputError(f"expected what kalman.extended returned, got {type(filtered).__name__}; filter first")
    return smooth(filtered.model, filtered)


def functions(given: Any, name: str, T: int) -> Sequence[Any]:
    """One function (or None) a step."""
    if given is None or callable(given):
        return [given] * T
    if not isinstance(given, (list, tuple)) or not all(callable(v) or v is None for v in given):
        raise InputError(f"expected {name} to be a function of θ or a list of one a step, got {type(given).__name__}")
    if len(given) != T:
        raise InputError(f"expected {name} to hold {T} functions, one a step of Y, got {len(given)}")
    return given


def _corrected(
    before: Gaussian, f: Function, df: Function | None, y: Array, R: Array, iterations: int
) -> tuple[Array, Array, Gaussian, Surprise]:
    """f(θ_{t|t−1}), the Jacobian last used, θ given the answers, and how surprising they were."""
    point, first = before.mean, None
    for _ in range(iterations):
        value, X = linearized_at(f, df, point, "observe")
        if len(value) != len(y):
            raise InputError(f"expected observe to return {len(y)} numbers, as Y has, got {len(value)}")
        first = value if first is None else first
        aim = y - value + X @ point  # (E2), (E3): the linear filter subtracts X θ_{t|t−1}
        known, surprise = before.conditioned(X, aim, R)
        point = known.mean
    assert first is not None
    return first, X, known, surprise


def _door(Y: Any, Q: Any, R: Any, mean: Any, cov: Any) -> tuple[LinearGaussian, Array]:
    """The parts that are linear anyway, checked as a model with X = 0."""
    d = np.size(mean)
    ragged = isinstance(Y, (list, tuple)) and len({np.shape(y) for y in Y}) > 1
    if ragged:
        X: Any = [np.zeros((np.size(y), d)) for y in Y]
    elif np.ndim(Y) != 2:
        raise InputError(
            f"expected Y of shape (steps, answers), got {np.shape(Y)}; for one answer a step pass y[:, None]"
        )
    else:
        X = np.zeros((np.shape(Y)[1], d))
    start = LinearGaussian(np.eye(d), Q, X, R, mean, cov)
    return start, check_answers(start, Y).Y


def _stepped(start: LinearGaussian, T: int) -> Any:
    return start.R if isinstance(start.R, tuple) or start.R.ndim == 3 else np.tile(start.R, (T, 1, 1))
