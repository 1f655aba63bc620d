"""The Kalman filter one observation at a time: an object that changes in place.

live = LiveFilter(model)
live.update(y)              condition θ on an observation (G1, G2 of memory/gaussian.py), also on several in one step
live.predict()              one step ahead (G4)
"""

from dataclasses import replace
from typing import Any

import numpy as np

from remanence.arrays import Array, read_only
from remanence.errors import InputError
from remanence.kalman.complex.pairs import refuse_complex
from remanence.kalman.filter import FORMS, check_model
from remanence.kalman.gains import at
from remanence.kalman.model import LinearGaussian
from remanence.memory.gaussian import Gaussian, RootGaussian, psd_root
from remanence.validation import LARGEST, check_numbers, check_result, check_word, quiet


class LiveFilter:
    """A Kalman filter that is given one observation at a time: `update` by what is seen, `predict` the next step.

    It begins at the model's mean and cov, those of the first step before its observations, so that the first call is an
    `update`; call `predict` first where they are those of the step before. After the observations `kalman.filter` was
    given, the estimates are the same. One thread may learn while others read: they see the estimate before a call or
    after it.

    Parameters
    ----------
    model : LinearGaussian
        The model, constant or with parameters per step.
    form : "covariance" or "root"
        As in `kalman.filter`: "root" is accurate for ill-conditioned models.

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> F, L, X = kalman.constant_velocity(1)
    >>> A, Q = np.array([[1.0, 0.1], [0.0, 1.0]]), 0.01 * np.eye(2)
    >>> live = kalman.LiveFilter(kalman.LinearGaussian(A, Q, X, [[1.0]], mean=[0.0, 0.0], cov=np.eye(2)))
    >>> live.update([1.0])  # what was not expected of it
    array([1.])
    >>> live.predict()
    array([0.5, 0. ])
    >>> live.t, live.cov.shape
    (1, (2, 2))

    References
    ----------
    Kalman (1960), "A new approach to linear filtering and prediction problems", Journal of Basic Engineering.
    """

    def __init__(self, model: LinearGaussian, form: str = "covariance") -> None:
        check_model(model)
        refuse_complex(model, "kalman.LiveFilter")
        check_word(form, "form", FORMS)
        self.model, self.form = model, form
        known: Gaussian | RootGaussian = Gaussian(model.mean, model.cov)
        if form == "root":
            known = RootGaussian(model.mean, psd_root(model.cov))
        self._held = known, 0, 0.0  # replaced as a whole

    @property
    def mean(self) -> Array:
        """θ (d,) given all observations so far, read-only."""
        return read_only(self._held[0].mean)

    @property
    def cov(self) -> Array:
        """The covariance (d, d) of θ, read-only."""
        return read_only(self._held[0].cov)

    @property
    def t(self) -> int:
        """The number of steps predicted."""
        return self._held[1]

    @property
    def loglik(self) -> float:
        """The log-likelihood of all observations so far."""
        return self._held[2]

    @quiet
    def predict(self, *, A: Any = None, Q: Any = None, u: Any = None) -> Array:
        """Go one step ahead, and return the mean (d,) there.

        Parameters
        ----------
        A, Q : array (d, d), optional
            Transition and process noise of this step, in place of the model's.
        u : array (k,), optional
            The input of this step, in place of the model's, which must have B.
        """
        known, t, loglik = self._held
        model, t = self.model, t + 1
        if u is not None and model.B is None:
            raise InputError("expected u for a model with inputs, got one without B; pass B and u to LinearGaussian")
        if A is not None or Q is not None or u is not None:
            own = [self._own("A", t) if A is None else A, self._own("Q", t) if Q is None else Q]
            B = None if u is None else self._own("B", t)
            d = model.features
            step = _one_step(*own, np.zeros((1, d)), np.eye(1), model.mean, model.cov, B, u)
            A, Q, push = step.A, step.Q, step.pushes
        else:
            A, Q, push = self._own("A", t), self._own("Q", t), None
        if u is None and model.pushes is not None:
            push = self._own("pushes", t)[None]
        ahead = known.advanced(A, Q)
        if push is not None:
            ahead = replace(ahead, mean=ahead.mean + push[0])
        return self._changed(ahead, t, loglik)

    @quiet
    def update(self, y: Any, *, X: Any = None, R: Any = None) -> Array:
        """Learn what was observed in this step, and return how it differed from what was expected: y − Xθ, (m,).

        Parameters
        ----------
        y : array (m,)
            The observations; NaN and masked entries are missing, and their differences are NaN.
        X, R : array (m, d), array (m, m), optional
            How they were observed, in place of the model's: for several sensors, one call for each.
        """
        known, t, loglik = self._held
        model = self.model
        if X is None and R is None:
            X, R = self._own("X", t), self._own("R", t)
        else:
            own = [self._own("X", t) if X is None else X, self._own("R", t) if R is None else R]
            d = model.features
            step = _one_step(np.eye(d), np.zeros((d, d)), *own, model.mean, model.cov)
            X, R = step.X, step.R
        values = check_numbers(np.ma.filled(y.astype(float), np.nan) if np.ma.is_masked(y) else y, "y", np.float64)
        if values.shape != (len(X),):
            raise InputError(f"expected y of shape ({len(X)},), as many as X has rows, got {values.shape}")
        if float(np.abs(values).max(initial=0.0, where=~np.isnan(values))) > LARGEST[np.dtype(np.float64)]:
            raise InputError("expected y within ±1e150, got more; mark missing entries with NaN, rescale the rest")
        after, innovation = known.conditioned(X, values, R)
        self._changed(after, t, loglik + innovation.loglik)
        return innovation.errors

    # Helpers

    def _own(self, name: str, t: int) -> Array:
        """The model's parameter of step t."""
        model = self.model
        if model.length is not None and t >= model.length:
            raise InputError(f"expected a model of more than {t} steps, got {model.length}; make a longer model")
        if name == "pushes":
            assert model.pushes is not None
            return at(model.pushes, t)
        if name == "B":
            return at(model.B, t) if model.B.ndim == 3 else np.asarray(model.B)
        s, rows = model.steps, int(at(model.steps.rows, t))
        own = at(getattr(s, name), t)
        return own[:rows] if name == "X" else own[:rows, :rows] if name == "R" else own

    def _changed(self, known: Gaussian | RootGaussian, t: int, loglik: float) -> Array:
        check_result(known.mean, known.cov)
        self._held = known, t, loglik
        return self.mean

    def __repr__(self) -> str:
        return f"LiveFilter({self.model.features} unknowns, step {self.t}, form={self.form!r})"


def _one_step(*parts: Any) -> LinearGaussian:
    """A model made of what was passed for one step, so that it is checked as every model is."""
    step = LinearGaussian(*parts)
    refuse_complex(step, "kalman.LiveFilter")
    if step.length is not None:
        raise InputError(
            f"expected the parameters of one step, got those of {step.length}; pass two-dimensional arrays"
        )
    return step
