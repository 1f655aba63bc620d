"""Data on a cluster as a list of blocks: dask arrays and data frames, delayed pairs of X and y, files."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.errors import InputError
from remanence.scale.files import FileBlock, TableRules, are_files, delayed_files

KINDS = "a dask Array or DataFrame, a list of delayed (X, y) pairs, or names of files"


@dataclass(frozen=True)
class DataBlock:
    """A partition: a name for messages, delayed rows, delayed labels, the row count.

    Without labels X may be a delayed pair of rows and labels: `pair_of` takes it apart where it is, because a task of
    its own for each half would let Dask count the rows twice.
    """

    name: str
    X: Any
    y: Any = None
    rows: float = np.nan
    is_file: bool = False  # a name, and no rows yet


def blocks_of(model: Any, data: Any, labels: Any = None, labelled: bool = True) -> list[DataBlock]:
    """The blocks of `data` in their order; `labelled` requires labels for them.

    `model` says what it knows of the columns of files.
    """
    import dask.array as da
    from dask.delayed import Delayed

    if isinstance(data, da.Array):
        return _array_blocks(data, labels, labelled)
    if hasattr(data, "to_delayed") and hasattr(data, "columns"):
        return _frame_blocks(data, labels, labelled)
    if are_files(data):
        if labels is None:
            _require_labels(labelled, "the name of the label column")
        return [
            DataBlock(name, block, is_file=True) for name, block in delayed_files(data, TableRules.of(model, labels))
        ]
    if not isinstance(data, Iterable) or hasattr(data, "shape"):
        hint = "; rows of this machine are learned by the model's own fit" if hasattr(data, "shape") else ""
        raise InputError(f"expected {KINDS} as data, got {type(data).__name__}{hint}")
    data = list(data)
    if not data:
        raise InputError(f"expected {KINDS} as data, got an empty list")
    if not all(isinstance(item, Delayed) for item in data):
        kinds = sorted({type(item).__name__ for item in data})
        raise InputError(f"expected {KINDS} as data, got a list of {', '.join(kinds)}; wrap pairs with dask.delayed")
    return _pair_blocks(data, labels, labelled)


def _array_blocks(data: Any, labels: Any, labelled: bool) -> list[DataBlock]:
    if data.ndim < 2:
        raise InputError(f"expected a dask Array of rows and columns, got {data.ndim} dimension")
    data = data.rechunk(dict.fromkeys(range(1, data.ndim), -1))
    sizes, rows = data.chunks[0], _delayed_rows(data)
    if labels is None:
        _require_labels(labelled, "a dask Array of the labels")
        return [DataBlock(f"partition {i}", X, None, n) for i, (X, n) in enumerate(zip(rows, sizes, strict=True))]
    y = _delayed_labels(labels, sizes)
    return [DataBlock(f"partition {i}", *part) for i, part in enumerate(zip(rows, y, sizes, strict=True))]


def _delayed_rows(array: Any) -> list[Any]:
    """One delayed value per block of rows."""
    return list(array.to_delayed().reshape(len(array.chunks[0]), -1)[:, 0])


def _delayed_labels(labels: Any, sizes: Sequence[float]) -> list[Any]:
    """Labels as one delayed value per block of rows of these sizes."""
    import dask.array as da

    if isinstance(labels, str):
        raise InputError(f"expected labels as an array beside a dask Array, got the column name {labels!r}")
    known = not np.isnan(sizes).any()
    if hasattr(labels, "to_dask_array"):  # a dask Series
        labels = labels.to_dask_array()
    if not isinstance(labels, da.Array):
        if not known:
            raise InputError(
                "expected labels as a dask Array with the partitions of the data, whose sizes are not known yet, got "
                f"{type(labels).__name__}; call compute_chunk_sizes() on the data, or pass a dask Array"
            )
        labels = da.from_array(np.asarray(labels), chunks=-1)
    if labels.ndim > 1:
        labels = labels.rechunk(dict.fromkeys(range(1, labels.ndim), -1))
    if known and not np.isnan(labels.chunks[0]).any():
        if sum(labels.chunks[0]) != sum(sizes):
            raise InputError(f"expected a label for each of the {sum(sizes)} rows, got {sum(labels.chunks[0])}")
        labels = labels.rechunk({0: tuple(sizes)})
    elif len(labels.chunks[0]) != len(sizes):
        raise InputError(
            f"expected labels in {len(sizes)} partitions as the data, got {len(labels.chunks[0])}; repartition one of "
            f"them, or call compute_chunk_sizes() on both"
        )
    return _delayed_rows(labels)


def _frame_blocks(data: Any, labels: Any, labelled: bool) -> list[DataBlock]:
    if isinstance(labels, str) or (isinstance(labels, list) and all(isinstance(name, str) for name in labels)):
        names = [labels] if isinstance(labels, str) else labels
        missing = [name for name in names if name not in data.columns]
        if missing or not names:
            raise InputError(f"expected label columns among {[*map(str, data.columns)]}, got {missing or names}")
        parts = data.to_delayed()
        from dask import delayed

        split = delayed(_split)
        return [DataBlock(f"partition {i}", split(part, labels)) for i, part in enumerate(parts)]
    parts = data.to_delayed()
    if labels is None:
        _require_labels(labelled, "the name of the label column")
        return [DataBlock(f"partition {i}", part) for i, part in enumerate(parts)]
    y = _delayed_labels(labels, [np.nan] * len(parts))
    return [DataBlock(f"partition {i}", *pair) for i, pair in enumerate(zip(parts, y, strict=True))]


def _split(frame: Any, labels: str | list[str]) -> tuple[Any, Any]:
    return frame.drop(columns=labels), frame[labels].to_numpy()


def _pair_blocks(data: Sequence[Any], labels: Any, labelled: bool) -> list[DataBlock]:
    if labels is not None:
        raise InputError("expected labels=None beside delayed (X, y) pairs, which hold them")
    return [DataBlock(f"block {i}", item) for i, item in enumerate(data)]


def pair_of(X: Any, y: Any) -> tuple[Any, Any]:
    """On a worker: rows and labels of a block that is no file."""
    if y is None:
        if not (isinstance(X, (tuple, list)) and len(X) == 2):
            raise InputError(f"expected a pair of rows and labels (X, y), got {type(X).__name__}; let it return both")
        X, y = X
    return X, y


def rows_of(X: Any) -> Any:
    """On a worker: the rows of a block that is no file, which may be a pair with labels."""
    return X[0] if isinstance(X, tuple) else X


def _require_labels(labelled: bool, what: str) -> None:
    if labelled:
        raise InputError(f"expected `labels`, {what}, got None")


def check_pair(X: Any, y: Any) -> None:
    """On a worker: rows and labels of a block must pair."""
    if not hasattr(y, "__len__") or getattr(y, "ndim", 1) == 0:
        raise InputError(f"expected a label for each of {count_rows(X)} rows, got {type(y).__name__}")
    if count_rows(X) != len(y):
        raise InputError(f"X has {count_rows(X)} rows but y has {len(y)}; they must pair row by row")


def count_rows(X: Any) -> int:
    """The rows of a block, dense or sparse."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def row_pairs(X: Any, y: Any) -> Iterable[tuple[Any, Any]]:
    """On a worker: the rows and labels of a block, in batches where it is a file."""
    return X.pairs() if isinstance(X, FileBlock) else [pair_of(X, y)]


def row_batches(X: Any) -> Iterable[Any]:
    """On a worker: the rows of a block, in batches where it is a file."""
    return X.rows() if isinstance(X, FileBlock) else [rows_of(X)]
