"""Writing tables: blocks of named columns as the bytes of a file, in the format that the ending of its name says.

All but NPZ are written block by block; an NPZ file is made of whole arrays, which are kept in memory until the end.
Columns are NumPy or Arrow arrays; where a format has no columns of vectors, each entry becomes a column, so that lists
of different lengths are an error there. Text that a spreadsheet would run as a formula is written to CSV files behind
an apostrophe, unless `raw` is set.
"""

import csv
import io
import json
import math
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
    page, widths = io.StringIO(newline=""), dict[str, int]()
    writer = csv.writer(page, delimiter=delimiter_of(path), lineterminator="\n")
    for k, block in enumerate(blocks):
        columns = {n: c for name, column in block.items() for n, c in _spread(name, column, widths)}
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

    spread = {n: c for name, column in block.items() for n, c in _spread(name, column, None)}
    return pa.table({name: c.tolist() if _is_text(c) else c for name, c in spread.items()})


def _json_lines(path: Path, blocks: Iterable[Block]) -> Iterator[bytes]:
    for block in blocks:
        yield "".join(f"{_json_line(row)}\n" for row in _as_table(block).to_pylist()).encode()


def _json_line(row: dict[str, Any]) -> str:
    """A row as JSON, which has null for missing numbers and nothing for infinite ones."""
    try:
        return json.dumps(row, ensure_ascii=False, default=_json_text, allow_nan=False)
    except ValueError:
        return json.dumps(_without_nan(row), ensure_ascii=False, default=_json_text, allow_nan=False)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(part) for part in value]
    if isinstance(value, float) and math.isinf(value):
        raise InputError("expected finite numbers for JSON lines, which have no others, got infinity; write a CSV")
    return None if isinstance(value, float) and math.isnan(value) else value


def _json_text(value: Any) -> str:
    return _plain_bytes(value) if isinstance(value, bytes) else str(value)


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
    parts_of, widths = dict[str, list[Array]](), dict[str, int]()
    for block in blocks:
        for name, column in block.items():
            if set(name) & set("/\\\0") or name in (".", ".."):
                raise InputError(f"expected array names without / and \\, got {name!r}; write a CSV")
            parts_of.setdefault(name, []).append(_as_array(name, column, widths))
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


def _spread(name: str, column: Any, widths: dict[str, int] | None) -> Iterator[tuple[str, Any]]:
    """A column of vectors as one column per entry; without `widths`, columns of Arrow stay as they are."""
    if isinstance(column, np.ndarray):
        if column.ndim == 1:
            yield name, column
        else:
            yield from ((f"{name}{j}", column[:, j]) for j in range(column.shape[1]))
    elif widths is None:
        yield name, column
    elif _is_list_of_text(column):
        yield name, _joined_lists(column.to_pylist())
    else:
        values = column.to_pylist()
        rows = _equal_lists(name, column, values, widths)
        if rows is None:
            yield name, _objects(values)
        else:
            yield from ((f"{name}{j}", _objects([row[j] for row in rows])) for j in range(widths[name]))


def _equal_lists(name: str, column: Any, values: list[Any], widths: dict[str, int]) -> list[list[Any]] | None:
    """The lists of a column with None for the entries of missing ones; None if the column has no lists.

    `widths` are the lengths of lists in the blocks before, and get that of this column.
    """
    import pyarrow.types as types

    kind = column.type
    if types.is_fixed_size_list(kind):
        widths.setdefault(name, kind.list_size)
    elif not (types.is_list(kind) or types.is_large_list(kind) or name in widths):
        return None
    width = widths.setdefault(name, next((len(v) for v in values if v is not None), 1))
    found = next((len(v) for v in values if v is not None and len(v) != width), None)
    if found is not None:
        raise InputError(
            f"expected lists of {width} in column {name!r}, as in the first rows, got one of {found}: a table of this "
            f"format has a column for every entry; write Parquet, Arrow or JSON lines, which have lists"
        )
    return [[None] * width if v is None else v for v in values]


def _objects(values: list[Any]) -> Array:
    """An array of these objects, also where they are lists; bytes are text."""
    found = np.empty(len(values), object)
    found[:] = [_plain_bytes(v) for v in values] if any(isinstance(v, bytes) for v in values) else values
    return found


def _plain_bytes(value: Any) -> Any:
    """Bytes as text in UTF-8; anything else as it is."""
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def _is_list_of_text(column: Any) -> bool:
    import pyarrow.types as types

    lists = types.is_list(column.type) or types.is_large_list(column.type)
    return bool(lists and types.is_string(column.type.value_type))


def _joined_lists(values: list[Any]) -> Array:
    return np.array(["" if v is None else LIST.join(map(str, v)) for v in values], dtype=object)


def _is_text(column: Any) -> bool:
    return isinstance(column, np.ndarray) and column.dtype.kind in "OU"


def _as_array(name: str, column: Any, widths: dict[str, int]) -> Array:
    """A column as NumPy can store it without objects: numbers, else text; vectors as rows."""
    if not isinstance(column, np.ndarray):
        column = _from_arrow(name, column, widths)
    if column.dtype.kind != "O":
        return np.asarray(column)
    cells = column.ravel().tolist()
    numbers = [np.nan if v is None else v for v in cells]
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in numbers):
        return np.array(numbers).reshape(column.shape)
    return np.array(["" if v is None else str(_plain_bytes(v)) for v in cells]).reshape(column.shape)


def _from_arrow(name: str, column: Any, widths: dict[str, int]) -> Array:
    """An Arrow column as an array of numbers, or of objects where they are none."""
    import pyarrow.types as types

    if _is_list_of_text(column):
        return _joined_lists(column.to_pylist())
    kind = column.type
    if not column.null_count and (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        return np.array(column)
    values = column.to_pylist()
    rows = _equal_lists(name, column, values, widths)
    try:
        return _objects(values) if rows is None else np.array(rows)
    except ValueError:
        raise InputError(
            f"expected lists of one shape in column {name!r}, got others; write Parquet, Arrow or JSON lines"
        ) from None
