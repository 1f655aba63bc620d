"""The Kalman filter (the paper's KF→, KF↓; G1 to G6 of memory/gaussian.py).

The covariances do not depend on the observations, so they are computed once for all series with the same missing
entries; then the means of every series follow.
"""

from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError, NumericalError
from remanence.kalman.gains import Gains, at, compute
from remanence.kalman.model import LinearGaussian
from remanence.kalman.observations import check_observations
from remanence.kalman.results import Filtered, join_groups, shared
from remanence.kernels.constants import CONFLICT, DECIDED, LOG_2PI, SEEN
from remanence.kernels.kalman import means

FORMS = ("covariance", "root")
WIDE = 64  # from this many numbers per step (series × features) on, matrix products beat the compiled loop


def filter(model: LinearGaussian, Y: Any, form: str = "covariance") -> Filtered:
    """Run the Kalman filter: filtered and predicted estimates of θ at every step, and the log-likelihood.

    The first operation is the update by Y[0]: the model's mean and cov are those of the first step, so that
    predicted_mean[0] is the model's mean. For a prior of the step before, as in filterpy, see `LinearGaussian`.

    Parameters
    ----------
    model : LinearGaussian
        The model of the series.
    Y : array (T, m) or (N, T, m), or a list of one array per step
        The observations; N series of one model give results with a leading axis N. NaN and masked entries are missing.
    form : "covariance" or "root"
        "root" propagates a square root of the covariance: slower, but accurate for ill-conditioned models.

    Returns
    -------
    Filtered
        θ_{t|t}, θ_{t|t−1} with their covariances, and log p(y_t | y_0 … y_{t−1}).

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> model = kalman.LinearGaussian(
    ...     A=np.eye(2), Q=0.1 * np.eye(2), X=np.eye(2), R=np.eye(2), mean=np.zeros(2), cov=np.eye(2)
    ... )
    >>> theta, Y = kalman.sample(model, 300, seed=0)
    >>> found = kalman.filter(model, Y)
    >>> found.mean.shape, found.cov.shape
    ((300, 2), (300, 2, 2))
    >>> bool(((found.mean - theta) ** 2).mean() < ((Y - theta) ** 2).mean())
    True

    References
    ----------
    Kalman (1960), "A new approach to linear filtering and prediction problems", Journal of Basic Engineering.
    """
    check_model(model)
    if form not in FORMS:
        raise InputError(f"expected form to be one of {FORMS}, got {form!r}")
    observed = check_observations(model, Y)
    gains, moved = [], []
    for group in observed.groups:
        gains.append(compute(model, observed.present(group), form))
        moved.append(_means(model, gains[-1], observed.Y if len(observed.groups) == 1 else observed.Y[group]))
    mean, predicted, logliks = (join_groups(list(parts), observed.groups) for parts in zip(*moved, strict=True))
    if not (np.isfinite(mean).all() and np.isfinite(gains[0].filtered).all()):
        raise NumericalError("the filter overflowed: A makes θ grow without bound; rescale, or filter fewer steps")
    covs = [g.filtered for g in gains], [g.predicted for g in gains]
    cov, predicted_cov = (shared(c, observed.groups, observed.many) for c in covs)
    mean, predicted, logliks = (v if observed.many else v[0] for v in (mean, predicted, logliks))
    return Filtered(mean, cov, predicted, predicted_cov, logliks, observed.groups, model, gains=gains)


def check_model(model: Any) -> None:
    if not isinstance(model, LinearGaussian):
        raise InputError(f"expected model to be a LinearGaussian, got {type(model).__name__}")


def _means(model: LinearGaussian, gains: Gains, Y: Array) -> tuple[Array, Array, Array]:
    N, T, _ = Y.shape
    d = model.features
    if N > 1 and N * d >= WIDE:
        return _means_batched(model, gains, Y)
    predicted, filtered, logliks = np.empty((N, T, d)), np.empty((N, T, d)), np.empty((N, T))
    means(
        model.steps.A, model.steps.X, Y, model.mean, gains.G, gains.W, gains.logdet, gains.kinds, gains.slack,
        predicted, filtered, logliks,
    )  # fmt: skip
    return filtered, predicted, logliks


def _means_batched(model: LinearGaussian, gains: Gains, Y: Array) -> tuple[Array, Array, Array]:
    """All series, one step at a time; returns views of arrays whose first axis is time."""
    N, T, _ = Y.shape
    s = model.steps
    predicted, filtered = np.empty((2, T, N, model.features))
    logliks = np.empty((T, N))
    observed = np.where(np.isnan(Y), 0.0, Y).transpose(1, 0, 2).copy()
    for t in range(T):
        if t:
            np.matmul(filtered[t - 1], at(s.A, t).T, out=predicted[t])
        else:
            predicted[0] = model.mean
        seen = gains.kinds[t] == SEEN
        expected = predicted[t] @ at(s.X, t).T
        w = (observed[t] - expected) @ gains.W[t].T
        inside = w if seen.all() else np.where(seen, w, 0.0)
        np.matmul(inside, gains.G[t], out=filtered[t])
        filtered[t] += predicted[t]  # (G2)
        square = np.einsum("ij,ij->i", inside, inside)
        decided = gains.kinds[t] == DECIDED
        if decided.any():
            allowed = gains.slack[t] + CONFLICT * (np.abs(observed[t]) + np.abs(expected))
            square[((np.abs(w) > allowed) & decided).any(axis=1)] = np.inf
        logliks[t] = -0.5 * (square + gains.logdet[t] + seen.sum() * LOG_2PI)
    return filtered.transpose(1, 0, 2), predicted.transpose(1, 0, 2), logliks.T
