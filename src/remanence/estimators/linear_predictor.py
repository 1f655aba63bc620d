"""The part of an estimator that predicts: a method, its state, an intercept and frozen features.

The estimators derive from LinearClassifier and LinearRegressor, and commands that only predict construct those: without
frozen features they do not import scikit-learn, which takes longer than most predictions. The intercept is a leading
column of ones; base.py says what the offset of the features is for.
"""

from statistics import NormalDist
from typing import Any, Self

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.conformal import PastErrors, check_level
from remanence.estimators.fingerprint import fingerprint, stands_for
from remanence.estimators.growing_features import GrowsFeatures
from remanence.estimators.label_sets import answers, shares
from remanence.estimators.readouts.assessment import NOTHING, Assessment
from remanence.estimators.readouts.calibration import Calibration
from remanence.estimators.readouts.discriminant import class_weights
from remanence.estimators.readouts.solution import READOUTS, Solution, SolutionCache, check_readout, solve_discriminant
from remanence.estimators.rows.sparse_input import check_finite_rows
from remanence.estimators.settings import check_bool, check_method
from remanence.memory.products import scores_of
from remanence.memory.sparse.sparse_rows import centred_rows, dense_blocks, is_sparse, plain_rows, sparse_scores
from remanence.methods import RLS
from remanence.methods.banks.by_class import BALANCED, ByClassState
from remanence.methods.least_squares import SoftMethod
from remanence.methods.protocol import Method
from remanence.methods.rls_state import RLSState
from remanence.validation import check_numbers, check_result, check_word, quiet

PRECISIONS = (np.dtype(np.float64), np.dtype(np.float32))
FORM = ("state_", "method_", "offset_")  # other values of these can represent the same model


class LinearPredictor(GrowsFeatures):
    """Base class of LinearClassifier and LinearRegressor, with the attributes of the estimators."""

    method: Method[Any] | None
    fit_intercept: bool
    features: Any
    scale: str | None
    dtype: str
    state_: Any
    method_: Method[Any]
    n_seen_: int
    n_features_in_: int

    # Data

    def _check_X(self, X: Any, reset: bool) -> Any:
        """X as numbers, dense or sparse, as wide as the rows learned; the estimators check more, see base.py."""
        if self._grows():
            return self.features_.read(X)
        if is_sparse(X):
            rows = X.tocsr().astype(self._dtype(), copy=False)
        else:
            rows = np.asarray(X) if self.features is not None else check_numbers(X, "X", self._dtype())
        if rows.ndim < 2 or rows.shape[1] != self.n_features_in_:
            raise InputError(f"expected X of shape (rows, {self.n_features_in_}), got {rows.shape}")
        return rows

    def _encode(self, X: Any, reset: bool = False) -> Any:
        """Checked rows as numbers, dense or sparse: encoded by the frozen features, if there are any."""
        if self.features is not None:
            X = self._encoded(X, reset)
        check_finite_rows(X, "X" if self.features is None else "the features")
        return X

    def _design(self, X: Any, reset: bool = False) -> Any:
        """Encoded rows as the method receives them: minus the offset, with the column of ones.

        Sparse rows remain so (SparseRows); with `reset` their offset is zero, that of dense rows their mean.
        """
        if is_sparse(X) and not self.fit_intercept:
            return plain_rows(X, self._dtype())
        if not self.fit_intercept:
            return X
        soft = isinstance(self._method(), SoftMethod)
        if reset:
            zero = is_sparse(X) or not soft
            self.offset_ = np.zeros(X.shape[1], X.dtype) if zero else X.mean(axis=0)
        if is_sparse(X):
            return centred_rows(X, self.offset_)
        # Column-major is what a soft memory folds in as it is.
        with_ones = np.empty((len(X), X.shape[1] + 1), X.dtype, order="F" if soft else "C")
        with_ones[:, 0] = 1
        np.subtract(X, self.offset_, out=with_ones[:, 1:])
        return with_ones

    def design_matrix(self, X: Any) -> Array:
        """X as the method of this fitted estimator receives it: encoded, centred and with the column of ones."""
        now = self._now()
        encoded = now._encode(now._check_X(X, reset=False))
        return np.asarray(now._design(encoded.toarray() if is_sparse(encoded) else encoded))

    def _encoded(self, X: Any, reset: bool) -> Any:
        if self._grows():
            return self._encoded_rows(X, reset)
        from sklearn.base import clone
        from sklearn.exceptions import NotFittedError

        from remanence.estimators.input_checks import check_container

        identity = fingerprint(self.features)
        if reset:
            to_fit = getattr(self.features, "to_be_fitted", bool)()  # (features of other libraries are fitted)
            self.features_ = clone(self.features).fit(X) if to_fit else self.features
            self.features_fingerprint_ = fingerprint(self.features_)
        elif not stands_for(identity, self.features_fingerprint_):
            raise InputError(
                f"expected features from the encoder this model was taught with ({self.features_fingerprint_}), "
                f"got another one ({identity}); set `features` back, or fit anew"
            )
        try:
            found = self.features_.transform(self._named(X))
        except NotFittedError:
            raise InputError("expected `features` to be a fitted transformer; fit it before, it stays frozen") from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
            if isinstance(problem, InputError):
                raise
            raise InputError(f"`features` cannot transform these rows: {problem}") from None
        if is_sparse(found):
            found = found.tocsr().astype(self._dtype(), copy=False)
        else:
            check_container(found, "the features")
            found = check_numbers(found, "the features", self._dtype())
        if found.ndim != 2 or found.shape[0] != X.shape[0]:
            raise InputError(f"expected features of shape ({X.shape[0]}, features), got {found.shape}")
        return found

    def _encoded_rows(self, rows: Any, reset: bool) -> Array:
        """Rows of features that grow, as they are so far."""
        identity = fingerprint(self.features)
        if reset:
            self.features_fingerprint_ = identity
        elif identity != self.features_fingerprint_:
            raise InputError(
                f"expected the settings of `features` this model was taught with ({self.features_fingerprint_}), got "
                f"others ({identity}); set `features` back, or fit anew"
            )
        return check_numbers(self.features_.encode(rows), "the features", self._dtype())

    def _named(self, X: Any) -> Any:
        """X as a DataFrame where the features were fitted on one, because they identify columns by name."""
        known, ours = getattr(self.features_, "feature_names_in_", None), getattr(self, "feature_names_in_", None)
        if known is None or ours is None or is_sparse(X) or hasattr(X, "columns"):
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

    # The method and its state

    def _method(self) -> Method[Any]:
        return check_method(self.method)

    def _soft(self, call: str) -> SoftMethod[Any]:
        method = self._method()
        if not isinstance(method, SoftMethod):
            raise InputError(f"{call} needs a method that remembers all samples, got {type(method).__name__}; use RLS")
        return method

    def _dtype(self) -> Any:
        return np.dtype(check_word(self.dtype, "dtype", ("float64", "float32")))

    def _now(self) -> Self:
        """A copy to read from, under the current settings, so that a changed ridge takes effect."""
        attributes = self.__dict__
        now = self._with(attributes.copy())
        if "state_" not in now.__dict__:
            from sklearn.utils.validation import check_is_fitted

            check_is_fitted(self, "state_")
        now._check_unchanged()
        method = now._method()
        if method is not now.method_ and method != now.method_:
            taught = now.method_
            if not (isinstance(method, RLS) and isinstance(taught, RLS)) or method.forget != taught.forget:
                raise InputError(f"expected the method this model was taught with, {taught}, got {method}; fit anew")
            now.state_, now.method_ = method.with_ridge(now.state_, method.ridge), method
            attributes.update(now._form())
        state = now.state_
        kept = (RLSState, ByClassState)
        if isinstance(method, RLS) and isinstance(state, kept) and state.scaled != (scaled := now._scaled()):
            now.state_ = method.with_scale(now.state_, scaled)
            attributes.update(now._form())
        return now

    def _scaled(self) -> bool:
        """Whether columns are standardized before they are penalized."""
        if self.scale is None:
            return False
        if not (isinstance(self.scale, str) and self.scale == "standard"):
            raise InputError(f'expected scale None or "standard", got {self.scale!r:.60}')
        method = self._method()
        if not (isinstance(method, RLS) and method.forget) or method.forget == "auto":
            raise InputError(
                f'scale="standard" needs RLS with a number above 0 as forget, which knows the moments of all rows, got '
                f"{method}"
            )
        if not self.fit_intercept:
            raise InputError('scale="standard" needs the means that an intercept keeps; use fit_intercept=True')
        return True

    def _check_unchanged(self) -> None:
        """Raise an InputError if a setting other than the method's differs from when the state was made."""
        check_bool(self.fit_intercept, "fit_intercept")
        check_bool(getattr(self, "grow_features", False), "grow_features")
        self._scaled()
        for name, same in (
            ("fit_intercept", bool(self.fit_intercept) == ("offset_" in self.__dict__)),
            ("features", (self.features is not None) == ("features_fingerprint_" in self.__dict__)),
            ("dtype", self._dtype() == self.method_.template(self.state_).dtype),
        ):
            if not same:
                got = getattr(self, name)
                raise InputError(
                    f"expected {name} as it was when this model learned, got {got!r:.60}; set it back, or fit anew"
                )

    def _form(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in FORM if name in self.__dict__}

    # Predicting

    def _weights(self) -> Array:
        """Coefficients (features, outputs) with the intercepts (outputs,) as the first row, if there are any."""
        return self._method().weights(self.state_)

    def _split(self) -> tuple[Array, Array]:
        """Coefficients (outputs, features) and intercepts (outputs,)."""
        W = self._weights()
        if self.fit_intercept:
            return W[1:].T, W[0] - self.offset_ @ W[1:]
        return W.T, np.zeros(W.shape[1], W.dtype)

    @quiet
    def _scores(self, X: Any) -> Array:
        """The outputs (n, c) for rows as the caller passed them."""
        if not self._plain(X):
            X = self._check_X(X, reset=False)
            if self.features is not None:
                X = self._encoded(X, reset=False)
        W, scores = self._weights(), sparse_scores if is_sparse(X) else scores_of
        if not self.fit_intercept:
            return scores(X, W)
        return scores(X, W[1:], self.offset_, W[0])

    def _plain(self, X: Any) -> bool:
        """Whether X is an array that can be multiplied as it is: what is wrong with its numbers shows in the result."""
        return (
            type(X) is np.ndarray
            and X.dtype in PRECISIONS
            and X.ndim == 2
            and X.shape[1] == self.n_features_in_
            and len(X) > 0
            and self.features is None
            and "feature_names_in_" not in self.__dict__
        )

    @property
    def ridge_(self) -> float:
        """The ridge in force; with ridge="auto" the one chosen for the samples seen."""
        now = self._now()
        return now._soft("ridge_").ridge_of(now.state_)

    @property
    def precision_loss_(self) -> float:
        """How far unlearning may have moved the predictions, relative to them; 0 where nothing was unlearned."""
        now = self._now()
        return now._soft("precision_loss_").precision_loss(now.state_)


class LinearClassifier(LinearPredictor):
    """A linear model with one output per class."""

    prior: str
    readout: str
    class_weight: Any
    classes_: Array
    class_count_: Array
    _solved: SolutionCache

    def _now(self) -> Self:
        if "state_" in self.__dict__:
            self.__dict__.setdefault("_solved", SolutionCache())  # (a model from a file)
        attributes, now = self.__dict__, super()._now()
        if isinstance(now.state_, ByClassState):
            state = now.state_.weighted(class_factors(now.class_weight, now.classes_))
            if state is not now.state_:
                now.state_ = state
                attributes.update(now._form())
        return now

    def _check_unchanged(self) -> None:
        super()._check_unchanged()
        if isinstance(self.class_weight, np.ndarray):
            raise InputError(
                f'expected class_weight to be "balanced" or a dict, got an array: {self.class_weight!r:.60}'
            )
        check_word(getattr(self, "missing_labels", "refuse"), "missing_labels", ("refuse", "skip"))
        if self.class_weight == "balanced" and not isinstance(self.state_, ByClassState):
            raise InputError(
                'expected class_weight as it was when this model learned, got "balanced", which needs a memory of each '
                "class; set it back, or fit anew"
            )
        if self._sets() is not None:
            self._check_for_sets()

    def _sets(self) -> str | None:
        """The form of the labels where rows have sets of them; None where every row has one."""
        form: str | None = self.__dict__.get("multilabel_")
        return form

    def _check_for_sets(self) -> None:
        """Raise an InputError for settings that mean something only where every row has one label."""
        for name, usual in (("readout", "ridge"), ("class_weight", None), ("prior", "seen")):
            found = getattr(self, name)
            if not (found is None or isinstance(found, str)) or found != usual:
                raise InputError(
                    f"expected {name}={usual!r} where rows have several labels or none, got {found!r:.60}, which needs "
                    f"one class per row; set it back, or learn a single label"
                )

    def _hand_over(self, draft: Self) -> Self:
        draft._solved = SolutionCache()
        return super()._hand_over(draft)

    def predict(self, X: Any) -> Array:
        """The class with the highest score, (n,).

        Where rows have several labels: those whose score is above 0.5, in the form they were learned in, as an
        indicator (n, labels) of 0 and 1 or as frozensets (n,).
        """
        now = self._now()
        scores, form = now._class_scores(X), now._sets()
        if form is not None:
            return answers(scores, now.classes_, form)
        return np.asarray(now.classes_[scores.argmax(axis=1)])

    def class_scores(self, X: Any) -> Array:
        """The score of every class, (n, classes), also for two classes."""
        return self._now()._class_scores(X)

    @quiet
    def _class_scores(self, X: Any) -> Array:
        scores = self._scores(X)
        solution = self._solution()
        if solution is not None:
            return scores if solution.bias is None else scores + solution.bias.astype(scores.dtype)
        if self._uniform():
            share = self._class_shares()
            scores = scores / np.maximum(share * np.count_nonzero(share), np.finfo(float).tiny)
            check_result(scores)
        return scores

    def predict_proba(self, X: Any) -> Array:
        """The probability of every class, (n, classes).

        A softmax of the scores whose temperature is fitted to answers that the model gave to rows it had not learned,
        see `calibration_`. It keeps the order of the scores. Where rows have several labels: the probability of every
        label by itself, which is its score, within what the number of rows learned can tell from 0 and 1.

        Parameters
        ----------
        X : array (n, d)

        Returns
        -------
        array (n, classes)
        """
        now = self._now()
        scores = now._class_scores(X)
        return now._calibration().probabilities(scores) if now._sets() is None else shares(scores, now.n_seen_)

    @property
    def calibration_(self) -> Calibration:
        """What is known of the answers of the readout in force to rows that the answering model had not learned.

        `setting` is the reciprocal of the temperature and the share that every class gets; `accuracy`, `log_loss` and
        `error` are estimates for new rows, None before any row was answered.
        """
        return self._now()._calibration()

    def _calibration(self) -> Calibration:
        return self._assessment().of(self._readout(), len(self.classes_))

    def _assessment(self) -> Assessment:
        found: Assessment = self.__dict__.get("assessment_", NOTHING)
        return found

    def _uniform(self) -> bool:
        return check_word(self.prior, "prior", ("seen", "uniform")) == "uniform"

    def _class_shares(self) -> Array:
        """(c,) What share of all rows each class has: by their weights, where the method weighs all rows alike."""
        counts, method = self.class_count_.astype(np.float64), self._method()
        if isinstance(method, RLS) and method.forget == 1:
            counts = np.where(counts > 0, class_weights(method.data(self.state_), bool(self.fit_intercept)), 0.0)
        return np.asarray(counts / counts.sum())

    def _solution(self) -> Solution | None:
        """The discriminant in force; None where the scores are those of ridge regression."""
        method = self._method()
        if self._readout() == "ridge" or not isinstance(method, RLS):
            return None
        return self._discriminant(method)

    def _readout(self) -> str:
        check_readout(check_word(self.readout, "readout", READOUTS), self._method())
        return self._assessment().choice if self.readout == "auto" else self.readout

    @property
    def readout_(self) -> str:
        """The readout in force, "ridge" or "discriminant"; with readout="auto" the one that was chosen."""
        return self._now()._readout()

    def _discriminant(self, method: RLS) -> Solution:
        state, uniform = self.state_, self._uniform()
        found = self._solved.get(state, uniform)
        if found is None:
            W, present = super()._weights(), self.class_count_ > 0
            found = solve_discriminant(method, state, W, present, bool(self.fit_intercept), uniform)
            self._solved.put(state, uniform, found)
        return found

    def _weights(self) -> Array:
        """Coefficients of the readout in force."""
        solution = self._solution()
        return super()._weights() if solution is None else solution.weights

    @property
    def shrinkage_(self) -> float:
        """The shrinkage of the discriminant: that of scikit-learn's LinearDiscriminantAnalysis with the same scores."""
        now = self._now()
        method = now._method()
        check_readout("discriminant", method)
        assert isinstance(method, RLS)
        return now._discriminant(method).discriminant.shrinkage

    @property
    def coef_(self) -> Array:
        """(classes, features); for two classes one row, the second minus the first."""
        now = self._now()
        coefficients, _ = now._split()
        return coefficients[1:] - coefficients[:1] if now._two() else coefficients

    @property
    def intercept_(self) -> Array:
        """(classes,); for two classes one number, the second minus the first."""
        now = self._now()
        _, intercepts = now._split()
        solution = now._solution()
        if solution is not None and solution.bias is not None:
            intercepts = solution.bias.astype(intercepts.dtype)
        return intercepts[1:] - intercepts[:1] if now._two() else intercepts

    def _two(self) -> bool:
        """Whether there are two classes that exclude each other."""
        return len(self.classes_) == 2 and self._sets() is None


class LinearRegressor(LinearPredictor):
    """A linear model with one output per target."""

    _flat: bool

    def predict(self, X: Any, return_std: bool = False, interval: float | None = None) -> Array | tuple[Array, ...]:
        """Predictions for the rows of X.

        Parameters
        ----------
        X : array (n, d)
        return_std : bool
            Return the predictive standard deviation too, noise included (needs RLS).
        interval : float, optional
            Return intervals too that contain this share of the targets, such as 0.9, under drift as well. They come
            from the errors that the latest rows had before they were learned; where those are too few for the share,
            from the normal distribution (with RLS), or they are infinite.

        Returns
        -------
        array (n,) or (n, outputs), or a pair of them with `return_std`, or with `interval` three of them: the
        predictions, the lower and the upper ends
        """
        now = self._now()
        if interval is not None and return_std:
            raise InputError("expected return_std or interval, got both; ask twice")
        level = None if interval is None else check_level(interval)
        mean = now._scores(X)
        found: tuple[Array, ...] = (mean,)
        if return_std:
            found = (mean, np.sqrt(now._variance(now._soft("return_std"), X)))
        elif level is not None:
            radius = now._radius(level, X)
            found = (mean, *(np.asarray(mean + sign * radius, mean.dtype) for sign in (-1, 1)))
        found = tuple(part[:, 0] for part in found) if now._flat else found
        return found if len(found) > 1 else found[0]

    @quiet
    def _radius(self, level: float, X: Any) -> Array:
        """Half the widths of intervals of this level, (1, outputs) or (n, outputs)."""
        past: PastErrors | None = getattr(self, "errors_", None)
        if past is None:
            raise InputError(
                "expected a regressor that keeps its errors for intervals, got one that does not: set intervals=True "
                "and learn further rows; return_std=True needs none"
            )
        radius = past.radius(level)
        if radius is not None:
            return radius[None]
        method = self._method()
        if not isinstance(method, SoftMethod):
            return np.full((1, past.sizes.shape[1]), np.inf)
        return np.asarray(NormalDist().inv_cdf(0.5 + level / 2) * np.sqrt(self._variance(method, X)))

    def _variance(self, method: SoftMethod[Any], X: Any) -> Array:
        """The predictive variance of every output at every row, (n, outputs)."""
        encoded = self._encode(self._check_X(X, reset=False))
        parts = [method.variance(self.state_, self._design(rows)) for _, rows in dense_blocks(encoded)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

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


def class_factors(class_weight: Any, classes: Array) -> Array:
    """(c,) The weights of classes whose rows are kept apart; none for "balanced"."""
    if isinstance(class_weight, str):
        return BALANCED
    return np.array([(class_weight or {}).get(label, 1.0) for label in classes.tolist()], np.float64)


def _few(names: Array) -> str:
    return ", ".join(map(str, names[:10])) + (", …" if len(names) > 10 else "")
