"""Losses, and the test rows of a whole stream as one object that evaluates them in few calls."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.evaluation.adapters import MethodLike
from remanence.labels import are_labels, are_numbers

Loss = Callable[[Any, Array], float]

BLOCK = 4096  # rows predicted in one call: a thousand one-row tasks stay fast, large tasks are not copied


def zero_one(prediction: Any, target: Array) -> Array:
    """1 for each wrong prediction, 0 for each right one."""
    wrong: Array = _aligned(np.asarray(prediction), target) != target
    return wrong.astype(float)


def squared(prediction: Any, target: Array) -> Array:
    """The squared error of each row, averaged over its outputs."""
    with np.errstate(over="ignore", invalid="ignore"):  # a learner that diverged has infinite error
        error: Array = (_aligned(np.asarray(prediction, dtype=float), target) - target) ** 2
        return np.asarray(error.reshape(len(target), -1).mean(axis=1))


BY_ROW: dict[str, Callable[[Any, Array], Array]] = {"squared": squared, "zero_one": zero_one}


class TestSet:
    """The test rows of all tasks; `loss` is a name or a function of the predictions and targets of one task."""

    def __init__(self, test: Sequence[tuple[Array, Array]], loss: str | Loss) -> None:
        self.loss = loss
        self.blocks: list[tuple[Array, Array, list[int]]] = []  # X, Y and the number of rows of each task
        pending: list[tuple[Array, Array]] = []
        for X, Y in test:
            if pending and sum(len(x) for x, _ in pending) + len(X) > BLOCK:
                self.blocks.append(_stacked(pending))
                pending = []
            pending.append((X, Y))
        self.blocks.append(_stacked(pending))

    def errors(self, predict: Callable[[Array], Any]) -> Array:
        """The error on each task (T,) of a learner with this `predict`."""
        return np.concatenate([self._task_errors(predict(X), Y, sizes) for X, Y, sizes in self.blocks])

    def errors_before_learning(self) -> Array:
        """The errors of a learner that cannot predict yet: every label is wrong, every number is predicted as 0.

        NaN for labels under a loss of the user's own, which needs a prediction.
        """
        if self.loss == "zero_one":
            return np.ones(sum(len(sizes) for _, _, sizes in self.blocks))
        return np.concatenate(
            [
                self._task_errors(np.zeros(Y.shape), Y, sizes)
                if self.loss == "squared" or not are_labels(Y)
                else np.full(len(sizes), np.nan)
                for _, Y, sizes in self.blocks
            ]
        )

    def _task_errors(self, prediction: Any, Y: Array, sizes: list[int]) -> Array:
        starts = np.cumsum([0, *sizes[:-1]])
        if isinstance(self.loss, str):
            rows = BY_ROW[self.loss](prediction, Y)
            return np.asarray(np.add.reduceat(rows, starts) / sizes)
        parts = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]
        return np.array([float(self.loss(prediction[part], Y[part])) for part in parts])


def _stacked(test: list[tuple[Array, Array]]) -> tuple[Array, Array, list[int]]:
    sizes = [len(X) for X, _ in test]
    if len(test) == 1:
        return *test[0], sizes
    return np.concatenate([X for X, _ in test]), np.concatenate([Y for _, Y in test]), sizes


def _aligned(prediction: Array, target: Array) -> Array:
    """The prediction in the shape of the target; (n,) and (n, 1) mean the same, and must not broadcast to (n, n)."""
    if prediction.shape == target.shape:
        return prediction
    if prediction.size == target.size and prediction.shape[:1] == target.shape[:1]:
        return prediction.reshape(target.shape)
    raise InputError(f"expected predictions of shape {target.shape}, got {prediction.shape}; predict every row once")


def choose_loss(loss: str | Loss | None, learner: Any, Y: Array) -> str | Loss:
    """The loss to use for a learner and targets like Y; an InputError where a named loss does not fit them."""
    if loss is None:
        loss = _default_loss(learner, Y)
    if callable(loss):
        return loss
    if loss not in BY_ROW:
        raise InputError(f"expected loss to be one of {sorted(BY_ROW)}, a function or None, got {loss!r}")
    if loss == "zero_one" and Y.ndim != 1:
        raise InputError(f"expected labels of shape (rows,) for loss 'zero_one', got {Y.shape}; try Y.argmax(1)")
    if loss == "squared" and not are_numbers(Y):
        raise InputError(f"expected numbers for loss 'squared', got labels of dtype {Y.dtype}; try loss='zero_one'")
    return loss


def _default_loss(learner: Any, Y: Array) -> str:
    """Zero-one for classifiers, squared for regressors and methods; by the targets where the learner has no tags."""
    from sklearn.base import BaseEstimator, is_classifier, is_regressor

    if isinstance(learner, MethodLike):
        return "squared"
    if isinstance(learner, BaseEstimator):  # others have no tags
        if is_classifier(learner):
            return "zero_one"
        if is_regressor(learner):
            return "squared"
    return "zero_one" if are_labels(Y) else "squared"
