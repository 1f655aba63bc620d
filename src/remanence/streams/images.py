"""Domain-incremental streams: the same rows and labels in every task, permuted or rotated."""

from math import isqrt
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.streams.holdout import divide
from remanence.streams.task import Task, as_rows
from remanence.validation import check_count, check_number


def permuted(
    X: Any, y: Any, tasks: int, test: float = 0.25, seed: int = 0, X_test: Any = None, y_test: Any = None
) -> list[Task]:
    """Make a stream in which every task permutes the columns; the first task keeps their order.

    Parameters
    ----------
    X : array (n, d)
        The rows.
    y : array (n,)
        Their labels.
    tasks : int
        The number of tasks.
    test : float
        The fraction of rows that is held out for testing, unless X_test and y_test are given.
    seed : int
        Seed of the permutations and of the choice of held-out rows.
    X_test, y_test : array, optional
        Test rows and labels, used instead of held-out rows.

    Returns
    -------
    list of Task

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> X, y = np.arange(32.0).reshape(8, 4), np.repeat([0, 1], 4)
    >>> [task.name for task in rm.streams.permuted(X, y, tasks=3)]
    ['permutation 1', 'permutation 2', 'permutation 3']

    References
    ----------
    Goodfellow et al. (2014), "An empirical investigation of catastrophic forgetting in gradient-based neural networks",
    ICLR.
    """
    tasks, rng = check_count(tasks, "tasks"), np.random.default_rng(check_count(seed, "seed", 0))
    X, y, X_test, y_test = divide(_flat(X), y, test, rng, X_test, y_test)
    columns = [np.arange(X.shape[1]), *(rng.permutation(X.shape[1]) for _ in range(tasks - 1))]
    return [Task(f"permutation {k}", X[:, c], y, X_test[:, c], y_test) for k, c in enumerate(columns, 1)]


def rotated(
    X: Any,
    y: Any,
    tasks: int,
    degrees: float = 15.0,
    shape: tuple[int, int] | None = None,
    test: float = 0.25,
    seed: int = 0,
    X_test: Any = None,
    y_test: Any = None,
) -> list[Task]:
    """Make a stream in which task k rotates the images counter-clockwise by (k − 1)·`degrees`.

    Parameters
    ----------
    X : array (n, d)
        Flattened images. Pixels from outside the image are 0.
    y : array (n,)
        Their labels.
    tasks : int
        The number of tasks.
    degrees : float
        The rotation from one task to the next.
    shape : (height, width), optional
        The shape of the images; default: square.
    test : float
        The fraction of rows that is held out for testing, unless X_test and y_test are given.
    seed : int
        Seed of the choice of held-out rows.
    X_test, y_test : array, optional
        Test rows and labels, used instead of held-out rows.

    Returns
    -------
    list of Task

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> X, y = np.random.default_rng(0).random((8, 16)), np.repeat([0, 1], 4)
    >>> [task.name for task in rm.streams.rotated(X, y, tasks=3, degrees=30)]
    ['0°', '30°', '60°']

    References
    ----------
    Lopez-Paz and Ranzato (2017), "Gradient episodic memory for continual learning", NeurIPS.
    """
    tasks, rng = check_count(tasks, "tasks"), np.random.default_rng(check_count(seed, "seed", 0))
    degrees = check_number(degrees, "degrees", -np.inf)
    X, y, X_test, y_test = divide(_flat(X), y, test, rng, X_test, y_test)
    shape = _shape(X.shape[1], shape)
    return [
        Task(f"{angle:g}°", _turned(X, angle, shape), y, _turned(X_test, angle, shape), y_test)
        for angle in (k * degrees for k in range(tasks))
    ]


def _flat(X: Any) -> Array:
    rows = as_rows(X)
    if rows.ndim != 2:
        raise InputError(f"expected X of shape (rows, features), got {rows.shape}; flatten with X.reshape(len(X), -1)")
    return rows


def _shape(features: int, shape: tuple[int, int] | None) -> tuple[int, int]:
    if shape is None:
        side = isqrt(features)
        if side * side != features:
            raise InputError(
                f"expected rows that are square images, got {features} features; pass shape=(height, width)"
            )
        return side, side
    try:
        height, width = shape
    except (TypeError, ValueError):
        raise InputError(f"expected shape to be (height, width), got {shape!r}") from None
    height, width = check_count(height, "height"), check_count(width, "width")
    if height * width != features:
        raise InputError(f"expected height × width = {features}, the features of X, got shape={shape}")
    return height, width


def _turned(X: Array, angle: float, shape: tuple[int, int]) -> Array:
    from scipy.ndimage import rotate

    images = X.reshape(-1, *shape)
    turned: Array = rotate(images, angle, axes=(1, 2), reshape=False, order=1)  # linear: stays within the range of X
    return turned.reshape(X.shape)
