"""Tables going out: blocks of named columns as the bytes of a CSV, Parquet or NPZ file, by the ending of its name.

CSV and Parquet are written as the blocks come; an NPZ file is made of whole arrays, which are held until the end.
A column is a NumPy array or an Arrow one; where a format has no columns of vectors, each entry is a column of its own.
"""

import csv
import io
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError, MissingDependency

Block = Mapping[str, Any]


def encoded(path: Path, blocks: Iterable[Block]) -> Iterator[bytes]:
    """The bytes of the file, part by part; what is no text (half a character, damaged bytes) is refused."""
    try:
        yield from WRITERS[ending(path)](path, blocks)
    except Exception as problem:
        if isinstance(problem, UnicodeError) or type(problem).__module__.startswith("pyarrow"):
            raise InputError(f"expected text that can be written to {path.name}, got {problem}") from None
        raise


def ending(path: Path) -> str:
    """The ending that says how a table is written; any other is refused."""
    found = path.suffix.lower()
    if found not in WRITERS:
        raise InputError(f"expected the name of a table to write, ending in {', '.join(WRITERS)}, got {path.name}")
    return found


def _text(path: Path, blocks: Iterable[Block]) -> Iterator[bytes]:
    page = io.StringIO(newline="")
    writer = csv.writer(page, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", lineterminator="\n")
    for k, block in enumerate(blocks):
        columns = _flat(block)
        if not k:
            writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
        yield page.getvalue().encode()
        page.seek(0)
        page.truncate()


def _parquet(path: Path, blocks: Iterable[Block]) -> Iterator[bytes]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingDependency(
            f"writing {path.name} needs pyarrow, which is not installed; pip install 'remanence[data]'"
        ) from None
    sink = ChunkSink()
    writer: Any = None
    for block in blocks:
        spread = {n: c for name, column in block.items() for n, c in _spread(name, column, lists=True)}
        table = pa.table({name: c.tolist() if _is_text(c) else c for name, c in spread.items()})
        if writer is None:
            writer = pq.ParquetWriter(sink, table.schema)
        writer.write_table(table.cast(writer.schema))
        yield sink.drain()
    if writer is not None:
        writer.close()
    yield sink.drain()


class ChunkSink(io.RawIOBase):
    """A file that only remembers what was written since it was last asked."""

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
    held: dict[str, list[Array]] = {}
    for block in blocks:
        for name, column in block.items():
            if set(name) & set("/\\\0") or name in (".", ".."):
                raise InputError(f"expected names of arrays without parts of a path, got {name!r}; write a CSV")
            held.setdefault(name, []).append(_as_array(column))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, parts in held.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.concatenate(parts), allow_pickle=False)
    yield buffer.getvalue()


WRITERS: dict[str, Callable[[Path, Iterable[Block]], Iterator[bytes]]] = {
    ".csv": _text,
    ".tsv": _text,
    ".parquet": _parquet,
    ".pq": _parquet,
    ".npz": _arrays,
}


def _flat(block: Block) -> dict[str, Array]:
    """The block as columns of single entries; what is missing is empty."""
    return {n: c for name, column in block.items() for n, c in _spread(name, column, lists=False)}


def _spread(name: str, column: Any, lists: bool) -> Iterator[tuple[str, Any]]:
    """A column of vectors as one column an entry; `lists` leaves Arrow's own as they are."""
    if isinstance(column, np.ndarray):
        if column.ndim == 1:
            yield name, column
        else:
            yield from ((f"{name}{j}", column[:, j]) for j in range(column.shape[1]))
    elif lists:
        yield name, column
    else:
        values = column.to_pylist()
        width = next((len(v) for v in values if isinstance(v, list)), None)
        if width is None:
            yield name, np.array(values, dtype=object)
        else:
            rows = [v if v is not None else [None] * width for v in values]
            yield from ((f"{name}.{j}", np.array([row[j] for row in rows], dtype=object)) for j in range(width))


def _is_text(column: Any) -> bool:
    return isinstance(column, np.ndarray) and column.dtype.kind in "OU"


def _as_array(column: Any) -> Array:
    """A column as NumPy can store it without objects: numbers, else text; vectors as rows."""
    if not isinstance(column, np.ndarray):
        column = np.array(column.to_pylist() if column.null_count or column.type.num_fields else column)
    if column.dtype.kind not in "OM":
        return np.asarray(column)
    numbers = [np.nan if v is None else v for v in column.tolist()]
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in numbers):
        return np.array(numbers)
    return np.array(["" if v is None else str(v) for v in column.tolist()])
