"""Forecasts of future states, and random draws from the model.

θ_{T+k|T} = A θ_{T+k−1|T} + B u     Σ_{T+k|T} = A Σ_{T+k−1|T} Aᵀ + Q                                  (F)
"""

from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.kalman.complex.pairs import changed, complex_states, pairs_of
from remanence.kalman.filter import check_model
from remanence.kalman.gains import at
from remanence.kalman.model import LinearGaussian
from remanence.kalman.results import Filtered, Forecast, join_groups, shared
from remanence.kalman.smoother import check_filtered
from remanence.memory.gaussian import psd_root, symmetric
from remanence.methods.signals.real_pairs import complex_entries
from remanence.validation import check_count, check_memory

FEWER = "ask for fewer steps"


def forecast(model: LinearGaussian, filtered: Filtered, steps: int) -> Forecast:
    """Predict θ for the steps after the last one that was filtered.

    The observations at those steps have the mean X @ mean and the covariance X @ cov @ X.T + R.

    Parameters
    ----------
    model : LinearGaussian
        The model that was filtered; it must reach as far as the forecast.
    filtered : Filtered
        The result of `filter` or `extended`.
    steps : int
        How many steps to predict.

    Returns
    -------
    Forecast
        Mean (steps, d) and covariance (steps, d, d) of θ, with a leading axis N for N series.

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> model = kalman.LinearGaussian(A=np.eye(1), Q=np.eye(1), X=np.eye(1), R=np.eye(1), mean=[0.0], cov=np.eye(1))
    >>> found = kalman.filter(model, [[1.0], [2.0]])
    >>> ahead = kalman.forecast(model, found, 3)
    >>> ahead.mean.ravel().round(2), ahead.cov.ravel().round(2)
    (array([1.4, 1.4, 1.4]), array([1.6, 2.6, 3.6]))

    References
    ----------
    Kalman (1960), "A new approach to linear filtering and prediction problems", Journal of Basic Engineering.
    """
    check_filtered(model, filtered)
    if model.pairs is not None:
        ahead = forecast(model.pairs, pairs_of(filtered), steps)
        return Forecast(*complex_states(ahead.mean, ahead.cov))
    steps = check_count(steps, "steps")
    T, series = filtered.mean.shape[-2], len(filtered.mean) if filtered.many else 1
    check_memory(8.0 * (series * model.features + model.features**2) * steps, f"a forecast of {steps} steps", FEWER)
    pushes = np.zeros((1, model.features)) if model.pushes is None else model.pushes
    given = (model.steps.A, model.A.ndim == 3), (model.steps.Q, model.Q.ndim == 3), (pushes, model.inputs_per_step)
    for name, (stack, stepwise) in zip(("A", "Q", "u"), given, strict=True):
        if stepwise and len(stack) < T + steps:
            raise InputError(
                f"expected {name} constant or of at least {T + steps} steps to look {steps} ahead of {T}, "
                f"got {len(stack)}; pass a model that reaches that far, or filter Y filled up with rows of NaN"
            )
    many = filtered.many
    last = filtered.mean[:, -1] if many else filtered.mean[None, -1]
    means, covs = [], []
    for group in filtered.groups:
        mean, cov = last[group], filtered.cov[group[0], -1] if many else filtered.cov[-1]
        mean_path, cov_path = np.empty((len(mean), steps, model.features)), np.empty((steps, *cov.shape))
        for k in range(steps):
            A = at(model.steps.A, T + k)
            mean = mean_path[:, k] = mean @ A.T + at(pushes, T + k)
            cov = cov_path[k] = symmetric(A @ cov @ A.T) + at(model.steps.Q, T + k)  # (F)
        means.append(mean_path)
        covs.append(cov_path)
    mean = join_groups(means, filtered.groups)
    return Forecast(mean if many else mean[0], shared(covs, filtered.groups, many))


def check_length(model: LinearGaussian, T: Any) -> int:
    """T as an integer; a model with parameters given per step must have at least T steps."""
    check_model(model)
    steps = check_count(T, "T")
    check_memory(16.0 * model.features * steps, f"{steps} steps", FEWER)
    if model.length is not None and model.length < steps:
        raise InputError(f"expected T of at most {model.length}, the steps the model has, got {T}; extend the model")
    return steps


def sample(model: LinearGaussian, T: int, seed: Any = 0) -> tuple[Array, Any]:
    """Draw states and observations from the model.

    Parameters
    ----------
    model : LinearGaussian
        The model to draw from.
    T : int
        The number of steps.
    seed : int or numpy.random.Generator
        The seed of the random numbers, or their generator.

    Returns
    -------
    theta : array (T, d)
        The states.
    Y : array (T, m), or a list of T arrays
        The observations; a list if tasks differ in their number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> model = kalman.LinearGaussian(A=np.eye(1), Q=np.eye(1), X=np.eye(1), R=np.eye(1), mean=[0.0], cov=np.eye(1))
    >>> theta, Y = kalman.sample(model, 5, seed=0)
    >>> theta.shape, Y.shape
    ((5, 1), (5, 1))
    """
    T = check_length(model, T)
    if model.pairs is not None:
        states, seen = sample(model.pairs, T, seed)
        return complex_entries(states), changed(seen, complex_entries)
    rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(check_count(seed, "seed", 0))
    s, pushes = model.steps, np.zeros((1, model.features)) if model.pushes is None else model.pushes
    drift, noise = (np.array([psd_root(v) for v in stack[:T]]) for stack in (s.Q, s.R))
    d, m = model.features, s.X.shape[1]
    draws = rng.standard_normal((T, d + m))
    moves, errors = _spread(drift, draws[:, :d]), _spread(noise, draws[:, d:])
    theta = np.empty((T, d))
    theta[0] = model.mean + psd_root(model.cov) @ draws[0, :d]
    for t in range(1, T):
        theta[t] = at(s.A, t) @ theta[t - 1] + moves[t]
        theta[t] += at(pushes, t)
    Y = np.matmul(s.X[:T], theta[..., None])[..., 0] + errors
    if len(set(s.rows.tolist())) == 1:
        return theta, Y
    return theta, [y[:rows] for y, rows in zip(Y, s.rows, strict=False)]


def _spread(roots: Array, draws: Array) -> Array:
    """Draws (T, n) as noise of the covariances whose roots these are (1 or T, n, n)."""
    return np.asarray(draws @ roots[0].T if len(roots) == 1 else np.matmul(roots, draws[..., None])[..., 0])
