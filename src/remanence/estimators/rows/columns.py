"""Rows whose columns have names that come and go: a table of numbers, arranged as a model knows its columns.

A column that is absent is 0 in all rows of the table, so that one that comes later was 0 in all rows before (see
growing_features.py). Columns without names are counted from the left.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import _get_feature_names, check_array

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.input_checks import as_input_error, check_container
from remanence.memory.sparse.sparse_rows import BLOCK, is_sparse

TRY = "grow_features=True takes new columns and counts absent ones as 0"


def are_dicts(X: Any) -> bool:
    """Whether X is a list of rows that are dictionaries, values by the names of columns."""
    return isinstance(X, (list, tuple)) and len(X) > 0 and isinstance(X[0], Mapping)


@dataclass(frozen=True, slots=True)
class NamedTable:
    """Rows of numbers, and the names of their columns, if they have any."""

    names: list[str] | None
    rows: Any  # (n, columns), dense or sparse by rows

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.shape  # type: ignore[no-any-return]

    def new_names(self, known: Array | None) -> list[str]:
        """The names that are not among the known ones."""
        there = set() if known is None else set(known.tolist())
        return [name for name in self.names or [] if name not in there]

    def arranged(self, known: Array | None, width: int, grow: bool) -> Any:
        """The rows with the known columns, (n, width); columns that are unknown are left out, absent ones 0."""
        names, n = self.names, self.shape[0]
        if names is None or known is None:
            if names is not None:
                raise InputError(f"expected columns without names, as before, got {_few(names)}; pass an array")
            if known is not None and self.shape[1] == width:
                warnings.warn("X has no names of columns; they are taken in the order of the first rows", stacklevel=2)
            elif (known is not None or not grow) and self.shape[1] != width:
                raise InputError(f"expected X with {width} features, got {self.shape[1]}; {TRY}")
            taken = np.arange(min(width, self.shape[1]))
            places = taken
        else:
            absent = sorted(set(known.tolist()) - set(names))
            if not grow and (absent or self.new_names(known)):
                found = f"without {_few(absent)}" if absent else f"with {_few(self.new_names(known))}"
                raise InputError(f"expected the columns that were learned, {_few(known)}, got rows {found}; {TRY}")
            order = {name: j for j, name in enumerate(known.tolist())}
            pairs = [(i, order[name]) for i, name in enumerate(names) if name in order]
            taken, places = np.array(pairs, int).reshape(-1, 2).T
        if len(taken) == width == self.shape[1] and np.array_equal(taken, places):
            return self.rows
        if is_sparse(self.rows):
            return _moved(self.rows[:, taken], places, width)
        moved = np.zeros((n, width), self.rows.dtype)
        moved[:, places] = self.rows[:, taken]
        return moved

    def check_learned(self, known: Array | None, width: int) -> None:
        """Raise an InputError where a column that was never learned is not 0: such rows were not learned."""
        order = () if known is None else set(known.tolist())
        new = [j for j in range(self.shape[1]) if (j >= width if self.names is None else self.names[j] not in order)]
        if len(new) and abs(self.rows[:, new]).max() > 0:
            shown = new if self.names is None else [self.names[j] for j in new]
            raise InputError(f"expected rows of columns that were learned, got others in {_few(shown)}")


def table_of(X: Any, dtype: Any, grow: bool) -> NamedTable:
    """X, a table of any kind or a list of dictionaries, as numbers and names."""
    if are_dicts(X):
        return _of_dicts(X, dtype, grow)
    check_container(X, sparse=True)
    names = as_input_error(_get_feature_names, X)
    rows = as_input_error(check_array, X, accept_sparse="csr", dtype=dtype, order="C", input_name="X")
    if names is None:
        return NamedTable(None, rows)
    if len(set(names)) < len(names):
        raise InputError(f"expected a name of its own for every column, got {_few(names)}; rename the columns")
    return NamedTable([str(name) for name in names], rows)


def _of_dicts(X: Any, dtype: Any, grow: bool) -> NamedTable:
    from scipy.sparse import csr_array

    places: dict[str, int] = {}
    values, columns, ends = [], [], [0]
    for i, row in enumerate(X):
        if not isinstance(row, Mapping) or not all(isinstance(name, str) for name in row):
            raise InputError(f"expected dictionaries with texts as names for all rows, got {row!r:.60} in row {i}")
        for name, value in row.items():
            columns.append(places.setdefault(name, len(places)))
            values.append(_number(value, name, i))
        ends.append(len(values))
    if not places:
        raise InputError("expected at least one column, got rows without any")
    if not grow and len(values) < len(X) * len(places):
        raise InputError(f"expected the same columns in every row, got rows without some of {_few(places)}; {TRY}")
    rows = csr_array((np.array(values, dtype), np.array(columns, np.int32), ends), (len(X), len(places)))
    return NamedTable(list(places), rows.toarray() if len(X) * len(places) <= BLOCK else rows)


def _number(value: Any, name: str, row: int) -> float:
    if isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
        try:
            number = float(value)
        except OverflowError:
            number = np.inf
        if np.isfinite(number):
            return number
    raise InputError(f"expected a finite number for column {name!r} of row {row}, got {value!r:.40}; encode it first")


def _moved(rows: Any, places: Array, width: int) -> Any:
    """Sparse rows whose column j becomes column places[j] of `width`."""
    moved = type(rows)((rows.data, places[rows.indices], rows.indptr), shape=(rows.shape[0], width))
    moved.sort_indices()
    return moved


def _few(names: Any) -> str:
    shown = [str(name) for name in names]
    return ", ".join(shown[:10]) + (", …" if len(shown) > 10 else "")
