"""The task loop: learn a stream task by task, and evaluate every task after each of them."""

from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.evaluation.adapters import InBlocks, LearnerAdapter, MethodLike, adapt, check_learner, name_of
from remanence.evaluation.curve import ErrorCurve
from remanence.evaluation.losses import Loss, TestSet, choose_loss
from remanence.evaluation.matrix import ErrorMatrix
from remanence.evaluation.memory_size import memory_size
from remanence.evaluation.observers import Observer, TaskStep
from remanence.labels import are_labels, are_numbers
from remanence.progress import track_progress
from remanence.streams.task import Task, same_kind
from remanence.validation import check_count

Blocks = list[tuple[Array, Array]]  # (X, Y) of each task
Steps = list[tuple[Array, int, int]]  # errors (T,), the task being learned, and the rows learned so far
Record = list[tuple[Array, float]]  # the columns of the matrix so far (T,), each with the seconds of its task


def evaluate(
    learner: Any,
    stream: Iterable[Task],
    loss: str | Loss | None = None,
    progress: bool | None = None,
    test: bool = True,
    record: Record | None = None,
    observers: Sequence[Observer] = (),
    every: int | None = None,
) -> ErrorMatrix:
    """Train a fresh copy of a learner on a stream, task by task, and return its error matrix.

    A learner that cannot predict before its first task counts as wrong on every label and as 0 on every number.

    Parameters
    ----------
    learner : estimator or method
        With `partial_fit` and `predict`, or with `init`, `update` and `predict`. It is not changed.
    stream : list of Task
    loss : "zero_one", "squared" or callable, optional
        A callable gets (prediction, target). By default the loss that suits the learner and the targets.
    progress : bool, optional
        Show a progress bar; by default on a terminal only.
    test : bool
        False evaluates the training rows instead of the test rows.
    record : list, optional
        An empty list receives each column as soon as it is known. Given the record of an interrupted call, and a
        learner that continues where that call ended, only the missing tasks are learned and evaluated.
    observers : sequence of callable
        Each is called with a TaskStep after each task that is learned, once its column is known; see
        `remanence.evaluation.Observer`. The time they take is not counted in the seconds of the matrix.
    every : int, optional
        Learn each task in blocks of this many rows and evaluate every task after each of them: `matrix.curve`. The
        seconds of the matrix then contain this.

    Returns
    -------
    ErrorMatrix
        values[i, j] is the error on task i + 1 of the model after j tasks.

    Examples
    --------
    >>> import remanence as rm
    >>> matrix = rm.evaluate(rm.ContinualClassifier(), rm.streams.digits(tasks=5))
    >>> print(f"{1 - rm.metrics.average(matrix):.2f}")
    0.93
    """
    learner, tasks = check_learner(learner), check_stream(stream)
    train, tested = training_blocks(learner, tasks, loss), [(task.X_test, task.Y_test) for task in tasks]
    if not test:
        tested = train
    elif isinstance(learner, MethodLike):
        tested = as_regression(tested, loss)
    loss = choose_loss(loss, learner, train[0][1])
    test_set, adapter = TestSet(tested, loss), adapt(learner, train)
    columns: Record = [] if record is None else record
    steps: Steps = []
    if every is not None:
        _check_every(every, learner, columns)
        adapter = InBlocks(adapter, every, lambda predict: test_set.errors(predict), steps)
    if not columns:
        columns.append((_errors_before_learning(test_set, adapter), 0.0))

    def add_column(step: TaskStep) -> None:
        columns.append((test_set.errors(step.predict), step.seconds))

    learn_tasks(adapter, tasks, train, [add_column, *observers], progress, done=len(columns) - 1)
    values, seconds = np.column_stack([column for column, _ in columns]), np.array([s for _, s in columns[1:]])
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
    kept = adapter.state if isinstance(learner, MethodLike) else adapter.learner
    names = tuple(task.name for task in tasks)
    return ErrorMatrix(values, names, name, seconds, name_of(learner), memory_size(kept), _curve(steps))


def _check_every(every: Any, learner: Any, columns: Record) -> None:
    check_count(every, "every", hint="rows between two evaluations")
    if columns:
        raise InputError("expected every=None with the record of an interrupted call, got both; begin anew")
    method = getattr(learner, "method", learner)
    if getattr(method, "task_per_update", False):
        raise InputError(
            f"expected a learner whose tasks may be cut into blocks, got {type(method).__name__}, for which every "
            f"update is a task; leave out `every`"
        )


def _curve(steps: Steps) -> ErrorCurve | None:
    if not steps:
        return None
    errors, tasks, rows = zip(*steps, strict=True)
    return ErrorCurve(np.column_stack(errors), np.array(tasks), np.array(rows))


def learn_tasks(
    adapter: LearnerAdapter,
    tasks: Sequence[Task],
    train: Blocks,
    observers: Sequence[Observer],
    progress: bool | None = None,
    done: int = 0,
) -> None:
    """Learn one task after the other, but the first `done`, and call every observer after each."""
    pairs = list(zip(tasks, train, strict=True))
    for number, (task, (X, Y)) in enumerate(track_progress(pairs, "Learning tasks", show=progress), start=1):
        if number <= done:
            continue
        start = perf_counter()
        adapter.learn(X, Y)
        seconds = perf_counter() - start
        step = TaskStep(number, task, X, Y, adapter.learner, adapter.state, adapter.predict, seconds)
        for observer in observers:
            observer(step)


def _errors_before_learning(test_set: TestSet, adapter: LearnerAdapter) -> Array:
    from sklearn.exceptions import NotFittedError

    try:
        return test_set.errors(adapter.predict)
    except NotFittedError:
        return test_set.errors_before_learning()


def check_stream(stream: Iterable[Task]) -> list[Task]:
    """The stream as a list of tasks with rows and targets of one kind, or an InputError."""
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


def training_blocks(learner: Any, tasks: Sequence[Task], loss: str | Loss | None = None) -> Blocks:
    """The training rows of every task as the learner takes them."""
    blocks = [(task.X, task.Y) for task in tasks]
    return as_regression(blocks, loss) if isinstance(learner, MethodLike) else blocks


def as_regression(blocks: Blocks, loss: str | Loss | None) -> Blocks:
    """Blocks for a method without an estimator around it: targets as numbers in columns, never labels."""
    X, Y = blocks[0]
    if X.ndim != 2:
        raise InputError(f"expected X of shape (rows, features) for a method, got {X.shape}; flatten the images first")
    if loss == "zero_one" or not are_numbers(Y) or (loss is None and are_labels(Y)):
        raise InputError(
            "expected targets of shape (rows, outputs) for a method, which does regression, got labels or a loss for "
            "labels; to classify, wrap the method: rm.ContinualClassifier(method); if the labels are quantities, "
            "pass loss='squared'"
        )
    return [(X, Y if Y.ndim == 2 else Y.astype(float)[:, None]) for X, Y in blocks]
