"""A linear regressor that learns incrementally; with RLS also predictive variances, merging and unlearning."""

from typing import Any, Self

from sklearn.base import RegressorMixin

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.base import ContinualEstimator, positive
from remanence.estimators.input_checks import as_input_error, check_targets
from remanence.estimators.linear_predictor import LinearRegressor
from remanence.methods.protocol import Method


class ContinualRegressor(RegressorMixin, LinearRegressor, ContinualEstimator):  # type: ignore[misc]
    """Incremental linear regressor around any method, for one or many outputs.

    Parameters
    ----------
    method : a method value, default RLS()
        How it learns and what it remembers; `method__ridge` and the like reach its settings.
    fit_intercept : bool
        Learn an intercept; RLS does not penalise it, like scikit-learn's Ridge.
    features : transformer, optional
        A frozen encoder: any fitted transformer. It is never trained.
    dtype : "float64" or "float32"

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> X = np.arange(6.0)[:, None]
    >>> model = rm.ContinualRegressor(rm.RLS(ridge=1e-9))
    >>> model = model.partial_fit(X[:3], 2 * X[:3, 0] + 1).partial_fit(X[3:], 2 * X[3:, 0] + 1)
    >>> print(np.round(model.predict([[10.0]]), 4))
    [21.]

    References
    ----------
    Plackett (1950), "Some theorems in least squares" (recursive least squares).
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
        """Forget everything and learn these samples.

        Parameters
        ----------
        X : array (n, d)
        y : array (n,) or (n, outputs)
        sample_weight : array (n,), optional

        Returns
        -------
        self
        """
        return self._learn(X, y, sample_weight, fresh=True)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn more samples.

        Parameters
        ----------
        X : array (n, d)
        y : array (n,) or (n, outputs)
        sample_weight : array (n,), optional

        Returns
        -------
        self
        """
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

    # Predicting

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination R² on rows X with targets y."""
        return float(as_input_error(super().score, X, y, sample_weight))

    # Changing

    def unlearn(self, X: Any, y: Any, sample_weight: Any = None, accept_loss: bool = False) -> Self:
        """Remove samples: afterwards the model equals one that never learned them.

        Parameters
        ----------
        X, y, sample_weight
            The samples as they were learned.
        accept_loss : bool
            Continue where the removal loses digits, see `precision_loss_`.

        Returns
        -------
        self
        """
        self._soft("unlearn")
        draft = self._now()
        draft._remove(*draft._check_samples(X, y, sample_weight), accept_loss=accept_loss)
        return self._hand_over(draft)

    def merge(self, other: "ContinualRegressor") -> Self:
        """Merge another regressor into this one: afterwards it equals one that learned the samples of both.

        Parameters
        ----------
        other : ContinualRegressor
            With the same settings.

        Returns
        -------
        self
        """
        method, draft = self._soft("merge"), self._now()
        other = draft._check_other(other)
        draft.state_ = method.merge(draft.state_, draft._aligned(other, other.state_))
        draft.n_seen_ += other.n_seen_
        return self._hand_over(draft)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
