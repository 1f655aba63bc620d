"""Looking ahead and making data up: the future of θ, and a draw from the model.

θ_{T+k|T} = A θ_{T+k−1|T}     Σ_{T+k|T} = A Σ_{T+k−1|T} Aᵀ + Q                                  (F)
"""

from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.kalman.filter import check_model
from remanence.kalman.gains import at
from remanence.kalman.model import LinearGaussian
from remanence.kalman.results import Filtered, Forecast, shared, together
from remanence.kalman.smoother import check_filtered
from remanence.memory.gaussian import psd_root, symmetric
from remanence.validation import check_count


def forecast(model: LinearGaussian, filtered: Filtered, steps: int) -> Forecast:
    """θ at the `steps` steps after the last one that was filtered; the answers are then X @ mean, X @ cov @ X.T + R."""
    check_filtered(model, filtered)
    steps = check_count(steps, "steps")
    T = filtered.mean.shape[-2]
    for name, stack, stepwise in (("A", model.steps.A, model.A.ndim == 3), ("Q", model.steps.Q, model.Q.ndim == 3)):
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
            mean = mean_path[:, k] = mean @ A.T
            cov = cov_path[k] = symmetric(A @ cov @ A.T) + at(model.steps.Q, T + k)  # (F)
        means.append(mean_path)
        covs.append(cov_path)
    mean = together(means, filtered.groups)
    return Forecast(mean if many else mean[0], shared(covs, filtered.groups, many))


def check_length(model: LinearGaussian, T: Any) -> int:
    """T steps, which a model with anything given one a step must reach."""
    check_model(model)
    steps = check_count(T, "T")
    if model.length is not None and model.length < steps:
        raise InputError(f"expected T of at most {model.length}, the steps the model has, got {T}; extend the model")
    return steps


def sample(model: LinearGaussian, T: int, seed: Any = 0) -> tuple[Array, Any]:
    """θ (T, d) and Y (T, m) drawn from the model, Y as a list where tasks differ in rows; `seed` may be a generator."""
    T = check_length(model, T)
    rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(check_count(seed, "seed", 0))
    s = model.steps
    drift, noise = ([psd_root(v) for v in stack] for stack in (s.Q, s.R))
    d, m = model.features, s.X.shape[1]
    theta, Y = np.empty((T, d)), np.empty((T, m))
    for t in range(T):
        if t:
            theta[t] = at(s.A, t) @ theta[t - 1] + drift[t if len(drift) > 1 else 0] @ rng.standard_normal(d)
        else:
            theta[0] = model.mean + psd_root(model.cov) @ rng.standard_normal(d)
        Y[t] = at(s.X, t) @ theta[t] + noise[t if len(noise) > 1 else 0] @ rng.standard_normal(m)
    if len(set(s.rows.tolist())) == 1:
        return theta, Y
    return theta, [y[:rows] for y, rows in zip(Y, s.rows, strict=False)]
