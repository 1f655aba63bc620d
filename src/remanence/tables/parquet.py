"""Parquet files: read in record batches, so that a file may be larger than memory; every row group is a piece."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from remanence.errors import InputError
from remanence.parallel.thread_count import thread_count
from remanence.tables.arrow import ArrowPiece, ArrowTable, widths
from remanence.tables.hashing import hash_of_bytes, identity, raise_changed
from remanence.tables.pages.stripes import is_limited, page_bytes, side_by_side, stripes
from remanence.tables.table import ROWS_AT_ONCE, EmptyTable, Piece, check_unique

BUFFER = 1 << 16  # bytes of a column that are read at once where memory is limited


def read(path: Path) -> "ParquetTable":
    return ParquetTable(path)


class ParquetTable(ArrowTable):
    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path, self.identity = path, identity(path)
        try:
            with pq.ParquetFile(path) as file:
                self.metadata, schema = file.metadata, file.schema_arrow
                check_unique(schema.names, path.name)
                kinds = {field.name: field.type for field in schema}
                found = widths(kinds, lambda name: file.iter_batches(ROWS_AT_ONCE, columns=[name]))
        except InputError:
            raise
        except (pa.ArrowException, OSError, ValueError, MemoryError) as problem:
            raise InputError(f"{path.name} is not a whole Parquet file: {problem}") from None
        self.spread(kinds, found)

    def pieces(self) -> Sequence[Piece]:
        groups = [g for g in range(self.metadata.num_row_groups) if self.metadata.row_group(g).num_rows]
        if not groups:
            raise EmptyTable(f"{self.path.name} has no rows; expected at least one")
        return [ParquetPiece(self, g, len(groups)) for g in groups]


class ParquetPiece(ArrowPiece):
    table: ParquetTable

    def __init__(self, table: ParquetTable, group: int, groups: int) -> None:
        self.table, self.group, self.path = table, group, table.path
        self.hash: str | None = None
        self.name = table.path.name if groups == 1 else f"{table.path.name}[{group}]"

    def fingerprint(self) -> str:
        if self.hash is None:
            self.hash = self._hash()
        return self.hash

    def _hash(self) -> str:
        group = self.table.metadata.row_group(self.group)
        spans = []
        for j in range(group.num_columns):
            column = group.column(j)
            start = column.data_page_offset
            if column.dictionary_page_offset is not None:
                start = min(start, column.dictionary_page_offset)
            spans.append((start, column.total_compressed_size))
        salt = ";".join(f"{name}:{found}" for name, found in self.table.types.items())
        return hash_of_bytes(self.path, spans, salt)

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            # (pages of a mapped file count as memory of the process, and workers have limits)
            how = {"pre_buffer": False, "buffer_size": BUFFER} if is_limited() else {"memory_map": True}
            with pq.ParquetFile(self.path, metadata=self.table.metadata, **how) as file:
                size = self.rows_at_once(columns, ROWS_AT_ONCE)
                parts = stripes(page_bytes(self.table.metadata, self.group, columns)) if is_limited() else []
                if len(parts) > 1:
                    yield from side_by_side(file, self.group, parts, size)
                else:
                    threads = thread_count() > 1
                    yield from file.iter_batches(
                        size, row_groups=[self.group], columns=list(columns), use_threads=threads
                    )
            if is_limited():
                pa.default_memory_pool().release_unused()
        except InputError:
            raise
        except (pa.ArrowException, OSError, ValueError, MemoryError) as problem:
            self._check_unchanged()  # (that would be why)
            raise InputError(f"cannot read row group {self.group} of {self.path.name}: {problem}") from None
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        """Arrow does not read pages in order, so where they were hashed before, they are hashed once more."""
        if identity(self.path) != self.table.identity or (self.hash is not None and self._hash() != self.hash):
            raise_changed(self.path.name)
