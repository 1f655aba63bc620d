"""Class-incremental streams: each task has labels that were not seen before."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.streams.holdout import divide
from remanence.streams.task import Task, pair
from remanence.validation import check_count


def split_classes(
    X: Any,
    y: Any,
    tasks: int,
    test: float = 0.25,
    seed: int = 0,
    order: Sequence[Any] | None = None,
    X_test: Any = None,
    y_test: Any = None,
) -> list[Task]:
    """Split labelled rows into a class-incremental stream, in which every task has its own classes.

    Parameters
    ----------
    X : array (n, d)
        The rows.
    y : array (n,)
        Their labels.
    tasks : int
        The number of tasks.
    test : float
        The fraction of each class that is held out for testing, unless X_test and y_test are given.
    seed : int
        Seed of the choice of held-out rows.
    order : sequence, optional
        The classes in the order of the stream; default: sorted.
    X_test, y_test : array, optional
        Test rows and labels, used instead of held-out rows.

    Returns
    -------
    list of Task

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> y = np.repeat(["a", "b", "c", "d"], 4)
    >>> rm.streams.split_classes(np.arange(32.0).reshape(16, 2), y, tasks=2)
    [Task('a, b', X (6, 2), Y (6,), X_test (2, 2)), Task('c, d', X (6, 2), Y (6,), X_test (2, 2))]
    """
    tasks, seed = check_count(tasks, "tasks"), check_count(seed, "seed", 0)
    X, y = pair(X, y, "X", "y")
    if y.ndim != 1:
        raise InputError(f"expected y to be labels of shape (rows,), got {y.shape}; for a one-hot Y pass Y.argmax(1)")
    classes = np.unique(y)
    if tasks > len(classes):
        raise InputError(f"expected at most {len(classes)} tasks, one for each class in y, got tasks={tasks}")
    if order is not None:
        classes = _reordered(classes, order)
    X, y, X_test, y_test = divide(X, y, test, np.random.default_rng(seed), X_test, y_test, labels=True)
    if unknown := set(np.unique(y_test).tolist()) - set(classes.tolist()):
        raise InputError(f"expected y_test to hold only labels of y, got also {sorted(unknown)}; leave those rows out")
    return [_of_classes(X, y, X_test, y_test, group) for group in np.array_split(classes, tasks)]


def digits(tasks: int = 5, seed: int = 0, order: Sequence[int] | None = None) -> list[Task]:
    """Load scikit-learn's 1797 handwritten digits (8×8 pixels in [0, 1]) as a class-incremental stream.

    Nothing is downloaded.

    Parameters
    ----------
    tasks : int
        The number of tasks.
    seed : int
        Seed of the choice of held-out test rows.
    order : sequence of int, optional
        The digits in the order of the stream; default: sorted.

    Returns
    -------
    list of Task

    Examples
    --------
    >>> import remanence as rm
    >>> [task.name for task in rm.streams.digits(tasks=5)]
    ['0, 1', '2, 3', '4, 5', '6, 7', '8, 9']
    """
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return split_classes(X / 16.0, y, tasks, seed=seed, order=order)


def _reordered(classes: Array, order: Sequence[Any]) -> Array:
    wanted = np.asarray(order)
    if wanted.shape != classes.shape or not np.array_equal(np.unique(wanted), classes):
        raise InputError(f"expected order to name each class once, a permutation of {classes.tolist()}, got {order!r}")
    return wanted.astype(classes.dtype)


def _of_classes(X: Array, y: Array, X_test: Array, y_test: Array, group: Array) -> Task:
    labels = [str(label) for label in group.tolist()]
    name = ", ".join(labels) if len(labels) <= 5 else f"{labels[0]} … {labels[-1]}"
    learn, ask = np.isin(y, group), np.isin(y_test, group)
    if not ask.any():
        raise InputError(
            f"expected test rows for the classes {name}, got none; "
            "give each class two rows or more, use fewer tasks, or pass test=0"
        )
    return Task(name, X[learn], y[learn], X_test[ask], y_test[ask])
