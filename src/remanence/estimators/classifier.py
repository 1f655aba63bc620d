"""A linear classifier that learns incrementally: new samples, new classes, merging and unlearning.

With RLS it is D-RLS: least squares on one-hot labels. The target of a class is zero for all rows before its first one,
so learning class by class gives the classifier that training on all rows at once gives. With LMS it is Adaline. Rows
may have sets of labels, see label_sets.py.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.base import positive
from remanence.estimators.growing_classes import grow_classes
from remanence.estimators.input_checks import are_labelled, as_input_error, check_labels
from remanence.estimators.label_sets import SETS, THRESHOLD, LabelSets, read_label_sets
from remanence.estimators.readouts.self_assessing import Block, SelfAssessing
from remanence.estimators.readouts.solution import READOUTS, check_readout
from remanence.estimators.rows.sparse_input import check_width, part_of, parts_of
from remanence.estimators.settings import check_bool
from remanence.labels import check_same_kind
from remanence.methods import RLS
from remanence.methods.banks.by_class import ByClassState
from remanence.methods.protocol import Method
from remanence.validation import check_number, check_word


class ContinualClassifier(ClassifierMixin, SelfAssessing):  # type: ignore[misc]
    """Incremental linear classifier around any method, whose classes grow with the labels it meets.

    Parameters
    ----------
    method : a method value, default RLS()
        How it learns and what it remembers; `method__ridge` and the like reach its settings.
    fit_intercept : bool
        Learn an intercept; RLS does not penalise it.
    features : transformer, optional
        A frozen encoder: any fitted transformer, such as RandomFeatures or rm.deep.Encoder. It is never trained, and a
        fitted model raises an InputError if it is exchanged.
    readout : "ridge", "discriminant" or "auto"
        How classes are scored. "ridge": least squares on one-hot labels. "discriminant": linear discriminant analysis,
        out of the same memory and equal to scikit-learn's LinearDiscriminantAnalysis(solver="lsqr",
        shrinkage=model.shrinkage_) fitted on all rows (needs RLS). "auto": the one of the two that answers rows better
        before they are learned, see `readout_`: ridge, until there is evidence for the other (needs RLS and
        `calibrate`). It can be changed at any time.
    scale : None or "standard"
        "standard" penalizes the coefficients of standardized columns: the model is that of a StandardScaler fitted on
        everything learned so far in front of the same ridge, whatever the cuts. Coefficients are those of the columns
        as they come. Needs RLS and an intercept.
    class_weight : "balanced" or dict, optional
        A dict of label: weight multiplies the weights of samples when they are learned, so that it has to be known
        before the first one. "balanced" gives all classes the same weight in total, n/(c·n_k) per sample of a class
        with n_k of all n, at any time exactly: the model equals a fit of all samples with the weights that follow
        from what is in it now (needs RLS with forget=1). For that it keeps a memory per class, c times d² numbers, and
        puts them together, about c·d³ multiplications, at the first question after new samples; learning costs the
        same. Such a model can later be given a dict, or None, exactly as well.
    prior : "seen" or "uniform"
        With "uniform" the scores are divided by each class's share of the samples seen, by weight with RLS that weighs
        all alike, as if all classes were equally common: a cheap correction of the scores, not a fit with other
        weights. A discriminant leaves out the logarithm of the shares instead.
    calibrate : bool
        Keep count of answers to rows before they are learned, for probabilities that mean something, see
        `calibration_`. It changes no score, and makes learning slower, for small blocks up to several times; without
        it `predict_proba` is a softmax of usual temperature.
    dtype : "float64" or "float32"
    grow_features : bool
        Let columns come and go: one that is new in later rows was 0 in all rows before, which is exact, and one that
        is absent is 0. Columns of tables and of dictionaries are known by name, others counted from the left.
    missing_labels : "refuse" or "skip"
        What to do with rows whose label is None, NaN or NA: raise an InputError, or learn the other rows only.

    Examples
    --------
    >>> import remanence as rm
    >>> first, second = rm.streams.digits(tasks=2)
    >>> model = rm.ContinualClassifier(rm.RLS(ridge=1.0))
    >>> model = model.partial_fit(first.X, first.Y).partial_fit(second.X, second.Y)
    >>> model.classes_.tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    >>> model.score(first.X_test, first.Y_test) > 0.9
    True

    References
    ----------
    Widrow and Hoff (1960), "Adaptive switching circuits" (Adaline).
    Zhuang et al. (2022), "ACIL: analytic class-incremental learning with absolute memorization and privacy protection",
    NeurIPS (recursive least squares on one-hot labels).
    Hastie, Tibshirani and Buja (1994), "Flexible discriminant analysis by optimal scoring", JASA (discriminants out of
    least squares on one-hot labels).
    """

    def __init__(
        self,
        method: Method[Any] | None = None,
        fit_intercept: bool = True,
        features: Any = None,
        readout: str = "ridge",
        scale: str | None = None,
        class_weight: dict[Any, float] | str | None = None,
        prior: str = "seen",
        calibrate: bool = True,
        dtype: str = "float64",
        grow_features: bool = False,
        missing_labels: str = "refuse",
    ) -> None:
        self.method = method
        self.fit_intercept = fit_intercept
        self.features = features
        self.readout = readout
        self.scale = scale
        self.class_weight = class_weight
        self.prior = prior
        self.calibrate = calibrate
        self.dtype = dtype
        self.grow_features = grow_features
        self.missing_labels = missing_labels

    # Learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget everything and learn these samples.

        Parameters
        ----------
        X : array, sparse matrix, table or list of dictionaries (n, d)
        y : array (n,), or several labels per row
            Labels of one kind: integers, booleans, text or bytes. Several labels per row, or none: an indicator
            (n, labels) of 0 and 1, whose columns are the labels 0, 1, …, or a sequence of sets (lists of text are sets
            too). Then `predict` answers in the same form; readouts other than ridge, class weights and
            prior="uniform" are refused.
        sample_weight : array (n,), optional

        Returns
        -------
        self
        """
        return self._learn(X, y, None, sample_weight, fresh=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more samples; labels never met before become new classes.

        Parameters
        ----------
        X : array, sparse matrix, table or list of dictionaries (n, d)
        y : array (n,), or several labels per row as in `fit`
        classes : array, optional
            Labels that become classes before their first row. Never needed; labels outside of it are accepted.
        sample_weight : array (n,), optional

        Returns
        -------
        self
        """
        return self._learn(X, y, classes, sample_weight, fresh="state_" not in self.__dict__)

    def _learn_in_place(self, X: Any, y: Any) -> Self:
        """`partial_fit` of a model whose arrays nobody else refers to: they are overwritten."""
        return self._learn(X, y, None, None, fresh="state_" not in self.__dict__, own=True)

    def _learn(self, X: Any, y: Any, classes: Any, sample_weight: Any, fresh: bool, own: bool = False) -> Self:
        self._check_settings()
        draft = self._blank() if fresh else self._now()
        X = draft._encode(draft._check_X(draft._grow(X, fresh), fresh), fresh)
        X, y, sample_weight = draft._labelled(X, y, sample_weight)
        if not X.shape[0] and not fresh:
            return self
        y = draft._labels(y, X.shape[0], fresh)
        X, y, weights = positive(X, y, draft._sample_weights(sample_weight, X, y))
        y = y.only_met() if isinstance(y, LabelSets) and y.form == SETS else y
        known, moved = draft._classes_with(y, classes, fresh)
        method = draft._method()
        if fresh:
            check_width(X, method, len(known))
            state, counts = draft._begin(X.shape[1] + int(self.fit_intercept), len(known)), np.zeros(len(known))
        else:
            state, counts = draft._with_classes(len(known), moved, own)
        for part in parts_of(X, method):
            first = fresh and not part.start
            design = draft._design(part_of(X, part, method), first)
            targets = targets_of(y[part], known, design.dtype)
            counts = counts + counts_of(y[part], known)
            block = Block(design, targets, y[part], None if weights is None else weights[part])
            draft._teach(state, block, known, counts, first, own=own or fresh or bool(part.start))
            state = draft.state_
        draft.classes_, draft.class_count_, draft.method_ = known, counts, method
        draft.n_seen_ = (0 if fresh else draft.n_seen_) + len(y)
        return self._hand_over(draft)

    def _check_settings(self) -> None:
        super()._check_settings()
        check_word(self.prior, "prior", ("seen", "uniform"))
        check_bool(self.calibrate, "calibrate")
        check_word(self.missing_labels, "missing_labels", ("refuse", "skip"))
        check_readout(check_word(self.readout, "readout", READOUTS), self._method(), self.calibrate)
        if isinstance(self.class_weight, str):
            check_word(self.class_weight, "class_weight", ("balanced",))
            method = self._method()
            if not (isinstance(method, RLS) and method.forget == 1):
                raise InputError(
                    f'class_weight="balanced" needs rows that can be weighed when solving, got {method}; use RLS with '
                    f"forget=1"
                )
        elif self.class_weight is not None:
            if not isinstance(self.class_weight, dict):
                raise InputError(
                    f'expected class_weight to be "balanced" or a dict of label: weight, got {self.class_weight!r:.60}'
                )
            for label, weight in self.class_weight.items():
                check_number(weight, f"the class_weight of {label!r:.40}", closed=True)

    def _labelled(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """The rows that have a label, where others are to be skipped."""
        if self.missing_labels != "skip" or y is None:
            return X, y, sample_weight
        present = are_labelled(y)
        if len(present) != X.shape[0] or present.all():
            return X, y, sample_weight
        if not present.any() and "state_" not in self.__dict__:
            raise InputError("expected at least one row with a label, got none")
        weights = self._check_weights(sample_weight, X)
        kept = [label for label, there in zip(list(y), present.tolist(), strict=True) if there]
        return X[present], kept, None if weights is None else weights[present]

    def _labels(self, y: Any, rows: int, fresh: bool = False) -> Any:
        """Checked labels, (n,), or LabelSets where rows have several."""
        sets = as_input_error(read_label_sets, y)
        if not fresh and (None if sets is None else sets.form) != self._sets():
            met = {None: "one label per row", "indicator": "an indicator of 0 and 1", SETS: "sets of labels"}
            raise InputError(
                f"expected {met[self._sets()]}, as this model has learned, got "
                f"{met[None if sets is None else sets.form]}; use one form of labels"
            )
        if sets is None:
            labels = check_labels(y, rows)
            if not fresh:
                check_same_kind(labels, self.classes_)
            return labels
        if len(sets) != rows:
            raise InputError(f"expected labels for {rows} rows, got {len(sets)}; they must pair row by row")
        if fresh:
            self.multilabel_ = sets.form
            self._check_for_sets()
        else:
            sets.check_like(self.classes_)
        return sets

    def _classes_with(self, y: Any, announced: Any, fresh: bool) -> tuple[Array, Array]:
        """The classes after labels y, and the position of every known class among them."""
        if not isinstance(y, LabelSets):
            return grow_classes(None if fresh else self.classes_, y, announced)
        if announced is not None and y.form != SETS:
            raise InputError("expected no `classes` with an indicator, whose columns are the labels")
        if not len(y.labels):
            if fresh and announced is None:
                raise InputError("expected at least one row with a label, got none")
            y = LabelSets(y.form, check_labels(announced) if fresh else self.classes_, y.has)
        return grow_classes(None if fresh else self.classes_, y.labels, announced)

    def _sample_weights(self, sample_weight: Any, X: Any, y: Array) -> Array | None:
        weights = self._check_weights(sample_weight, X)
        if not isinstance(self.class_weight, dict) or isinstance(self.__dict__.get("state_"), ByClassState):
            return weights
        given = np.array([self.class_weight.get(label, 1.0) for label in y.tolist()], np.float64)
        return self._check_weights(given if weights is None else weights * given, X)

    def _begin(self, width: int, outputs: int) -> Any:
        state, method = super()._begin(width, outputs), self._method()
        return method.by_class(state) if isinstance(method, RLS) and self.class_weight == "balanced" else state

    def _with_classes(self, count: int, moved: Array, own: bool = False) -> tuple[Any, Array]:
        """State and class counts for so many classes; class k of this model becomes class moved[k].

        With `own`, the state is referenced nowhere else and may be overwritten.
        """
        if count == len(moved):
            return self.state_, self.class_count_
        sources, counts = np.full(count, -1), np.zeros(count, self.class_count_.dtype)
        sources[moved], counts[moved] = np.arange(len(moved)), self.class_count_
        method = self._method()
        given = {"donate": True} if own and isinstance(method, RLS) else {}
        return method.with_outputs(self.state_, sources, **given), counts

    # Predicting

    def decision_function(self, X: Any) -> Array:
        """The score of every class, (n, classes); for two classes the second minus the first, (n,).

        Where rows have several labels: how far the score of every label is above the threshold 0.5.
        """
        now = self._now()
        scores = now._class_scores(X)
        if now._sets() is not None:
            return np.asarray(scores - THRESHOLD, scores.dtype)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy on rows X with labels y; of several labels per row, all have to be right."""
        now = self._now()
        if now._sets() is not None:
            has = now._class_scores(X) > THRESHOLD
            right = now._labels(y, len(has)).agree(has, now.classes_)
        elif now.classes_.dtype.kind == "S":  # scikit-learn has no accuracy for bytes
            found = now.predict(X)
            right = found == now._labels(y, len(found))
        else:
            return float(as_input_error(super().score, X, y, sample_weight))
        return float(np.average(right, weights=now._check_weights(sample_weight, right)))

    # Changing

    def unlearn(self, X: Any, y: Any, sample_weight: Any = None, accept_loss: bool = False) -> Self:
        """Remove samples: afterwards the model equals one that never learned them.

        A class that loses its last sample is removed. The counts behind `calibration_` and `readout_` are totals that
        know no single sample: they shrink by the share of the samples that went, and the choice of readout stays.

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
        rows = draft._met(X)
        X = draft._encode(draft._check_X(rows, reset=False))
        X, y, sample_weight = draft._labelled(X, y, sample_weight)
        y = draft._labels(y, X.shape[0])
        X, y, weights = positive(X, y, draft._sample_weights(sample_weight, X, y))
        y = y.only_met() if isinstance(y, LabelSets) else y
        unknown = np.setdiff1d(y.labels if isinstance(y, LabelSets) else y, draft.classes_)
        if len(unknown):
            raise InputError(f"expected labels that were learned, {draft.classes_.tolist()}, got {unknown.tolist()}")
        counts = draft.class_count_ - counts_of(y, draft.classes_)
        if (counts < 0).any():
            short = draft.classes_[counts < 0].tolist()
            raise InputError(f"expected at most as many samples of a class as were learned, got more of {short}")
        before = draft.n_seen_
        draft._remove(X, targets_of(y, draft.classes_, draft._dtype()), weights, accept_loss)
        draft._reassess(draft._assessment().unlearned(draft.n_seen_, before))
        if not draft.n_seen_:
            return self._hand_over(draft._blank())
        draft._without_labels(counts)
        draft._shrink(rows)
        return self._hand_over(draft)

    def _without_labels(self, counts: Array) -> None:
        """Drop the classes that no row has any more; the columns of an indicator stay, with targets that are all 0.

        Classes that were announced and have had no row yet stay, too.
        """
        left = (counts > 0) | (self.class_count_ == 0)
        kept = np.flatnonzero(left)
        if self._sets() == "indicator" or not len(kept):
            kept = np.where(left, np.arange(len(counts)), -1)
            classes, counts = self.classes_, np.maximum(counts, 0)
        else:
            classes, counts = self.classes_[kept], counts[kept]
        if not np.array_equal(kept, np.arange(len(self.classes_))):
            self.state_ = self._method().with_outputs(self.state_, kept)
        self.classes_, self.class_count_ = classes, counts

    def merge(self, other: "ContinualClassifier") -> Self:
        """Merge another classifier into this one: afterwards it equals one that learned the samples of both.

        Parameters
        ----------
        other : ContinualClassifier
            With the same settings; its classes may differ.

        Returns
        -------
        self
        """
        return self._merge(other)

    def _merge(self, other: "ContinualClassifier", own: bool = False) -> Self:
        """`merge`; with `own`, nobody else refers to the arrays of either model: they are overwritten."""
        self._soft("merge")
        draft = self._now()
        other = draft._check_other(other)
        check_same_kind(other.classes_, draft.classes_)
        if draft._sets() != other._sets():
            raise InputError(
                "expected two models whose labels have the same form, got single labels, sets or indicators"
            )
        if isinstance(draft.state_, ByClassState) != isinstance(other.state_, ByClassState):
            raise InputError(
                'expected two models that learned with class_weight="balanced", or two that did not, got one of each'
            )
        known, moved = grow_classes(draft.classes_, other.classes_)
        mine, counts = draft._with_classes(len(known), moved, own)
        theirs, more = other._with_classes(len(known), np.asarray(np.searchsorted(known, other.classes_)), own)
        draft.state_ = draft._merged_state(mine, other, theirs, own)
        draft.classes_, draft.class_count_ = known, counts + more
        draft.n_seen_ += other.n_seen_
        draft._reassess(draft._assessment().merged(other._assessment()))
        return self._hand_over(draft)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def targets_of(y: Any, classes: Array, dtype: Any) -> Array:
    """One-hot targets of labels or sets of them, (n, classes), column-major as a soft memory takes them."""
    if isinstance(y, LabelSets):
        return y.targets(classes, dtype)
    targets = np.zeros((len(y), len(classes)), dtype, order="F")
    targets[np.arange(len(y)), np.searchsorted(classes, y)] = 1
    return targets


def counts_of(y: Any, classes: Array) -> Array:
    """How many rows have each class, (classes,)."""
    if isinstance(y, LabelSets):
        return y.counts(classes)
    return np.bincount(np.searchsorted(classes, y), minlength=len(classes))
