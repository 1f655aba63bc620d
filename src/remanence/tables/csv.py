"""CSV files: a header of column names, then rows of numbers and labels; parsed by Arrow in blocks of whole lines.

Numbers are written as in most languages (1, -2.5, 3e-7), in digits 0 to 9 and with nothing between them. Arrow converts
the columns that are numbers as it parses. At a cell that it does not take for a number, parsing continues from that row
with cells as text, which are converted here: a few ways to write a number are accepted, and others are named.
"""

import io
import re
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.labels import MISSING
from remanence.tables.arrow import doubles, whole_values
from remanence.tables.dialect import COMMA, Dialect
from remanence.tables.hashing import hash_of_bytes, raise_changed
from remanence.tables.table import (
    ROWS_AT_ONCE,
    EmptyTable,
    Piece,
    RowBlock,
    Table,
    and_others,
    check_unique,
    rows_at_once,
    stacked,
)
from remanence.tables.text import LONGEST_LINE, TextSource

BLOCK = 1 << 22  # bytes in which quotes are looked for
SAMPLE = 1 << 16  # bytes in which the dialect is looked for
SAMPLED = 1 << 18  # bytes in which kinds of columns are looked for
MOST_COLUMNS = 200_000
LETS_GO = 10.0  # seconds that a thread of Arrow is given to let go of a file; it needs a fraction of one
NULLS = ["".join(letters) for word in MISSING for letters in product(*((c.lower(), c.upper()) for c in word))]
DELIMITER_LINE = re.compile(r'("?)sep=([\t -!#-~])\1', re.IGNORECASE)  # as spreadsheets have it before the header
RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


def read(path: Path, dialect: Dialect | None = None, waits: bool = False) -> "CsvTable":
    return CsvTable(path, dialect or Dialect(), waits)


class CsvTable(Table):
    """A CSV file, which stays open after its header: the first pass over its rows continues there.

    With `waits`, a last line without a line break is left out.
    """

    def __init__(self, path: Path, dialect: Dialect, waits: bool) -> None:
        self.path, self.given, self.waits = path, dialect, waits
        self.dialect = dialect
        source, header = self._open()
        self.columns = tuple(name.strip() for name in header)
        if len(self.columns) > MOST_COLUMNS:
            source.close()
            raise InputError(f"expected at most {MOST_COLUMNS} columns in {path.name}, got {len(self.columns)}")
        check_unique(self.columns, path.name)
        if any(_is_number(name) for name in self.columns):
            source.close()
            raise InputError(
                f"expected the first line of {path.name} to name the columns, got numbers ({', '.join(header[:3])} …); "
                "add a header line"
            )
        self.size, self.identity = source.opened[0], source.identity
        self._opened: TextSource | None = source

    def pieces(self) -> Sequence[Piece]:
        return (CsvPiece(self),)

    def sample(self, columns: Sequence[str]) -> dict[str, Any]:
        """The first rows as text, out of what is read next: the file is not read twice."""
        import pyarrow as pa
        from pyarrow import csv

        source = self._opened or self.source()
        self._opened = source
        lines = source.peek(SAMPLED)
        end = max(lines.rfind(b"\n"), lines.rfind(b"\r")) + 1
        lines = lines[:end] if end and not source.done else lines
        if not lines.strip():
            return {}
        names, wanted = [str(j) for j in range(len(self.columns))], set(columns)
        chosen = {str(j): name for j, name in enumerate(self.columns) if name in wanted}
        quote = self.dialect.quote
        try:
            table = csv.read_csv(
                pa.BufferReader(lines),
                csv.ReadOptions(use_threads=False, column_names=names, block_size=len(lines) + 1),
                csv.ParseOptions(
                    delimiter=self.dialect.delimiter,
                    quote_char=quote or False,
                    newlines_in_values=bool(quote) and quote.encode() in lines,
                ),
                csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    include_columns=list(chosen),
                    strings_can_be_null=False,
                ),
            ).combine_chunks()
        except pa.ArrowInvalid:  # (the rows themselves will say what is wrong)
            return {}
        found = {name: table.column(j).combine_chunks() for j, name in chosen.items()}
        if self.dialect.decimal == ",":
            found = {name: _with_points(column) for name, column in found.items()}
        return found

    def source(self) -> TextSource:
        """The file behind its header: the open one at first, then a new one."""
        if self._opened is not None:
            found, self._opened = self._opened, None
            return found
        source, header = self._open()
        if source.identity != self.identity or tuple(name.strip() for name in header) != self.columns:
            source.close()
            raise_changed(self.path.name)
        return source

    def _open(self) -> tuple[TextSource, list[str]]:
        """The file behind its header, and the header; the dialect is known then."""
        source = TextSource(self.path, self.given.encoding, self.given.quote.encode(), whole=not self.waits)
        try:
            line, given = source.read_line().decode(), self.given
            if named := DELIMITER_LINE.fullmatch(line.strip("\r\n")):
                given = replace(given, delimiter=given.delimiter or named[2])
                line = source.read_line().decode()
            if not line:
                raise EmptyTable(
                    f"{self.path.name} is empty{source.unfinished()}; expected a line of column names and then rows"
                )
            found = given.completed(line, source.peek(SAMPLE).decode(errors="replace"))
            header = found.cells(line)
        except UnicodeDecodeError:
            source.close()
            raise _not_utf8(self.path.name) from None
        except InputError as problem:
            source.close()
            if self.path.name in str(problem):
                raise
            raise InputError(f"cannot read {self.path.name}: {problem}") from None
        self.dialect = Dialect(found.delimiter, found.decimal, found.quote, source.encoding)
        return source, header

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


class CsvPiece(Piece):
    table: CsvTable

    def __init__(self, table: CsvTable) -> None:
        self.table, self.path, self.name, self.size = table, table.path, table.path.name, table.size
        self._hash: str | None = None

    def fingerprint(self) -> str:
        if self._hash is None:
            self._hash = hash_of_bytes(self.path)
        return self._hash

    def blocks(
        self, columns: Sequence[str], labels: Sequence[str] = (), originals: bool = False, cells: Sequence[str] = ()
    ) -> Iterator[RowBlock]:
        self.table.require([*columns, *labels, *cells])
        done, text, breaks = 0, originals, False
        while True:  # another pass begins where the last one met no number, or a line break within quotes
            try:
                for block in self._blocks(columns, labels, originals, cells, text, breaks, done):
                    yield block
                    done += len(block.X)
            except _NoNumber:
                text = True
            except _QuotedBreak:
                breaks = True
            else:
                break
        if not done:
            raise EmptyTable(f"{self.name} has column names and no rows; expected at least one row")

    def _blocks(
        self,
        columns: Sequence[str],
        labels: Sequence[str],
        originals: bool,
        coded: Sequence[str],
        text: bool,
        breaks: bool,
        skip: int,
    ) -> Iterator[RowBlock]:
        position = {name: j for j, name in enumerate(self.table.columns)}
        with self.table.source() as source:
            wanted = self.table.columns if originals else dict.fromkeys([*columns, *labels, *coded])
            numbers = () if text else [position[c] for c in columns if c not in (*labels, *coded)]
            first, size = 0, rows_at_once(len(wanted), ROWS_AT_ONCE)
            for batch in self._batches(source, [position[c] for c in wanted], numbers, breaks):
                for i in range(0, batch.num_rows, size):
                    part = batch.slice(i, size)
                    if first + len(part) > skip:
                        part = part.slice(max(skip - first, 0))
                        start = max(first, skip)
                        named = zip(part.schema.names, part.columns, strict=True)
                        found = {self.table.columns[int(j)]: column for j, column in named}
                        X = self._numbers([found[c] for c in columns], columns, start, len(part))
                        beside = [_stripped(found[c]) for c in labels]
                        original = self._original(part) if originals else None
                        further = {c: found[c] for c in coded}
                        yield RowBlock(X, stacked(beside), start, original, further)
                    first += min(size, batch.num_rows - i)
            source.check_end()

    def _batches(
        self, source: TextSource, wanted: Sequence[int], numbers: Sequence[int], breaks: bool
    ) -> Iterator[Any]:
        """The rows as Arrow has them, block by block; the columns are named by their numbers.

        With `breaks`, and where the first block has quotes, entries may have line breaks, which takes longer.
        """
        import pyarrow as pa
        from pyarrow import csv

        dialect, width = self.table.dialect, len(self.table.columns)
        beginning = source.peek(BLOCK)
        if not beginning:
            return
        kinds = {str(j): pa.string() for j in wanted} | {str(j): pa.float64() for j in numbers}
        breaks = breaks or (bool(dialect.quote) and dialect.quote.encode() in beginning)
        try:
            yield from _parsed(
                source,
                csv.ReadOptions(
                    use_threads=False,
                    block_size=2 * LONGEST_LINE,  # (whole lines at most; the source hands out what it has read)
                    column_names=[str(j) for j in range(width)],
                ),
                csv.ParseOptions(
                    delimiter=dialect.delimiter,
                    quote_char=dialect.quote or False,
                    newlines_in_values=breaks,
                ),
                csv.ConvertOptions(
                    column_types=kinds,
                    include_columns=[str(j) for j in dict.fromkeys([*wanted, *numbers])] or ["0"],
                    null_values=NULLS,
                    strings_can_be_null=False,
                    decimal_point=dialect.decimal,
                ),
            )
        except pa.ArrowInvalid as problem:
            raise self._error(str(problem), breaks) from None

    def _error(self, message: str, breaks: bool) -> Exception:
        if "out of sync" in message and self.table.dialect.quote and not breaks:
            return _QuotedBreak()
        if "conversion error to double" in message:
            return _NoNumber()
        ragged = RAGGED.search(message)
        if ragged:
            row, expected, got = ragged.groups()
            return InputError(
                f"expected {expected} entries in row {row} of {self.name}, got {got}; correct that row, or name the "
                f"delimiter or the quotes of the file",
                arguments=("dialect",),
            )
        if "straddling" in message or "too large" in message.lower():
            return InputError(f"expected lines of at most {LONGEST_LINE} bytes in {self.name}, got a longer one")
        if "invalid UTF8" in message:
            return _not_utf8(self.name)
        return InputError(f"{self.name} is not a text file of rows, as its name says: {message:.200}")

    def _original(self, batch: Any) -> dict[str, Array]:
        cells = (np.array(column.to_pylist(), dtype=object) for column in batch.columns)  # (`to_numpy` loads pandas)
        return dict(zip(self.table.columns, cells, strict=True))

    def _numbers(self, cells: Sequence[Any], columns: Sequence[str], first: int, rows: int) -> Array:
        X = np.empty((len(columns), rows))  # by columns, as they come
        for j, column in enumerate(cells):
            if str(column.type) != "string":
                X[j] = doubles(column)
                continue
            texts = column.to_pylist()
            for i, cell in enumerate(texts):
                number = self._number(cell)
                if number is None:
                    raise self._no_number(cell, columns, cells, j, first + i)
                X[j, i] = number
        return X.T

    def _number(self, cell: str) -> float | None:
        """The number that a cell stands for, NaN for a missing one; None if it is none."""
        text = cell if self.table.dialect.decimal == "." else _with_point(cell)
        if cell.strip().lower() in MISSING:
            return float("nan")
        return float(text) if _is_number(text) else None

    def _no_number(self, cell: str, columns: Sequence[str], cells: Sequence[Any], j: int, row: int) -> InputError:
        """The error for a cell that is no number, which also names the columns behind it that have such cells."""
        behind = zip(columns[j + 1 :], cells[j + 1 :], strict=True)
        others = [name for name, texts in behind if any(self._number(text) is None for text in texts.to_pylist())]
        return InputError(
            f"expected a number in column {columns[j]!r}, row {row + 1} of {self.name}, got {cell!r:.60}; encode text "
            f"as numbers, or ignore the column {columns[j]!r}{and_others(others)}",
            arguments=("ignored",),
        )


class _Bytes(io.RawIOBase):
    """A source as Arrow reads it. It ends when Arrow's thread lets go of it, and the source goes on."""

    def __init__(self, source: TextSource) -> None:
        self.source = source
        self.held: list[weakref.ref[Any]] = []  # what is handed out

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> memoryview:
        part = memoryview(self.source.read(size))
        self.held[:] = [*(ref for ref in self.held if ref() is not None), weakref.ref(part)]
        return part


def _parsed(source: TextSource, *options: Any) -> Iterator[Any]:
    """The batches of Arrow's reader; at the end its threads have let go of the source and of what they got from it.

    They take the interpreter's lock when they drop a Python object. Where the interpreter is ending by then, it
    ends the thread, and C++ ends the process by SIGABRT, after all the work was done.
    """
    from pyarrow import csv

    handed: Any = _Bytes(source)
    alive, held, reader = weakref.ref(handed), handed.held, None
    try:
        reader = csv.open_csv(handed, *options)
        yield from reader
    finally:
        if reader is not None:
            reader.close()
        del handed, reader
        until = monotonic() + LETS_GO
        while any(ref() is not None for ref in (alive, *held)) and monotonic() < until:
            sleep(1e-4)


class _NoNumber(Exception):
    """A cell that Arrow does not take for a number."""


class _QuotedBreak(Exception):
    """A line break within quotes, where none were looked for."""


def _not_utf8(name: str) -> InputError:
    return InputError(
        f"{name} is not a text file of rows in UTF-8, as its name says; if it is text, name its encoding, such as "
        "latin-1",
        arguments=("encoding",),
    )


def _with_point(cell: str) -> str:
    """A number with a decimal comma as one with a point; one that has a point is none."""
    return "?" if "." in cell else cell.replace(",", ".")


def _with_points(column: Any) -> Any:
    """A column of text in which numbers have a point."""
    import pyarrow as pa

    return pa.array([_with_point(t) if COMMA.fullmatch(t.strip()) else t for t in column.to_pylist()], pa.string())


def _stripped(column: Any) -> Array:
    if str(column.type) != "string":  # (a column that is both a feature and a label)
        return doubles(column)
    coded = column.dictionary_encode()
    words = np.array([word.strip() for word in coded.dictionary.to_pylist()], dtype=object)
    return np.asarray(words[whole_values(coded.indices, np.int32)])


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
