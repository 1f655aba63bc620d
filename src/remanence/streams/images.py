"""Domain-incremental streams: the same rows and answers every time, seen through another permutation or rotation."""

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
    """A stream in which every task shuffles the columns by its own fixed permutation; the first leaves them alone.

    Parameters
    ----------
    X : array (n, d)
    y : array (n,)
    tasks : int
    test : float
        The share of rows set aside for testing, unless X_test and y_test are given.
    seed : int
        Decides the permutations, and which rows are set aside.
    X_test, y_test : array, optional
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
    """A stream in which task k shows the images turned counter-clockwise by (k − 1)·`degrees`.

    Parameters
    ----------
    X : array (n, d)
        Flattened images. Corners that turn into view are 0.
    y : array (n,)
    tasks : int
    degrees : float
    shape : (height, width), optional
        Of the images; square by default.
    test : float
        The share of rows set aside for testing, unless X_test and y_test are given.
    seed : int
        Decides which rows are set aside.
    X_test, y_test : array, optional
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
