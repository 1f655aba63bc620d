"""Checks of rows, labels and weights: scikit-learn's checks, re-raised as InputError, and additional ones."""

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from remanence.arrays import Array
from remanence.errors import FileError, InputError, MissingDependency, NumericalError
from remanence.labels import LEARNABLE, family_of, family_of_value
from remanence.validation import check_finite, check_numbers, check_unmasked

LONGEST_LABELS = 1 << 20  # characters that all labels of a block may take, each as wide as the longest


class InputTypeError(InputError, TypeError):
    """Input of a type that cannot be used; scikit-learn's checks want a TypeError there."""


def as_input_error(check: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a check and re-raise its errors as InputError."""
    try:
        return check(*args, **kwargs)
    except (FileError, InputError, MissingDependency, NotFittedError, NumericalError):
        raise
    except TypeError as error:
        raise InputTypeError(f"{error}; convert the input to an array of real numbers first") from None
    except ValueError as error:
        raise InputError(str(error)) from None
    except (ArithmeticError, AttributeError, LookupError, RuntimeError) as error:
        raise InputError(f"expected input that can be read as an array of real numbers, got {error}") from None


def check_container(X: Any, name: str = "X", sparse: bool = False) -> None:
    """Raise an InputError for what np.asarray would misread: masked entries, sparse matrices unless `sparse`, and, in
    rows X, dates and time spans."""
    if name == "X":
        _check_times(X)
    if type(X) is np.ndarray:
        return
    check_unmasked(X, name)
    if issparse(X) and not sparse:
        size = float(np.prod([float(n) for n in X.shape])) * 8
        raise InputTypeError(
            f"expected a dense array as {name}, got a sparse one of shape {X.shape}; pass {name}.toarray(), which "
            f"needs {size / 1e9:.3g} GB of memory"
        )


def _check_times(X: Any) -> None:
    """Raise an InputError for dates and time spans: as numbers they would depend on the unit they are stored in."""
    table = hasattr(X, "columns") and hasattr(X, "dtypes")
    kinds = list(X.dtypes) if table else [getattr(X, "dtype", None)]
    times = [str(kind) for kind in kinds if _is_time(kind)]
    if times:
        raise InputTypeError(
            f"expected numbers, got {times[0]}, which as a number would depend on its unit; encode dates by "
            "rm.TableFeatures, and divide time spans by a unit"
        )


def _is_time(kind: Any) -> bool:
    temporal = getattr(kind, "is_temporal", None)  # (polars)
    return bool(temporal()) if callable(temporal) else getattr(kind, "kind", "") in ("m", "M")


def check_targets(y: Any, rows: int, dtype: Any) -> tuple[Array, bool]:
    """Quantities to predict, (n, outputs), and whether they came as one plain column (n,)."""
    if y is None:
        raise InputError("this estimator requires y to be passed, but the target y is None")
    check_container(y, "y")
    if type(y) is not np.ndarray:
        y = as_input_error(check_array, y, ensure_2d=False, dtype=None, input_name="y")
    if y.dtype.kind == "O":
        y = as_input_error(y.astype, np.float64)
    Y = check_numbers(y, "y", dtype)
    if Y.ndim not in (1, 2):
        raise InputError(f"expected y of shape (rows,) or (rows, outputs), got {Y.shape}")
    as_input_error(check_consistent_length, np.empty(rows), Y)
    if Y.ndim == 2 and not Y.shape[1]:
        raise InputError("expected y with at least one output, got none")
    check_finite(Y, "y")
    return (Y[:, None], True) if Y.ndim == 1 else (Y, False)


def check_labels(y: Any, rows: int | None = None) -> Array:
    """Labels of one kind (n,): integers, booleans, text or bytes."""
    if y is None:
        raise InputError("this estimator requires y to be passed, but the target y is None")
    check_container(y, "y")
    if not (type(y) is np.ndarray and y.ndim == 1):
        if isinstance(y, (list, tuple)):
            _check_size(y, len(y))
            if len({family_of_value(value) for value in y} - {""}) > 1:  # (an array would make text of all of them)
                raise _several_kinds(y)
        y = as_input_error(column_or_1d, y, warn=True)
    if y.dtype.kind in "OT":
        y = _of_one_kind(y)
    if rows is not None and len(y) != rows:
        as_input_error(check_consistent_length, np.empty(rows), y)
    kind = y.dtype.kind
    if kind == "f":
        if not np.isfinite(y).all():
            raise InputError(
                "expected a label for every row, but y contains NaN or infinity; drop those rows first, or let a "
                "classifier with missing_labels='skip' leave them out"
            )
        if (y != np.trunc(y)).any():
            raise InputError(
                f"Unknown label type: continuous. Expected classes, integers or text, got "
                f"{float(y[y != np.trunc(y)][0])!r}; use ContinualRegressor for quantities"
            )
    elif family_of(y) not in LEARNABLE:
        hint = {"c": "Complex data not supported"}.get(kind, "convert them to text")
        kind = {"c": "complex numbers"}.get(kind, str(y.dtype))
        raise InputTypeError(f"Unknown label type: expected integers, booleans or text, got {kind}; {hint}")
    return np.asarray(y)


def are_labelled(y: Any) -> Array:
    """Which labels are present: not None, NaN, NA or masked."""
    if not hasattr(y, "__len__") or isinstance(y, (str, bytes, dict)):
        return np.ones(0, bool)
    try:
        return np.array([not _is_missing(label) for label in list(y)], bool)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        return np.ones(0, bool)


def _is_missing(label: Any) -> bool:
    if label is None or label is np.ma.masked or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, (float, np.floating)) and label != label


def _check_size(labels: Any, count: int) -> None:
    longest = max((len(label) for label in labels if isinstance(label, (str, bytes))), default=0)
    if longest > 1000 and longest * count > LONGEST_LABELS:
        raise InputError(f"expected short texts as labels, got one of {longest} characters; use a name for it")


def _of_one_kind(y: Array) -> Array:
    """Object labels (pandas text columns, lists) as an array of their own kind."""
    values = y.tolist()
    kinds = {family_of_value(value) for value in values}
    if len(kinds) == 1 and "" not in kinds:
        _check_size(values, len(values))
        try:
            plain = np.array(values)
        except (ValueError, OverflowError):
            plain = np.empty(0, object)
        exact = plain.tolist() == values or (plain.dtype.kind == "f" and not np.isfinite(plain).all())
        if family_of(plain) in LEARNABLE and exact:
            return plain
        raise InputTypeError(
            "Unknown label type: expected labels that an array can tell apart, got numbers of too many digits, numbers "
            "that differ in digits beyond double precision, or text that ends in a zero character; use plain text"
        )
    raise _several_kinds(values)


def _several_kinds(values: Any) -> InputTypeError:
    types = sorted({type(value).__name__ for value in values})
    gaps = any(_is_missing(value) for value in values)
    hint = "; drop rows without a label, or let a classifier with missing_labels='skip' leave them out" if gaps else ""
    return InputTypeError(
        f"Unknown label type: expected labels of one kind, all text or all numbers, got {types}{hint}"
    )
