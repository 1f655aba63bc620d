"""What the transformers that track a subspace share: rows with gaps in, coordinates along `components_` out."""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.input_checks import as_input_error, check_container
from remanence.estimators.one_value import OneValue
from remanence.validation import check_finite, check_magnitude, check_numbers, check_result


class SubspaceLearner(TransformerMixin, OneValue, BaseEstimator):  # type: ignore[misc]
    """A transformer that has `components_` (r, d) with orthonormal rows once it has learned."""

    linear = False
    task_per_update = False
    prefix: str  # of the names of what comes out

    @abstractmethod
    def _learn(self, X: Any, reset: bool) -> Self:
        """This draft, with these rows; without anything from before if `reset`."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn these rows and nothing from before."""
        return self._hand_over(self._blank()._learn(X, reset=True))

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn further rows; NaN is a missing entry."""
        return self._hand_over(self._draft()._learn(X, reset="n_features_in_" not in vars(self)))

    def _checked(self, X: Any, reset: bool) -> Array:
        check_container(X)
        found = as_input_error(validate_data, self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
        check_magnitude(float(np.fmax.reduce(np.abs(found), axis=None, initial=0.0)), found.dtype, "X")
        return np.asarray(found)

    def _along(self, X: Any, mean: Array | float) -> Array:
        """The coordinates (n, r) of rows around a mean."""
        check_is_fitted(self)
        rows, V = self._checked(X, reset=False) - mean, self.components_
        gaps = np.isnan(rows)
        if not gaps.any():
            return np.asarray(rows @ V.T)
        return np.array([coordinates(x, V, ~gap) for x, gap in zip(rows, gaps, strict=True)])

    def _rows_at(self, T: Any, mean: Array | float) -> Array:
        """The rows (n, d) that have these coordinates around a mean."""
        check_is_fitted(self)
        T, V = check_numbers(T, "T", np.float64), self.components_
        check_finite(T, "T")
        if T.ndim != 2 or T.shape[1] != len(V):
            raise InputError(f"expected coordinates of shape (rows, {len(V)}), got {T.shape}")
        return np.asarray(T @ V + mean)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names svd0, svd1, …, or petrels0, …, or grouse0, …"""
        check_is_fitted(self)
        return np.array([f"{self.prefix}{i}" for i in range(len(self.components_))], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def coordinates(x: Array, V: Array, there: Array) -> Array:
    """argmin ‖x − Vᵀa‖ over the entries that are there, with V (r, d) orthonormal; the smallest such a."""
    if there.all():
        return np.asarray(V @ x)
    return fitted(V[:, there].T, x[there])


def fitted(A: Array, b: Array) -> Array:
    """The smallest least-squares solution of A a = b."""
    check_result(A, b)
    return np.asarray(np.linalg.lstsq(A, b, rcond=1e-9)[0])
