"""Features for models whose weights repeat with time: each column times the waves of its period.

    φ(t, x) = [1, x] ⊗ [1, cos 2πkt/p, sin 2πkt/p, …],   k = 1 … harmonics                               (P)

A linear model on φ is a linear model on x whose intercept and weights are periodic in t, so that it predicts tasks that
will come back before they do.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.input_checks import as_input_error, check_container
from remanence.estimators.one_value import OneValue
from remanence.validation import check_count, check_number


class PeriodicFeatures(TransformerMixin, OneValue, BaseEstimator):  # type: ignore[misc]
    """The columns of X times sines and cosines of its column of time: weights that repeat with a known period.

    Passed to an estimator unfitted, they are fitted to its first rows, and are part of its file.

    Parameters
    ----------
    period : float, default=1.0
        The time after which the model repeats, in the units of the column of time.
    harmonics : int, default=1
        How many multiples of the frequency; half the period is enough for any sequence of whole time steps.
    column : int, default=0
        Which column of X is the time.

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> t = np.arange(200.0)[:, None]
    >>> y = np.where(t[:, 0] % 20 < 10, 1.0, -1.0)
    >>> model = rm.ContinualRegressor(rm.RLS(1e-9), features=rm.PeriodicFeatures(20, harmonics=10))
    >>> model = model.partial_fit(t[:100], y[:100])
    >>> bool(np.abs(model.predict(t[100:]) - y[100:]).max() < 1e-4)
    True

    References
    ----------
    De Silva et al. (2023), "Prospective learning: principled extrapolation to the future", CoLLAs.
    """

    summary = "columns times the waves of a known period: linear models whose weights repeat"
    cost = "d (1 + 2h), h harmonics"
    memory = "0"
    linear = False
    task_per_update = False

    def __init__(self, period: float = 1.0, harmonics: int = 1, column: int = 0) -> None:
        self.period = period
        self.harmonics = harmonics
        self.column = column

    def fit(self, X: Any, y: Any = None) -> Self:
        """Set the number of columns; nothing is learned."""
        self.check_settings()
        check_container(X)
        draft = self._blank()
        width = as_input_error(validate_data, draft, X, dtype=(np.float64, np.float32)).shape[1]
        if self.column >= width:
            raise InputError(f"expected column below the {width} columns of X, got {self.column}")
        return self._hand_over(draft)

    def transform(self, X: Any) -> Array:
        """φ(t, x) of every row, (n, d (1 + 2 harmonics)), in the dtype of X."""
        check_is_fitted(self, "n_features_in_")
        check_container(X)
        X = as_input_error(validate_data, self, X, reset=False, dtype=(np.float64, np.float32))
        turns = X[:, self.column].astype(np.float64) / float(self.period)
        angle = 2 * np.pi * (turns - np.floor(turns))[:, None] * np.arange(1, self.harmonics + 1)
        waves = np.concatenate([np.ones((len(X), 1)), np.cos(angle), np.sin(angle)], axis=1)
        rows = np.concatenate([np.ones((len(X), 1)), np.delete(X, self.column, axis=1)], axis=1)
        return np.asarray((rows[:, :, None] * waves[:, None]).reshape(len(X), -1).astype(X.dtype))

    @property
    def width(self) -> int:
        """The number of features; it needs the number of columns."""
        check_is_fitted(self, "n_features_in_")
        return int(self.n_features_in_) * (1 + 2 * int(self.harmonics))

    def check_settings(self) -> None:
        """Raise InputError where a setting cannot be used."""
        check_number(self.period, "period", hint="the time after which the model repeats")
        check_count(self.harmonics, "harmonics")
        check_count(self.column, "column", low=0)

    def to_be_fitted(self) -> bool:
        """Whether an estimator is to fit these features to its first rows."""
        return "n_features_in_" not in vars(self)

    def fingerprint(self) -> str:
        """A text that identifies these features: their settings, as nothing is learned."""
        self.check_settings()
        return f"periodic:{float(self.period)!r}:{int(self.harmonics)}:{int(self.column)}"

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names periodic0, periodic1, …"""
        return np.array([f"periodic{i}" for i in range(self.width)], dtype=object)
