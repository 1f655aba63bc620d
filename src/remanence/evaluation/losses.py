"""How wrong an answer is, and the exam that asks every task of the stream at once."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError

Loss = Callable[[Any, Array], float]

BLOCK = 4096  # rows asked in one call: streams of a thousand one-row tasks stay fast, large tasks are not copied


def zero_one(prediction: Any, target: Array) -> Array:
    """1 for each row answered wrongly, 0 for each answered rightly."""
    wrong: Array = _aligned(np.asarray(prediction), target) != target
    return wrong.astype(float)


def squared(prediction: Any, target: Array) -> Array:
    """The squared error of each row, the mean over its outputs."""
    with np.errstate(over="ignore", invalid="ignore"):  # a learner that diverged has infinite error, and that is said
        error: Array = (_aligned(np.asarray(prediction, dtype=float), target) - target) ** 2
        return np.asarray(error.reshape(len(target), -1).mean(axis=1))


BY_ROW: dict[str, Callable[[Any, Array], Array]] = {"squared": squared, "zero_one": zero_one}


class Exam:
    """The questions of all tasks, asked again after every step; `loss` is a name or a function of a whole task."""

    def __init__(self, questions: Sequence[tuple[Array, Array]], loss: str | Loss) -> None:
        self.loss = loss
        self.blocks: list[tuple[Array, Array, list[int]]] = []  # X, Y and the rows of each task
        waiting: list[tuple[Array, Array]] = []
        for X, Y in questions:
            if waiting and sum(len(x) for x, _ in waiting) + len(X) > BLOCK:
                self.blocks.append(_stacked(waiting))
                waiting = []
            waiting.append((X, Y))
        self.blocks.append(_stacked(waiting))

    def errors(self, predict: Callable[[Array], Any]) -> Array:
        """The error on each task (T,) of a learner that answers with `predict`."""
        return np.concatenate([self._grade(predict(X), Y, sizes) for X, Y, sizes in self.blocks])

    def errors_unlearned(self) -> Array:
        """The errors of a learner that knows nothing yet: every label is wrong, every number is answered with 0.

        A loss of the user's own cannot be asked about labels that were never given: NaN.
        """
        if self.loss == "zero_one":
            return np.ones(sum(len(sizes) for _, _, sizes in self.blocks))
        return np.concatenate(
            [
                self._grade(np.zeros(Y.shape), Y, sizes)
                if self.loss == "squared" or Y.dtype.kind == "f"
                else np.full(len(sizes), np.nan)
                for _, Y, sizes in self.blocks
            ]
        )

    def _grade(self, prediction: Any, Y: Array, sizes: list[int]) -> Array:
        starts = np.cumsum([0, *sizes[:-1]])
        if isinstance(self.loss, str):
            rows = BY_ROW[self.loss](prediction, Y)
            return np.asarray(np.add.reduceat(rows, starts) / sizes)
        parts = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]
        return np.array([float(self.loss(prediction[part], Y[part])) for part in parts])


def _stacked(questions: list[tuple[Array, Array]]) -> tuple[Array, Array, list[int]]:
    sizes = [len(X) for X, _ in questions]
    if len(questions) == 1:
        return *questions[0], sizes
    return np.concatenate([X for X, _ in questions]), np.concatenate([Y for _, Y in questions]), sizes


def _aligned(prediction: Array, target: Array) -> Array:
    """The prediction in the shape of the target; (n,) and (n, 1) mean the same, and must not broadcast to (n, n)."""
    if prediction.shape == target.shape:
        return prediction
    if prediction.size == target.size and prediction.shape[:1] == target.shape[:1]:
        return prediction.reshape(target.shape)
    raise InputError(f"expected predictions of shape {target.shape}, got {prediction.shape}; answer every row once")
