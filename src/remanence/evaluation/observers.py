"""Observers: functions that `evaluate` calls after each task, with the learner and its state."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from remanence.arrays import Array
from remanence.streams.task import Task


@dataclass(frozen=True, slots=True)
class TaskStep:
    """What an observer receives after a task has been learned.

    An estimator is trained in place, so `learner` and `predict` are valid during the call only; copy what you keep.
    The state of a method is a value and may be kept.

    Parameters
    ----------
    number : int
        How many tasks have been learned, counting from 1.
    task : Task
        The task that was just learned.
    X, Y : array
        Its rows as the learner received them: for a method, Y has shape (n, c).
    learner : estimator or method
        The copy of the estimator that is being trained, or the method.
    state : object
        The state of the method after the task; None for an estimator.
    predict : callable
        Prediction with the model after this task, a function of X.
    seconds : float
        Time that learning the task took.
    """

    number: int
    task: Task
    X: Array
    Y: Array
    learner: Any
    state: Any
    predict: Callable[[Array], Any]
    seconds: float


class Observer(Protocol):
    """A callable that `evaluate` calls with a TaskStep after each task; it must not change the learner.

    Examples
    --------
    >>> import remanence as rm
    >>> norms = []
    >>> def observe(step):
    ...     norms.append(float(abs(step.learner.weights(step.state)).max()))
    >>> matrix = rm.evaluate(rm.RLS(), rm.streams.linear(tasks=3, features=4), observers=[observe])
    >>> len(norms)
    3
    """

    def __call__(self, step: TaskStep, /) -> None: ...
