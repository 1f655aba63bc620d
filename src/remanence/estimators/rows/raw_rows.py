"""Rows that only an encoder can read: texts, dictionaries, tables with columns that are no numbers."""

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from remanence.errors import InputError
from remanence.estimators.input_checks import as_input_error
from remanence.estimators.rows.columns import are_dicts


def is_frame(X: Any) -> bool:
    """Whether X is a table of named columns, of whatever library."""
    return hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "shape")


def is_raw(X: Any) -> bool:
    """Whether X has entries that are no numbers, which `features` may be able to read."""
    if is_frame(X):
        return not all(_is_numeric(dtype) for dtype in list(X.dtypes))
    if _is_column(X):
        return not _is_numeric(X.dtype)
    if isinstance(X, (list, tuple)):
        return are_dicts(X) or (len(X) > 0 and isinstance(X[0], (str, bytes)))
    kind = getattr(getattr(X, "dtype", None), "kind", "f")
    return isinstance(X, np.ndarray) and not isinstance(X, np.ma.MaskedArray) and kind in "OUT" and X.ndim in (1, 2)


def _is_column(X: Any) -> bool:
    """Whether X is one column of a table, of whatever library, such as a Series of texts."""
    return hasattr(X, "to_numpy") and hasattr(X, "dtype") and len(getattr(X, "shape", ())) == 1


def _is_numeric(dtype: Any) -> bool:
    known = getattr(dtype, "is_numeric", None)  # (polars)
    return bool(known()) if callable(known) else getattr(dtype, "kind", "O") in "fiub"


def checked_raw(model: Any, X: Any, reset: bool) -> Any:
    """X as `features` receive it, a table as it is and a list as an array of its items; the columns are the model's."""
    if is_frame(X):
        as_input_error(validate_data, model, X, reset=reset, skip_check_array=True)
        if not X.shape[0]:
            raise InputError("expected at least one row, got a table without any")
        return X
    if isinstance(X, np.ndarray):
        rows = X
    elif _is_column(X):
        rows = np.asarray(X.to_numpy(), object)
    else:
        rows = np.empty(len(X), object)
        rows[:] = X
    width = rows.shape[1] if rows.ndim == 2 else 1
    if not rows.size:
        raise InputError("expected at least one row, got none")
    if reset:
        model.n_features_in_ = width
    elif width != model.n_features_in_:
        raise InputError(f"expected rows with {model.n_features_in_} columns for `features`, got {width}")
    return rows
