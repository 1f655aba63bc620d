"""Arrow and Feather files: record batches as Arrow keeps them in memory, in a file with an index or in a stream."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from remanence.errors import InputError
from remanence.tables.arrow import ArrowPiece, ArrowTable, widths
from remanence.tables.hashing import hash_of_bytes, identity, raise_changed
from remanence.tables.table import ROWS_AT_ONCE, EmptyTable, Piece, check_unique


def read(path: Path) -> "IpcTable":
    return IpcTable(path)


class IpcTable(ArrowTable):
    def __init__(self, path: Path) -> None:
        self.path, self.identity = path, identity(path)
        with self.opened() as (schema, batches):
            check_unique(schema.names, path.name)
            kinds = {field.name: field.type for field in schema}
            found = widths(kinds, lambda name: (batch.select([name]) for batch in batches()))
        self.spread(kinds, found)

    @contextmanager
    def opened(self) -> Iterator[tuple[Any, Callable[[], Iterator[Any]]]]:
        """The schema, and a function that reads the record batches from the first one."""
        import pyarrow as pa

        try:
            with pa.memory_map(str(self.path)) as source:
                try:
                    file = pa.ipc.open_file(source)
                except pa.ArrowInvalid:
                    source.seek(0)
                    yield pa.ipc.open_stream(source).schema, lambda: self._stream(source)
                else:
                    yield file.schema, lambda: map(file.get_batch, range(file.num_record_batches))
        except (pa.ArrowException, OSError, ValueError, MemoryError) as problem:
            if isinstance(problem, InputError):
                raise
            raise InputError(f"{self.path.name} is not a whole Arrow file: {problem}") from None

    @staticmethod
    def _stream(source: Any) -> Iterator[Any]:
        import pyarrow as pa

        source.seek(0)
        yield from pa.ipc.open_stream(source)

    def pieces(self) -> Sequence[Piece]:
        return (IpcPiece(self),)


class IpcPiece(ArrowPiece):
    table: IpcTable

    def __init__(self, table: IpcTable) -> None:
        self.table, self.path, self.name = table, table.path, table.path.name

    def fingerprint(self) -> str:
        return hash_of_bytes(self.path)

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        rows, size = 0, self.rows_at_once(columns, ROWS_AT_ONCE)
        with self.table.opened() as (_, batches):
            for batch in batches():
                batch.validate(full=True)
                rows += batch.num_rows
                chosen = batch.select(list(columns))
                yield from (chosen.slice(i, size) for i in range(0, batch.num_rows, size))
        if identity(self.path) != self.table.identity:
            raise_changed(self.path.name)
        if not rows:
            raise EmptyTable(f"{self.path.name} has no rows; expected at least one")
