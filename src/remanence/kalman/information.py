"""Smoothing by the information of later observations: for many features and few observations a step.

The equations are those of kernels/native/kalman_information.pyx. They need no backward gains, so that none are computed
before they are asked for; and they need the whitened innovations w = C⁻¹(y − Xθ_{t|t−1}), which the filter keeps where
the smoother will use them.
"""

import numpy as np

from remanence.arrays import Array
from remanence.kalman.gains import Gains
from remanence.kalman.model import Steps
from remanence.kernels.constants import CAREFUL, SEEN
from remanence.kernels.kalman import informed

MANY = 24  # from this many features on products of matrices cost more than all that goes with them
FEW = 2  # features for each observation of a step, from which on this form costs less than the gains
AMPLIFIED = 1e3  # above this amplification of rounding another form is used


def saves_work(s: Steps, series: int) -> bool:
    """Whether this form is faster than the gains; those of a constant model settle, so that few are computed."""
    m, d = s.X.shape[1:]
    return series == 1 and d >= MANY and d >= FEW * m and not s.constant


def whitened(s: Steps, gains: Gains, Y: Array, predicted: Array) -> Array:
    """w (T, m) of one series, 0 for entries that are missing or add nothing."""
    seen = gains.kinds == SEEN
    e = np.where(np.isnan(Y), 0.0, Y - np.matmul(s.X, predicted[..., None])[..., 0])
    return np.where(seen, np.matmul(gains.W, e[..., None])[..., 0], 0.0)


def smooth_by_information(s: Steps, gains: Gains, w: Array, mean: Array) -> tuple[Array, Array] | None:
    """Smoothed means and covariances of one series; None where Q is small or too much rounding would be amplified."""
    P = gains.predicted
    largest = np.diagonal(P, axis1=1, axis2=2).max(axis=1)[1:]
    least = s.least_Q if len(s.least_Q) == 1 else s.least_Q[1 : len(P)]
    if not (least > CAREFUL * largest).all():
        return None
    means, covs = np.empty(mean.shape), np.empty(P.shape)
    good = informed(s.A, s.X, gains.G, gains.W, gains.kinds, w, mean, gains.filtered, P, AMPLIFIED, means, covs)
    return (means, covs) if good else None
