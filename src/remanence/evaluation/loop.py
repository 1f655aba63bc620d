"""The one task loop: learn the stream task by task and ask every task after every step."""

from collections.abc import Iterable
from time import perf_counter
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.evaluation.adapters import EstimatorPupil, Method, MethodPupil, Pupil, check_learner, name_of
from remanence.evaluation.losses import BY_ROW, Exam, Loss
from remanence.evaluation.matrix import ErrorMatrix
from remanence.evaluation.memory_size import carried_bytes
from remanence.progress import track_progress
from remanence.streams.task import Task, same_kind

Rows = list[tuple[Array, Array]]
Record = list[tuple[Array, float]]  # the columns of the matrix so far (T,), each with the seconds of its task


def evaluate(
    learner: Any,
    stream: Iterable[Task],
    loss: str | Loss | None = None,
    progress: bool | None = None,
    test: bool = True,
    record: Record | None = None,
) -> ErrorMatrix:
    """The error matrix of a fresh copy of `learner` on the stream.

    A learner that cannot predict before its first task is counted as wrong on every label and as 0 on every number.

    Parameters
    ----------
    learner : estimator or method
        With `partial_fit` and `predict`, or with `init`, `update` and `predict`.
    stream : list of Task
    loss : "zero_one", "squared" or callable, optional
        A callable gets (prediction, target); by default what suits the learner and the targets.
    progress : bool, optional
        Forces the bar on or off.
    test : bool
        False asks the training rows instead of the test rows.
    record : list, optional
        An empty list gets each column as soon as it is known; given what an earlier run had recorded, and a learner
        that goes on where that run ended, only what is missing is learned and asked.
    """
    learner, tasks = check_learner(learner), check_stream(stream)
    lessons: Rows = [(task.X, task.Y) for task in tasks]
    questions: Rows = [(task.X_test, task.Y_test) for task in tasks] if test else lessons
    method = isinstance(learner, Method)
    if method:
        lessons, questions = as_regression(lessons, loss), as_regression(questions, loss)
    loss = _choose_loss(loss, learner, lessons[0][1], method)
    exam = Exam(questions, loss)
    pupil: Pupil
    if method:
        pupil = MethodPupil(learner, lessons[0][0].shape[1], lessons[0][1].shape[1])
    else:
        pupil = EstimatorPupil(learner, [Y for _, Y in lessons])

    record = [] if record is None else record
    if not record:
        record.append((_before_learning(exam, pupil), 0.0))
    for j, (X, Y) in enumerate(track_progress(lessons, "Learning tasks", show=progress), start=1):
        if j < len(record):
            continue
        start = perf_counter()
        pupil.learn(X, Y)
        seconds = perf_counter() - start
        record.append((exam.errors(pupil.predict), seconds))
    values, times = np.column_stack([column for column, _ in record]), np.array([s for _, s in record[1:]])
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
    names = tuple(task.name for task in tasks)
    return ErrorMatrix(values, names, name, times, name_of(learner), carried_bytes(pupil.carried))


def _before_learning(exam: Exam, pupil: Pupil) -> Array:
    from sklearn.exceptions import NotFittedError

    try:
        return exam.errors(pupil.predict)
    except NotFittedError:
        return exam.errors_unlearned()


def check_stream(stream: Iterable[Task]) -> list[Task]:
    """A stream as a list of tasks of one kind, or a clear refusal."""
    if isinstance(stream, Task):
        raise InputError("expected a list of tasks, got one Task; pass [task]")
    try:
        tasks = list(stream)
    except TypeError:
        raise InputError(f"expected a list of tasks, got {type(stream).__name__}; see remanence.streams") from None
    if not tasks:
        raise InputError("expected at least one task, got an empty stream")
    for task in tasks:
        if not isinstance(task, Task):
            raise InputError(f"expected every item to be a Task, got {type(task).__name__}; wrap it: Task(name, X, Y)")
        same_kind(tasks[0].X, tasks[0].Y, task.X, task.Y, f"task {task.name!r}")
    return tasks


def as_regression(rows: Rows, loss: str | Loss | None) -> Rows:
    """Rows for a bare method, which knows numbers in columns and no labels."""
    X, Y = rows[0]
    if X.ndim != 2:
        raise InputError(f"expected X of shape (rows, features) for a method, got {X.shape}; flatten the images first")
    if loss == "zero_one" or Y.dtype.kind not in "fiu" or (Y.dtype.kind in "iu" and loss is None):
        raise InputError(
            "expected targets of shape (rows, outputs) for a method, which does regression, got labels or a loss for "
            "labels; to classify, wrap the method: rm.ContinualClassifier(method); if the labels are quantities, "
            "pass loss='squared'"
        )
    return [(X, Y if Y.ndim == 2 else Y.astype(float)[:, None]) for X, Y in rows]


def _choose_loss(loss: str | Loss | None, learner: Any, Y: Array, method: bool) -> str | Loss:
    if loss is None:
        loss = "squared" if method else _suiting(learner, Y)
    if callable(loss):
        return loss
    if loss not in BY_ROW:
        raise InputError(f"expected loss to be one of {sorted(BY_ROW)}, a function or None, got {loss!r}")
    if loss == "zero_one" and Y.ndim != 1:
        raise InputError(f"expected labels of shape (rows,) for loss 'zero_one', got {Y.shape}; try Y.argmax(1)")
    if loss == "squared" and Y.dtype.kind not in "fiu":
        raise InputError(f"expected numbers for loss 'squared', got labels of dtype {Y.dtype}; try loss='zero_one'")
    return loss


def _suiting(learner: Any, Y: Array) -> str:
    """A classifier is counted, a regressor is measured; what does not say which it is goes by the targets."""
    from sklearn.base import BaseEstimator, is_classifier, is_regressor

    if isinstance(learner, BaseEstimator):  # others have no tags to ask for
        if is_classifier(learner):
            return "zero_one"
        if is_regressor(learner):
            return "squared"
    return "zero_one" if Y.ndim == 1 and Y.dtype.kind != "f" else "squared"
