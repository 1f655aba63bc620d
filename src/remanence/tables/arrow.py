"""Columns of Arrow as numbers and labels, for all formats that Arrow reads; shared by parquet.py, ipc.py and jsonl.py.

A column of vectors (lists of numbers of one length, such as embeddings) becomes one column per entry: v0, v1, …, as in
NPZ files.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.tables.table import Piece, RowBlock, Table, and_others, rows_at_once, stacked

DECIMALS = ("decimal32", "decimal64", "decimal128", "decimal256")  # (the first two are newer than the oldest Arrow)


class ArrowTable(Table):
    """A table whose columns have Arrow types."""

    types: dict[str, Any]  # as they are in the file
    sources: dict[str, tuple[str, int]]  # column: where its numbers are

    def spread(self, types: dict[str, Any], vectors: dict[str, int]) -> None:
        """Name the columns: one per entry of a vector; columns of vectors that are all missing keep their names."""
        self.types, self.vectors = types, vectors
        pairs = [
            (column, (name, j))
            for name in types
            for column, j in ([(f"{name}{i}", i) for i in range(vectors[name])] if name in vectors else [(name, 0)])
        ]
        self.columns = tuple(column for column, _ in pairs)
        earlier = {f"{name}.{i}": (name, i) for name, width in vectors.items() for i in range(width)}
        self.sources = {**earlier, **dict(pairs)}

    def sample(self, columns: Sequence[str]) -> dict[str, Any]:
        wanted = [name for name in columns if name in self.types and name not in self.vectors]
        self._check_vectors(wanted)
        if not wanted:
            return {}
        for piece in self.pieces():
            assert isinstance(piece, ArrowPiece)
            for batch in piece.batches(wanted):
                if batch.num_rows:
                    return {name: batch.column(name) for name in wanted}
        return {}

    def check_numeric(self, names: Sequence[str]) -> None:
        """Raise an InputError for columns that are not of numbers; all of them are named."""
        self._check_vectors(names)
        kinds = {name: self.types[self.sources[name][0]] for name in names}
        others = {name: kind for name, kind in kinds.items() if not is_vector(kind) and not is_numeric(kind)}
        if others:
            name, kind = next(iter(others.items()))
            raise InputError(
                f"expected numbers in column {name!r} of {self.path.name}, got {kind}; encode them as numbers, "
                f"or ignore the column{and_others(list(others)[1:])}",
                arguments=("ignored",),
            )

    def _check_vectors(self, names: Sequence[str]) -> None:
        """Raise an InputError for columns of vectors without any."""
        own = [name for name in names if name in self.types and name not in self.vectors]
        empty = [name for name in own if is_vector(self.types[name])]
        if empty:
            raise InputError(
                f"expected vectors in the column {empty[0]!r} of {self.path.name}, got none that has an entry; fill it "
                f"in, or ignore the column{and_others(empty[1:])}",
                arguments=("ignored",),
            )


class ArrowPiece(Piece):
    """A part of an Arrow table."""

    table: ArrowTable

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Record batches with these columns of the file."""

    def rows_at_once(self, columns: Sequence[str], most: int) -> int:
        """The rows of a record batch with these columns of the file."""
        return rows_at_once(sum(self.table.vectors.get(name, 1) for name in columns), most)

    def blocks(
        self, columns: Sequence[str], labels: Sequence[str] = (), originals: bool = False, cells: Sequence[str] = ()
    ) -> Iterator[RowBlock]:
        self.table.require([*columns, *labels, *cells])
        self.table.check_numeric(columns)
        needed = [self.table.sources[c][0] for c in (*columns, *labels, *cells)]
        wanted = list(dict.fromkeys([*needed, *(self.table.types if originals else ())]))
        first = 0
        for batch in self.batches(wanted):
            try:
                X = self._numbers(batch, columns)
                beside = [label_values(batch.column(c)) for c in labels]
            except InputError:
                raise
            except (ValueError, MemoryError) as problem:  # (Arrow's errors too: text that is none, numbers too large)
                raise InputError(f"cannot read {self.name}: {problem}") from None
            original = {n: batch.column(n) for n in self.table.types} if originals else None
            beyond = first + len(X)
            block = RowBlock(X, stacked(beside), first, original, {n: batch.column(n) for n in cells})
            del batch, X, beside, original  # (while the next rows are read, these may be gone)
            yield block
            del block
            first = beyond

    def _numbers(self, batch: Any, columns: Sequence[str]) -> Array:
        X = np.empty((len(columns), batch.num_rows))  # by columns, as they come
        opened: dict[str, Array] = {}
        for j, column in enumerate(columns):
            name, i = self.table.sources[column]
            if name not in opened:
                width = self.table.vectors.get(name)
                opened[name] = scalars(batch.column(name)) if width is None else self._vectors(batch, name, width)
            X[j] = opened[name][i]
        return X.T

    def _vectors(self, batch: Any, name: str, width: int) -> Array:
        """A column of vectors, (width, n); a missing vector is all NaN."""
        import pyarrow.compute as pc

        column = batch.column(name)
        lengths = np.array(pc.list_value_length(column).fill_null(width).to_pylist())
        if (lengths != width).any():
            raise InputError(
                f"expected vectors of {width} numbers in column {name!r} of {self.path.name}, got some of "
                f"{int(lengths[lengths != width][0])}"
            )
        X = np.full((batch.num_rows, width), np.nan)
        X[is_present(column)] = scalars(column.flatten())[0].reshape(-1, width)
        return X.T


def scalars(column: Any) -> Array:
    """A column of numbers as float64, (1, n); a missing one is NaN, and large integers are rounded, as in CSV files."""
    return doubles(column if str(column.type) == "double" else column.cast("double", safe=False))[None]


def doubles(column: Any) -> Array:
    """A column of float64, (n,); a missing one is NaN."""
    values = whole_values(column, np.float64)
    return np.where(is_present(column), values, np.nan) if column.null_count else values


def whole_values(column: Any, dtype: Any) -> Array:
    """The memory of a column of this type, (n,); not by `to_numpy`, which loads pandas where it is installed."""
    memory = column.buffers()[1]
    if memory is None:
        return np.zeros(len(column), dtype)
    return np.frombuffer(memory, dtype)[column.offset : column.offset + len(column)]


def is_present(column: Any) -> Array:
    """Which entries of a column are not null, (n,)."""
    bits = column.buffers()[0]
    if bits is None:
        return np.ones(len(column), bool)
    unpacked = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
    return unpacked[column.offset : column.offset + len(column)].astype(bool)


def is_numeric(found: Any) -> bool:
    """Whether a type is of numbers; booleans are 0 and 1."""
    return found.id in _ids()[0]


def is_vector(found: Any) -> bool:
    """Whether a type is of lists of numbers."""
    return found.id in _ids()[1] and is_numeric(found.value_type)


@cache
def _ids() -> tuple[frozenset[int], frozenset[int]]:
    """The identities of types of numbers, and of types of lists; wide tables are asked for every column."""
    import pyarrow as pa

    integers = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
    numbers = {getattr(pa, name)().id for name in ("bool_", "float16", "float32", "float64", *integers)}
    decimals = {getattr(pa, name)(1).id for name in DECIMALS if hasattr(pa, name)}
    lists = {kind.id for kind in (pa.list_(pa.null()), pa.large_list(pa.null()), pa.list_(pa.null(), 1))}
    return frozenset(numbers | decimals), frozenset(lists)


def widths(types: dict[str, Any], batches: Any) -> dict[str, int]:
    """The length of the vectors of every column that has them; `batches(column)` reads one column."""
    found = {column: _width(kind, batches, column) for column, kind in types.items() if is_vector(kind)}
    return {column: width for column, width in found.items() if width}


def _width(kind: Any, batches: Any, column: str) -> int:
    """The length of a column's vectors: as its type says, or as the first row has it that is not null; 0 if none is."""
    import pyarrow.types as types

    if types.is_fixed_size_list(kind):
        return int(kind.list_size)
    for batch in batches(column):
        there = batch.column(column).drop_null()
        if len(there) and len(there[0]):
            return len(there[0])
        if len(there):
            break
    return 0


def label_values(column: Any) -> Array:
    """Label values as they are; a missing one is an empty text or NaN."""
    import pyarrow.types as types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_nested(column.type):
        raise InputError(f"expected labels that are numbers or text, got {column.type}; use a column of single values")
    if types.is_integer(column.type) and not column.null_count:
        return np.array(whole_values(column, column.type.to_pandas_dtype()))
    if types.is_floating(column.type):
        return np.asarray(scalars(column)[0])
    if types.is_binary(column.type) or types.is_large_binary(column.type) or types.is_fixed_size_binary(column.type):
        column = column.cast("binary").cast("string")  # (text, as other libraries write it; else an error of Arrow)
    return np.array(["" if v is None else str(v) for v in column.to_pylist()], dtype=object)
