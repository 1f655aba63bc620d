"""Hold-out split: seeded, and stratified by class."""

from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.labels import are_labels
from remanence.streams.task import pair, same_kind
from remanence.validation import check_number


def divide(
    X: Any,
    Y: Any,
    test: float,
    rng: np.random.Generator,
    X_test: Any = None,
    Y_test: Any = None,
    labels: bool = False,
) -> tuple[Array, Array, Array, Array]:
    """Training and test rows: as given, or a fraction `test` held out; with 0 the training rows are the test rows.

    Rows keep the order they came in, so that only the choice of the test rows is random. Integers, text and
    booleans are taken as classes; `labels` says that floats are classes too.
    """
    X, Y = pair(X, Y)
    if (X_test is None) != (Y_test is None):
        raise InputError("expected X_test and y_test together or neither, got only one of them")
    if X_test is not None:
        X_test, Y_test = pair(X_test, Y_test, "X_test", "y_test")
        same_kind(X, Y, X_test, Y_test)
        return X, Y, X_test, Y_test
    test = check_number(test, "test", 0.0, 1.0, closed=True, hint="it is the fraction of rows set aside")
    if test == 0.0:
        return X, Y, X, Y
    classes = are_labels(Y) or (labels and Y.ndim == 1)
    aside = _choose(np.unique(Y, return_inverse=True)[1] if classes else np.zeros(len(Y), int), test, rng)
    if not aside.any():
        raise InputError(
            "expected at least two rows of some class, to learn one and test the other, got one of each; "
            "pass test=0 to test on the training rows, or X_test and y_test"
        )
    return X[~aside], Y[~aside], X[aside], Y[aside]


def _choose(group: Array, test: float, rng: np.random.Generator) -> Array:
    """Which rows to hold out: about the fraction `test` of each group, leaving at least one row for training."""
    aside = np.zeros(len(group), dtype=bool)
    for rows in (np.flatnonzero(group == g) for g in range(group.max() + 1)):
        if len(rows) > 1:  # a class of one row is for learning
            count = min(max(round(test * len(rows)), 1), len(rows) - 1)
            aside[rng.permutation(rows)[:count]] = True
    return aside
