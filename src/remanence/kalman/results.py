"""Results of the filter, the smoother and the forecast: means and covariances of T steps; N series have a leading N."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from remanence.arrays import Array
from remanence.kalman.gains import Gains
from remanence.kalman.model import LinearGaussian


@dataclass(frozen=True, slots=True, eq=False)
class Filtered:
    """Result of `filter` and `extended`: filtered and predicted states; N series have a leading axis N.

    Parameters
    ----------
    mean, cov : array (T, d), (T, d, d)
        θ_{t|t}, Σ_{t|t}: given the observations up to step t.
    predicted_mean, predicted_cov : array (T, d), (T, d, d)
        θ_{t|t−1}, Σ_{t|t−1}: given the observations before step t. Both covariances have shape (1, d, d), those of the
        last step, where `filter` was called with keep="last".
    logliks : array (T,)
        log p(y_t | y_0 … y_{t−1}); `loglik` is their sum.
    groups : list of arrays
        The indices of the series that share their covariances.
    model : LinearGaussian
        The model that was filtered; for `extended` the linearized one.
    expected : array (T, m), optional
        The predicted observations of `extended`.
    gains : list, optional
        The gains of each group, kept by `filter` for the smoother.
    whitened : array (T, m), optional
        C⁻¹(y_t − X_t θ_{t|t−1}) with CCᵀ the covariance of y_t given those before, kept by `filter` where the smoother
        uses it: for one series of a wide model that changes from step to step.
    pairs : Filtered, optional
        The result for the real model behind a complex one.

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> model = kalman.LinearGaussian(A=np.eye(1), Q=np.eye(1), X=np.eye(1), R=np.eye(1), mean=[0.0], cov=np.eye(1))
    >>> found = kalman.filter(model, [[1.0], [2.0]])
    >>> found.mean.ravel(), round(found.loglik, 3)
    (array([0.5, 1.4]), -3.343)
    """

    mean: Array  # (T, d) θ_{t|t}
    cov: Array  # (T, d, d) Σ_{t|t}; (1, d, d), the last, where no more was kept
    predicted_mean: Array  # (T, d) θ_{t|t−1}
    predicted_cov: Array  # (T, d, d) Σ_{t|t−1}, or the last
    logliks: Array  # (T,) log p(y_t | y_0..y_{t−1})
    groups: list[Array] = field(repr=False)  # the series that share their covariances
    model: LinearGaussian = field(repr=False)  # the model that was filtered, for `extended` the linearized one
    expected: Array | None = field(default=None, repr=False)  # (T, m) y minus its residual: f(θ_{t|t−1}), of `extended`
    gains: list[Gains] | None = field(default=None, repr=False)  # of each group, of `filter` alone
    whitened: Array | None = field(default=None, repr=False)  # (T, m) w, where `smooth` uses it
    pairs: "Filtered | None" = field(default=None, repr=False)  # the real result behind one of complex numbers

    @property
    def loglik(self) -> float | Array:
        """log p(y_0..y_{T−1}): a number, or one per series."""
        total = self.logliks.sum(axis=-1)
        return float(total) if self.logliks.ndim == 1 else np.asarray(total)

    @property
    def many(self) -> bool:
        """Whether these are several series, with a leading axis N."""
        return self.mean.ndim == 3


class _Deferred:
    """A slot for the function that computes what is not asked for by everyone."""

    __slots__ = ("_compute",)

    _compute: Callable[[], Array]


@dataclass(frozen=True, slots=True, eq=False)
class Smoothed(_Deferred):
    """Result of `smooth`: states given all observations; N series have a leading axis N.

    Parameters
    ----------
    mean, cov : array (T, d), (T, d, d)
        θ_{t|T}, Σ_{t|T}.
    gain : array (T − 1, d, d)
        L_t: the covariance of θ_{t+1} and θ_t given all observations is cov[t+1] @ gain[t].T. Computed when it is
        first asked for, where `smooth` did without.

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> model = kalman.LinearGaussian(A=np.eye(1), Q=np.eye(1), X=np.eye(1), R=np.eye(1), mean=[0.0], cov=np.eye(1))
    >>> kalman.smooth(model, kalman.filter(model, [[1.0], [2.0]])).cov.ravel()
    array([0.4, 0.6])
    """

    mean: Array  # (T, d) θ_{t|T}
    cov: Array  # (T, d, d) Σ_{t|T}
    gain: Array = field(repr=False)  # (T − 1, d, d) L_t

    @classmethod
    def deferring(cls, mean: Array, cov: Array, compute: Callable[[], Array]) -> "Smoothed":
        """A result whose gains are computed when they are first asked for; a copy of it or a file has them."""
        made = object.__new__(cls)
        for name, value in (("mean", mean), ("cov", cov), ("_compute", compute)):
            object.__setattr__(made, name, value)
        return made

    if not TYPE_CHECKING:  # called for attributes that are not set

        def __getattr__(self, name: str) -> Array:
            if name != "gain":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            gain = self._compute()
            object.__setattr__(self, "gain", gain)
            object.__setattr__(self, "_compute", lambda: gain)  # what it was computed from is not needed any more
            return gain


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """Result of `forecast`: states after the last step; N series have a leading axis N.

    Parameters
    ----------
    mean, cov : array (steps, d), (steps, d, d)
        Mean and covariance of θ, given all observations.

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> model = kalman.LinearGaussian(A=np.eye(1), Q=np.eye(1), X=np.eye(1), R=np.eye(1), mean=[0.0], cov=np.eye(1))
    >>> kalman.forecast(model, kalman.filter(model, [[1.0], [2.0]]), 1).mean
    array([[1.4]])
    """

    mean: Array  # (steps, d)
    cov: Array  # (steps, d, d)


def join_groups(parts: list[Array], groups: list[Array]) -> Array:
    """Join the series of all groups, in their original order."""
    if len(parts) == 1:
        return parts[0]
    full = np.empty((sum(len(g) for g in groups), *parts[0].shape[1:]))
    for part, group in zip(parts, groups, strict=True):
        full[group] = part
    return full


def shared(parts: list[Array], groups: list[Array], many: bool) -> Array:
    """Expand one covariance array per group to one per series; a view where all series share it."""
    if not many:
        return parts[0]
    count = sum(len(g) for g in groups)
    if len(parts) == 1:
        return np.broadcast_to(parts[0], (count, *parts[0].shape))
    return join_groups([part[None] for part in parts], groups)
