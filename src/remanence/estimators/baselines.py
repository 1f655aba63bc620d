"""Baselines for continual learning: fine-tuning, replay, nearest class mean and joint training.

    W ← W − γ/m · mean of x (p − onehot(y))ᵀ over a mini-batch,    p = softmax(Wᵀx),    m = mean ‖x‖²      (B1)
    μ ← μ + Σ (x − μ) / n                                                                                 (B2)

`Finetune` and `Replay` use (B1), `NearestMean` uses (B2), `Joint` keeps all rows and trains on all of them every time.
"""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.growing_classes import grow_classes
from remanence.estimators.input_checks import (
    as_input_error,
    check_container,
    check_labels,
)
from remanence.estimators.one_value import OneValue
from remanence.labels import check_same_kind
from remanence.validation import check_count, check_finite, check_number, check_result, quiet

FLOATS = (np.float64, np.float32)
MOST_REHEARSED = 1 << 20  # rows beside a mini-batch that is smaller; a batch may be any number, to say "all rows"
LARGEST_BATCH = 1 << 20  # rows; as many are drawn beside them


class _Baseline(ClassifierMixin, OneValue, BaseEstimator, ABC):  # type: ignore[misc]
    """A classifier whose classes grow; subclasses define how it learns and predicts."""

    classes_: Array
    n_seen_: int

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything and learn these rows.

        Parameters
        ----------
        X : array (n, d)
        y : array (n,)

        Returns
        -------
        self
        """
        return self._taught(X, y, None, anew=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn more rows; labels never met before become new classes.

        `classes` announces labels before their first row, as in ContinualClassifier; it is never needed.
        """
        return self._taught(X, y, classes, anew="classes_" not in self.__dict__)

    @quiet
    def predict(self, X: Any) -> Array:
        """The label of every row, (n,)."""
        now = self._draft()
        rows = now._asked(X)
        return np.asarray(now.classes_[now._answers(rows)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy on rows X with labels y."""
        return float(as_input_error(super().score, X, y, sample_weight))

    @abstractmethod
    def _check_settings(self) -> None: ...

    @abstractmethod
    def _learn(self, X: Array, codes: Array, moved: Array) -> None:
        """Learn rows whose labels are codes into `classes_`; old class k is now class moved[k]. Replace, never edit."""

    @abstractmethod
    def _answers(self, X: Array) -> Array:
        """The code of the class of every row."""

    @quiet
    def _taught(self, X: Any, y: Any, classes: Any, anew: bool) -> Self:
        self._check_settings()
        draft = self._blank() if anew else self._draft()
        X, y = draft._checked(X, y, anew)
        draft.classes_, moved = grow_classes(None if anew else draft.classes_, y, classes)
        draft.n_seen_ = 0 if anew else draft.n_seen_
        draft._learn(X, np.searchsorted(draft.classes_, y), moved)
        draft.n_seen_ += len(X)
        return self._hand_over(draft)

    def _checked(self, X: Any, y: Any, anew: bool) -> tuple[Array, Array]:
        check_container(X)
        X = as_input_error(validate_data, self, X, reset=anew, dtype=FLOATS)
        y = check_labels(y, len(X))
        check_finite(X, "X")
        if not anew:
            check_same_kind(y, self.classes_)
        return X, y

    def _asked(self, X: Any) -> Array:
        if "classes_" not in self.__dict__:
            check_is_fitted(self, "classes_")
        check_container(X)
        X = as_input_error(validate_data, self, X, reset=False, dtype=FLOATS)
        check_finite(X, "X")
        return X  # type: ignore[no-any-return]


class _Scoring(_Baseline, ABC):
    """A baseline that predicts the class with the highest score."""

    @quiet
    def decision_function(self, X: Any) -> Array:
        """Scores (n, classes); for two classes their difference (n,), positive for the second."""
        now = self._draft()
        scores = now._finite_scores(now._asked(X))
        return scores[:, 1] - scores[:, 0] if len(now.classes_) == 2 else scores

    @abstractmethod
    def _scores(self, X: Array) -> Array:
        """(n, classes), the larger the likelier."""

    def _finite_scores(self, X: Array) -> Array:
        scores = self._scores(X)
        check_result(scores)
        return scores

    def _answers(self, X: Array) -> Array:
        return np.asarray(self._finite_scores(X).argmax(axis=1))


class _Softmax(_Scoring, ABC):
    """A linear softmax model trained by SGD, with rows of the past in each mini-batch if there are any.

    Rows are centred at the mean of the first block, without which SGD is slow on pixels and relu features. `step` is in
    units of 1/mean ‖x‖², so that one default fits features of any scale; below 4 it cannot diverge.
    """

    step: float
    epochs: int
    batch: int
    seed: int
    weights_: Array  # (d, c)
    intercepts_: Array  # (c,)
    shift_: Array  # (d,) the mean of the first block
    power_: float  # mean ‖x − shift‖² + 1 of all rows seen

    def _check_settings(self) -> None:
        check_number(self.step, "step", hint="2 suits features of any scale")
        check_count(self.epochs, "epochs")
        if check_count(self.batch, "batch") > LARGEST_BATCH:
            raise InputError(f"expected batch to be at most {LARGEST_BATCH} rows, got {self.batch}")
        check_count(self.seed, "seed", 0)

    def _descend(self, X: Array, codes: Array, moved: Array, past: tuple[Array, Array] | None) -> np.random.Generator:
        rng = np.random.default_rng((self.seed, self.n_seen_))  # no state to carry: the same after saving and loading
        W, b = np.zeros((X.shape[1], len(self.classes_))), np.zeros(len(self.classes_))
        shift = self.shift_ if len(moved) else X.mean(axis=0, dtype=np.float64)
        power = 1 + sum(float(((X[i : i + 256] - shift) ** 2).sum()) for i in range(0, len(X), 256)) / len(X)
        if len(moved):
            W[:, moved], b[moved] = self.weights_, self.intercepts_
            power = self.power_ + (power - self.power_) * len(X) / (self.n_seen_ + len(X))
        for _ in range(self.epochs):
            order = rng.permutation(len(X))
            for i in range(0, len(X), self.batch):
                part = order[i : i + self.batch]
                x, y = X[part], codes[part]
                if past is not None:
                    part = rng.integers(len(past[0]), size=min(self.batch, max(len(X), MOST_REHEARSED)))
                    x, y = np.concatenate([x, past[0][part]]), np.concatenate([y, past[1][part]])
                x = x - shift
                error = _softmax(x @ W + b)
                error[np.arange(len(y)), y] -= 1
                error *= self.step / (power * len(y))
                W -= x.T @ error  # (B1)
                b -= error.sum(axis=0)
        check_result(W, b, np.asarray(power))
        self.weights_, self.intercepts_, self.shift_, self.power_ = W, b, shift, power
        return rng

    def _scores(self, X: Array) -> Array:
        scores: Array = X @ self.weights_ + (self.intercepts_ - self.shift_ @ self.weights_)
        return scores


class Finetune(_Softmax):
    """Fine-tuning: a linear softmax model trained by SGD on each block alone, which forgets earlier blocks.

    Parameters
    ----------
    step : float
        In units of 1/mean ‖x‖²; below 4 it cannot diverge.
    epochs, batch : int
        Passes over the rows in each `partial_fit`, and rows per mini-batch.
    seed : int
        Seed of the order of rows.

    Examples
    --------
    >>> import remanence as rm
    >>> matrix = rm.evaluate(rm.Finetune(epochs=5), rm.streams.digits(tasks=5))
    >>> rm.metrics.forgetting(matrix) > 0.5
    True

    References
    ----------
    McCloskey and Cohen (1989), "Catastrophic interference in connectionist networks: the sequential learning problem".
    """

    def __init__(self, step: float = 2.0, epochs: int = 20, batch: int = 32, seed: int = 0) -> None:
        self.step, self.epochs, self.batch, self.seed = step, epochs, batch, seed

    def _learn(self, X: Array, codes: Array, moved: Array) -> None:
        self._descend(X, codes, moved, None)


class Replay(_Softmax):
    """Fine-tuning with replay: every mini-batch is joined by as many rows from a reservoir of `memory` past rows.

    The reservoir is a uniform sample of all rows seen before this call, whatever their number (algorithm R).

    Parameters
    ----------
    memory : int
        The number of rows kept.
    step, epochs, batch, seed
        As in Finetune.

    Examples
    --------
    >>> import remanence as rm
    >>> stream = rm.streams.digits(tasks=5)
    >>> replay, finetune = (rm.evaluate(learner, stream) for learner in (rm.Replay(epochs=5), rm.Finetune(epochs=5)))
    >>> rm.metrics.forgetting(replay) < rm.metrics.forgetting(finetune)
    True

    References
    ----------
    Robins (1995), "Catastrophic forgetting, rehearsal and pseudorehearsal", Connection Science.
    Vitter (1985), "Random sampling with a reservoir" (algorithm R).
    """

    memory_rows_: Array  # (≤ memory, d)
    memory_codes_: Array

    def __init__(self, memory: int = 500, step: float = 2.0, epochs: int = 20, batch: int = 32, seed: int = 0) -> None:
        self.memory, self.step, self.epochs, self.batch, self.seed = memory, step, epochs, batch, seed

    def _check_settings(self) -> None:
        check_count(self.memory, "memory", hint="it counts the rows kept; without memory use Finetune")
        super()._check_settings()

    def _learn(self, X: Array, codes: Array, moved: Array) -> None:
        past = (self.memory_rows_, moved[self.memory_codes_]) if len(moved) else None
        rng = self._descend(X, codes, moved, past)
        kept, labels = past if past is not None else (X[:0], codes[:0])
        room = min(self.memory, self.n_seen_ + len(X))
        rows, marks = np.empty((room, X.shape[1]), X.dtype), np.empty(room, codes.dtype)
        rows[: len(kept)], marks[: len(kept)] = kept[:room], labels[:room]
        times = self.n_seen_ + np.arange(len(X))  # row t goes to place t, later to one of t + 1 places if it exists
        places = np.where(times < self.memory, times, rng.integers(times + 1))
        stay = np.flatnonzero(places < self.memory)
        rows[places[stay]], marks[places[stay]] = X[stay], codes[stay]  # of two rows for one place the later stays
        self.memory_rows_, self.memory_codes_ = rows, marks


class NearestMean(_Scoring):
    """Nearest class mean in Euclidean distance; the running means are exact, so the order of rows does not matter.

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> model = rm.NearestMean().partial_fit(np.array([[0.0], [2.0]]), [0, 0]).partial_fit(np.array([[5.0]]), [1])
    >>> model.predict(np.array([[2.0], [4.0]])).tolist()
    [0, 1]

    References
    ----------
    Mensink et al. (2013), "Distance-based image classification: generalizing to new classes at near-zero cost".
    """

    means_: Array  # (c, d)
    counts_: Array  # (c,)

    def _check_settings(self) -> None:
        pass

    def _learn(self, X: Array, codes: Array, moved: Array) -> None:
        means, counts = np.zeros((len(self.classes_), X.shape[1])), np.zeros(len(self.classes_), dtype=int)
        if len(moved):
            means[moved], counts[moved] = self.means_, self.counts_
        for k in np.unique(codes):
            rows = X[codes == k]
            if not counts[k]:
                means[k] = rows[0]
            counts[k] += len(rows)
            means[k] += (rows - means[k]).sum(axis=0) / counts[k]  # (B2)
        check_result(means)
        self.means_, self.counts_ = means, counts

    def _scores(self, X: Array) -> Array:
        from scipy.spatial.distance import cdist

        scores: Array = -cdist(X, self.means_, "sqeuclidean")
        seen = np.flatnonzero(self.counts_)
        return scores if len(seen) == len(scores[0]) else _with_unseen(scores[:, seen], seen, len(self.classes_))


def _scores_available(joint: "Joint") -> bool:
    return joint.estimator is None or callable(getattr(joint.estimator, "decision_function", None))


def _probabilities_available(joint: "Joint") -> bool:
    return callable(getattr(joint.estimator, "predict_proba", None))


class Joint(_Baseline):
    """Joint training, the upper bound: keep all rows and train `estimator` on all of them at each call.

    Parameters
    ----------
    estimator : classifier, optional
        By default scikit-learn's RidgeClassifier(alpha=1.0). It is not used while there is a single class.

    Examples
    --------
    >>> import remanence as rm
    >>> matrix = rm.evaluate(rm.Joint(), rm.streams.digits(tasks=5))
    >>> rm.metrics.average(matrix) < 0.1
    True
    """

    rows_: Array
    codes_: Array

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator

    @available_if(_scores_available)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Array:
        """The estimator's own scores: (n, classes), for two classes (n,), positive for the second."""
        now = self._draft()
        rows, seen = now._asked(X), np.unique(now.codes_)
        scores = np.zeros((len(rows), 1)) if len(seen) == 1 else np.asarray(now.estimator_.decision_function(rows))
        if len(seen) == len(now.classes_):
            return scores
        columns = scores if scores.ndim == 2 else np.column_stack([-scores, scores]) / 2
        scores = _with_unseen(columns, seen, len(now.classes_))
        return scores[:, 1] - scores[:, 0] if len(now.classes_) == 2 else scores

    @available_if(_probabilities_available)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """The estimator's own probabilities, (n, classes); 0 for classes without rows."""
        now = self._draft()
        rows, seen = now._asked(X), np.unique(now.codes_)
        every = np.zeros((len(rows), len(now.classes_)))
        every[:, seen] = 1.0 if len(seen) == 1 else np.asarray(now.estimator_.predict_proba(rows))
        return every

    def _check_settings(self) -> None:
        if self.estimator is not None and not callable(getattr(self.estimator, "fit", None)):
            raise InputError(
                f"expected estimator to be a classifier with fit, got {self.estimator!r}; None takes a ridge classifier"
            )

    def _learn(self, X: Array, codes: Array, moved: Array) -> None:
        earlier = [] if not len(moved) else [(self.rows_, moved[self.codes_])]
        self.rows_ = np.concatenate([*(rows for rows, _ in earlier), X])
        self.codes_ = np.concatenate([*(known for _, known in earlier), codes])
        if len(np.unique(self.codes_)) > 1:
            self.estimator_ = _fresh(self.estimator).fit(self.rows_, self.codes_)

    def _answers(self, X: Array) -> Array:
        seen = np.unique(self.codes_)
        return np.full(len(X), seen[0]) if len(seen) == 1 else np.asarray(self.estimator_.predict(X))


def _with_unseen(scores: Array, seen: Array, classes: int) -> Array:
    """Scores (n, classes) in which classes without rows are below all `seen` ones and never predicted."""
    lowest = np.nextafter(scores.min(axis=1), -np.inf)
    every = np.repeat(lowest[:, None], classes, axis=1)
    every[:, seen] = scores
    return every


def _fresh(estimator: Any) -> Any:
    if estimator is None:
        from sklearn.linear_model import RidgeClassifier

        return RidgeClassifier(alpha=1.0)
    return clone(estimator)


def _softmax(scores: Array) -> Array:
    power: Array = np.exp(scores - scores.max(axis=1, keepdims=True))
    power /= power.sum(axis=1, keepdims=True)
    return power
