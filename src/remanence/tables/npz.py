"""NPZ files: one array of rows (n, d), and arrays of n labels or numbers by name, or such arrays alone.

NPY files have just the array of rows.
"""

import io
import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from remanence.errors import InputError
from remanence.hashing import hash_bytes
from remanence.tables.table import ROWS_AT_ONCE, EmptyTable, Piece, RowBlock, Table, rows_at_once, stacked

MAX_RATIO = 256  # unpacked bytes per byte of the file, for files that unpack to more than the next
SMALL = 1 << 28
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
BROKEN = (ValueError, OSError, EOFError, KeyError, RuntimeError, NotImplementedError, OverflowError, SyntaxError,
          struct.error, zipfile.BadZipFile, zlib.error, lzma.LZMAError)  # fmt: skip


def read(path: Path) -> "NpzTable":
    return NpzTable(path)


class NpzTable(Table):
    def __init__(self, path: Path) -> None:
        self.path = path
        self.arrays, self.hash = _loaded(path)
        wide = [name for name, a in self.arrays.items() if a.ndim == 2]
        shapes = {a.shape for a in self.arrays.values()}
        columns = len(shapes) == 1 and all(len(shape) == 1 for shape in shapes)
        if not columns and len(wide) != 1 and "X" not in wide:
            raise InputError(
                f"expected {path.name} to hold one array of rows (n, features), or one named X, or columns of one "
                f"length, got { {name: a.shape for name, a in self.arrays.items()} }"
            )
        self.rows = None if columns else "X" if "X" in wide else wide[0]
        self.X = np.empty((*shapes.pop(), 0)) if self.rows is None else self.arrays[self.rows]
        if self.X.dtype.kind not in "fiub":
            raise InputError(f"expected the array {self.rows} of {path.name} to hold numbers, got {self.X.dtype}")
        if not len(self.X):
            raise EmptyTable(f"{path.name} has no rows; expected at least one")
        others = [n for n in self.arrays if n != self.rows]
        self.others = [n for n in others if self.arrays[n].ndim == 1 and len(self.arrays[n]) == len(self.X)]
        self.columns = (*(f"{self.rows}{i}" for i in range(self.X.shape[1])), *self.others)
        self.vectors = {} if self.rows is None else {self.rows: self.X.shape[1]}

    def sample(self, columns: Sequence[str]) -> dict[str, Any]:
        return {name: as_arrow(self.arrays[name][:ROWS_AT_ONCE]) for name in columns if name in self.others}

    def pieces(self) -> Sequence[Piece]:
        return (NpzPiece(self),)


class NpzPiece(Piece):
    table: NpzTable

    def __init__(self, table: NpzTable) -> None:
        self.table, self.path, self.name = table, table.path, table.path.name

    def fingerprint(self) -> str:
        return self.table.hash

    def blocks(
        self, columns: Sequence[str], labels: Sequence[str] = (), originals: bool = False, cells: Sequence[str] = ()
    ) -> Iterator[RowBlock]:
        self.table.require([*columns, *labels, *cells])
        X, rows = self.table.X, self.table.rows
        own = {f"{rows}{dot}{i}": i for dot in (".", "") for i in range(X.shape[1])}
        where = [own.get(c) for c in columns]
        for name in columns:
            if name not in own and self.table.arrays[name].dtype.kind not in "fiub":
                raise InputError(
                    f"expected numbers in the array {name!r} of {self.name}, got {self.table.arrays[name].dtype}; "
                    f"encode them as numbers, or ignore the array",
                    arguments=("ignored",),
                )
        size = rows_at_once(len(columns), ROWS_AT_ONCE)
        for i in range(0, len(X), size):
            part = slice(i, i + size)
            if where == list(range(X.shape[1])):
                block = X[part].astype(np.float64)
            else:
                block = np.empty((len(X[part]), len(columns)))
                for k, (name, j) in enumerate(zip(columns, where, strict=True)):
                    block[:, k] = X[part, j] if j is not None else self.table.arrays[name][part]
            beside = [self.table.arrays[c][part] for c in labels]
            names = (*(() if rows is None else (rows,)), *self.table.others)
            original = {n: self.table.arrays[n][part] for n in names}
            coded = {name: as_arrow(self.table.arrays[name][part]) for name in cells}
            yield RowBlock(block, stacked(beside), i, original if originals else None, coded)


def as_arrow(values: Any) -> Any:
    """A column of an NPZ file as Arrow has it."""
    import pyarrow as pa

    try:
        return pa.array(values.astype(str) if values.dtype.kind == "S" else values)
    except (pa.ArrowException, UnicodeDecodeError) as problem:
        raise InputError(f"expected numbers, text or dates, got {values.dtype}: {problem}") from None


def _loaded(path: Path) -> tuple[dict[str, Any], str]:
    """The arrays of a file, and the SHA-256 of the bytes they were read from."""
    try:
        content = path.read_bytes()
        if content.startswith(b"\x93NUMPY"):
            with io.BytesIO(content) as whole:
                return {"X": _checked_array(whole, path.name, len(content))}, hash_bytes(content)
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            _check_sizes(file, len(content), path.name)
            arrays = {info.filename.removesuffix(".npy"): _array(file, info) for info in file.infolist()}
            if len(arrays) < len(file.infolist()):
                raise ValueError("two arrays have the same name")
        return arrays, hash_bytes(content)
    except InputError:
        raise
    except BROKEN as problem:
        raise InputError(
            f"{path.name} is not an NPZ file of plain arrays: {problem}; save it with numpy.savez or numpy.save, "
            f"without objects"
        ) from None
    except MemoryError:
        raise InputError(f"{path.name} holds more than fits into memory; save it as Parquet") from None


def _check_sizes(file: zipfile.ZipFile, size: int, name: str) -> None:
    """Raise an InputError for arrays that unpack to so much that they are likely to be a zip bomb."""
    unpacked = sum(info.file_size for info in file.infolist())
    if unpacked > max(MAX_RATIO * size, SMALL):
        raise InputError(
            f"expected {name} to unpack to at most {MAX_RATIO} times its size, got {unpacked} bytes in a file of "
            f"{size}; if that is right, save it with numpy.savez (not compressed) or as Parquet"
        )


def _array(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> Any:
    """One array; its header must agree with the size of the member before memory is allocated for it."""
    if not info.filename.endswith(".npy"):
        raise ValueError(f"{info.filename!r:.60} is not an array")
    with file.open(info) as member:
        _check_header(member, info.filename, info.file_size)
    with file.open(info) as member:
        return np.lib.format.read_array(member, allow_pickle=False)


def _checked_array(file: io.BytesIO, name: str, size: int) -> Any:
    _check_header(file, name, size)
    file.seek(0)
    found = np.lib.format.read_array(file, allow_pickle=False)
    if found.ndim != 2:
        raise InputError(f"expected {name} to hold one array of rows (n, features), got {found.shape}")
    return found


def _check_header(member: Any, name: str, size: int) -> None:
    version = np.lib.format.read_magic(member)
    if version not in HEADERS:
        raise ValueError(f"{name!r:.60} has the unknown version {version}")
    shape, _, dtype = HEADERS[version](member)
    begun = member.tell()
    if dtype.hasobject:
        raise ValueError(f"{name!r:.60} holds objects")
    if begun + math.prod(shape) * dtype.itemsize != size:
        raise ValueError(f"{name!r:.60} has the shape {shape} in its header, and another size")
