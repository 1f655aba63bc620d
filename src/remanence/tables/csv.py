"""CSV: a header of column names, then rows of numbers with labels; commas, semicolons or tabs.

A number is written as in most languages: 1, -2.5, 3e-7, with nothing between its digits and in digits 0 to 9. Lines may
have any length that a table needs, and no more than that is read before a longer one is refused.
"""

import csv
import io
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.tables.hashing import PART, HashingFile, LineTooLong, hash_with_beginnings, refuse_changed
from remanence.tables.table import MISSING, ROWS_AT_ONCE, Piece, RowBlock, Table, refuse_twice

LONGEST_LINE = 1 << 24  # bytes


def read(path: Path) -> "CsvTable":
    return CsvTable(path)


class CsvTable(Table):
    def __init__(self, path: Path) -> None:
        self.path = path
        header = next(_rows(HashingFile(path, LONGEST_LINE), path.name), None)
        if header is None:
            raise InputError(f"{path.name} is empty; expected a line of column names and then rows")
        self.columns = tuple(name.strip() for name in header)
        refuse_twice(self.columns, path.name)
        if any(_is_number(name) for name in self.columns):
            raise InputError(
                f"expected the first line of {path.name} to name the columns, got numbers ({', '.join(header[:3])} …); "
                "add a header line"
            )

    def pieces(self) -> Sequence[Piece]:
        return (CsvPiece(self),)


class CsvPiece(Piece):
    grows = True

    def __init__(self, table: CsvTable) -> None:
        self.table, self.path, self.name = table, table.path, table.path.name
        self.mark: str | None = None

    def fingerprint(self) -> str:
        if self.mark is None:
            self.beginnings(())
        assert self.mark is not None
        return self.mark

    def beginnings(self, lengths: Iterable[int]) -> dict[int, str]:
        found, self.size, begun = hash_with_beginnings(self.path, lengths)
        if self.mark not in (None, found):
            refuse_changed(self.name)
        self.mark = found
        return {length: mark for length, mark in begun.items() if length < self.size}

    def blocks(self, columns: Sequence[str], labels: Sequence[str] = (), originals: bool = False) -> Iterator[RowBlock]:
        self.table.require([*columns, *labels])
        place = {name: j for j, name in enumerate(self.table.columns)}
        where, label_at = [place[c] for c in columns], [place[c] for c in labels]
        source = HashingFile(self.path, LONGEST_LINE)
        lines = _rows(source, self.name)
        if tuple(name.strip() for name in next(lines, ())) != self.table.columns:
            refuse_changed(self.name)
        first, width = 0, len(self.table.columns)
        while block := list(islice(lines, ROWS_AT_ONCE)):
            if set(map(len, block)) != {width}:
                i, row = next((i, row) for i, row in enumerate(block) if len(row) != width)
                raise InputError(f"expected {width} entries in row {first + i + 1} of {self.name}, got {len(row)}")
            X = self._numbers(_taken(block, where), columns, first)
            text = [np.array([row[j].strip() for row in block], dtype=object) for j in label_at]
            aside = (text[0] if len(text) == 1 else np.column_stack(text)) if text else None
            yield RowBlock(X, aside, first, self._original(block) if originals else None)
            first += len(block)
        if self.mark not in (None, source.digest.hexdigest()):
            refuse_changed(self.name)
        if not first:
            raise InputError(f"{self.name} has column names and no rows; expected at least one row")
        if not source.ended:
            warnings.warn(
                f"the last line of {self.name} does not end with a line break; if the file was cut short, its last "
                f"number may be too: look at it, or end the file with a line break",
                UserWarning,
                stacklevel=2,
            )

    def _original(self, block: list[list[str]]) -> dict[str, Array]:
        cells = np.array(block, dtype=object)
        return {name: cells[:, j] for j, name in enumerate(self.table.columns)}

    def _numbers(self, cells: Sequence[Sequence[str]], columns: Sequence[str], first: int) -> Array:
        if not columns:
            return np.empty((len(cells), 0))
        if _is_plain("".join(map("".join, cells))):
            try:
                return np.array(cells, dtype=np.float64)
            except ValueError:  # something missing, or no number
                pass
        X = np.empty((len(cells), len(columns)))  # look at each entry
        for i, row in enumerate(cells):
            for j, cell in enumerate(row):
                if cell.strip().lower() in MISSING:
                    X[i, j] = np.nan
                elif _is_number(cell):
                    X[i, j] = float(cell)
                else:
                    raise InputError(
                        f"expected a number in column {columns[j]!r}, row {first + i + 1} of {self.name}, got "
                        f"{cell!r:.60}; encode text as numbers, or leave the column out with --ignore {columns[j]}"
                    )
        return X


def _rows(source: HashingFile, name: str) -> Iterator[list[str]]:
    """The rows of a file as text, the header first; one that is no text is refused. Blank lines are passed over."""
    try:
        with io.TextIOWrapper(io.BufferedReader(source, PART), encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            delimiter = max(",;\t", key=header.count)
            yield from filter(None, csv.reader(chain([header], file), delimiter=delimiter, strict=True))
    except LineTooLong as problem:
        raise InputError(f"expected lines of at most {LONGEST_LINE} bytes in {name}, got a longer one") from problem
    except (UnicodeDecodeError, csv.Error) as problem:
        raise InputError(f"{name} is not what its name says, a text of rows: {problem}") from None


def _taken(block: list[list[str]], places: list[int]) -> Sequence[Sequence[str]]:
    """The entries at these places of every row."""
    if len(places) > 1:
        return list(map(itemgetter(*places), block))
    return [[row[j]] for row in block for j in places] if places else block


def _is_plain(text: str) -> bool:
    """Whether text holds no character that Python reads as part of a number and we do not, as in 1_000."""
    return "_" not in text and text.isascii()


def _is_number(cell: str) -> bool:
    if not _is_plain(cell):
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return cell.strip().lower() not in MISSING
