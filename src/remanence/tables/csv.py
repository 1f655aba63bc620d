"""CSV files: a header of column names, then rows of numbers and labels; separated by commas, semicolons or tabs.

Numbers are written as in most languages (1, -2.5, 3e-7), in digits 0 to 9 and with nothing between them. A file is
hashed as it is parsed, so that learning from it takes one pass.
"""

import csv
import io
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.labels import MISSING
from remanence.tables.hashing import CHUNK, HashingFile, LineTooLong, hash_of_bytes, raise_changed
from remanence.tables.table import ROWS_AT_ONCE, Piece, RowBlock, Table, check_signature, check_unique, stacked

LONGEST_LINE = 1 << 24  # bytes
Lines = Generator[list[str], None, None]


def read(path: Path, prefixes: Iterable[int] | None = None) -> "CsvTable":
    return CsvTable(path, prefixes)


class CsvTable(Table):
    """A CSV file; with `prefixes` it stays open after the header, and the first pass over its rows continues there."""

    def __init__(self, path: Path, prefixes: Iterable[int] | None = None) -> None:
        self.path = path
        source = HashingFile(path, LONGEST_LINE, prefixes or ())
        lines = _lines(source, path.name)
        header = next(lines, None)
        if header is None:
            raise InputError(f"{path.name} is empty; expected a line of column names and then rows")
        self.columns = tuple(name.strip() for name in header)
        check_unique(self.columns, path.name)
        if any(_is_number(name) for name in self.columns):
            raise InputError(
                f"expected the first line of {path.name} to name the columns, got numbers ({', '.join(header[:3])} …); "
                "add a header line"
            )
        self.size, self.one_pass = source.size, prefixes is not None
        self._open = (source, lines) if self.one_pass else None
        if not self.one_pass:
            lines.close()

    def pieces(self) -> Sequence[Piece]:
        return (CsvPiece(self),)

    def reader(self) -> tuple[HashingFile, Lines]:
        """The file behind its header, and its rows: the open file at first, then a new one."""
        if self._open is not None:
            found, self._open = self._open, None
            return found
        source = HashingFile(self.path, LONGEST_LINE)
        lines = _lines(source, self.path.name)
        if tuple(name.strip() for name in next(lines, ())) != self.columns:
            raise_changed(self.path.name)
        return source, lines


class CsvPiece(Piece):
    grows = True

    def __init__(self, table: CsvTable) -> None:
        self.table, self.path, self.name, self.size = table, table.path, table.path.name, table.size
        self._hash: str | None = None
        self._source: HashingFile | None = None

    def fingerprint(self) -> str:
        if self._hash is None:
            self._hash = hash_of_bytes(self.path)
        return self._hash

    def prefix_hashes(self) -> dict[int, str]:
        return {} if self._source is None else self._source.prefix_hashes

    def blocks(self, columns: Sequence[str], labels: Sequence[str] = (), originals: bool = False) -> Iterator[RowBlock]:
        self.table.require([*columns, *labels])
        position = {name: j for j, name in enumerate(self.table.columns)}
        number_at, label_at = [position[c] for c in columns], [position[c] for c in labels]
        source, lines = self.table.reader()
        self._source = source
        first, width = 0, len(self.table.columns)
        with closing(lines):
            while block := list(islice(lines, ROWS_AT_ONCE)):
                if set(map(len, block)) != {width}:
                    i, row = next((i, row) for i, row in enumerate(block) if len(row) != width)
                    raise InputError(f"expected {width} entries in row {first + i + 1} of {self.name}, got {len(row)}")
                X = self._numbers(_taken(block, number_at), columns, first)
                text = [np.array([row[j].strip() for row in block], dtype=object) for j in label_at]
                yield RowBlock(X, stacked(text), first, self._original(block) if originals else None)
                first += len(block)
        self._check_end(source, first)

    def _check_end(self, source: HashingFile, rows: int) -> None:
        found = source.digest.hexdigest()
        if self._hash not in (None, found) or (self.table.one_pass and not source.unchanged):
            raise_changed(self.name)
        self._hash, self.size = found, source.count
        if not rows:
            raise InputError(f"{self.name} has column names and no rows; expected at least one row")
        if not source.ended:
            warnings.warn(
                f"the last line of {self.name} does not end with a line break; if the file was cut short, its last "
                f"number may be too: look at it, or end the file with a line break",
                UserWarning,
                stacklevel=3,
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
            except ValueError:  # a missing entry, or one that is not a number
                pass
        X = np.empty((len(cells), len(columns)))
        for i, row in enumerate(cells):
            for j, cell in enumerate(row):
                if cell.strip().lower() in MISSING:
                    X[i, j] = np.nan
                elif _is_number(cell):
                    X[i, j] = float(cell)
                else:
                    raise InputError(
                        f"expected a number in column {columns[j]!r}, row {first + i + 1} of {self.name}, got "
                        f"{cell!r:.60}; encode text as numbers, or ignore the column {columns[j]!r}",
                        arguments=("ignored",),
                    )
        return X


def _lines(source: HashingFile, name: str) -> Lines:
    """The rows of a file as lists of text, the header first; blank lines are skipped."""
    try:
        with io.BufferedReader(source, CHUNK) as buffered:
            check_signature(name, "csv", buffered.peek(4)[:4])
            with io.TextIOWrapper(buffered, encoding="utf-8-sig", newline="") as file:
                header = file.readline()
                delimiter = max(",;\t", key=header.count)
                yield from filter(None, csv.reader(chain([header], file), delimiter=delimiter, strict=True))
    except LineTooLong as problem:
        raise InputError(f"expected lines of at most {LONGEST_LINE} bytes in {name}, got a longer one") from problem
    except (UnicodeDecodeError, csv.Error) as problem:
        raise InputError(f"{name} is not a text file of rows, as its name says: {problem}") from None


def _taken(block: list[list[str]], positions: list[int]) -> Sequence[Sequence[str]]:
    """The entries of every row at these positions."""
    if len(positions) > 1:
        return list(map(itemgetter(*positions), block))
    return [[row[j]] for row in block for j in positions] if positions else block


def _is_plain(text: str) -> bool:
    """Whether text has no character that only Python accepts in numbers, as in 1_000."""
    return "_" not in text and text.isascii()


def _is_number(cell: str) -> bool:
    if not _is_plain(cell):
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return cell.strip().lower() not in MISSING
