"""Cells: the values of some rows, one array of numbers and columns of text, read from Arrow by the kind of a column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.labels import MISSING
from remanence.tables.arrow import is_numeric, is_present, is_vector, scalars, whole_values

WORDS = ("category", "text")  # kinds whose values are text; those of all others are numbers
TRUE, FALSE = ("true", "yes", "t", "y", "1"), ("false", "no", "f", "n", "0")
LARGEST_TIME = 2.0**38  # seconds, within which calendars work


@dataclass(frozen=True, slots=True)
class Cells:
    """Rows of a table whose columns have kinds."""

    numbers: Array  # (n, k) numbers, truth values as 0 and 1, times in seconds; NaN where missing
    words: tuple[Any, ...]  # Arrow columns of text, null where missing

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.numbers), self.numbers.shape[1] + len(self.words)

    @property
    def nbytes(self) -> int:
        return self.numbers.nbytes + sum(int(column.nbytes) for column in self.words)

    def __getitem__(self, which: Any) -> "Cells":
        """The rows selected by a slice or a boolean array, (n,)."""
        if isinstance(which, slice):
            start, stop, _ = which.indices(len(self))
            return Cells(self.numbers[which], tuple(w.slice(start, max(stop - start, 0)) for w in self.words))
        return self._taken(np.flatnonzero(which))

    def repeat(self, times: Array, axis: int = 0) -> "Cells":
        """Every row so many times."""
        return self._taken(np.arange(len(self)).repeat(times))

    def _taken(self, places: Array) -> "Cells":
        import pyarrow as pa

        return Cells(self.numbers[places], tuple(w.take(pa.array(places)) for w in self.words))

    def complete(self) -> Array:
        """Which rows have no missing entry, (n,)."""
        whole = np.isfinite(self.numbers).all(axis=1)
        for column in self.words:
            whole &= is_present(column)
        return np.asarray(whole)

    def coded_words(self) -> list[tuple[list[str], Array]]:
        """Every column of text as distinct values and the place of each row's value among them."""
        return [coded(column, "\0missing") for column in self.words]


def joined_cells(parts: Sequence[Cells]) -> Cells:
    """The rows of several parts, one after the other."""
    import pyarrow as pa

    words = tuple(pa.concat_arrays(list(columns)) for columns in zip(*(part.words for part in parts), strict=True))
    return Cells(np.concatenate([part.numbers for part in parts]), words)


def coded(column: Any, missing: str) -> tuple[list[str], Array]:
    """A column of text as distinct values and the place of each row's value among them, (n,)."""
    found = column.dictionary_encode()
    values = found.dictionary.to_pylist()
    places = np.where(is_present(found.indices), whole_values(found.indices, np.int32), len(values))
    return [*values, missing], places


class WrongCells(InputError):
    """Cells that are not of the kind of their column."""


def read_cells(columns: Mapping[str, Any], kinds: Mapping[str, str], widths: Mapping[str, int], where: str) -> Cells:
    """Arrow columns as cells of these kinds; all columns that cannot be read so are named in one InputError."""
    numbers, words, wrong = [], [], []
    rows = len(next(iter(columns.values()))) if columns else 0
    for name, kind in kinds.items():
        try:
            if isinstance(columns[name], np.ndarray):  # (numbers that were read as such)
                numbers.append(columns[name][None])
            elif kind in WORDS:
                words.append(as_text(columns[name]))
            elif kind == "embedding":
                numbers.append(as_vectors(columns[name], widths[name]))
            else:
                numbers.append(READERS[kind](columns[name])[None])
        except (ValueError, OverflowError) as problem:  # (Arrow's errors too)
            wrong.append(f"{name!r} ({kind}): {problem!s:.120}")
    if wrong:
        raise WrongCells(
            f"expected columns of the kinds they have in this model, got others in {where}: {'; '.join(wrong)}; "
            f"correct those cells, or declare another kind in a new model",
            arguments=("columns", "ignored"),
        )
    return Cells(np.concatenate([np.empty((0, rows)), *numbers]).T, tuple(words))


def as_text(column: Any) -> Any:
    """A column as text without white space around it; an empty one is null, and numbers are written plainly."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = plain(column)
    if pa.types.is_boolean(column.type):
        column = pc.if_else(column, "true", "false")
    elif pa.types.is_floating(column.type):
        texts = [
            None if v is None or v != v else str(int(v)) if v.is_integer() else repr(v) for v in column.to_pylist()
        ]
        column = pa.array(texts, pa.string())
    elif is_vector(column.type) or pa.types.is_nested(column.type):
        raise ValueError(f"got {column.type}, which is no text")
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def as_numbers(column: Any) -> Array:
    """A column as float64, NaN where missing; text must be numbers."""
    import pyarrow as pa

    column = plain(column)
    if is_numeric(column.type) or pa.types.is_null(column.type):
        return np.asarray(scalars(column)[0])
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise ValueError(f"got {column.type}, which is no number")
    return _by_value(column, _number)


def as_truth(column: Any) -> Array:
    """A column of truth values as 0 and 1."""
    import pyarrow as pa

    column = plain(column)
    if pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
        return np.asarray(scalars(column)[0])
    if is_numeric(column.type):
        values = np.asarray(scalars(column)[0])
        if not np.isin(values[np.isfinite(values)], (0, 1)).all():
            raise ValueError("got numbers other than 0 and 1")
        return values
    return _by_value(as_text(column), _truth)


def as_times(column: Any) -> Array:
    """A column of dates as seconds since 1970."""
    import pyarrow as pa

    column = plain(column)
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        whole = column.cast(pa.timestamp("us", tz=getattr(kind, "tz", None)), safe=False).cast(pa.int64())
        return np.asarray(np.where(is_present(whole), whole_values(whole, np.int64) / 1e6, np.nan))
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
        raise ValueError(f"got {kind}, which is no date")
    return _by_value(as_text(column), time_of)


def as_vectors(column: Any, width: int) -> Array:
    """A column of vectors, (width, n); a missing vector is all NaN."""
    import pyarrow.compute as pc

    if not is_vector(column.type):
        raise ValueError(f"got {column.type}, which is no list of numbers")
    lengths = np.array(pc.list_value_length(column).fill_null(width).to_pylist(), int)
    if (lengths != width).any():
        raise ValueError(f"expected {width} numbers in every row, got {int(lengths[lengths != width][0])}")
    X = np.full((len(column), width), np.nan)
    X[is_present(column)] = scalars(column.drop_null().flatten())[0].reshape(-1, width)
    return X.T


READERS = {"number": as_numbers, "truth": as_truth, "date": as_times}


def plain(column: Any) -> Any:
    """A column without dictionaries."""
    import pyarrow as pa

    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def time_of(text: str) -> float:
    """The seconds since 1970 of a date as ISO 8601 writes it, with or without a time; ValueError for others."""
    from datetime import UTC, datetime

    if len(text) < 8 or not text[:4].isdecimal():
        raise ValueError(f"got {text!r:.40}, which is no date like 2024-02-29 or 2024-02-29T12:30:00")
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"got {text!r:.40}, which is no date like 2024-02-29 or 2024-02-29T12:30:00") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _number(text: str) -> float:
    if text.strip().lower() in MISSING:
        return np.nan
    if "_" in text or not text.isascii():
        raise ValueError(f"got {text!r:.40}, which is no number")
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"got {text!r:.40}, which is no number") from None


def _truth(text: str) -> float:
    if text.lower() in MISSING:
        return np.nan
    if text.lower() not in (*TRUE, *FALSE):
        raise ValueError(f"got {text!r:.40}, which is neither true nor false")
    return float(text.lower() in TRUE)


def _by_value(column: Any, read: Any) -> Array:
    """A column of text as numbers; every distinct text is read once."""
    values, places = coded(column, "")
    return np.array([*map(read, values[:-1]), np.nan])[places]
