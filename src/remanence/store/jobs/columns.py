"""Which column of a table means what to a model: features by name and in order, a label or targets, and the rest.

Decided by the first table that is learned and kept in the notes of the model file, so that later tables may have their
columns in another order, and one that cannot mean the same is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.store.jobs.labels import Kind, kind_of, read_labels
from remanence.tables import Piece, RowBlock, Table
from remanence.tables.table import finite_rows


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a model's tables."""

    features: tuple[str, ...]
    label: str | None = None  # of a classifier
    targets: tuple[str, ...] = ()  # of a regressor
    ignored: tuple[str, ...] = ()
    kind: Kind | None = None  # of the labels, once one was met

    @property
    def answers(self) -> tuple[str, ...]:
        """What is to be foretold."""
        return self.targets if self.label is None else (self.label,)

    @classmethod
    def of(cls, table: Table, label: str | None, targets: Sequence[str], ignored: Sequence[str]) -> Self:
        """The columns of a first table; whatever is neither label, target nor ignored is a feature."""
        answers = list(targets) if label is None else [label]
        table.require([*answers, *ignored])
        both = sorted(set(answers) & set(ignored))
        if both:
            raise InputError(f"expected the column {both[0]!r} to be learned or ignored, got it as both; choose one")
        return cls(table.features(answers, ignored), label, tuple(targets), tuple(ignored))

    @classmethod
    def from_notes(cls, notes: Mapping[str, Any]) -> Self | None:
        """The columns as a model file has them; None where it was never taught from tables."""
        if "columns" not in notes:
            return None
        names = (tuple(notes[key]) for key in ("columns", "targets", "ignored"))
        features, targets, ignored = names
        return cls(features, notes["label"], targets, ignored, notes["label kind"])

    def to_notes(self) -> dict[str, Any]:
        return {
            "columns": list(self.features),
            "label": self.label,
            "targets": list(self.targets),
            "ignored": list(self.ignored),
            "label kind": self.kind,
        }

    def ignoring(self, more: Sequence[str]) -> Self:
        """With further columns to pass over; one that the model uses is refused."""
        ours = {*self.features, *self.answers}
        used = [name for name in more if name in ours]
        if used:
            raise InputError(
                f"expected columns to ignore that the model does not use, got {used[0]!r}, which it has learned from; "
                f"begin a new model to leave it out"
            )
        return replace(self, ignored=tuple(dict.fromkeys([*self.ignored, *more])))

    def check(self, table: Table, asking: bool = False) -> None:
        """Refuse a table whose columns are not the model's; when `asking`, answers and other columns do not matter."""
        name = table.path.name
        missing = [c for c in self.features if c not in table.names]
        known = {*self.features, *self.answers, *self.ignored}
        extra = [] if asking else [c for c in table.columns if c not in known]
        if missing:
            besides = f", and got {_listed(extra)} besides" if extra else ""
            raise InputError(
                f"expected {name} to have the {len(self.features)} columns the model was taught with, but "
                f"{_listed(missing)} {'is' if len(missing) == 1 else 'are'} missing{besides}"
            )
        if extra:
            hint = " ".join(f"--ignore {c}" for c in extra[:3])
            raise InputError(
                f"expected {name} to have only columns the model was taught with, got {_listed(extra)} besides; "
                f"leave {'it' if len(extra) == 1 else 'them'} out with {hint}{' …' if len(extra) > 3 else ''}"
            )
        if not asking:
            table.require(self.answers)

    def seeing(self, piece: Piece) -> Self:
        """With the kind of label decided, from all labels of a first piece."""
        if self.label is None or self.kind is not None:
            return self
        kind: Kind | None = None
        for rows in piece.blocks((), (self.label,)):
            assert rows.labels is not None
            found = kind_of(rows.labels)
            kind = "text" if "text" in (kind, found) else found or kind
        return replace(self, kind=kind)


class Samples(NamedTuple):
    """Rows to learn or to forget: numbers, answers, and where in the piece they stand."""

    X: Array  # (n, d)
    y: Array  # (n,) labels or the one target, (n, k) targets
    places: Array  # (n,) row numbers within the piece, from 0
    missing: int  # rows that were left out, as something in them is missing

    def only(self, which: Array) -> "Samples":
        """The rows marked by `which`, (n,) true or false."""
        return Samples(self.X[which], self.y[which], self.places[which], 0)


def samples(piece: Piece, columns: Columns, drop: bool) -> Iterator[Samples]:
    """The rows of a piece as a model wants them; rows with missing entries are refused, or dropped and counted."""
    d, whole = len(columns.features), 0
    missing: list[int] = []
    for rows in _read(piece, columns):
        X, aims = rows.X[:, :d], rows.X[:, d:]
        complete = finite_rows(rows.X)
        if rows.labels is None:
            y = aims[:, 0] if aims.shape[1] == 1 else aims
        else:
            y, present = read_labels(rows.labels, columns.kind, f"{columns.label!r} of {piece.name}", rows.first)
            complete &= present
        whole += len(X)
        places = rows.first + np.arange(len(X))
        missing += places[~complete].tolist()
        if missing and not drop:
            continue  # look at all of them, to say how many there are
        if complete.all():
            yield Samples(X, y, places, 0)
        else:
            yield Samples(X[complete], y[complete], places[complete], int((~complete).sum()))
    if missing and not drop:
        raise InputError(
            f"expected numbers everywhere, but {len(missing)} of {whole} rows of {piece.name} have missing or infinite "
            f"entries, the first in row {missing[0] + 1}; leave those rows out with --drop-nan, or fill them in"
        )


def _read(piece: Piece, columns: Columns) -> Iterator[RowBlock]:
    """Targets are numbers like the features and come behind them; a label stands aside."""
    if columns.label is None:
        return piece.blocks((*columns.features, *columns.targets))
    return piece.blocks(columns.features, (columns.label,))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (" …" if len(names) > 5 else "")
