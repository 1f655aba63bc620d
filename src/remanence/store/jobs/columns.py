"""The meaning of the columns of a table for a model: features in order, a label or targets, and ignored columns.

It is decided by the first table that is learned and kept in the notes of the model file, so that later tables may have
their columns in another order, and tables with other columns are an error. Columns of numbers may be added later where
the user declares them; they were 0 in all rows before, and are 0 in tables without them. In the key of a row they come
last and a 0 adds nothing to it, so that rows are known as before.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.hashing import row_keys
from remanence.kernels.row_words import add_words
from remanence.labels import LabelKind, LabelReader
from remanence.store.jobs.label_sets import are_sets, check_label_column, read_sets, set_texts
from remanence.tables import Piece, RowBlock, Table
from remanence.tables.encoding.cells import Cells, joined_cells, read_cells
from remanence.tables.table import finite_rows


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a model's tables."""

    features: tuple[str, ...]
    label: str | None = None  # of a classifier
    targets: tuple[str, ...] = ()  # of a regressor
    ignored: tuple[str, ...] = ()
    label_kind: LabelKind | None = None  # None until a label was read
    kinds: Mapping[str, str] | None = None  # of every feature; None if all are numbers
    gaps: bool = False  # whether rows with missing features are learned
    separator: str | None = None  # between labels, where rows have sets of them
    added: tuple[str, ...] = ()  # the last features: columns that the first tables did not have

    @property
    def numbers(self) -> tuple[str, ...]:
        """The features that are numbers as they are in a file."""
        return self.features if self.kinds is None else tuple(n for n in self.features if self.kinds[n] == "number")

    @property
    def outputs(self) -> tuple[str, ...]:
        """The columns to predict: the label, or the targets."""
        return self.targets if self.label is None else (self.label,)

    @classmethod
    def from_table(cls, table: Table, label: str | None, targets: Sequence[str], ignored: Sequence[str]) -> Self:
        """The columns of a first table; those that are neither label, target nor ignored are features."""
        outputs = list(targets) if label is None else [label]
        check_label_column(table, label)
        table.require([*outputs, *ignored])
        both = sorted(set(outputs) & set(ignored))
        if both:
            raise InputError(f"expected the column {both[0]!r} to be learned or ignored, got it as both; choose one")
        return cls(table.features(outputs, ignored), label, tuple(targets), tuple(ignored))

    @classmethod
    def from_notes(cls, notes: Mapping[str, Any]) -> Self | None:
        """The columns in the notes of a model file; None if it has never learned from tables."""
        if "columns" not in notes:
            return None
        features, targets, ignored = (tuple(notes[key]) for key in ("columns", "targets", "ignored"))
        kinds, gaps = notes.get("kinds"), notes.get("missing") == "indicator"
        separator = notes.get("label separator")
        added = tuple(notes.get("added", ()))
        return cls(features, notes["label"], targets, ignored, notes["label kind"], kinds, gaps, separator, added)

    def to_notes(self) -> dict[str, Any]:
        """The inverse of `from_notes`."""
        coded: dict[str, Any] = {} if self.kinds is None else {"kinds": dict(self.kinds)}
        if self.gaps:
            coded["missing"] = "indicator"
        if self.separator is not None:
            coded["label separator"] = self.separator
        if self.added:
            coded["added"] = list(self.added)
        return {
            **coded,
            "columns": list(self.features),
            "label": self.label,
            "targets": list(self.targets),
            "ignored": list(self.ignored),
            "label kind": self.label_kind,
        }

    def with_ignored(self, more: Sequence[str]) -> Self:
        """With further columns to ignore; a column that the model uses is an InputError."""
        own = {*self.features, *self.outputs}
        used = [name for name in more if name in own]
        if used:
            raise InputError(
                f"expected columns to ignore that the model does not use, got {used[0]!r}, which it has learned from; "
                f"start a new model to leave it out"
            )
        return replace(self, ignored=tuple(dict.fromkeys([*self.ignored, *more])))

    def with_added(self, names: Sequence[str]) -> Self:
        """With further columns of numbers, which have been 0 in all rows so far."""
        kinds = None if self.kinds is None else {**self.kinds, **dict.fromkeys(names, "number")}
        return replace(self, features=(*self.features, *names), added=(*self.added, *names), kinds=kinds)

    def check(self, table: Table, predicting: bool = False) -> None:
        """Raise an InputError if the table has other columns than the model.

        When `predicting`, output columns may be missing and further columns are ignored.
        """
        name = table.path.name
        table.with_earlier_names(self.features)
        check_label_column(table, None if predicting else self.label)
        missing = [c for c in self.features if c not in table.names and c not in self.added]
        known = {*self.features, *self.outputs, *self.ignored}
        extra = [] if predicting else [c for c in table.columns if c not in known and c not in table.partitions]
        if missing:
            besides = f", and got {_listed(extra)} besides" if extra else ""
            raise InputError(
                f"expected {name} to have the {len(self.features)} columns the model has learned from, but "
                f"{_listed(missing)} {'is' if len(missing) == 1 else 'are'} missing{besides}"
            )
        if extra:
            raise InputError(
                f"expected {name} to have only columns the model has learned from, got {_listed(extra)} besides; "
                f"ignore {'it' if len(extra) == 1 else 'them'}, or declare what was 0 in all rows before as a number",
                arguments=("ignored", "columns"),
            )
        if not predicting:
            table.require(self.outputs)


class Samples(NamedTuple):
    """Rows to learn or to unlearn."""

    X: Any  # (n, d) numbers, or cells of any kind
    y: Array  # (n,) labels, sets of them or the one target, (n, k) targets
    places: Array  # (n,) row numbers within the piece, from 0
    missing: int = 0  # rows that were dropped because of missing entries
    first_missing: int = -1  # the row number of the first of them
    added: int = 0  # how many of the numbers, the last ones, were added later
    ends_missing: bool = False  # whether the last row was dropped

    def only(self, which: Array | slice) -> "Samples":
        """The rows selected by a boolean array, (n,), or a slice."""
        return Samples(self.X[which], self.y[which], self.places[which], added=self.added)

    def keys(self) -> Array:
        """A key for every row, (n,) "S16": of its numbers and its outputs."""
        numbers, texts = self.X, []
        if isinstance(self.X, Cells):
            numbers, texts = np.where(np.isnan(self.X.numbers), np.nan, self.X.numbers), self.X.coded_words()
        if self.y.dtype.kind == "f":
            first = numbers.shape[1] - self.added
            targets = self.y.reshape(len(numbers), -1)
            return row_keys(numbers[:, :first], texts, (targets, numbers[:, first:]), add_words)
        labels = set_texts(self.y) if are_sets(self.y) else self.y
        return row_keys(numbers, [*texts, labels], add_words=add_words)


def joined(parts: Sequence[Samples]) -> Samples:
    """The rows of several parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    y, places = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
    cells = [part.X for part in parts]
    X = joined_cells(cells) if isinstance(cells[0], Cells) else np.concatenate(cells)
    return Samples(X, y, places, added=parts[0].added)


def samples(piece: Piece, columns: Columns, drop: bool, labels: LabelReader | None = None) -> Iterator[Samples]:
    """The rows of a piece, block by block; rows with missing entries are dropped and counted, or an InputError.

    `labels` is passed where the kind of the labels is yet to be decided.
    """
    reader = LabelReader(columns.label_kind, decided=True) if labels is None else labels
    count, missing, first = 0, 0, -1
    for block in blocks_of(piece, columns, True, columns.targets):
        X, complete = features_of(block, columns, piece.name)
        targets = block.X[:, len(columns.numbers) :]
        where = f"{columns.label!r} of {piece.name}"
        if columns.separator is not None and columns.label is not None:
            y, present = read_sets(block.cells[columns.label], columns.separator, reader, where, block.first)
            complete &= present
        elif block.labels is None:
            y = targets[:, 0] if targets.shape[1] == 1 else targets
            complete &= finite_rows(targets)
        else:
            y, present = reader.read(block.labels, where, block.first)
            complete &= present
        count += len(X)
        places = block.first + np.arange(len(X))
        if complete.all():
            part = Samples(X, y, places, added=len(columns.added))
            del block, X, targets, y
            if drop or not missing:  # else read on, to count all of them
                yield part
            del part  # (while the next rows are read, these may be gone)
            continue
        gaps = places[~complete]
        missing, first = missing + len(gaps), int(gaps[0]) if first < 0 else first
        if drop:
            there = (X[complete], y[complete], places[complete])
            yield Samples(*there, len(gaps), int(gaps[0]), len(columns.added), not complete[-1])
    if missing and not drop:
        raise missing_entries(missing, count, piece.name, first)


def missing_entries(missing: int, count: int, name: str, first: int) -> InputError:
    """The error for rows with missing entries that are not to be dropped."""
    return InputError(
        f"expected numbers everywhere, but {missing} of {count} rows of {name} have missing or infinite "
        f"entries, the first in row {first + 1}; drop those rows, fill them in, or let a new model learn a gap in a "
        "feature as 0 with an indicator column",
        arguments=("drop", "missing"),
    )


def blocks_of(
    piece: Piece, columns: Columns, labelled: bool = False, targets: Sequence[str] = (), originals: bool = False
) -> Iterator[RowBlock]:
    """The blocks of a piece; targets are numbers like some of the features and follow them in X."""
    others = [] if columns.kinds is None else [name for name in columns.features if columns.kinds[name] != "number"]
    labels = [columns.label] if labelled and columns.label is not None else []
    if columns.separator is not None:
        labels, others = [], [*others, *labels]
    numbers = (*columns.numbers, *targets)
    there = [name not in columns.added or name in piece.table.names for name in numbers]
    found = piece.blocks([n for n, has in zip(numbers, there, strict=True) if has], labels, originals, cells=others)
    return found if all(there) else (_with_zeros(block, np.array(there)) for block in found)


def _with_zeros(block: RowBlock, there: Array) -> RowBlock:
    """The block with zeros for columns of numbers that are not there."""
    X = np.zeros((len(there), len(block.X)))
    X[there] = block.X.T
    return replace(block, X=X.T)


def features_of(block: RowBlock, columns: Columns, where: str) -> tuple[Any, Array]:
    """The features of a block, numbers or cells, and which rows of it can be learned, (n,)."""
    d = len(columns.numbers)
    if columns.kinds is None:
        return block.X[:, :d], finite_rows(block.X[:, :d])
    found = {**block.cells, **{name: block.X[:, j] for j, name in enumerate(columns.numbers)}}
    cells = read_cells(found, columns.kinds, {}, where)
    return cells, np.asarray(~np.isinf(cells.numbers).any(axis=1)) if columns.gaps else cells.complete()


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (" …" if len(names) > 5 else "")


@contextmanager
def ignore_name_warnings() -> Iterator[None]:
    """Silence scikit-learn's warning about feature names: columns were put in order by name before."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield
