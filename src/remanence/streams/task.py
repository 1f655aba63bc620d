"""A task of a stream: training rows, and test rows that measure what was learned and kept."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.labels import FAMILIES, family_of, family_of_value
from remanence.validation import check_finite


@dataclass(frozen=True, init=False, eq=False)
class Task:
    """A named set of training rows and test rows.

    Parameters
    ----------
    name : str
        The name in tables and figures.
    X : array (n, d)
        The training rows, or (n, …) for learners that take images.
    Y : array (n,) or (n, c)
        Labels (integers, text, booleans or numbers), or real targets.
    X_test, Y_test : array, optional
        The test rows; default: the training rows.

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> rm.Task("first", np.eye(3), ["a", "b", "a"])
    Task('first', X (3, 3), Y (3,), X_test (3, 3))
    """

    name: str
    X: Array  # (n, d), or (n, ...) for learners that take images
    Y: Array  # (n,) or (n, c)
    X_test: Array
    Y_test: Array

    def __init__(self, name: str, X: Any, Y: Any, X_test: Any = None, Y_test: Any = None) -> None:
        if (X_test is None) != (Y_test is None):
            raise InputError(f"task {name!r}: expected X_test and Y_test together or neither, got only one of them")
        X, Y = pair(X, Y, "X", "Y")
        if X_test is None:
            X_test, Y_test = X, Y
        else:
            X_test, Y_test = pair(X_test, Y_test, "X_test", "Y_test")
            same_kind(X, Y, X_test, Y_test)
        for field, value in (("name", str(name)), ("X", X), ("Y", Y), ("X_test", X_test), ("Y_test", Y_test)):
            object.__setattr__(self, field, value)

    def __repr__(self) -> str:
        return f"Task({self.name!r}, X {self.X.shape}, Y {self.Y.shape}, X_test {self.X_test.shape})"


def pair(X: Any, Y: Any, x_name: str = "X", y_name: str = "Y") -> tuple[Array, Array]:
    """Rows and their targets, as arrays of the same positive length."""
    X, Y = as_rows(X, x_name), as_targets(Y, y_name)
    if len(X) != len(Y):
        raise InputError(f"{x_name} has {len(X)} rows but {y_name} has {len(Y)}; they must pair row by row")
    if not len(X):
        raise InputError(f"expected at least one row in {x_name}, got none; leave empty tasks out")
    return X, Y


def as_rows(X: Any, name: str = "X") -> Array:
    """Real, finite rows; floating types are kept, everything else becomes float64."""
    rows = _array(X, name)
    if rows.ndim < 2 or 0 in rows.shape[1:]:
        raise InputError(f"expected {name} of shape (rows, features), got {rows.shape}; for one sample pass x[None, :]")
    return _real(rows, name)


def as_targets(Y: Any, name: str = "Y") -> Array:
    """Labels (n,) of one kind, or real targets (n, c)."""
    targets = _array(Y, name)
    if targets.ndim == 1:
        return _labels(targets, name)
    if targets.ndim != 2 or targets.shape[1] == 0:
        raise InputError(f"expected {name} to be labels (rows,) or targets (rows, outputs), got shape {targets.shape}")
    if targets.dtype.kind in "USTO" and targets.shape[1] == 1:
        raise InputError(f"expected {name} of shape (rows, outputs) to hold numbers; for labels pass {name}.ravel()")
    return _real(targets, name)


def same_kind(X: Array, Y: Array, other_X: Array, other_Y: Array, what: str = "the test rows") -> None:
    """Check that rows and targets have the same width and type as the first ones."""
    if X.shape[1:] != other_X.shape[1:]:
        raise InputError(f"expected {what} to be rows of shape {X.shape[1:]} as the others, got {other_X.shape[1:]}")
    if Y.shape[1:] != other_Y.shape[1:]:
        raise InputError(f"expected {what} to have {_width(Y)} as the others, got {_width(other_Y)}")
    if family_of(Y) != family_of(other_Y):
        raise InputError(f"expected {what} to have {family_of(Y)} as labels, like the others, got {family_of(other_Y)}")


def _width(Y: Array) -> str:
    return "labels (rows,)" if Y.ndim == 1 else f"targets (rows, {Y.shape[1]})"


def _array(values: Any, name: str) -> Array:
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(
            f"expected {name} to be a regular array, got rows of unequal length; pad or cut them"
        ) from None


def _real(array: Array, name: str) -> Array:
    if array.dtype.kind in "iubO":
        with suppress(TypeError, ValueError):  # what is left is refused below, with text and complex numbers
            array = array.astype(float)
    if array.dtype.kind != "f":
        raise InputError(f"expected {name} to hold real numbers, got dtype {array.dtype}; encode text and dates first")
    check_finite(array, name)
    return array


def _labels(labels: Array, name: str) -> Array:
    if labels.dtype.kind == "O":  # what pandas makes of text
        families = {family_of_value(label) for label in labels}
        if families == {"text"}:
            return labels.astype(str)
        if not families <= {"numbers", "booleans"}:
            kinds = sorted({type(label).__name__ for label in labels})
            raise InputError(f"expected {name} to hold labels of one kind, got {', '.join(kinds)}; fill gaps, use text")
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "T":
        labels = labels.astype(str)
    if labels.dtype.kind not in FAMILIES:
        raise InputError(f"expected {name} to hold integers, text or booleans, got dtype {labels.dtype}; use text")
    if labels.dtype.kind == "f":
        check_finite(labels, name)
    return labels
