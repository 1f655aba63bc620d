"""A regressor that never starts over; with RLS also one that knows how sure it is, and can take samples back."""

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.base import ContinualEstimator, positive
from remanence.estimators.input_checks import check_targets, refused_as_input_error
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
        return self._learn(X, y, sample_weight, fresh="state_" not in self.__dict__)

    def _learn(self, X: Any, y: Any, sample_weight: Any, fresh: bool) -> Self:
        self._check_settings()
        draft = self._blank() if fresh else self._now()
        design, Y, weights = draft._check_samples(X, y, sample_weight, fresh, recentre=fresh or not draft.n_seen_)
        state = draft._begin(design.shape[1], Y.shape[1]) if fresh else draft.state_
        draft.state_ = draft._updated(state, design, Y, weights, own=fresh)
        draft.method_ = draft._method()
        draft.n_seen_ = (0 if fresh else draft.n_seen_) + len(Y)
        return self._hand_over(draft)

    def _check_samples(
        self, X: Any, y: Any, sample_weight: Any, fresh: bool = False, recentre: bool = False
    ) -> tuple[Array, Array, Array | None]:
        X = self._check_X(X, fresh)
        Y, flat = check_targets(y, len(X), self._dtype())
        if fresh:
            self._flat = flat
        elif Y.shape[1] != (outputs := self._method().template(self.state_).shape[1]):
            raise InputError(f"expected y with {outputs} outputs as before, got {Y.shape[1]}")
        weights = self._check_weights(sample_weight, X)
        return positive(self._design(X, fresh, recentre), Y, weights)

    # Asking

    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predictions; with `return_std` (RLS) also the predictive standard deviation, noise included."""
        now = self._now()
        design = now._design(now._check_X(X, reset=False))
        mean = now._scores(design)
        if not return_std:
            return mean[:, 0] if now._flat else mean
        std = np.sqrt(now._soft("return_std").variance(now.state_, design))
        return (mean[:, 0], std[:, 0]) if now._flat else (mean, std)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R², the share of the variance of y that is explained."""
        return float(refused_as_input_error(super().score, X, y, sample_weight))

    @property
    def coef_(self) -> Array:
        """(features,), or (outputs, features) where y had columns."""
        now = self._now()
        coefficients, _ = now._split()
        return coefficients[0] if now._flat else coefficients

    @property
    def intercept_(self) -> Any:
        """A number, or (outputs,) where y had columns."""
        now = self._now()
        _, intercepts = now._split()
        return float(intercepts[0]) if now._flat else intercepts

    # Changing

    def unlearn(self, X: Any, y: Any, sample_weight: Any = None, accept_loss: bool = False) -> Self:
        """Become the regressor that never saw these samples; `accept_loss` goes on where digits are lost."""
        self._soft("unlearn")
        draft = self._now()
        draft._remove(*draft._check_samples(X, y, sample_weight), accept_loss=accept_loss)
        return self._hand_over(draft)

    def merge(self, other: "ContinualRegressor") -> Self:
        """Become the regressor that saw the samples of both."""
        method, draft = self._soft("merge"), self._now()
        other = draft._check_other(other)
        draft.state_ = method.merge(draft.state_, draft._aligned(other, other.state_))
        draft.n_seen_ += other.n_seen_
        return self._hand_over(draft)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
