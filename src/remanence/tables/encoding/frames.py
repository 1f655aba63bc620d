"""Tables in memory as Arrow columns: DataFrames of pandas or others, Arrow tables, mappings, rows as dicts, arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from remanence.errors import InputError


def columns_of(X: Any, only: Sequence[str] | None = None) -> dict[str, Any]:
    """The columns of a table by name, each one Arrow array; columns that Arrow cannot take are one InputError.

    The columns of an array are named x0, x1, …; `only` leaves out columns of other names.
    """
    found: dict[str, Any] = {}
    wrong: list[str] = []
    wanted = None if only is None else set(only)
    try:
        named = _named(X)
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as problem:
        raise InputError(f"expected a table: a DataFrame, an Arrow table, or an array, got {problem!s:.80}") from None
    for name, values in named:
        if name in found:
            raise InputError(f"expected columns with different names, got {name!r:.40} twice; rename one of them")
        if wanted is not None and name not in wanted:
            continue
        try:
            found[name] = _column(values)
        except (TypeError, ValueError, OverflowError, NotImplementedError) as problem:  # (Arrow's errors too)
            wrong.append(f"{name!r:.40}: {problem!s:.100}")
    if wrong:
        raise InputError(
            f"expected columns of one kind of value each, got others in {'; '.join(wrong[:12])}; convert these, "
            f"or leave them out"
        )
    lengths = {len(column) for column in found.values()}
    if len(lengths) > 1:
        raise InputError(f"expected columns of one length, got {sorted(lengths)[:8]}")
    return found


def _named(X: Any) -> list[tuple[str, Any]]:
    import pyarrow as pa

    if isinstance(X, (pa.Table, pa.RecordBatch)):
        return [(str(name), X.column(i)) for i, name in enumerate(X.schema.names)]
    if isinstance(X, Mapping):
        return [(str(name), values) for name, values in X.items()]
    if isinstance(X, (list, tuple)) and X and all(isinstance(row, Mapping) for row in X):
        met = dict.fromkeys(name for row in X for name in row)
        return [(str(name), [row.get(name) for row in X]) for name in met]
    if hasattr(X, "columns") and hasattr(X, "__getitem__") and not isinstance(X, np.ndarray):
        names = list(X.columns)
        taken = (X.iloc[:, i] for i in range(len(names))) if hasattr(X, "iloc") else (X[name] for name in names)
        return [(str(name), values) for name, values in zip(names, taken, strict=True)]
    array = np.asarray(X)
    if array.ndim != 2:
        raise InputError(
            f"expected a table: a DataFrame, an Arrow table, a mapping of columns, rows as dicts, or an "
            f"array (rows, columns), got an array of shape {array.shape}. Reshape your data"
        )
    return [(f"x{j}", array[:, j]) for j in range(array.shape[1])]


def _column(values: Any) -> Any:
    import pyarrow as pa

    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if isinstance(values, pa.Array):
        return values
    if hasattr(values, "to_arrow"):
        return _column(values.to_arrow())
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        values = values.tolist()
    found = pa.array(values, from_pandas=True)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
