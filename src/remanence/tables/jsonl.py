"""JSON lines: one object per line; the columns are the names in the first block, and a name that is absent is missing.

Every block is parsed on its own, so that a column that is of integers at first may become one of real numbers. Dates
are text, as they are written.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from remanence.errors import InputError
from remanence.tables.arrow import ArrowPiece, ArrowTable, is_numeric, is_vector, widths
from remanence.tables.hashing import hash_of_bytes, identity, raise_changed
from remanence.tables.table import ROWS_AT_ONCE, EmptyTable, Piece, check_unique
from remanence.tables.text import TextSource

BLOCK = 1 << 22  # bytes parsed at once


def read(path: Path, waits: bool = False) -> "JsonLinesTable":
    return JsonLinesTable(path, waits)


class JsonLinesTable(ArrowTable):
    """A file of JSON lines; with `waits`, a last line without a line break is left out."""

    def __init__(self, path: Path, waits: bool) -> None:
        self.path, self.waits, self.identity = path, waits, identity(path)
        first = next(self.parsed(), None)
        if first is None:
            with TextSource(path, whole=not waits) as source:
                source.peek()
                raise EmptyTable(f"{path.name} has no rows{source.unfinished()}; expected at least one")
        check_unique(first.schema.names, path.name)
        kinds = {field.name: field.type for field in first.schema}
        self.spread(kinds, widths(kinds, lambda name: iter([first])))

    def parsed(self) -> Iterator[Any]:
        """Blocks of lines as Arrow tables."""
        import pyarrow as pa

        texts: dict[str, Any] = {}
        with TextSource(self.path, whole=not self.waits) as source:
            if source.identity != self.identity:
                raise_changed(self.path.name)
            if (source.peek(64) or source.tail).lstrip().startswith(b"["):
                raise InputError(
                    f"expected one object per line in {self.path.name}, got a list of all of them; write JSON lines"
                )
            while lines := _lines(source):
                try:
                    yield _parsed(lines, texts)
                except (pa.ArrowException, ValueError) as problem:
                    raise InputError(f"{self.path.name} is not a file of JSON lines: {problem}") from None
            source.check_end()

    def pieces(self) -> Sequence[Piece]:
        return (JsonLinesPiece(self),)


class JsonLinesPiece(ArrowPiece):
    table: JsonLinesTable

    def __init__(self, table: JsonLinesTable) -> None:
        self.table, self.path, self.name = table, table.path, table.path.name

    def fingerprint(self) -> str:
        return hash_of_bytes(self.path)

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        rows, size = 0, self.rows_at_once(columns, ROWS_AT_ONCE)
        for block in self.table.parsed():
            named = set(block.schema.names)
            more = sorted(named - set(self.table.types))
            if more:
                raise InputError(
                    f"expected the names of the first rows of {self.path.name} in all of them, got {more[0]!r} later; "
                    f"write it into the first row too, as null"
                )
            part = self._completed(block, columns, named, rows)
            rows += block.num_rows
            for i in range(0, part.num_rows, size):
                yield from part.slice(i, size).combine_chunks().to_batches()
        if not rows:
            raise_changed(self.path.name)

    def _completed(self, block: Any, columns: Sequence[str], named: set[str], first: int) -> Any:
        """The columns of a block; an absent one is null, and one of another kind than before is an InputError."""
        import pyarrow as pa

        arrays = {}
        for name in columns:
            kind = self.table.types[name]
            found = block.column(name) if name in named else pa.nulls(block.num_rows)
            if pa.types.is_null(found.type):
                found = pa.nulls(block.num_rows, kind)
            elif (is_numeric(kind), is_vector(kind)) != (is_numeric(found.type), is_vector(found.type)):
                raise InputError(
                    f"expected one kind of value in column {name!r} of {self.path.name}, got {kind} at first and "
                    f"{found.type} in or after row {first + 1}"
                )
            arrays[name] = found
        return pa.table(arrays)


def _parsed(lines: bytes, texts: dict[str, Any]) -> Any:
    """Lines as an Arrow table; columns that Arrow takes for times join `texts` and are text."""
    import pyarrow as pa
    from pyarrow import json

    options, names = json.ReadOptions(use_threads=False, block_size=len(lines) + 1), None
    while True:
        parsing = json.ParseOptions(pa.schema(texts) if texts else None, newlines_in_values=False)
        found = json.read_json(pa.BufferReader(lines), options, parsing)
        names = names or found.schema.names  # (those of a schema come first)
        times = [field.name for field in found.schema if pa.types.is_timestamp(field.type)]
        if not times:
            return found.select(names).combine_chunks()
        texts.update(dict.fromkeys(times, pa.string()))


def _lines(source: TextSource) -> bytes:
    parts: list[bytes | memoryview] = []
    size = 0
    while size < BLOCK and (part := source.read()):
        parts.append(part)
        size += len(part)
    return b"".join(parts)
