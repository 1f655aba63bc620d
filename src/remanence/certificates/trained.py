"""A fresh copy of a learner that has learned a stream, and what was seen on the way.

A method, or an estimator around one, is seen as the linear model it is: design rows X (n, d), targets Y (n, c) and
weights W (d, c) after every task. Any other learner is seen through its answers alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.memories import Memory, lost, memory_of
from remanence.evaluation.adapters import EstimatorPupil, Method, MethodPupil, Pupil, check_learner
from remanence.evaluation.loop import Rows, as_regression, check_stream
from remanence.kalman import Kalman
from remanence.methods import RLS
from remanence.methods import protocol as linear
from remanence.methods.least_squares import SoftMethod
from remanence.progress import track_progress
from remanence.streams import Task


@dataclass(frozen=True, slots=True)
class LinearModel:
    """A linear method after a stream; rows are those of all tasks, in order."""

    method: linear.Method[Any]
    state: Any
    X: Array  # (n, d) design
    Y: Array  # (n, c)
    ends: tuple[int, ...]  # rows learned after each task
    weights: tuple[Array, ...]  # W after each task, with zeros for outputs that came later
    lost: tuple[float, ...] | None  # what each task but the first took from the memory; None if there is no memory
    ridge: float  # λ in force, 0 where nothing is penalised
    free: int  # leading features that are not penalised

    @property
    def W(self) -> Array:
        return self.weights[-1]

    @property
    def precision(self) -> float:
        """Machine precision of the weights, relative to that of double precision."""
        return float(np.finfo(self.W.dtype).eps / np.finfo(float).eps)


@dataclass(frozen=True, slots=True)
class Trained:
    """What a learner answered on the rows of each task, just after it and in the end."""

    tasks: tuple[str, ...]
    then: tuple[Array, ...]
    now: tuple[Array, ...]
    together: tuple[Array, ...]  # of a copy that learned all rows at once, in random order; not for linear models
    model: LinearModel | None

    @property
    def labels(self) -> bool:
        return self.now[0].dtype.kind != "f"


@dataclass(slots=True)
class _Diary:
    """What a linear model looked like after each task."""

    weights: list[tuple[Array, Array | None]] = field(default_factory=list)  # and the labels of their columns
    lost: list[float] | None = field(default_factory=list)
    memory: Memory | None = None

    def note(self, pupil: Pupil) -> None:
        inside = _inside(pupil)
        if inside is None:
            return
        method, state = inside
        self.weights.append((np.array(method.weights(state)), _classes(pupil)))
        memory = memory_of(method, state)
        if memory is None or self.lost is None:
            self.lost = None
        elif self.memory is not None:
            self.lost.append(lost(self.memory, memory))
        self.memory = memory


def train(learner: Any, stream: Iterable[Task], seed: int, progress: bool | None) -> Trained:
    """Train a copy of the learner task by task; and, if it is no linear model, another one on all rows at once."""
    tasks = check_stream(stream)
    learner = _prepared(check_learner(learner), len(tasks), seed)
    lessons: Rows = [(task.X, task.Y) for task in tasks]
    if isinstance(learner, Method):
        lessons = as_regression(lessons, None)
    pupil, diary, then = _pupil(learner, lessons), _Diary(), []
    for X, Y in track_progress(lessons, "Learning tasks", show=progress):
        pupil.learn(X, Y)
        then.append(np.array(pupil.predict(X)))
        diary.note(pupil)
    now = tuple(np.array(pupil.predict(X)) for X, _ in lessons)
    names = tuple(task.name for task in tasks)
    if _inside(pupil) is not None:
        return Trained(names, tuple(then), now, (), _model(pupil, lessons, diary))
    other = _pupil(learner, lessons)
    order = np.random.default_rng(seed).permutation(sum(len(X) for X, _ in lessons))
    other.learn(*(np.concatenate(parts)[order] for parts in zip(*lessons, strict=True)))
    return Trained(names, tuple(then), now, tuple(np.array(other.predict(X)) for X, _ in lessons), None)


def _prepared(learner: Any, tasks: int, seed: int) -> Any:
    """The learner, or a copy: with random numbers that begin at the seed, and a filter that can look back."""
    from sklearn.base import BaseEstimator, clone

    if isinstance(learner, Kalman):
        return replace(learner, lag=max(learner.lag, tasks))
    if isinstance(learner, BaseEstimator):
        settings = learner.get_params()
        wanted = {k: seed for k, v in settings.items() if k.split("__")[-1] == "random_state" and v is None}
        if isinstance(settings.get("method"), Kalman):
            wanted["method__lag"] = max(settings["method"].lag, tasks)
        if wanted:
            return clone(learner).set_params(**wanted)
    return learner


def _pupil(learner: Any, lessons: Rows) -> Pupil:
    if isinstance(learner, Method):
        return MethodPupil(learner, lessons[0][0].shape[1], lessons[0][1].shape[1])
    return EstimatorPupil(learner, [Y for _, Y in lessons])


# The linear model inside


def _inside(pupil: Pupil) -> tuple[linear.Method[Any], Any] | None:
    """The linear method and its state, if the learner is one or an unweighted estimator around one."""
    from remanence.estimators import ContinualClassifier
    from remanence.estimators.base import ContinualEstimator

    if isinstance(pupil, MethodPupil):
        return (pupil.method, pupil.state) if isinstance(pupil.method, linear.Method) else None
    estimator = pupil.estimator if isinstance(pupil, EstimatorPupil) else None
    if not isinstance(estimator, ContinualEstimator):
        return None
    if isinstance(estimator, ContinualClassifier) and estimator.class_weight is not None:
        return None
    return estimator.method_, estimator.state_


def _classes(pupil: Pupil) -> Array | None:
    from remanence.estimators import ContinualClassifier

    if isinstance(pupil, EstimatorPupil) and isinstance(pupil.estimator, ContinualClassifier):
        return np.asarray(pupil.estimator.classes_)
    return None


def _model(pupil: Pupil, lessons: Rows, diary: _Diary) -> LinearModel:
    inside, labels = _inside(pupil), _classes(pupil)
    assert inside is not None
    method, state = inside
    designs, targets, free = [], [], 0
    for X, Y in lessons:
        if isinstance(pupil, EstimatorPupil):
            X = _design(pupil.estimator, X)
            Y = Y[:, None] == labels if labels is not None else Y.reshape(len(X), -1)
            free = int(isinstance(method, SoftMethod) and pupil.estimator.fit_intercept)
        designs.append(X.astype(float))
        targets.append(Y.astype(float))
    ridge = 0.0
    if isinstance(method, Kalman):
        ridge = method.ridge * method.noise  # in units of the weight of a sample
    elif isinstance(method, SoftMethod) and not (isinstance(method, RLS) and method.forget == 0):
        ridge = method.ridge_of(state)
    return LinearModel(
        method,
        state,
        np.concatenate(designs),
        np.concatenate(targets),
        tuple(np.cumsum([len(X) for X in designs]).tolist()),
        tuple(_widened(W, known, labels) for W, known in diary.weights),
        None if diary.lost is None else tuple(diary.lost),
        float(ridge),
        free,
    )


def _design(estimator: Any, X: Array) -> Array:
    """The rows as the method inside the estimator meets them."""
    Z = np.asarray(X if estimator.features is None else estimator.features_.transform(X), dtype=float)
    return np.column_stack([np.ones(len(Z)), Z - estimator.offset_]) if estimator.fit_intercept else Z


def _widened(W: Array, known: Array | None, labels: Array | None) -> Array:
    """Weights with a column for every label there is in the end; those that came later were zero."""
    if known is None or labels is None or len(known) == len(labels):
        return W
    wide = np.zeros((len(W), len(labels)), W.dtype)
    wide[:, np.searchsorted(labels, known)] = W
    return wide
