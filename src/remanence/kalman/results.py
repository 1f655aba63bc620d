"""What the filter, the smoother and the forecast return: means and covariances, T steps, N series in front if asked."""

from dataclasses import dataclass, field

import numpy as np

from remanence.arrays import Array
from remanence.kalman.gains import Gains
from remanence.kalman.model import LinearGaussian


@dataclass(frozen=True, slots=True, eq=False)
class Filtered:
    """θ at every step given the answers up to it, and given those before it; N series have a leading N.

    Attributes
    ----------
    mean, cov : array (T, d), (T, d, d)
        θ_{t|t}, Σ_{t|t}: given the answers up to step t.
    predicted_mean, predicted_cov : array (T, d), (T, d, d)
        θ_{t|t−1}, Σ_{t|t−1}: given those before it.
    logliks : array (T,)
        log p(y_t | y_0 … y_{t−1}); `loglik` is their sum.
    model : LinearGaussian
        The model that was filtered; for `extended` the linearised one.
    """

    mean: Array  # (T, d) θ_{t|t}
    cov: Array  # (T, d, d) Σ_{t|t}
    predicted_mean: Array  # (T, d) θ_{t|t−1}
    predicted_cov: Array  # (T, d, d) Σ_{t|t−1}
    logliks: Array  # (T,) log p(y_t | y_0..y_{t−1})
    groups: list[Array] = field(repr=False)  # the series that share their covariances
    model: LinearGaussian = field(repr=False)  # the model that was filtered, for `extended` the linearised one
    expected: Array | None = field(default=None, repr=False)  # (T, m) y less its residual: f(θ_{t|t−1}), of `extended`
    gains: list[Gains] | None = field(default=None, repr=False)  # of each group, of `filter` alone

    @property
    def loglik(self) -> float | Array:
        """log p(y_0..y_{T−1}): a number, or one a series."""
        total = self.logliks.sum(axis=-1)
        return float(total) if self.logliks.ndim == 1 else np.asarray(total)

    @property
    def many(self) -> bool:
        """Whether these are several series, with a leading axis N."""
        return self.mean.ndim == 3


@dataclass(frozen=True, slots=True, eq=False)
class Smoothed:
    """θ at every step given all answers.

    Attributes
    ----------
    mean, cov : array (T, d), (T, d, d)
        θ_{t|T}, Σ_{t|T}.
    gain : array (T − 1, d, d)
        L_t: the covariance of θ_{t+1} and θ_t given all answers is cov[t+1] @ gain[t].T.
    """

    mean: Array  # (T, d) θ_{t|T}
    cov: Array  # (T, d, d) Σ_{t|T}
    gain: Array  # (T − 1, d, d) L_t: the covariance of θ_{t+1} and θ_t given all answers is cov[t+1] @ gain[t].T


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """θ at the steps after the last, given all answers.

    Attributes
    ----------
    mean, cov : array (steps, d), (steps, d, d)
    """

    mean: Array  # (steps, d)
    cov: Array  # (steps, d, d)


def together(parts: list[Array], groups: list[Array]) -> Array:
    """The series of all groups, each in its place."""
    if len(parts) == 1:
        return parts[0]
    full = np.empty((sum(len(g) for g in groups), *parts[0].shape[1:]))
    for part, group in zip(parts, groups, strict=True):
        full[group] = part
    return full


def shared(parts: list[Array], groups: list[Array], many: bool) -> Array:
    """One covariance array a group as one a series: a view where all series share it."""
    if not many:
        return parts[0]
    count = sum(len(g) for g in groups)
    if len(parts) == 1:
        return np.broadcast_to(parts[0], (count, *parts[0].shape))
    return together([part[None] for part in parts], groups)
