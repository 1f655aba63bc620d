"""The Kalman filter (the paper's KF→, KF↓; G1 to G6 of memory/gaussian.py).

The covariances do not depend on the observations, so they are computed once for all series with the same missing
entries; then the means of every series follow. With keep="last" both are computed for some steps at a time, so that no
more than these are in memory.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError, NumericalError
from remanence.kalman.complex.pairs import complex_filtered, real_observations
from remanence.kalman.compression import compress, pays, shares_rows
from remanence.kalman.gains import Carried, Gains, compute_part
from remanence.kalman.information import saves_work, whitened
from remanence.kalman.means import Means, move
from remanence.kalman.model import LinearGaussian, Steps
from remanence.kalman.observations import check_observations
from remanence.kalman.results import Filtered, join_groups, shared
from remanence.kalman.time.inputs import with_known_one, without_known_one
from remanence.validation import check_word

FORMS = ("covariance", "root")
KEEPS = ("all", "last")
PART = 2**19  # numbers of covariances and gains that are in memory at once where only the last are kept


def filter(model: LinearGaussian, Y: Any, form: str = "covariance", keep: str = "all") -> Filtered:
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

    keep : "all" or "last"
        "last" keeps the means of all steps, but the covariances of the last step only, of shape (1, d, d): memory for
        long series. `forecast` needs no more; `smooth` and `innovations` need "all".

    Returns
    -------
    Filtered
        θ_{t|t}, θ_{t|t−1} with their covariances, and log p(y_t | y_0 … y_{t−1}).

    Notes
    -----
    Where a step has many more rows than features, the filter runs on d rows with the same likelihood, which a QR
    decomposition of the whitened rows gives; the results are the same to rounding.

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
    >>> kalman.filter(model, Y, keep="last").cov.shape
    (1, 2, 2)

    References
    ----------
    Kalman (1960), "A new approach to linear filtering and prediction problems", Journal of Basic Engineering.
    """
    check_model(model)
    check_word(form, "form", FORMS)
    check_word(keep, "keep", KEEPS)
    if model.pairs is not None:
        return complex_filtered(filter(model.pairs, real_observations(Y), form, keep), model)
    observed = check_observations(model, Y)
    if model.pushes is not None:
        return without_known_one(filter(with_known_one(model, observed.Y.shape[1]), Y, form, keep), model)
    gains, moved = [], []
    for group in observed.groups:
        series = observed.Y if len(observed.groups) == 1 else observed.Y[group]
        found, means_of = _run(model, observed.present(group), series, form, keep == "all")
        gains.append(found)
        moved.append((means_of.filtered, means_of.predicted, means_of.logliks))
    mean, predicted, logliks = (join_groups(list(parts), observed.groups) for parts in zip(*moved, strict=True))
    if not (np.isfinite(mean).all() and np.isfinite(gains[0].filtered).all()):
        raise NumericalError("the filter overflowed: A makes θ grow without bound; rescale, or filter fewer steps")
    covs = [g.filtered for g in gains], [g.predicted for g in gains]
    cov, predicted_cov = (shared(c, observed.groups, observed.many) for c in covs)
    known, w = gains if keep == "all" else None, None
    if known and saves_work(model.steps, len(mean)):
        w = whitened(model.steps, known[0], observed.Y[0], predicted[0])
    mean, predicted, logliks = (v if observed.many else v[0] for v in (mean, predicted, logliks))
    return Filtered(mean, cov, predicted, predicted_cov, logliks, observed.groups, model, gains=known, whitened=w)


def check_model(model: Any) -> None:
    if not isinstance(model, LinearGaussian):
        raise InputError(f"expected model to be a LinearGaussian, got {type(model).__name__}")


def _run(model: LinearGaussian, there: Array, Y: Array, form: str, all_steps: bool) -> tuple[Gains, Means]:
    """The gains and means of N series (N, T, m) that miss the same entries; the gains of the last step, or of all."""
    N, T, m = Y.shape
    d, s = model.features, model.steps
    compressing, one_qr = pays(s, there), shares_rows(s, there)
    constant = s.constant and (one_qr or not compressing)
    rows = d if compressing else m
    numbers = 2 * d * d + rows * (d + rows + 4) + compressing * m * (2 * d + 3 * N)
    size = T if all_steps else max(PART // numbers, 1)
    storage, means_of = Gains.empty(min(size + 1, T), rows, d), Means.empty(N, T, d)
    carried = Carried.start(model.cov)
    for a in range(0, T, size):
        first = min(a, 1)
        part = slice(a - first, min(a + size, T))  # a later part begins with the last step of the one before
        own, seen, answers, rest, X = _steps_of(s, part), there[part], Y[:, part], None, None
        if compressing:
            small = compress(own, answers, seen, one_qr)
            own, seen, answers, rest, X = small.steps, small.there, small.Y, small.rest, small.steps.X
        if first:
            storage.repeat(0, size - (a == size))
        gains = compute_part(own, model.cov, seen, form, constant, storage.at(slice(len(seen))), first, carried)
        moved = means_of.at(slice(None), part)
        move(own, model.mean, gains, answers, moved, first)
        if rest is not None:
            moved.logliks[:, first:] += rest[:, first:]
    if all_steps:
        return replace(gains, X=X), means_of
    return _last(gains), means_of


def _last(gains: Gains) -> Gains:
    """A copy of the last step, so that the others are freed."""
    last = gains.at(slice(-1, None))
    return replace(last, predicted=last.predicted.copy(), filtered=last.filtered.copy())


def _steps_of(s: Steps, part: slice) -> Steps:
    """The model of some steps."""
    if part.start == 0 and part.stop >= max(len(v) for v in (s.A, s.Q, s.X, s.R)):
        return s
    own = (s.A, s.Q, s.X, s.R, s.rows, s.least_Q, s.least_R)
    return Steps(*(v[part] if len(v) > 1 else v for v in own))
