"""CSV: a header of column names, then rows of numbers with labels; commas, semicolons or tabs.

A number is written as in most languages: 1, -2.5, 3e-7, with nothing between its digits and in digits 0 to 9. Lines are
read one by one, up to a length that no table needs.
"""

import csv
import io
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np

from remanence.checks import Array
from remanence.errors import InputError
from remanence.streams.tables.hashing import HashingFile, hash_with_beginnings, refuse_changed
from remanence.streams.tables.table import MISSING, ROWS_AT_ONCE, Piece, Rows, Table, refuse_twice

LONGEST_LINE = 1 << 24  # characters


def read(path: Path) -> "TextTable":
    return TextTable(path)


class TextTable(Table):
    def __init__(self, path: Path) -> None:
        self.path = path
        header = next(Lines(HashingFile(path), path.name), None)
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
        return (TextPiece(self),)


class TextPiece(Piece):
    grows = True

    def __init__(self, table: TextTable) -> None:
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

    def blocks(self, columns: Sequence[str], labels: Sequence[str] = (), originals: bool = False) -> Iterator[Rows]:
        self.table.require([*columns, *labels])
        place = {name: j for j, name in enumerate(self.table.columns)}
        where, label_at = [place[c] for c in columns], [place[c] for c in labels]
        source = HashingFile(self.path)
        lines = Lines(source, self.name)
        if tuple(name.strip() for name in next(lines, ())) != self.table.columns:
            refuse_changed(self.name)
        first = 0
        while block := list(islice(lines, ROWS_AT_ONCE)):
            for i, row in enumerate(block):
                if len(row) != len(self.table.columns):
                    raise InputError(
                        f"expected {len(self.table.columns)} entries in row {first + i + 1} of {self.name}, "
                        f"got {len(row)}"
                    )
            X = self._numbers([[row[j] for j in where] for row in block], columns, first, lines.take_odd())
            text = np.array([[row[j].strip() for j in label_at] for row in block], dtype=object)
            aside = (text[:, 0] if len(label_at) == 1 else text) if label_at else None
            yield Rows(X, aside, first, self._original(block) if originals else None)
            first += len(block)
        if self.mark not in (None, source.digest.hexdigest()):
            refuse_changed(self.name)
        if not first:
            raise InputError(f"{self.name} has column names and no rows; expected at least one row")
        if not lines.ended:
            warnings.warn(
                f"the last line of {self.name} does not end with a line break; if the file was cut short, its last "
                f"number may be too: look at it, or end the file with a line break",
                UserWarning,
                stacklevel=2,
            )

    def _original(self, block: list[list[str]]) -> dict[str, Array]:
        cells = np.array(block, dtype=object)
        return {name: cells[:, j] for j, name in enumerate(self.table.columns)}

    def _numbers(self, cells: list[list[str]], columns: Sequence[str], first: int, odd: bool) -> Array:
        if not odd:
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


class Lines(Iterator[list[str]]):
    """The rows of a file as text, read once; one that is no text is refused. Blank lines are passed over."""

    def __init__(self, source: io.RawIOBase, name: str) -> None:
        self.name, self.odd, self.ended = name, False, True
        self.rows = self._rows(source)

    def __next__(self) -> list[str]:
        return next(self.rows)

    def take_odd(self) -> bool:
        """Whether a line since the last call holds characters that Python takes for parts of numbers and we do not."""
        odd, self.odd = self.odd, False
        return odd

    def _rows(self, source: io.RawIOBase) -> Iterator[list[str]]:
        try:
            with io.TextIOWrapper(io.BufferedReader(source), encoding="utf-8-sig", newline="") as file:
                header = file.readline(LONGEST_LINE + 1)
                delimiter = max(",;\t", key=header.count)
                lines = self._checked(chain([header], file_lines(file)))
                for row in csv.reader(lines, delimiter=delimiter, strict=True):
                    if row:
                        yield row
        except (UnicodeDecodeError, csv.Error) as problem:
            raise InputError(f"{self.name} is not what its name says, a text of rows: {problem}") from None

    def _checked(self, lines: Iterable[str]) -> Iterator[str]:
        line = "\n"
        for line in lines:
            if len(line) > LONGEST_LINE:
                raise InputError(f"expected lines of at most {LONGEST_LINE} characters in {self.name}, got a longer")
            if "_" in line or not line.isascii():
                self.odd = True
            yield line
        self.ended = line.endswith(("\n", "\r"))


def file_lines(file: io.TextIOWrapper) -> Iterator[str]:
    """Lines of a file, of which one that is too long is read only as far as it takes to see that."""
    while line := file.readline(LONGEST_LINE + 1):
        yield line


def _is_number(cell: str) -> bool:
    if "_" in cell or not cell.isascii():
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return cell.strip().lower() not in MISSING
