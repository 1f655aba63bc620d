"""A regressor that never starts over; with RLS also one that knows how sure it is, and can take samples back."""

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from remanence.checks import Array, check_finite
from remanence.errors import InputError
from remanence.estimators.base import ContinualEstimator, positive, weighted
from remanence.estimators.validation import refused_as_input_error
from remanence.methods.protocol import Method


class ContinualRegressor(RegressorMixin, ContinualEstimator):  # type: ignore[misc]
    """A linear regressor over any method, for one or many outputs.

    Parameters
    ----------
    method : a method value, default RLS()
        How it learns and what it remembers; `method__ridge` and the like reach its settings.
    fit_intercept : bool
        Learn an intercept; RLS leaves it unpenalised, as scikit-learn's Ridge does.
    features : transformer, optional
        A frozen encoder: anything fitted with `transform`. It is never trained.
    dtype : "float64" or "float32"
    """

    def __init__(
        self,
        method: Method[Any] | None = None,
        fit_intercept: bool = True,
        features: Any = None,
        dtype: str = "float64",
    ) -> None:
        self.method = method
        self.fit_intercept = fit_intercept
        self.features = features
        self.dtype = dtype

    # Learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Start anew and learn these samples."""
        return self._learn(X, y, sample_weight, fresh=True)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn more samples."""
        return self._learn(X, y, sample_weight, fresh=not hasattr(self, "state_"))

    def _learn(self, X: Any, y: Any, sample_weight: Any, fresh: bool) -> Self:
        if not fresh:
            self._current()
        with self._unchanged_if_refused():
            design, Y, weights, flat = self._check_samples(X, y, sample_weight, fresh)
            state = self._begin(design.shape[1], Y.shape[1]) if fresh else self.state_
            state = self._updated(state, design, Y, weights)
        self.state_, self.method_, self._flat = state, self._method(), flat
        self.n_seen_ = (0 if fresh else self.n_seen_) + len(Y)
        return self

    def _check_samples(
        self, X: Any, y: Any, sample_weight: Any, fresh: bool
    ) -> tuple[Array, Array, Array | None, bool]:
        X, y = refused_as_input_error(
            validate_data, self, X, y, reset=fresh, **self._wanted(), multi_output=True, y_numeric=True
        )
        flat = y.ndim == 1
        Y = np.asarray(y, self._dtype()).reshape(len(y), -1)
        check_finite(Y, "y")
        if not fresh and Y.shape[1] != self._outputs():
            raise InputError(f"expected y with {self._outputs()} outputs as before, got {Y.shape[1]}")
        weights = self._check_weights(sample_weight, X)
        return *positive(self._design(X, fresh), Y, weights), flat

    def _outputs(self) -> int:
        return int(self._weights().shape[1])

    # Asking

    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predictions; with `return_std` (RLS) also the predictive standard deviation, noise included."""
        mean = self._scores(X)
        if not return_std:
            return mean[:, 0] if self._flat else mean
        std = np.sqrt(self._soft("return_std").variance(self._current(), self._check_X(X, reset=False)))
        return (mean[:, 0], std[:, 0]) if self._flat else (mean, std)

    @property
    def coef_(self) -> Array:
        """(features,), or (outputs, features) where y had columns."""
        coefficients, _ = self._split()
        return coefficients[0] if self._flat else coefficients

    @property
    def intercept_(self) -> Any:
        """A number, or (outputs,) where y had columns."""
        _, intercepts = self._split()
        return float(intercepts[0]) if self._flat else intercepts

    # Changing

    def unlearn(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Become the regressor that never saw these samples."""
        method, state = self._soft("unlearn"), self._current()
        design, Y, weights, _ = self._check_samples(X, y, sample_weight, fresh=False)
        self.state_ = method.remove(state, weighted(design, weights), weighted(Y, weights))
        self.n_seen_ -= len(Y)
        return self

    def merge(self, other: "ContinualRegressor") -> Self:
        """Become the regressor that saw the samples of both."""
        method, mine = self._soft("merge"), self._current()
        self._check_other(other)
        self.state_ = method.merge(mine, self._aligned(other, other._current()))
        self.n_seen_ += other.n_seen_
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "state_")
