"""What certificates need to know of a training run, recorded by an observer of the task loop.

A method, or an estimator around one, is recorded as the linear model it is: design rows X (n, d), targets Y (n, c) and
weights W (d, c) after every task. Of any other learner only the predictions are recorded.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.memories import MemorySnapshot, lost, memory_of
from remanence.evaluation.observers import TaskStep
from remanence.kalman import Kalman
from remanence.memory.gaussian import Gaussian
from remanence.methods import RLS, WindowRLS
from remanence.methods.least_squares import SoftMethod
from remanence.methods.protocol import Method


@dataclass(frozen=True, slots=True)
class LinearModel:
    """A linear method after a stream; the rows are those of all tasks, in order."""

    method: Method[Any]
    state: Any
    X: Array  # (n, d) design
    Y: Array  # (n, c)
    ends: tuple[int, ...]  # rows learned after each task
    weights: tuple[Array, ...]  # W after each task, with zeros for outputs that came later
    lost: tuple[float, ...] | None  # what each task but the first took from the memory; None if there is no memory
    ridge: float  # λ in force, 0 where nothing is penalised
    unpenalized: int  # leading features that are not penalised

    @property
    def W(self) -> Array:
        return self.weights[-1]

    @property
    def precision(self) -> float:
        """Machine precision of the weights, relative to that of double precision."""
        return float(np.finfo(self.W.dtype).eps / np.finfo(float).eps)


class TrainingRecord:
    """Observer of the task loop that records a training run; read it after the last task."""

    def __init__(self) -> None:
        self.rows: list[tuple[Array, Array]] = []  # (X, Y) of each task
        self.predictions: list[Array] = []  # on the rows of each task just after it; not for linear models
        self._last: TaskStep | None = None
        self._weights: list[tuple[Array, Array | None]] = []  # after each task, and the labels of their columns
        self._lost: list[float] | None = []
        self._memory: MemorySnapshot | None = None
        self._covariances: list[list[Array]] = []  # of every filter of a Kalman method, after each task

    @property
    def last(self) -> TaskStep:
        """The step after the last task."""
        assert self._last is not None, "no task has been learned"
        return self._last

    def __call__(self, step: TaskStep) -> None:
        self._last = step
        self.rows.append((step.X, step.Y))
        if not is_linear(step.learner):
            self.predictions.append(np.array(step.predict(step.X)))
            return
        method, state = _linear_method(step)
        self._weights.append((np.array(method.weights(state)), _classes(step)))
        memory = memory_of(method, state)
        if memory is None or self._lost is None:
            self._lost = None
        elif self._memory is not None:
            self._lost.append(lost(self._memory, memory))
        self._memory = memory
        if isinstance(method, Kalman):
            self._covariances.append([member.known.cov for member in state.members])

    def final_predictions(self) -> list[Array]:
        """The predictions of the final model on the rows of each task."""
        return [np.array(self.last.predict(X)) for X, _ in self.rows]

    def linear_model(self) -> LinearModel:
        """The linear model that was trained."""
        (method, state), labels, estimator = _linear_method(self.last), _classes(self.last), self.last.learner
        designs, targets, unpenalized = [], [], 0
        for X, Y in self.rows:
            if estimator is not method:
                X = estimator.design_matrix(X)
                Y = Y[:, None] == labels if labels is not None else Y.reshape(len(X), -1)
                unpenalized = int(isinstance(method, SoftMethod) and estimator.fit_intercept)
            designs.append(X.astype(float))
            targets.append(Y.astype(float))
        return LinearModel(
            method,
            _with_past(state, self._covariances) if isinstance(method, Kalman) else state,
            np.concatenate(designs),
            np.concatenate(targets),
            tuple(np.cumsum([len(X) for X in designs]).tolist()),
            tuple(_widened(W, known, labels) for W, known in self._weights),
            None if self._lost is None else tuple(self._lost),
            _ridge(method, state),
            unpenalized,
        )


def is_linear(learner: Any) -> bool:
    """Whether the learner is a linear method, or an estimator around one that answers by its weights as they are."""
    from remanence.estimators import ContinualClassifier
    from remanence.estimators.base import ContinualEstimator

    if isinstance(learner, ContinualEstimator) and learner.scale is not None:
        return False
    if isinstance(learner, ContinualClassifier):
        return learner.class_weight is None and learner.readout == "ridge"
    return isinstance(learner, ContinualEstimator) or (isinstance(learner, Method) and learner.linear)


def _linear_method(step: TaskStep) -> tuple[Method[Any], Any]:
    if isinstance(step.learner, Method):
        return step.learner, step.state
    return step.learner.method_, step.learner.state_


def _classes(step: TaskStep) -> Array | None:
    from remanence.estimators import ContinualClassifier

    return np.asarray(step.learner.classes_) if isinstance(step.learner, ContinualClassifier) else None


def _ridge(method: Method[Any], state: Any) -> float:
    if isinstance(method, Kalman):
        return method.ridge * method.noise  # in units of the weight of a sample
    if isinstance(method, WindowRLS):
        return method.ridge
    if isinstance(method, SoftMethod) and not (isinstance(method, RLS) and method.forget == 0):
        return float(method.ridge_of(state))
    return 0.0


def _with_past(state: Any, covariances: list[list[Array]]) -> Any:
    """A Kalman state that keeps the covariances after all earlier tasks, whatever the lag of its method."""
    members = []
    for member, covs in zip(state.members, zip(*covariances, strict=True), strict=True):
        mean = np.zeros_like(member.known.mean)  # only covariances are compared
        members.append(replace(member, past=tuple(Gaussian(mean, cov) for cov in covs[:-1])))
    return replace(state, members=tuple(members))


def _widened(W: Array, known: Array | None, labels: Array | None) -> Array:
    """Weights with a column for every label there is in the end; those of later labels are zero."""
    if known is None or labels is None or len(known) == len(labels):
        return W
    wide = np.zeros((len(W), len(labels)), W.dtype)
    wide[:, np.searchsorted(labels, known)] = W
    return wide
