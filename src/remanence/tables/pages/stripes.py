"""Row groups of Parquet whose columns need too much memory side by side: decoded stripe by stripe to a temporary file.

Parquet stores a row group column by column, and whoever reads rows holds a page and a dictionary of every column at the
same time: 2 MB of each column, however few rows are read at once. Within `read_within(memory)` as many columns are
decoded at a time as that allows; their rows go to a temporary file, from which they are read side by side.
"""

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

PAGES = 1 << 21  # bytes of the pages of a column that are held, of writers that do not choose other sizes
MOST = 200  # stripes: each is an open file

_memory: ContextVar[float] = ContextVar("remanence_read_memory", default=math.inf)


@contextmanager
def read_within(memory: float) -> Iterator[None]:
    """Let readers called from here hold so many bytes of undecoded pages."""
    token = _memory.set(memory)
    try:
        yield
    finally:
        _memory.reset(token)


def is_limited() -> bool:
    """Whether memory is too short to map whole files."""
    return _memory.get() < math.inf


def page_bytes(metadata: Any, group: int, columns: Sequence[str]) -> dict[str, int]:
    """The bytes of undecoded pages that reading each of these columns takes."""
    found, held = metadata.row_group(group), dict.fromkeys(columns, 0)
    for j in range(found.num_columns):
        part = found.column(j)
        name = part.path_in_schema
        while name and name not in held:  # (the numbers in a column of lists are another level of it)
            name = name.rpartition(".")[0]
        if name:
            held[name] += min(part.total_uncompressed_size, PAGES)
    return held


def stripes(held: Mapping[str, int]) -> list[list[str]]:
    """The columns in their order, as many at a time as the memory allows, at least one."""
    found, total = list[list[str]](), 0
    most = max(_memory.get(), sum(held.values()) / MOST)
    for name, size in held.items():
        if not found or total + size > most:
            found.append([])
            total = 0
        found[-1].append(name)
        total += size
    return found


def side_by_side(file: Any, group: int, parts: Sequence[Sequence[str]], rows: int) -> Iterator[Any]:
    """The rows of a row group, as `iter_batches` has them, decoded stripe by stripe."""
    import pyarrow as pa

    with tempfile.TemporaryDirectory(prefix="remanence-") as folder, ExitStack() as opened:
        paths = [Path(folder) / f"{k}.arrow" for k in range(len(parts))]
        for columns, path in zip(parts, paths, strict=True):
            _write(path, file.iter_batches(rows, row_groups=[group], columns=list(columns)))
        files = [opened.enter_context(path.open("rb")) for path in paths]
        readers = [iter(opened.enter_context(pa.ipc.open_stream(file))) for file in files]
        current: list[Any] = [next(reader, None) for reader in readers]
        while all(batch is not None for batch in current):
            n = min(batch.num_rows for batch in current)
            arrays = [array for batch in current for array in batch.slice(0, n).columns]
            names = [name for batch in current for name in batch.schema.names]
            whole = pa.RecordBatch.from_arrays(arrays, names=names)
            current = [batch.slice(n) if batch.num_rows > n else None for batch in current]
            del arrays
            yield whole
            del whole  # (while the next rows are read, these may be gone)
            current = [next(r, None) if b is None else b for r, b in zip(readers, current, strict=True)]


def _write(path: Path, batches: Iterator[Any]) -> None:
    import pyarrow as pa

    batch = next(batches)
    with path.open("wb") as file, pa.ipc.new_stream(file, batch.schema) as writer:
        while batch is not None:
            writer.write_batch(batch)
            del batch
            batch = next(batches, None)
    pa.default_memory_pool().release_unused()
