"""A classifier that never starts over: classes, samples and whole sites join it, and samples can leave it.

With RLS it is D-RLS: least squares on one-hot labels, where a class that is new has been zero all along, so that
teaching it class by class gives the classifier that training on everything at once would have given. With LMS it is
Adaline.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from remanence.checks import Array
from remanence.errors import InputError
from remanence.estimators.base import ContinualEstimator, positive, weighted
from remanence.estimators.validation import refused_as_input_error
from remanence.methods.protocol import Method


class ContinualClassifier(ClassifierMixin, ContinualEstimator):  # type: ignore[misc]
    """A linear classifier over any method, whose classes grow with the labels it meets.

    Parameters
    ----------
    method : a method value, default RLS()
        How it learns and what it remembers; `method__ridge` and the like reach its settings.
    fit_intercept : bool
        Learn an intercept; RLS leaves it unpenalised.
    features : transformer, optional
        A frozen encoder: anything fitted with `transform`, such as RandomFeatures or rm.deep.Encoder. It is never
        trained, and a model refuses features from another one.
    class_weight : dict, optional
        Label → weight of its samples, fixed before the first sample (exact; needs RLS).
    prior : "seen" or "uniform"
        With "uniform" the scores are divided by each class's share of the samples seen, as if all classes were equally
        common: a cheap correction of the scores, not a fit with other weights.
    dtype : "float64" or "float32"
    """

    def __init__(
        self,
        method: Method[Any] | None = None,
        fit_intercept: bool = True,
        features: Any = None,
        class_weight: dict[Any, float] | None = None,
        prior: str = "seen",
        dtype: str = "float64",
    ) -> None:
        self.method = method
        self.fit_intercept = fit_intercept
        self.features = features
        self.class_weight = class_weight
        self.prior = prior
        self.dtype = dtype

    # Learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Start anew and learn these samples."""
        return self._learn(X, y, None, sample_weight, fresh=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more samples; labels may be new. `classes` announces labels before they come, which nobody has to."""
        return self._learn(X, y, classes, sample_weight, fresh=not hasattr(self, "state_"))

    def _learn(self, X: Any, y: Any, classes: Any, sample_weight: Any, fresh: bool) -> Self:
        if self.prior not in ("seen", "uniform"):
            raise InputError(f'expected prior "seen" or "uniform", got {self.prior!r}')
        if not fresh:
            self._current()
        with self._unchanged_if_refused():
            if not fresh and self._familiar(X):
                refused_as_input_error(check_consistent_length, X, y)
            else:
                X, y = refused_as_input_error(validate_data, self, X, y, reset=fresh, **self._wanted())
            y = self._labels(y, fresh)
            design, y, weights = self._samples(X, y, sample_weight, fresh)
            found = np.unique(y if classes is None else np.concatenate([y, self._labels(np.asarray(classes), fresh)]))
            if fresh:
                known, state, counts = found, self._begin(design.shape[1], len(found)), np.zeros(len(found))
            else:
                known, state, counts = self._grown(found)
            positions = np.searchsorted(known, y)
            targets = one_hot(positions, len(known), design.dtype)
            state = self._updated(state, design, targets, weights)
        self.state_, self.classes_, self.method_ = state, known, self._method()
        self.class_count_ = counts + np.bincount(positions, minlength=len(known))
        self.n_seen_ = (0 if fresh else self.n_seen_) + len(y)
        return self

    def _labels(self, y: Any, fresh: bool = False) -> Array:
        y = refused_as_input_error(column_or_1d, y, warn=True)
        refused_as_input_error(check_classification_targets, y)
        if y.dtype.kind == "O":
            y = refused_as_input_error(_uniform, y)
        if not fresh and _family(y) != _family(self.classes_):
            raise InputError(
                f"expected labels like those met so far ({self.classes_.dtype}), got {y.dtype}; use one kind of label"
            )
        return np.asarray(y)

    def _samples(self, X: Array, y: Array, sample_weight: Any, fresh: bool) -> tuple[Array, Array, Array | None]:
        """Design, labels and weights of the samples that count: one of weight zero is no sample."""
        weights = self._sample_weights(sample_weight, X, y)
        return positive(self._design(X, fresh), y, weights)

    def _sample_weights(self, sample_weight: Any, X: Array, y: Array) -> Array | None:
        if self.class_weight is None:
            return self._check_weights(sample_weight, X)
        if not isinstance(self.class_weight, dict):
            raise InputError(f"expected class_weight to be a dict of label: weight, got {self.class_weight!r}")
        weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, float)
        return self._check_weights(weights * np.array([self.class_weight.get(label, 1.0) for label in y.tolist()]), X)

    def _grown(self, found: Array) -> tuple[Array, Any, Array]:
        """Classes, state and counts with room for labels found."""
        known = np.union1d(self.classes_, found)
        if len(known) == len(self.classes_):
            return self.classes_, self.state_, self.class_count_
        sources = np.full(len(known), -1)
        sources[np.searchsorted(known, self.classes_)] = np.arange(len(self.classes_))
        counts = np.where(sources < 0, 0, self.class_count_[sources] if len(self.class_count_) else 0)
        return known, self._method().with_outputs(self.state_, sources), counts

    # Asking

    def decision_function(self, X: Any) -> Array:
        """The score of every class, (n, classes); for two classes that of the second over the first, (n,)."""
        scores = self.class_scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> Array:
        """The class of the highest score."""
        best = self.class_scores(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any) -> Array:
        """The scores as a probability: the nearest point of the simplex.

        Least squares on one-hot labels estimates the probability of each class given x directly, as a linear function;
        that estimate can leave [0, 1], and is brought back. It is not fitted to be calibrated.
        """
        return nearest_probabilities(self.class_scores(X))

    def class_scores(self, X: Any) -> Array:
        """The score of every class, (n, classes), also where there are two."""
        scores = self._scores(X)
        if self.prior == "uniform":
            share = self.class_count_ / self.class_count_.sum()
            scores = scores / np.maximum(share * len(share), np.finfo(float).tiny)
        return scores

    @property
    def coef_(self) -> Array:
        """(classes, features); for two classes one row, the second over the first."""
        coefficients, _ = self._split()
        return coefficients[1:] - coefficients[:1] if len(coefficients) == 2 else coefficients

    @property
    def intercept_(self) -> Array:
        """(classes,); for two classes one number, the second over the first."""
        _, intercepts = self._split()
        return intercepts[1:] - intercepts[:1] if len(intercepts) == 2 else intercepts

    # Changing

    def unlearn(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Become the classifier that never saw these samples; a class without samples is gone."""
        method, state = self._soft("unlearn"), self._current()
        X, y = refused_as_input_error(validate_data, self, X, y, reset=False, **self._wanted())
        y = self._labels(y)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise InputError(f"expected labels that were learned, {self.classes_.tolist()}, got {unknown.tolist()}")
        design, y, weights = self._samples(X, y, sample_weight, False)
        positions = np.searchsorted(self.classes_, y)
        counts = self.class_count_ - np.bincount(positions, minlength=len(self.classes_))
        if (counts < 0).any():
            short = self.classes_[counts < 0].tolist()
            raise InputError(f"expected at most as many samples of a class as were learned, got more of {short}")
        targets = one_hot(positions, len(self.classes_), design.dtype)
        state = method.remove(state, weighted(design, weights), weighted(targets, weights))
        kept = np.flatnonzero(counts > 0)
        if not len(kept):
            for name in [k for k in vars(self) if k.endswith("_") and not k.startswith("_")]:
                delattr(self, name)
            return self
        self.state_ = state if len(kept) == len(counts) else method.with_outputs(state, kept)
        self.classes_, self.class_count_, self.n_seen_ = self.classes_[kept], counts[kept], self.n_seen_ - len(y)
        return self

    def merge(self, other: "ContinualClassifier") -> Self:
        """Become the classifier that saw the samples of both; their classes may differ."""
        method, mine = self._soft("merge"), self._current()
        self._check_other(other)
        if _family(self.classes_) != _family(other.classes_):
            raise InputError(f"expected labels of one kind, got {self.classes_.dtype} and {other.classes_.dtype}")
        known, mine, counts = self._grown(other.classes_)
        _, theirs, more = other._grown(known)
        self.state_ = method.merge(mine, self._aligned(other, theirs))
        self.classes_, self.class_count_, self.n_seen_ = known, counts + more, self.n_seen_ + other.n_seen_
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "state_")


def one_hot(positions: Array, classes: int, dtype: Any) -> Array:
    targets = np.zeros((len(positions), classes), dtype, order="F")
    targets[np.arange(len(positions)), positions] = 1
    return targets


def nearest_probabilities(scores: Array) -> Array:
    """The Euclidean projection of every row onto the simplex; it keeps the order of the scores."""
    ordered = -np.sort(-scores, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, scores.shape[1] + 1)
    last = np.sum(ordered > excess, axis=1) - 1
    probabilities = np.maximum(scores - excess[np.arange(len(scores)), last][:, None], 0)
    return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))


def _family(labels: Array) -> str:
    """Labels that can stand side by side: numbers (bool is a kind of its own), or text."""
    return {"i": "number", "u": "number", "f": "number", "b": "truth", "U": "text", "S": "text"}.get(
        labels.dtype.kind, labels.dtype.kind
    )


def _uniform(y: Array) -> Array:
    """Object labels (pandas text columns, lists) as an array of their own kind."""
    plain = np.array(y.tolist())
    if plain.dtype.kind not in "iufbUS" or any(isinstance(v, str) != (plain.dtype.kind in "US") for v in y.tolist()):
        raise ValueError(
            f"expected labels of one kind, all text or all numbers, got {sorted({type(v).__name__ for v in y})}"
        )
    return plain
