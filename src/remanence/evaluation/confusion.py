"""Confusion counts: how often each class was predicted as each other."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError


@dataclass(frozen=True, eq=False)
class Confusion:
    """Rows by true and by predicted class.

    Parameters
    ----------
    labels : tuple
        The classes.
    counts : array (classes, classes)
        counts[i, j] rows of class i were predicted as class j.

    Examples
    --------
    >>> from remanence.evaluation.confusion import Confusion
    >>> found = Confusion.of(["a", "a", "b"], ["a", "b", "b"])
    >>> found.hardest(1), found.most_frequent(1)
    ([('a', 2, 0.5)], [('a', 'b', 1)])
    """

    labels: tuple[Any, ...]
    counts: Array

    @classmethod
    def of(cls, true: Iterable[Any], predicted: Iterable[Any]) -> "Confusion":
        """Count pairs of labels, which are of one kind."""
        true, predicted = np.asarray(true), np.asarray(predicted)
        labels, codes = np.unique(np.concatenate([true, predicted]), return_inverse=True)
        counts = np.zeros((len(labels), len(labels)), int)
        np.add.at(counts, (codes[: len(true)], codes[len(true) :]), 1)
        return cls(tuple(labels.tolist()), counts)

    @property
    def wrong(self) -> int:
        """The number of rows predicted as another class."""
        return int(self.counts.sum() - np.trace(self.counts))

    @property
    def accuracies(self) -> Array:
        """(classes,) the share of rows of each class predicted right; NaN for a class without rows."""
        rows = self.counts.sum(axis=1)
        return np.where(rows > 0, np.diag(self.counts) / np.maximum(rows, 1), np.nan)

    def hardest(self, count: int | None = None) -> list[tuple[Any, int, float]]:
        """The classes with the lowest accuracy first: label, rows, accuracy; those without rows are left out."""
        rows, shares = self.counts.sum(axis=1), self.accuracies
        order = sorted(np.flatnonzero(rows), key=lambda k: (shares[k], -rows[k]))
        return [(self.labels[k], int(rows[k]), float(shares[k])) for k in order[:count]]

    def most_frequent(self, count: int | None = None) -> list[tuple[Any, Any, int]]:
        """The most frequent confusions first: true label, predicted label, rows."""
        off = self.counts - np.diag(np.diag(self.counts))
        order = sorted(zip(*np.nonzero(off), strict=True), key=lambda at: (-off[at], *at))
        return [(self.labels[i], self.labels[j], int(off[i, j])) for i, j in order[:count]]

    def to_dict(self) -> dict[str, Any]:
        """The counts as a dictionary for JSON: labels, and [true, predicted, rows] by position for each pair met."""
        met = [[int(i), int(j), int(self.counts[i, j])] for i, j in zip(*np.nonzero(self.counts), strict=True)]
        return {"labels": list(self.labels), "counts": met}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Confusion":
        """The counts from a dictionary made by `to_dict`."""
        labels: Sequence[Any] = tuple(data["labels"])
        counts = np.zeros((len(labels), len(labels)), int)
        for i, j, rows in data["counts"]:
            if not (0 <= i < len(labels) and 0 <= j < len(labels) and rows >= 0):
                raise InputError(f"expected positions of {len(labels)} labels and a count, got {[i, j, rows]}")
            counts[i, j] = rows
        return cls(tuple(labels), counts)
