"""What the classifier and the regressor share: a method, its state, an intercept, and frozen features.

The intercept is a leading column of ones. Methods with a soft memory leave it unpenalised, which is centring done by
the factorisation itself; for the others it is a feature like any other. Where it is free, any offset may be taken from
the features without changing the model; taking the mean of the first block spares single precision its largest numbers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from remanence.checks import Array, check_finite
from remanence.errors import InputError
from remanence.estimators.fingerprint import fingerprint
from remanence.estimators.random_features import RandomFeatures
from remanence.estimators.validation import refused_as_input_error
from remanence.methods import LMS, RLS
from remanence.methods.protocol import Method
from remanence.methods.soft import SoftMethod


class ContinualEstimator(BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator around a linear method; not for use by itself."""

    method: Method[Any] | None
    fit_intercept: bool
    features: Any
    dtype: str
    state_: Any
    method_: Method[Any]
    n_seen_: int

    # Settings: a method is a frozen value, so `method__ridge` replaces it

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            params |= {f"method__{name}": value for name, value in _settings(self._method()).items()}
            if isinstance(self.features, BaseEstimator):
                params |= {f"features__{name}": value for name, value in self.features.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        inner = {k.removeprefix("method__"): params.pop(k) for k in list(params) if k.startswith("method__")}
        super().set_params(**params)
        if inner:
            method = self._method()
            known = sorted(_settings(method))
            if not set(inner) <= set(known):
                raise InputError(f"expected settings of {type(method).__name__}, {known}, got {sorted(inner)}")
            self.method = replace(method, **inner)  # type: ignore[type-var]
        return self

    def __sklearn_clone__(self) -> Self:
        """A fresh estimator of the same settings; `features` are frozen and therefore shared, not cloned."""
        params = {
            k: v if k in ("features", "method") else clone(v, safe=False) for k, v in self.get_params(False).items()
        }
        return type(self)(**params)

    # Data

    def _check_X(self, X: Any, reset: bool) -> Array:
        """X as the method wants it: checked, passed through the frozen features, with the column of ones."""
        if reset or not self._familiar(X):
            X = refused_as_input_error(validate_data, self, X, reset=reset, **self._wanted())
        return self._design(X, reset)

    def _familiar(self, X: Any) -> bool:
        """Whether X is just what this model learned before, so that a full check has nothing to find."""
        return (
            type(X) is np.ndarray
            and X.ndim == 2
            and X.dtype == self._dtype()
            and self.features is None
            and X.shape == (len(X) or -1, self.n_features_in_)
            and not hasattr(self, "feature_names_in_")
        )

    def _wanted(self) -> dict[str, Any]:
        """How scikit-learn is to check X; frozen features may want images, or numbers as they come."""
        if self.features is None:
            return {"dtype": self._dtype(), "order": "C"}
        return {"dtype": "numeric", "allow_nd": True}

    def _design(self, X: Array, reset: bool) -> Array:
        if self.features is not None:
            identity = fingerprint(self.features)
            if reset:
                drawn = isinstance(self.features, RandomFeatures)  # needs no data, only their width
                self.features_ = clone(self.features).fit(X) if drawn else self.features
                self.features_fingerprint_ = identity
            elif identity != self.features_fingerprint_:
                raise InputError(
                    f"expected features from the encoder this model was taught with ({self.features_fingerprint_}), "
                    f"got another one ({identity}); set `features` back, or fit anew"
                )
            try:
                X = np.asarray(self.features_.transform(self._named(X)), self._dtype())
            except NotFittedError:
                raise InputError(
                    "expected `features` to be a fitted transformer; fit it before, it stays frozen"
                ) from None
        check_finite(X, "X" if self.features is None else "the features")
        if not self.fit_intercept:
            return X
        soft = isinstance(self._method(), SoftMethod)
        if reset:
            self.offset_ = X.mean(axis=0) if soft else np.zeros(X.shape[1], X.dtype)
        # Column-major is what a soft memory folds in as it is.
        with_ones = np.empty((len(X), X.shape[1] + 1), X.dtype, order="F" if soft else "C")
        with_ones[:, 0] = 1
        np.subtract(X, self.offset_, out=with_ones[:, 1:])
        return with_ones

    def _named(self, X: Array) -> Any:
        """X as a table again where features were fitted on one: they know their columns by name."""
        known, ours = getattr(self.features_, "feature_names_in_", None), getattr(self, "feature_names_in_", None)
        if known is None or ours is None:
            return X
        if list(known) != list(ours):
            raise InputError(
                f"expected the columns that `features` were fitted on, {_few(known)}, in that order, got {_few(ours)}"
            )
        try:
            from pandas import DataFrame
        except ImportError:  # then it was a table of another kind, and numbers in its order will do
            return X
        return DataFrame(X, columns=ours, copy=False)

    def _check_weights(self, sample_weight: Any, X: Any) -> Array | None:
        """Weights of the rows, or None where all are one."""
        if sample_weight is None:
            return None
        weights = refused_as_input_error(
            _check_sample_weight, sample_weight, X, dtype=np.float64, ensure_non_negative=True
        )
        if (weights == 1).all():
            return None
        return np.asarray(weights)

    def _updated(self, state: Any, design: Array, targets: Array, weights: Array | None) -> Any:
        """The state with samples learned; a weight of 2 is the same as meeting the sample twice in a row."""
        method = self._method()
        if isinstance(method, SoftMethod):
            if weights is not None:  # weighted rows are new numbers: they go through the door again
                return method.update(state, weighted(design, weights), weighted(targets, weights), donate=True)
            if self.fit_intercept:  # rows of our own making, checked already, not the caller's
                return method.absorb(state, design, np.array(targets, order="F"))
            return method.update(state, design, targets, donate=True)
        if weights is None:
            return method.update(state, design, targets, donate=True)
        if isinstance(method, LMS):
            return method.repeating(weights, state.count).update(state, design, targets)
        times = weights.astype(int)
        if (times != weights).any():
            raise InputError(
                f"expected whole numbers as sample_weight with {type(method).__name__}, which learns sample by sample "
                f"(2 means twice), got fractions; use RLS to weigh samples"
            )
        return method.update(state, design.repeat(times, axis=0), targets.repeat(times, axis=0), donate=True)

    @contextmanager
    def _unchanged_if_refused(self) -> Iterator[None]:
        """What raises has changed nothing: the names and widths that scikit-learn's checks note down are put back."""
        noted = ("n_features_in_", "feature_names_in_", "features_", "features_fingerprint_", "offset_")
        before = {k: v for k, v in self.__dict__.items() if k in noted}
        try:
            yield
        except Exception:
            for key in noted:
                self.__dict__.pop(key, None)
            self.__dict__.update(before)
            raise

    # The method and its state

    def _method(self) -> Method[Any]:
        return RLS() if self.method is None else self.method

    def _soft(self, call: str) -> SoftMethod:
        method = self._method()
        if not isinstance(method, SoftMethod):
            raise InputError(f"{call} needs a method that remembers all samples, got {type(method).__name__}; use RLS")
        return method

    def _dtype(self) -> Any:
        if self.dtype not in ("float64", "float32"):
            raise InputError(f'expected dtype "float64" or "float32", got {self.dtype!r}')
        return np.dtype(self.dtype)

    def _begin(self, width: int, outputs: int) -> Any:
        method = self._method()
        if isinstance(method, SoftMethod):
            return method.init(width, outputs, dtype=self._dtype(), free=int(self.fit_intercept))
        return method.init(width, outputs, dtype=self._dtype())

    def _current(self) -> Any:
        """The state, under the settings as they are now: another ridge takes effect at once."""
        check_is_fitted(self, "state_")
        method = self._method()
        if method != self.method_:
            if not (isinstance(method, RLS) and isinstance(self.method_, RLS)) or method.forget != self.method_.forget:
                raise InputError(
                    f"expected the method this model was taught with, {self.method_}, got {method}; fit anew"
                )
            self.state_, self.method_ = method.with_ridge(self.state_, method.ridge), method
        return self.state_

    def _weights(self) -> Array:
        """(outputs, features) and intercepts (outputs,) in one: W, (width, outputs)."""
        return self._method().weights(self._current())

    def _split(self) -> tuple[Array, Array]:
        """Coefficients (outputs, features) and intercepts (outputs,)."""
        W = self._weights()
        if self.fit_intercept:
            return W[1:].T, W[0] - self.offset_ @ W[1:]
        return W.T, np.zeros(W.shape[1], W.dtype)

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self, "state_")
        design = self._check_X(X, reset=False)
        return np.asarray(design @ self._weights())

    @property
    def ridge_(self) -> float:
        """The ridge in force; with ridge="auto" the one of largest evidence for the samples seen."""
        return self._soft("ridge_").ridge_of(self._current())

    def _aligned(self, other: Any, state: Any) -> Any:
        """A state of the other model, as if it had been taught with our offset."""
        if not self.fit_intercept:
            return state
        return self._soft("merge").shifted(state, other.offset_ - self.offset_)

    def _check_other(self, other: Any) -> None:
        if type(other) is not type(self):
            raise InputError(f"expected another {type(self).__name__} to merge, got {type(other).__name__}")
        check_is_fitted(other, "state_")
        mine, theirs = ([e.n_features_in_, e.fit_intercept, e.dtype, e._method()] for e in (self, other))
        if mine != theirs:
            raise InputError(
                f"expected a model with the same features, intercept, precision and method {mine}, got {theirs}"
            )
        if getattr(self, "features_fingerprint_", None) != getattr(other, "features_fingerprint_", None):
            raise InputError("expected a model taught through the same frozen features, got another encoder")


def _settings(method: Any) -> dict[str, Any]:
    return {f.name: getattr(method, f.name) for f in fields(method)} if is_dataclass(method) else {}


def weighted(rows: Array, weights: Array | None) -> Array:
    """Rows times the root of their weights, as least squares wants them."""
    if weights is None:
        return rows
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused at the door
        return np.asarray(rows * np.sqrt(weights)[:, None].astype(rows.dtype))


def positive(design: Array, targets: Array, weights: Array | None) -> tuple[Array, Array, Array | None]:
    """The samples that count: one of weight zero is no sample."""
    if weights is None or (weights > 0).all():
        return design, targets, weights
    kept = weights > 0
    if not kept.any():
        raise InputError("expected at least one sample of positive weight, got none")
    return design[kept], targets[kept], weights[kept]


def _few(names: Array) -> str:
    return ", ".join(map(str, names[:10])) + (", …" if len(names) > 10 else "")
