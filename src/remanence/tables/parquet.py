"""Parquet files: read in record batches, one piece per row group, so that a file may be larger than memory.

A column of vectors (lists of numbers of one length, such as embeddings) becomes one column per entry: v.0, v.1, …
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError, MissingDependency
from remanence.tables.hashing import hash_of_bytes, identity, raise_changed
from remanence.tables.table import ROWS_AT_ONCE, Piece, RowBlock, Table, check_unique, stacked


def read(path: Path) -> "ParquetTable":
    return ParquetTable(path)


class ParquetTable(Table):
    def __init__(self, path: Path) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            raise MissingDependency(
                f"reading {path.name} needs pyarrow, which is not installed; pip install 'remanence[data]'"
            ) from None
        self.path, self.identity = path, identity(path)
        try:
            with pq.ParquetFile(path) as file:
                self.metadata, schema = file.metadata, file.schema_arrow
                check_unique(schema.names, path.name)
                self.vectors = {f.name: _width(file, f, path.name) for f in schema if _is_vector(f.type)}
        except InputError:
            raise
        except (pa.ArrowException, OSError, ValueError, MemoryError) as problem:
            raise InputError(f"{path.name} is not a whole Parquet file: {problem}") from None
        self.types = {field.name: field.type for field in schema}
        spread = [
            (column, (name, j))
            for name in self.types
            for column, j in (
                [(f"{name}.{i}", i) for i in range(self.vectors[name])] if name in self.vectors else [(name, 0)]
            )
        ]
        self.columns, self.sources = tuple(column for column, _ in spread), dict(spread)

    def pieces(self) -> Sequence[Piece]:
        groups = [g for g in range(self.metadata.num_row_groups) if self.metadata.row_group(g).num_rows]
        if not groups:
            raise InputError(f"{self.path.name} has no rows; expected at least one")
        return [ParquetPiece(self, g, len(groups)) for g in groups]


class ParquetPiece(Piece):
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

    def blocks(self, columns: Sequence[str], labels: Sequence[str] = (), originals: bool = False) -> Iterator[RowBlock]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.table.require([*columns, *labels])
        for name in columns:
            self._check_numeric(name)
        first = 0
        try:
            with pq.ParquetFile(self.path, metadata=self.table.metadata, memory_map=True) as file:
                needed = [self.table.sources[c][0] for c in (*columns, *labels)]
                wanted = list(dict.fromkeys([*needed, *(self.table.types if originals else ())]))
                batches = file.iter_batches(ROWS_AT_ONCE, row_groups=[self.group], columns=wanted)
                for batch in batches:
                    X = self._numbers(batch, columns)
                    beside = [_labels(batch.column(c)) for c in labels]
                    original = {n: batch.column(n) for n in self.table.types} if originals else None
                    yield RowBlock(X, stacked(beside), first, original)
                    first += len(X)
        except InputError:
            raise
        except (pa.ArrowException, OSError, ValueError, MemoryError) as problem:
            self._check_unchanged()  # (that would be why)
            raise InputError(f"cannot read row group {self.group} of {self.path.name}: {problem}") from None
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        """Arrow does not read pages in order, so they cannot be hashed as they are read: they are hashed once more."""
        if self.hash is not None and (identity(self.path) != self.table.identity or self._hash() != self.hash):
            raise_changed(self.path.name)

    def _check_numeric(self, name: str) -> None:
        found = self.table.types[self.table.sources[name][0]]
        if not _is_vector(found) and not _is_numeric(found):
            raise InputError(
                f"expected numbers in column {name!r} of {self.path.name}, got {found}; encode them as numbers, "
                f"or ignore the column",
                arguments=("ignored",),
            )

    def _numbers(self, batch: Any, columns: Sequence[str]) -> Array:
        X = np.empty((len(columns), batch.num_rows))  # by columns, as they come
        opened: dict[str, Array] = {}
        for j, column in enumerate(columns):
            name, i = self.table.sources[column]
            if name not in opened:
                width = self.table.vectors.get(name)
                opened[name] = _scalars(batch.column(name)) if width is None else self._vectors(batch, name, width)
            X[j] = opened[name][i]
        return X.T

    def _vectors(self, batch: Any, name: str, width: int) -> Array:
        """A column of vectors, (width, n); a missing vector is all NaN."""
        import pyarrow.compute as pc

        column = batch.column(name)
        lengths = np.asarray(pc.list_value_length(column).fill_null(width).to_numpy(zero_copy_only=False))
        if (lengths != width).any():
            raise InputError(
                f"expected vectors of {width} numbers in column {name!r} of {self.path.name}, got some of "
                f"{int(lengths[lengths != width][0])}"
            )
        X = np.full((batch.num_rows, width), np.nan)
        X[np.asarray(column.is_valid())] = _scalars(column.flatten())[0].reshape(-1, width)
        return X.T


def _scalars(column: Any) -> Array:
    """A column of numbers as float64, (1, n); a missing one is NaN."""
    return np.asarray(column.cast("double").to_numpy(zero_copy_only=False))[None]


def _is_numeric(found: Any) -> bool:
    import pyarrow.types as types

    return bool(
        types.is_integer(found) or types.is_floating(found) or types.is_boolean(found) or types.is_decimal(found)
    )


def _is_vector(found: Any) -> bool:
    import pyarrow.types as types

    lists = types.is_list(found) or types.is_large_list(found) or types.is_fixed_size_list(found)
    return bool(lists and _is_numeric(found.value_type))


def _width(file: Any, field: Any, name: str) -> int:
    """The length of a column's vectors: as its type says, or as the first row has it that is not null."""
    import pyarrow.types as types

    if types.is_fixed_size_list(field.type):
        return int(field.type.list_size)
    for batch in file.iter_batches(ROWS_AT_ONCE, columns=[field.name]):
        there = batch.column(0).drop_null()
        if len(there) and len(there[0]):
            return len(there[0])
        if len(there):
            break
    raise InputError(
        f"expected vectors in the column {field.name!r} of {name}, got none that has an entry; leave the column out of "
        f"the file, or fill it in"
    )


def _labels(column: Any) -> Array:
    """Label values as they are; a missing one is an empty text or NaN."""
    import pyarrow.types as types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_nested(column.type):
        raise InputError(f"expected labels that are numbers or text, got {column.type}; use a column of single values")
    if types.is_integer(column.type) and not column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if types.is_integer(column.type) or types.is_floating(column.type):
        return np.asarray(column.cast("double").to_numpy(zero_copy_only=False))
    return np.array(["" if v is None else str(v) for v in column.to_pylist()], dtype=object)
