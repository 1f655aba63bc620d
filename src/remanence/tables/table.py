"""Tables: named columns of numbers and labels, in pieces as they are stored.

A file is one piece, except that every row group of a Parquet file is a piece.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import FileError, InputError
from remanence.files import kind_of_file
from remanence.labels import present_labels
from remanence.tables.dialect import Dialect
from remanence.tables.formats import (
    DESCRIPTIONS,
    MODULES,
    TEXT,
    compression_of,
    format_of,
    found_in,
    listed_endings,
)
from remanence.tables.pages.stripes import is_limited

ROWS_AT_ONCE = 8192
FEWEST_AT_ONCE = 1000  # enough to fold at full speed
NUMBERS_AT_ONCE = 1 << 22
NUMBERS_WHERE_LIMITED = 1 << 20  # (more rows at once are read faster: an Arrow batch has a cost per column)


def rows_at_once(columns: int, most: int) -> int:
    """How many rows are read at a time: at most `most`, and fewer where they are wide or memory is limited."""
    numbers = NUMBERS_WHERE_LIMITED if is_limited() else NUMBERS_AT_ONCE
    return min(most, max(FEWEST_AT_ONCE, numbers // max(columns, 1)))


class EmptyTable(InputError):
    """A table that has no rows."""


@dataclass(frozen=True)
class RowBlock:
    """A block of rows: the numbers of the requested columns, and the label columns; missing numbers are NaN."""

    X: Array  # (n, d) float64
    labels: Array | None  # (n,) or (n, k): text, integers or real numbers, as in the file
    first: int  # number of its first row within the piece, from 0
    original: Mapping[str, Any] | None = None  # every column as it is in the file, if requested
    cells: Mapping[str, Any] = field(default_factory=dict)  # columns of other kinds than numbers, as Arrow has them

    def complete(self) -> Array:
        """Which rows have no missing entry, (n,)."""
        whole = finite_rows(self.X)
        if self.labels is not None:
            whole &= present_labels(self.labels).reshape(len(whole), -1).all(axis=1)
        return whole

    def only(self, chosen: Array) -> "RowBlock":
        """The rows selected by the boolean array `chosen`, (n,)."""
        original = None if self.original is None else {name: _filtered(v, chosen) for name, v in self.original.items()}
        cells = {name: _filtered(v, chosen) for name, v in self.cells.items()}
        labels = None if self.labels is None else self.labels[chosen]
        return RowBlock(self.X[chosen], labels, self.first, original, cells)


def finite_rows(X: Array) -> Array:
    """Which rows hold only finite numbers, (n,); one pass if all of them do."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):
            return np.ones(len(X), bool)
    return np.asarray(np.isfinite(X).all(axis=1))


def stacked(columns: Sequence[Array]) -> Array | None:
    """Label columns as one array: (n,) for one of them, (n, k) for several, None for none."""
    if not columns:
        return None
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


def _filtered(column: Any, chosen: Array) -> Any:
    return column[chosen] if isinstance(column, np.ndarray) else column.filter(chosen)  # (NumPy or Arrow)


class Piece(ABC):
    """A part of a table that is stored together."""

    path: Path
    name: str
    table: "Table"
    size: int | None = None  # bytes of a text file

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of its bytes."""

    @abstractmethod
    def blocks(
        self, columns: Sequence[str], labels: Sequence[str] = (), originals: bool = False, cells: Sequence[str] = ()
    ) -> Iterator[RowBlock]:
        """Its rows, block by block: the numbers of `columns` in this order, the label columns, and columns of cells.

        With `originals` also all columns as they are in the file: text of a CSV, arrays of an NPZ, Arrow of a Parquet.
        """


class Table(ABC):
    """A file of named columns."""

    path: Path
    columns: tuple[str, ...]
    partitions: Mapping[str, str] = {}  # columns of one value, which the names of folders stand for
    vectors: Mapping[str, int] = {}  # name: length of columns of vectors, whose entries are columns name0, name1, …

    @abstractmethod
    def pieces(self) -> Sequence[Piece]:
        """The pieces in the order of the file; a table without rows is an InputError."""

    def sample(self, columns: Sequence[str]) -> dict[str, Any]:
        """The first rows of these columns, as Arrow has them; columns that can only be numbers are left out."""
        return {}

    def features(self, labels: Sequence[str] = (), ignored: Sequence[str] = ()) -> tuple[str, ...]:
        """The columns that are neither labels nor ignored."""
        self.require([*labels, *ignored])
        others = {*labels, *ignored}
        kept = tuple(c for c in self.columns if c not in others)
        if not kept:
            raise InputError(f"expected {self.path.name} to have columns beside {[*labels, *ignored]}, got none")
        return kept

    @cached_property
    def names(self) -> frozenset[str]:
        """The columns as a set: a table may have very many of them."""
        return frozenset(self.columns)

    def close(self) -> None:  # noqa: B027 (most tables are not open between two passes)
        """Close the file if it is open; reading opens it again."""

    def with_earlier_names(self, known: Iterable[str]) -> None:
        """Name the entries of vectors name.0, name.1, …, as earlier versions did, if a model knows them so."""
        others = {f"{n}.{i}" for n, width in self.vectors.items() for i in range(width)} & set(known)
        back = {f"{n}{i}": f"{n}.{i}" for n, w in self.vectors.items() for i in range(w) if f"{n}.{i}" in others}
        if back:
            self.columns = tuple(back.get(column, column) for column in self.columns)
            vars(self).pop("names", None)

    def require(self, columns: Iterable[str]) -> None:
        """Raise an InputError if one of the columns is missing."""
        missing = [c for c in columns if c not in self.names]
        if missing:
            raise InputError(
                f"expected {self.path.name} to have the column{'s' if len(missing) > 1 else ''} "
                f"{', '.join(map(repr, missing[:5]))}{' …' if len(missing) > 5 else ''}; "
                f"{_close(missing, self.columns)}it has {_first_and_last(self.columns)}"
            )


def check_unique(columns: Sequence[str], name: str) -> None:
    """Raise an InputError if several columns have the same name."""
    twice = [column for column, count in Counter(columns).items() if count > 1]
    if twice:
        few = ", ".join(map(repr, sorted(twice)[:5])) + (" …" if len(twice) > 5 else "")
        raise InputError(f"expected column names that differ in {name}, got {few} more than once; rename them")


def check_signature(name: str, expected: str, start: bytes) -> None:
    """Raise an InputError if the first bytes of a file are those of another format than its name says."""
    found = found_in(start, expected)
    if found != expected:
        raise InputError(f"{name} is not what its name says: it holds {DESCRIPTIONS[found]}; rename or convert it")


def and_others(names: Sequence[str]) -> str:
    """The end of a message about a column that others share."""
    if not names:
        return ""
    few = ", ".join(map(repr, names[:8])) + (" …" if len(names) > 8 else "")
    return f"; the same is true of {few}"


def _close(missing: Sequence[str], columns: Sequence[str]) -> str:
    close = get_close_matches(missing[0], columns, n=1)
    return f"did you mean {close[0]!r}? " if close else ""


def _first_and_last(names: Sequence[str], each: int = 5) -> str:
    """A list of names, or its first and last ones: labels often come last."""
    if len(names) <= 2 * each:
        return ", ".join(map(repr, names))
    return f"{', '.join(map(repr, names[:each]))} … {', '.join(map(repr, names[-each:]))}"


def open_table(
    path: Path | str, dialect: Dialect | None = None, waits: bool = False, given: str | None = None
) -> Table:
    """The table in a file, by the ending of its name or the format `given`; a file of another format is an InputError.

    `dialect` is how a CSV file is written, where it does not tell itself. With `waits`, a last line of text without a
    line break is left out: it may be incomplete.
    """
    path = Path(path)
    if not path.is_file():
        other = kind_of_file(path)
        hint = "" if other in ("", "a folder") else "; write what comes from it to a file first"
        raise FileError(f"cannot read {path}: {f'it is {other}{hint}' if other else 'there is no such file'}")
    found = given or format_of(path)
    if found is None:
        raise InputError(
            f"expected a file ending in {listed_endings()}, got {path.name}; name its format if it is one of them, or "
            f"convert it first",
            arguments=("given",),
        )
    if path.stat().st_size == 0:
        raise EmptyTable(f"{path.name} is empty; expected a table with at least one row")
    check_signature(path.name, compression_of(path) or found, _first_bytes(path))
    module = import_module(f"remanence.tables.{MODULES.get(found, found)}")
    if found in TEXT:
        table: Table = module.read(path, dialect, waits) if found == "csv" else module.read(path, waits)
    else:
        table = module.read(path)
    check_unique(table.columns, path.name)
    return _partitioned(table)


def _partitioned(table: Table) -> Table:
    """The table with columns for the folders NAME=VALUE around it, which the file itself does not have."""
    from remanence.tables.partitions import PartitionedTable, partitions_of

    values = {name: value for name, value in partitions_of(table.path).items() if name not in table.names}
    return PartitionedTable(table, values) if values else table


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4)
    except OSError as problem:
        raise FileError(f"cannot read {path}: {problem.strerror}") from None
