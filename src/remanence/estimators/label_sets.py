"""Sets of labels: any number of labels per row, as targets of the same least squares.

    target of label k in a row = 1 if the row has it, else 0                                                      (S)

So a row of one label is a row of single-label classification, a new label was 0 in all rows before, and learning,
unlearning and merging are as exact. Labels come as an indicator matrix, whose columns are counted from the left, or as
sets; predictions come in the same form.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.labels import check_same_kind
from remanence.memory.sparse.sparse_rows import is_sparse
from remanence.validation import check_memory, check_unmasked

THRESHOLD = 0.5  # of a score, above which a row is given the label: halfway between its targets
INDICATOR, SETS = "indicator", "sets"


@dataclass(frozen=True, slots=True)
class LabelSets:
    """The labels of rows."""

    form: str  # INDICATOR or SETS
    labels: Array  # (k,) distinct labels, sorted
    has: Array  # (n, k) whether a row has a label

    def __len__(self) -> int:
        return len(self.has)

    def __getitem__(self, rows: Any) -> "LabelSets":
        return LabelSets(self.form, self.labels, self.has[rows])

    def only_met(self) -> "LabelSets":
        """Without labels that no row has."""
        met = self.has.any(axis=0)
        return LabelSets(self.form, self.labels[met], self.has[:, met])

    def targets(self, classes: Array, dtype: Any) -> Array:
        """The targets (n, c) of these classes (S), column-major as a soft memory takes them."""
        found = np.zeros((len(self), len(classes)), dtype, order="F")
        if len(self.labels):
            found[:, np.searchsorted(classes, self.labels)] = self.has
        return found

    def counts(self, classes: Array) -> Array:
        """How many rows have each of these classes, (c,)."""
        return np.asarray(self.targets(classes, bool).sum(axis=0))

    def agree(self, other: Array, classes: Array) -> Array:
        """Which rows have exactly the classes that `other` (n, c) says, (n,)."""
        known = np.isin(self.labels, classes)
        inside = LabelSets(self.form, self.labels[known], self.has[:, known]).targets(classes, bool)
        return np.asarray((inside == other).all(axis=1) & ~self.has[:, ~known].any(axis=1))

    def check_like(self, classes: Array) -> None:
        """Raise an InputError if these labels cannot be added to classes met before."""
        if self.form == INDICATOR and len(self.labels) < len(classes):
            raise InputError(
                f"expected an indicator of at least {len(classes)} columns, one per label met so far, got "
                f"{len(self.labels)}; columns are counted from the left"
            )
        if len(self.labels):
            check_same_kind(self.labels, classes)


def answers(scores: Array, classes: Array, form: str) -> Array:
    """The labels whose score is above the threshold: 0 and 1 (n, c), or frozensets (n,)."""
    has = scores > THRESHOLD
    if form == INDICATOR:
        return np.asarray(has.astype(np.int64))
    found = np.empty(len(has), object)
    names = classes.tolist()
    for i, row in enumerate(has):
        found[i] = frozenset(names[k] for k in np.flatnonzero(row))
    return found


def shares(scores: Array, rows: int) -> Array:
    """Scores as probabilities of single labels: as they are, but never nearer to 0 and 1 than so many rows can tell."""
    least = 1 / (rows + 2)
    return np.asarray(np.clip(scores, least, 1 - least), scores.dtype)


def read_label_sets(y: Any) -> LabelSets | None:
    """The sets of labels in y; None where it has single labels, or nothing that can be told."""
    if is_sparse(y):
        return _from_indicator(y) if y.ndim == 2 and y.shape[1] > 1 else None
    if getattr(y, "ndim", 0) == 2 and y.shape[1] > 1 and hasattr(y, "columns"):
        raise InputError(
            "expected several labels per row as an array of 0 and 1 or as sets, got a table, whose columns would be "
            "counted and not known by name; pass y.to_numpy(), or a set of names for every row"
        )
    if isinstance(y, np.ndarray) and not (y.ndim == 1 and y.dtype.kind == "O"):
        return _from_indicator(y) if y.ndim == 2 and y.shape[1] > 1 else None
    if not (isinstance(y, (list, tuple, np.ndarray)) or type(y).__name__ == "Series"):
        return None
    rows = list(y)
    if any(isinstance(row, (set, frozenset)) for row in rows):
        return _from_sets(rows)
    if not rows or not any(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
        return None
    items = [item for row in rows if isinstance(row, (list, tuple)) for item in row]
    if all(isinstance(item, (str, bytes)) for item in items) and not any(isinstance(row, np.ndarray) for row in rows):
        return _from_sets(rows)
    widths = {len(row) if isinstance(row, (list, tuple)) or getattr(row, "ndim", 0) == 1 else -1 for row in rows}
    if widths == {1} or widths <= {-1}:
        return None
    if len(widths) > 1:
        raise InputError(
            "expected several labels per row as an array of 0 and 1, or as sets, got lists of numbers of different "
            "lengths; pass sets, such as {3, 7}"
        )
    try:
        return _from_indicator(np.array(rows))
    except (TypeError, ValueError, OverflowError) as problem:
        if isinstance(problem, InputError):
            raise
        return None


def _from_indicator(y: Any) -> LabelSets:
    check_memory(9.0 * y.shape[0] * y.shape[1], f"{y.shape[1]} labels of {y.shape[0]} rows", "pass fewer rows at once")
    check_unmasked(y, "y")
    values = np.asarray(y.toarray() if is_sparse(y) else y)
    if values.dtype.kind == "O" and all(isinstance(v, (bool, int, float)) for v in values.ravel().tolist()):
        values = values.astype(float)
    if values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
        raise InputError(
            "expected labels (rows,), or an indicator (rows, labels) of 0 and 1, got other values in "
            f"{values.shape[1]} columns; for several quantities per row use ContinualRegressor"
        )
    return LabelSets(INDICATOR, np.arange(values.shape[1]), values.astype(bool))


def _from_sets(rows: Sequence[Any]) -> LabelSets:
    from remanence.estimators.input_checks import check_labels

    for i, row in enumerate(rows):
        if not isinstance(row, (set, frozenset, list, tuple)):
            raise InputError(
                f"expected a set of labels for every row, got {type(row).__name__} in row {i + 1}; an empty set says "
                f"that a row has no label"
            )
    items = [item for row in rows for item in row]
    if not items:
        return LabelSets(SETS, np.empty(0, np.int64), np.zeros((len(rows), 0), bool))
    labels, where = np.unique(check_labels(items), return_inverse=True)
    check_memory(9.0 * len(rows) * len(labels), f"{len(labels)} labels of {len(rows)} rows", "pass fewer rows at once")
    has = np.zeros((len(rows), len(labels)), bool)
    has[np.repeat(np.arange(len(rows)), [len(row) for row in rows]), where.reshape(-1)] = True
    return LabelSets(SETS, labels, has)
