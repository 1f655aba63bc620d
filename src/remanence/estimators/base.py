"""Base class of the classifier and the regressor: a linear model with the settings and checks of scikit-learn.

The intercept is a leading column of ones. Methods with a soft memory leave it unpenalised, so that the factorisation
does the centring; for the others it is a feature like any other. Where it is unpenalised, any offset can be subtracted
from the features without changing the model. The mean of the first block is subtracted, which keeps numbers small in
single precision. If that block was a single row, the offset is that row: so it is moved to the mean of all rows learned
whenever rows are removed and before the model is written to a file.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import _check_sample_weight, validate_data

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.input_checks import as_input_error, check_container
from remanence.estimators.linear_predictor import LinearPredictor
from remanence.estimators.random_features import RandomFeatures
from remanence.estimators.rows.columns import TRY, NamedTable, are_dicts, table_of
from remanence.estimators.rows.raw_rows import checked_raw, is_raw
from remanence.estimators.settings import (
    changed_clone,
    check_bool,
    check_encoder,
    check_method,
    settings_of,
)
from remanence.memory.sparse.sparse_rows import SparseRows, dense_blocks, is_sparse
from remanence.memory.variances import CONSTANT
from remanence.methods import LMS, RLS
from remanence.methods.least_squares import SoftMethod
from remanence.validation import check_memory, quiet

LARGEST_REPEAT = 1 << 25  # numbers that samples repeated by their weights may take


class ContinualEstimator(LinearPredictor, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator around a linear method; not for use by itself."""

    grow_features: bool

    # Settings: a method and an encoder are frozen values, so `method__ridge` and `features__width` replace them

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            params |= {f"method__{name}": value for name, value in settings_of(self.method).items()}
            if isinstance(self.features, BaseEstimator):
                params |= {f"features__{name}": value for name, value in self.features.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        inner = {
            outer: {k.removeprefix(outer): params.pop(k) for k in list(params) if k.startswith(outer)}
            for outer in ("method__", "features__")
        }
        as_input_error(super().set_params, **params)
        if inner["method__"]:
            self.method = changed_clone(check_method(self.method), inner["method__"], "method")
        if inner["features__"]:
            self.features = changed_clone(self.features, inner["features__"], "features")
        return self

    def __sklearn_clone__(self) -> Self:
        """A fresh estimator of the same settings; `features` are frozen and therefore shared, not cloned."""
        params = {
            k: v if k in ("features", "method") else clone(v, safe=False) for k, v in self.get_params(False).items()
        }
        return type(self)(**params)

    def _check_settings(self) -> None:
        check_method(self.method)
        check_bool(self.fit_intercept, "fit_intercept")
        check_encoder(self.features)
        check_bool(self.grow_features, "grow_features")
        if self.grow_features and self.features is not None:
            raise InputError(
                "expected grow_features=False with `features`, which are fitted to the columns they know, got True; "
                "rm.TableFeatures grows by itself"
            )
        self._dtype()
        self._scaled()

    # Data

    def _check_X(self, X: Any, reset: bool) -> Any:
        """X as numbers, dense or sparse by rows; with `reset` its column names and their number become the model's."""
        if self._grows():
            return self.features_.read(X)
        if not reset and self._familiar(X):
            return np.asarray(X)
        if self._by_name(X):
            table = self._table(X)
            if reset:
                self._set_columns(table)
            return table.arranged(getattr(self, "feature_names_in_", None), self.n_features_in_, self.grow_features)
        if self.features is not None and not isinstance(self.features, RandomFeatures) and is_raw(X):
            return checked_raw(self, X, reset)
        check_container(X, sparse=True)
        try:
            rows = as_input_error(validate_data, self, X, reset=reset, accept_sparse="csr", **self._wanted())
            return rows if is_sparse(rows) else np.asarray(rows)
        except InputError as refusal:
            if self.features is None and "feature names should match" in str(refusal):
                raise type(refusal)(f"{refusal}; {TRY}") from None
            if self.features is None:
                raise
            raise type(refusal)(
                f"{refusal}; `features` receives these rows as numbers: pass text and dates as a table, or as a list "
                f"of texts"
            ) from None

    # Columns that come and go

    def _by_name(self, X: Any) -> bool:
        """Whether columns are identified by our own rules, which let them come and go."""
        return self.features is None and (self.grow_features or are_dicts(X) or isinstance(X, NamedTable))

    def _table(self, X: Any) -> NamedTable:
        if isinstance(X, NamedTable):
            return NamedTable(X.names, X.rows.astype(self._dtype(), copy=False))
        return table_of(X, self._dtype(), self.grow_features)

    def _set_columns(self, table: NamedTable) -> None:
        self.n_features_in_ = table.shape[1]
        if table.names is not None:
            self.feature_names_in_ = np.array(table.names, dtype=object)

    def _grow(self, X: Any, fresh: bool) -> Any:
        if fresh or not self._by_name(X):
            return super()._grow(X, fresh)
        table, known = self._table(X), getattr(self, "feature_names_in_", None)
        if self.grow_features and known is not None and (new := table.new_names(known)):
            self._add_columns(len(new))
            self.feature_names_in_ = np.array([*known, *new], dtype=object)
        elif self.grow_features and known is None and table.names is None and table.shape[1] > self.n_features_in_:
            self._add_columns(table.shape[1] - self.n_features_in_)
        return table

    def _met(self, X: Any) -> Any:
        if not self._by_name(X):
            return super()._met(X)
        table = self._table(X)
        table.check_learned(getattr(self, "feature_names_in_", None), self.n_features_in_)
        return table

    def _add_columns(self, count: int) -> None:
        """Let the memory grow by columns that have been 0 so far."""
        self._take_features(np.append(np.arange(self.n_features_in_), np.full(count, -1)))
        self.n_features_in_ += count

    def _gain_columns(self, names: list[str]) -> Self:
        """Let this model have further columns of numbers, which have been 0 in all rows so far, and return it."""
        draft = self._draft()
        fitted = "state_" in self.__dict__
        if self._grows():
            draft.features = self.features.with_numbers(names)
            if fitted:
                before, draft.features_ = self.features_.width, self.features_.with_numbers(names)
                draft._take_features(np.append(np.arange(before), np.full(len(names), -1)))
                draft.n_features_in_ += len(names)
        elif self.features is not None:
            raise InputError(
                f"expected a model without random features, which are drawn for the columns they know, to add the "
                f"columns {names[:8]}; start a new model"
            )
        elif fitted:
            draft._add_columns(len(names))
        if "feature_names_in_" in self.__dict__:
            draft.feature_names_in_ = np.array([*self.feature_names_in_, *names], dtype=object)
        return self._hand_over(draft)

    def _with_features_of(self, other: Any) -> Any:
        if self.features is not None:
            return super()._with_features_of(other)
        mine, theirs = (getattr(e, "feature_names_in_", None) for e in (self, other))
        if (mine is None) != (theirs is None):
            raise InputError("expected two models with names of columns or two without, got one with and one without")
        if mine is None or theirs is None:  # columns counted from the left
            for model, count in ((self, other.n_features_in_), (other, self.n_features_in_)):
                if count > model.n_features_in_:
                    model._add_columns(count - model.n_features_in_)
            return other
        place, known = {name: j for j, name in enumerate(theirs.tolist())}, set(mine.tolist())
        new = [name for name in place if name not in known]
        if new:
            self._add_columns(len(new))
            self.feature_names_in_ = np.array([*mine, *new], dtype=object)
        sources = np.array([place.get(name, -1) for name in self.feature_names_in_.tolist()])
        if not np.array_equal(sources, np.arange(len(theirs))):
            other._take_features(sources)
        return other

    def _familiar(self, X: Any) -> bool:
        """Whether X has the type, dtype and width of the rows learned before, so that a full check is not needed."""
        return (
            type(X) is np.ndarray
            and X.ndim == 2
            and X.dtype == self._dtype()
            and self.features is None
            and X.shape == (len(X) or -1, self.n_features_in_)
            and "feature_names_in_" not in self.__dict__
        )

    def _wanted(self) -> dict[str, Any]:
        """Arguments of scikit-learn's check of X; frozen features may take images, numbers of any dtype, and NaN.

        What features of other libraries leave of NaN is an error after them: an imputer leaves none.
        """
        if self.features is None:
            return {"dtype": self._dtype(), "order": "C"}
        ours = type(self.features).__module__.startswith("remanence.")
        return {"dtype": "numeric", "allow_nd": True, "ensure_all_finite": True if ours else "allow-nan"}

    def _check_weights(self, sample_weight: Any, X: Any) -> Array | None:
        """Weights of the rows, or None where all are one."""
        if sample_weight is None:
            return None
        check_container(sample_weight, "sample_weight")
        weights = as_input_error(_check_sample_weight, sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if (weights == 1).all():
            return None
        return np.asarray(weights)

    def _updated(self, state: Any, design: Any, targets: Array, weights: Array | None, own: bool) -> Any:
        """The state after learning samples; a weight of 2 is the same as learning the sample twice in a row.

        With `own`, the state is referenced nowhere else and may be overwritten; the state of a fitted model is read by
        other threads and shared with its copies.
        """
        method = self._method()
        if isinstance(method, SoftMethod):
            if weights is not None:  # weighted rows are new numbers: they are checked again
                return method.update(state, weighted(design, weights), weighted(targets, weights), donate=own)
            if self.fit_intercept and isinstance(design, np.ndarray):  # checked already, and not the caller's
                return method.absorb(state, design, np.array(targets, order="F"), donate=own)
            return method.update(state, design, targets, donate=own)
        if weights is None:
            return method.update(state, design, targets, donate=own)
        if isinstance(method, LMS):
            return method.repeating(weights, state.count).update(state, design, targets)
        if (np.trunc(weights) != weights).any():
            raise InputError(
                f"expected integers as sample_weight with {type(method).__name__}, which learns sample by sample "
                f"(2 means twice), got fractions; use RLS to weigh samples"
            )
        most = LARGEST_REPEAT // (design.shape[1] + targets.shape[1])
        if weights.sum() > most:
            raise InputError(
                f"expected weights that sum to at most {most} with {type(method).__name__}, which learns a sample of "
                f"weight k by meeting it k times, got {weights.sum():.3g}; use RLS to weigh samples"
            )
        times = weights.astype(int)
        return method.update(state, design.repeat(times, axis=0), targets.repeat(times, axis=0), donate=own)

    # The method and its state

    def _begin(self, width: int, outputs: int) -> Any:
        method = self._method()
        if isinstance(method, RLS) and method.forget:
            check_memory(
                2.0 * width * width * self._dtype().itemsize,
                f"RLS with {width} features",
                "use LowRankRLS, which keeps only the strongest directions, or fewer features",
            )
        if isinstance(method, SoftMethod):
            state = method.init(width, outputs, dtype=self._dtype(), free=int(self.fit_intercept))
            return method.with_scale(state, True) if isinstance(method, RLS) and self._scaled() else state
        return method.init(width, outputs, dtype=self._dtype())

    def settled(self) -> Self:
        """This model in the form that a file may hold: no rows that wait to be folded in, and no offset that is a row.

        It is the same model but for rounding, and the estimator itself takes that form, so that it goes on to the bit
        as its file does. What is returned is a copy that no other thread teaches.
        """
        attributes = self.__dict__
        now = self._with(attributes.copy())
        if "state_" in attributes:
            now.state_ = now.method_.settled(now.state_)
            now._recentre()
            attributes.update(now._form())
        return now

    @quiet
    def _recentre(self) -> None:
        """Move the offset to the mean of all rows learned."""
        method = self.method_
        if not isinstance(method, SoftMethod) or "offset_" not in self.__dict__:
            return
        for _ in range(3):  # what rounding leaves of a long way is gone the second time
            known = method.rows(self.state_)
            if known is None:
                return
            rows, size = known
            if not (square := float(rows[:, 0] @ rows[:, 0])) > 0:
                return
            by = rows[:, 0] @ rows[:, 1:] / square
            size = np.abs(self.offset_) + (size[0] / square) * size[1:]
            rounding = CONSTANT * np.finfo(by.dtype).eps * size
            far = np.abs(by) > rounding
            if not (np.isfinite(by).all() and far.any()):
                return
            offset = np.where(far, self.offset_ + by, self.offset_)  # (any offset is right, and 0 is exact)
            offset[np.abs(offset) <= rounding] = 0
            self.state_, self.offset_ = method.shifted(self.state_, self.offset_ - offset), offset

    def _remove(self, X: Any, targets: Array, weights: Array | None, accept_loss: bool) -> None:
        """Remove encoded rows from the state; no array may keep a trace of them."""
        method, last = self._soft("unlearn"), len(targets)
        for part, rows in dense_blocks(X):
            own = None if weights is None else weights[part]
            accept = accept_loss or part.stop < last  # (what was lost on the way shows at the end)
            design = weighted(self._design(rows), own)
            self.state_ = method.remove(self.state_, design, weighted(targets[part], own), accept)
        self.n_seen_ -= len(targets)
        if self.n_seen_ == 0:
            self.state_ = self._begin(X.shape[1] + int(self.fit_intercept), targets.shape[1])
            if "offset_" in self.__dict__:
                self.offset_ = np.zeros_like(self.offset_)
        self._recentre()

    def _merged_state(self, mine: Any, other: Any, theirs: Any, own: bool) -> Any:
        """The state of the rows of this model and of another one, as if that had been taught with our offset.

        With `own`, the states are referenced nowhere else and may be overwritten.
        """
        method = self._soft("merge")
        given = {"donate": True} if own and isinstance(method, RLS) else {}
        if self.fit_intercept:
            theirs = method.shifted(theirs, other.offset_ - self.offset_, **given)
        return method.merge(mine, theirs, **given)

    def _check_other(self, other: Any) -> Any:
        """The other model as it stands, if it can be merged with this one."""
        if type(other) is not type(self):
            raise InputError(f"expected another {type(self).__name__} to merge, got {type(other).__name__}")
        other = other._now()
        mine, theirs = (
            [None if self.grow_features else e.n_features_in_, e.fit_intercept, e.dtype, e.scale, e._method()]
            for e in (self, other)
        )
        if mine != theirs:
            raise InputError(
                f"expected a model with the same features, intercept, precision, scale and method {mine}, got {theirs}"
            )
        names = [set(getattr(e, "feature_names_in_", ())) for e in (self, other)]
        if all(names) and names[0] != names[1] and not self.grow_features and self.features is None:
            raise InputError(
                f"expected a model with the same columns, got one that differs in "
                f"{', '.join(sorted(map(str, names[0] ^ names[1]))[:10])}; {TRY}"
            )
        ours, others = (getattr(e, "features_fingerprint_", None) for e in (self, other))
        if ours != others:
            raise InputError(
                f"expected a model taught through the same frozen features, {ours}, got another encoder, {others}; "
                f"to share an automatic scale, fit the features once and pass them to all models"
            )
        return self._with_features_of(other)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "state_" in self.__dict__


def weighted(rows: Any, weights: Array | None) -> Any:
    """Rows times the root of their weights, as least squares wants them."""
    if weights is None:
        return rows
    if isinstance(rows, SparseRows):
        return rows.scaled(np.sqrt(weights))
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused by the method
        return np.asarray(rows * np.sqrt(weights)[:, None].astype(rows.dtype))


def positive(X: Any, targets: Array, weights: Array | None) -> tuple[Any, Array, Array | None]:
    """The samples that count: one of weight zero is no sample."""
    if weights is None or (weights > 0).all():
        return X, targets, weights
    kept = weights > 0
    if not kept.any():
        raise InputError("expected at least one sample of positive weight, got none")
    return X[kept], targets[kept], weights[kept]
