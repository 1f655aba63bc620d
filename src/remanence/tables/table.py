"""What every table is: named columns of numbers, beside one of labels, in pieces that are learned whole or not at all.

A file is one piece; a Parquet file is one piece a row group. A piece has a fingerprint of its bytes, so that data are
known by what they hold and not by what they are called.
"""

import glob
import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import FileError, InputError
from remanence.files import kind_of_file

FORMATS = {".csv": "csv", ".tsv": "csv", ".npz": "npz", ".parquet": "parquet", ".pq": "parquet"}
ROWS_AT_ONCE = 8192
MISSING = {"", "na", "n/a", "nan", "null", "none"}  # how text says that a number is missing, in any case of letters


@dataclass(frozen=True)
class RowBlock:
    """A block of rows: numbers of the asked columns and what stands in the label columns, missing ones as NaN."""

    X: Array  # (n, d) float64
    labels: Array | None  # (n,) or (n, k): text, integers or real numbers, as the file has them
    first: int  # the number of its first row within the piece, from 0
    original: Mapping[str, Any] | None = None  # every column as the file has it, for those who hand rows on

    def complete(self) -> Array:
        """Which rows have no missing entry, (n,)."""
        whole = finite_rows(self.X)
        if self.labels is not None:
            if self.labels.dtype.kind == "f":
                whole &= np.isfinite(self.labels.reshape(len(whole), -1)).all(axis=1)
            elif self.labels.dtype.kind in "OU":
                whole &= (self.labels.reshape(len(whole), -1) != "").all(axis=1)
        return whole

    def only(self, chosen: Array) -> "RowBlock":
        """The rows marked by `chosen`, (n,) true or false."""
        original = None if self.original is None else {name: _taken(v, chosen) for name, v in self.original.items()}
        return RowBlock(self.X[chosen], None if self.labels is None else self.labels[chosen], self.first, original)


def finite_rows(X: Array) -> Array:
    """Which rows hold only finite numbers, (n,); one pass where all of them do."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):
            return np.ones(len(X), bool)
    return np.asarray(np.isfinite(X).all(axis=1))


def _taken(column: Any, chosen: Array) -> Any:
    return column[chosen] if isinstance(column, np.ndarray) else column.filter(chosen)  # (Arrow's own word for it)


class Piece(ABC):
    """The smallest part of a table that is learned whole or not at all."""

    path: Path
    name: str
    grows: bool = False  # whether rows can be appended to the file, so that it begins with what it was before
    size: int | None = None  # bytes, of a file that is one piece and that rows are appended to; known once hashed

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of what it holds; `blocks` refuses what is not as it was when this was first asked."""

    def beginnings(self, lengths: Iterable[int]) -> dict[int, str]:
        """What the fingerprint would be of the first bytes alone, for lengths at which such a file may have ended."""
        return {}

    @abstractmethod
    def blocks(self, columns: Sequence[str], labels: Sequence[str] = (), originals: bool = False) -> Iterator[RowBlock]:
        """Its rows, some thousand at a time: the numbers of `columns`, in this order, and the label columns.

        With `originals` also all columns as they are in the file: text of a CSV, arrays of an NPZ, Arrow of a Parquet.
        """


class Table(ABC):
    """A file of named columns."""

    path: Path
    columns: tuple[str, ...]

    @abstractmethod
    def pieces(self) -> Sequence[Piece]:
        """The pieces in the order of the file; a table without rows is refused."""

    def features(self, labels: Sequence[str] = (), ignored: Sequence[str] = ()) -> tuple[str, ...]:
        """The columns that are neither labels nor ignored; one that has no name is refused."""
        self.require([*labels, *ignored])
        aside = {*labels, *ignored}
        kept = tuple(c for c in self.columns if c not in aside)
        if not kept:
            raise InputError(f"expected {self.path.name} to have columns beside {[*labels, *ignored]}, got none")
        if "" in kept:
            raise InputError(
                f"expected a name for every column of {self.path.name}, got none for number "
                f"{self.columns.index('') + 1}; name it, or write the table without its index (pandas: index=False)"
            )
        return kept

    @cached_property
    def names(self) -> frozenset[str]:
        """The columns as a set: a table may have very many of them."""
        return frozenset(self.columns)

    def require(self, columns: Iterable[str]) -> None:
        """Refuse a table that lacks one of the columns."""
        missing = [c for c in columns if c not in self.names]
        if missing:
            raise InputError(
                f"expected {self.path.name} to have the column{'s' if len(missing) > 1 else ''} "
                f"{', '.join(map(repr, missing[:5]))}{' …' if len(missing) > 5 else ''}; "
                f"{_close(missing, self.columns)}it has {_first_and_last(self.columns)}"
            )


def refuse_twice(columns: Sequence[str], name: str) -> None:
    """Refuse names that several columns have."""
    twice = [column for column, count in Counter(columns).items() if count > 1]
    if twice:
        few = ", ".join(map(repr, sorted(twice)[:5])) + (" …" if len(twice) > 5 else "")
        raise InputError(f"expected column names that differ in {name}, got {few} more than once; rename them")


def _close(missing: Sequence[str], columns: Sequence[str]) -> str:
    close = get_close_matches(missing[0], columns, n=1)
    return f"did you mean {close[0]!r}? " if close else ""


def _first_and_last(names: Sequence[str], each: int = 5) -> str:
    """A list of names, or its ends: labels often come last."""
    if len(names) <= 2 * each:
        return ", ".join(map(repr, names))
    return f"{', '.join(map(repr, names[:each]))} … {', '.join(map(repr, names[-each:]))}"


def open_table(path: Path | str) -> Table:
    """The table in a file, by the ending of its name; a file that is something else is refused."""
    path = Path(path)
    if not path.is_file():
        other = kind_of_file(path)
        hint = "" if other in ("", "a folder") else "; write what comes from it to a file first"
        raise FileError(f"cannot read {path}: {f'it is {other}{hint}' if other else 'there is no such file'}")
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"expected a file ending in {', '.join(FORMATS)}, got {path.name}; convert it first")
    if path.stat().st_size == 0:
        raise InputError(f"{path.name} is empty; expected a table with at least one row")
    found = _sniffed(path)
    if found != kind and not (kind == "csv" and found is None):
        looks = {"npz": "an NPZ (zip) file", "parquet": "a Parquet file", None: "something else"}[found]
        raise InputError(f"{path.name} is not what its name says: it holds {looks}; rename or convert it")
    opened: Table = import_module(f"remanence.tables.{kind}").read(path)
    refuse_twice(opened.columns, path.name)
    return opened


def _sniffed(path: Path) -> str | None:
    """The format a file's first bytes tell, or None."""
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as problem:
        raise FileError(f"cannot read {path}: {problem.strerror}") from None
    return {b"PAR1": "parquet", b"PK\x03\x04": "npz"}.get(start)


def expand_paths(patterns: Iterable[Path | str]) -> list[Path]:
    """The files that names and patterns such as 'data/*.csv' stand for, each once, in the order given."""
    found: dict[Path, None] = {}
    for pattern in map(str, patterns):
        if Path(pattern).exists() or not glob.has_magic(pattern):
            found[Path(pattern)] = None
            continue
        matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 (patterns may be absolute)
        if not matches:
            raise FileError(f"cannot find {pattern}: no file matches this pattern")
        found.update({Path(match): None for match in matches if Path(match).is_file()})
    return list(found)


def hash_of_bytes(path: Path, spans: Iterable[tuple[int, int]] | None = None, salt: str = "") -> str:
    """SHA-256 of a file, or of some (start, length) spans of it, without reading it all at once."""
    digest = hashlib.sha256(salt.encode())
    with path.open("rb") as file:
        for start, length in spans if spans is not None else [(0, path.stat().st_size)]:
            file.seek(start)
            while length > 0:
                part = file.read(min(length, 1 << 20))
                if not part:
                    break
                digest.update(part)
                length -= len(part)
    return digest.hexdigest()


def as_labels(values: Any) -> Array:
    """Label values as text, integers or real numbers; numbers come as text in CSV files and are told apart."""
    array = np.asarray(values)
    if array.dtype.kind in "bS" or (array.dtype.kind == "u" and (array > np.iinfo(np.int64).max).any()):
        return array.astype(str)  # (numbers too large to be integers here are codes, as in a CSV)
    if array.dtype.kind not in "OU":
        return array
    text = np.char.strip(array.astype(str))
    try:
        whole = text.astype(np.int64)
    except (ValueError, OverflowError):
        try:
            return text.astype(np.float64)
        except ValueError:
            return text
    return whole if (whole.astype(str) == text).all() else text  # '01' is a code and not the number 1
