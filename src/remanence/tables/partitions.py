"""Folders named NAME=VALUE, as data sets are often kept in: each is a column that has this value in all rows inside it.

data/year=2024/city=Rome/part-0.parquet        has the columns year and city besides those of the file
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from remanence.errors import InputError
from remanence.tables.table import Piece, RowBlock, Table, stacked

FOLDER = re.compile(r"([A-Za-z_][\w .-]*)=(.*)")
EMPTY = "__HIVE_DEFAULT_PARTITION__"  # how such folders say that a value is missing


def partitions_of(path: Path) -> dict[str, str]:
    """The columns that the folders around a file stand for, the outermost first; empty text is a missing value."""
    found: dict[str, str] = {}
    for folder in path.absolute().parents:
        match = FOLDER.fullmatch(folder.name)
        if match is None:
            break
        name, value = unquote(match[1]), unquote(match[2])
        found[name] = "" if value == EMPTY else value
    return dict(reversed(found.items()))


class PartitionedTable(Table):
    """A table with further columns, each of one value."""

    def __init__(self, inner: Table, values: Mapping[str, str]) -> None:
        self.inner, self.path, self.vectors = inner, inner.path, inner.vectors
        self.partitions = dict(values)
        self.columns = (*inner.columns, *values)

    @property
    def dialect(self) -> Any:
        """That of a CSV file, else None."""
        return getattr(self.inner, "dialect", None)

    def pieces(self) -> Sequence[Piece]:
        return [PartitionedPiece(self, piece) for piece in self.inner.pieces()]

    def sample(self, columns: Sequence[str]) -> dict[str, Any]:
        found = self.inner.sample([name for name in columns if name not in self.partitions])
        rows = len(next(iter(found.values()))) if found else 1
        return {**found, **{n: _repeated(v, rows) for n, v in self.partitions.items() if n in columns}}

    def close(self) -> None:
        self.inner.close()

    def with_earlier_names(self, known: Any) -> None:
        self.inner.with_earlier_names(known)
        self.columns = (*self.inner.columns, *self.partitions)
        vars(self).pop("names", None)


class PartitionedPiece(Piece):
    """A piece with further columns, each of one value."""

    table: PartitionedTable

    def __init__(self, table: PartitionedTable, inner: Piece) -> None:
        self.table, self.inner = table, inner
        self.path, self.name, self.size = inner.path, inner.name, inner.size

    def fingerprint(self) -> str:
        return self.inner.fingerprint()

    def blocks(
        self, columns: Sequence[str], labels: Sequence[str] = (), originals: bool = False, cells: Sequence[str] = ()
    ) -> Iterator[RowBlock]:
        values = self.table.partitions
        own = [[name for name in names if name not in values] for names in (columns, labels, cells)]
        numbers = {name: self._number(name) for name in columns if name in values}
        for block in self.inner.blocks(own[0], own[1], originals, own[2]):
            n = len(block.X)
            there = dict(zip(own[0], block.X.T, strict=True))
            X = np.array([there[c] if c in there else np.full(n, numbers[c]) for c in columns]).reshape(-1, n).T
            beside = {} if block.labels is None else dict(zip(own[1], block.labels.reshape(n, -1).T, strict=True))
            outputs = [beside[c] if c in beside else np.full(n, values[c], dtype=object) for c in labels]
            original = None
            if block.original is not None:
                original = {**block.original, **{c: _repeated(v, n) for c, v in values.items()}}
                if isinstance(next(iter(block.original.values())), np.ndarray):
                    original |= {c: np.full(n, v, dtype=object) for c, v in values.items()}
            coded = {**block.cells, **{c: _repeated(values[c], n) for c in cells if c in values}}
            yield RowBlock(X, stacked(outputs), block.first, original, coded)

    def _number(self, name: str) -> float:
        value = self.table.partitions[name]
        try:
            return float(value) if value else float("nan")
        except ValueError:
            raise InputError(
                f"expected a number in the name of the folder {name}={value} of {self.name}; ignore the column",
                arguments=("ignored",),
            ) from None


def _repeated(value: str, rows: int) -> Any:
    import pyarrow as pa

    return pa.repeat(pa.scalar(value or None, pa.string()), rows)
