"""Writing tables: blocks of named columns as the bytes of a file, in the format that the ending of its name says.

All but NPZ are written block by block; an NPZ file is made of whole arrays, which are kept in memory until the end.
Columns are NumPy or Arrow arrays; where a format has no columns of vectors, each entry becomes a column. Text that a
spreadsheet would run as a formula is written to CSV files behind an apostrophe, unless `raw` is set.
"""

import csv
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.tables.formats import compression_of, delimiter_of, format_of, listed_endings

Block = Mapping[str, Any]
LIST = ";"  # between the entries of a list of text, where a format has no lists
FORMULA = tuple("=+-@\t\r")  # how a formula begins in spreadsheets


def encoded(path: Path, blocks: Iterable[Block], raw: bool = False) -> Iterator[bytes]:
    """The bytes of the file, part by part; text that cannot be encoded is an InputError."""
    try:
        if output_format(path) == "csv":
            yield from _compressed(path, _text(path, blocks, raw))
        else:
            yield from _compressed(path, WRITERS[output_format(path)](path, blocks))
    except Exception as problem:
        if isinstance(problem, UnicodeError) or type(problem).__module__.startswith("pyarrow"):
            raise InputError(f"expected text that can be written to {path.name}, got {problem}") from None
        raise


def output_format(path: Path) -> str:
    """The format in which a table of this name is written; a name without a known ending is an InputError."""
    found = format_of(path)
    if found is None or found == "npy":
        raise InputError(f"expected the name of a table to write, ending in {listed_endings(True)}, got {path.name}")
    return found


def _compressed(path: Path, parts: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes, compressed as the ending of the name says."""
    kind = compression_of(path)
    if kind is None:
        yield from parts
        return
    import pyarrow as pa

    sink = ChunkSink()
    with pa.CompressedOutputStream(pa.PythonFile(sink, mode="w"), kind) as packed:
        for part in parts:
            packed.write(part)
            yield sink.drain()
    yield sink.drain()


def _text(path: Path, blocks: Iterable[Block], raw: bool) -> Iterator[bytes]:
    page = io.StringIO(newline="")
    writer = csv.writer(page, delimiter=delimiter_of(path), lineterminator="\n")
    for k, block in enumerate(blocks):
        columns = _flat(block)
        if not k:
            writer.writerow(columns if raw else _harmless(list(columns)))
        cells = (c.tolist() if raw or c.dtype.kind not in "OU" else _harmless(c.tolist()) for c in columns.values())
        writer.writerows(zip(*cells, strict=True))
        yield page.getvalue().encode()
        page.seek(0)
        page.truncate()


def _harmless(cells: list[Any]) -> list[Any]:
    """Cells that are no formula for a spreadsheet: an apostrophe is put before text that begins like one."""
    return [
        f"'{cell}" if isinstance(cell, str) and cell[:1] in FORMULA and _is_text_cell(cell) else cell for cell in cells
    ]


def _is_text_cell(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return bool(cell)
    return False


def _parquet(path: Path, blocks: Iterable[Block]) -> Iterator[bytes]:
    import pyarrow.parquet as pq

    return _by_batch(blocks, pq.ParquetWriter, lambda writer, table: writer.write_table(table))


def _ipc(path: Path, blocks: Iterable[Block]) -> Iterator[bytes]:
    import pyarrow as pa

    return _by_batch(blocks, pa.ipc.new_file, lambda writer, table: writer.write_table(table))


def _by_batch(blocks: Iterable[Block], create: Any, write: Any) -> Iterator[bytes]:
    """The bytes that a writer of Arrow tables makes, block by block; the types are those of the first block."""
    sink, writer, schema = ChunkSink(), None, None
    for block in blocks:
        table = _as_table(block)
        if writer is None:
            schema = table.schema
            writer = create(sink, schema)
        write(writer, table.cast(schema))
        yield sink.drain()
    if writer is not None:
        writer.close()
    yield sink.drain()


def _as_table(block: Block) -> Any:
    import pyarrow as pa

    spread = {n: c for name, column in block.items() for n, c in _spread(name, column, lists=True)}
    return pa.table({name: c.tolist() if _is_text(c) else c for name, c in spread.items()})


def _json_lines(path: Path, blocks: Iterable[Block]) -> Iterator[bytes]:
    for block in blocks:
        rows = (json.dumps(row, ensure_ascii=False, default=str) for row in _as_table(block).to_pylist())
        yield "".join(f"{row}\n" for row in rows).encode()


class ChunkSink(io.RawIOBase):
    """A writable file that keeps only what was written since the last call of `drain`."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.written = 0

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self.parts.append(bytes(part))
        self.written += len(self.parts[-1])
        return len(self.parts[-1])

    def tell(self) -> int:
        return self.written

    def drain(self) -> bytes:
        parts, self.parts = self.parts, []
        return b"".join(parts)


def _arrays(path: Path, blocks: Iterable[Block]) -> Iterator[bytes]:
    parts_of: dict[str, list[Array]] = {}
    for block in blocks:
        for name, column in block.items():
            if set(name) & set("/\\\0") or name in (".", ".."):
                raise InputError(f"expected array names without / and \\, got {name!r}; write a CSV")
            parts_of.setdefault(name, []).append(_as_array(column))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, parts in parts_of.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.concatenate(parts), allow_pickle=False)
    yield buffer.getvalue()


WRITERS: dict[str, Callable[[Path, Iterable[Block]], Iterator[bytes]]] = {
    "parquet": _parquet,
    "npz": _arrays,
    "ipc": _ipc,
    "jsonl": _json_lines,
}


def _flat(block: Block) -> dict[str, Array]:
    """The block as columns of single entries."""
    return {n: c for name, column in block.items() for n, c in _spread(name, column, lists=False)}


def _spread(name: str, column: Any, lists: bool) -> Iterator[tuple[str, Any]]:
    """A column of vectors as one column per entry; `lists` leaves columns of Arrow as they are."""
    if isinstance(column, np.ndarray):
        if column.ndim == 1:
            yield name, column
        else:
            yield from ((f"{name}{j}", column[:, j]) for j in range(column.shape[1]))
    elif lists:
        yield name, column
    else:
        values = column.to_pylist()
        if _is_list_of_text(column):
            yield name, _joined_lists(values)
            return
        width = next((len(v) for v in values if isinstance(v, list)), None)
        if width is None:
            yield name, np.array(values, dtype=object)
        else:
            rows = [v if v is not None else [None] * width for v in values]
            yield from ((f"{name}{j}", np.array([row[j] for row in rows], dtype=object)) for j in range(width))


def _is_list_of_text(column: Any) -> bool:
    import pyarrow.types as types

    lists = types.is_list(column.type) or types.is_large_list(column.type)
    return bool(lists and types.is_string(column.type.value_type))


def _joined_lists(values: list[Any]) -> Array:
    return np.array(["" if v is None else LIST.join(map(str, v)) for v in values], dtype=object)


def _is_text(column: Any) -> bool:
    return isinstance(column, np.ndarray) and column.dtype.kind in "OU"


def _as_array(column: Any) -> Array:
    """A column as NumPy can store it without objects: numbers, else text; vectors as rows."""
    if not isinstance(column, np.ndarray) and _is_list_of_text(column):
        column = _joined_lists(column.to_pylist()).astype(str)
    elif not isinstance(column, np.ndarray):
        column = np.array(column.to_pylist() if column.null_count or column.type.num_fields else column)
    if column.dtype.kind not in "OM":
        return np.asarray(column)
    numbers = [np.nan if v is None else v for v in column.tolist()]
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in numbers):
        return np.array(numbers)
    return np.array(["" if v is None else str(v) for v in column.tolist()])
