"""An encoding of rows with columns of any kind as numbers, which grows with the values it meets.

    φ(row) = (numbers, truth values, one column per category value, hashed text, calendar parts, vectors, gaps)   (E)
    a value or a gap that is met for the first time is a new column behind the others, 0 for all rows before      (G)

By (G), growing changes no row that was encoded before, so that a memory of rows grows exactly: by a zero column. Values
are counted, so that one whose last row is unlearned leaves no trace.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.labels import shortest
from remanence.tables.arrow import is_present
from remanence.tables.encoding.calendar import PARTS, calendar_parts
from remanence.tables.encoding.cells import WORDS, Cells, coded
from remanence.tables.encoding.hashed_text import hashed_text

MOST_VALUES = 5000  # of a category


@dataclass(frozen=True, slots=True)
class ColumnEncoding:
    """One column of a table, and where its numbers are among the encoded ones."""

    name: str
    kind: str
    width: int  # numbers of a fixed kind: entries of a vector, buckets of text, calendar parts; 0 for a category
    place: int  # the first of them
    values: tuple[str, ...] = ()  # of a category
    places: tuple[int, ...] = ()  # where each value has its number
    counts: tuple[int, ...] = ()  # rows with each value
    gap: int = -1  # where 1 stands for a missing entry; -1 if none was met
    gaps: int = 0  # rows with a missing entry

    def names(self) -> dict[int, str]:
        """Its encoded columns: place and name."""
        found = {place: f"{self.name}={value}" for place, value in zip(self.places, self.values, strict=True)}
        if self.gap >= 0:
            found[self.gap] = f"{self.name}?"
        for i in range(self.width):
            part = "" if self.kind in ("number", "truth") else f".{PARTS[i]}" if self.kind == "date" else str(i)
            found[self.place + i] = self.name + part
        return found

    def write(self, X: Array, part: Any) -> None:
        """Write the encoded columns of some rows into X (n, width), which is 0 (E)."""
        there = is_present(part) if self.kind in WORDS else np.isfinite(part).all(axis=1)
        if self.gap >= 0:
            X[:, self.gap] = ~there
        block = slice(self.place, self.place + self.width)
        if self.kind == "category":
            values, codes = coded(part, "")
            self.check_written(values[:-1])
            known = dict(zip(self.values, self.places, strict=True))
            target = np.array([*(known.get(value, -1) for value in values[:-1]), -1])[codes]
            rows = np.flatnonzero(target >= 0)
            X[rows, target[rows]] = 1
        elif self.kind == "text":
            X[:, block] = hashed_text(part.fill_null("").to_pylist(), self.width)
        elif self.kind == "date":
            X[:, block] = calendar_parts(part[:, 0])
        else:
            X[:, block] = np.where(there[:, None], part, 0.0)

    def check_written(self, values: Iterable[str]) -> None:
        """Raise an InputError for values of a category that are numbers, if others say them in another way."""
        new = set(values).difference(self.values)
        written = {shortest(value): value for value in self.values} if new else {}
        for value in sorted(new):
            if (other := written.setdefault(shortest(value), value)) != value:
                raise InputError(
                    f"expected one way to write a value of the category {self.name!r}, got {value!r:.40} and "
                    f"{other!r:.40}, which are one number; write it as before"
                )

    def counted(self, part: Any) -> tuple[dict[str, int], int]:
        """How many rows have each value of a category, and how many a missing entry."""
        if self.kind not in WORDS:
            return {}, int((~np.isfinite(part).all(axis=1)).sum())
        if self.kind == "text":
            return {}, int(part.null_count)
        values, codes = coded(part, "")
        counts = np.bincount(codes, minlength=len(values)).tolist()
        return {v: n for v, n in zip(values[:-1], counts, strict=False) if n}, counts[-1]


@dataclass(frozen=True, slots=True)
class TableEncoding:
    """The columns of a table and what of them was met (E)."""

    columns: tuple[ColumnEncoding, ...]
    width: int  # of an encoded row

    @classmethod
    def begun(cls, kinds: Mapping[str, str], widths: Mapping[str, int], text_width: int) -> "TableEncoding":
        """The encoding of columns of these kinds, before any value was met."""
        columns, place = [], 0
        for name, kind in kinds.items():
            width = {"category": 0, "text": text_width, "date": len(PARTS), "embedding": widths.get(name, 1)}.get(
                kind, 1
            )
            columns.append(ColumnEncoding(name, kind, width, place if width else 0))
            place += width
        return cls(tuple(columns), place)

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of every column."""
        return {column.name: column.kind for column in self.columns}

    @property
    def widths(self) -> dict[str, int]:
        """The length of the vectors of every embedding."""
        return {column.name: column.width for column in self.columns if column.kind == "embedding"}

    def names(self) -> list[str]:
        """The names of the encoded columns."""
        found = {place: name for column in self.columns for place, name in column.names().items()}
        return [found[place] for place in range(self.width)]

    def transform(self, cells: Cells) -> Array:
        """The encoded rows, (n, width); values that were never met are 0 in all columns of their category."""
        X = np.zeros((len(cells), self.width), order="F")
        for column, part in self._parts(cells):
            column.write(X, part)
        return X

    def grown(self, cells: Cells) -> "TableEncoding":
        """With the values and gaps of these rows, new ones in columns of their own (G)."""
        columns, width = [], self.width
        for column, part in self._parts(cells):
            found, gaps = column.counted(part)
            column, width = _with_counts(column, found, gaps, width)
            columns.append(column)
        return TableEncoding(tuple(columns), width)

    def check_met(self, cells: Cells, what: str = "rows that were learned") -> None:
        """Raise an InputError for rows with values that were never met, or more often than they were met."""
        for column, part in self._parts(cells):
            found, gaps = column.counted(part)
            known = dict(zip(column.values, column.counts, strict=True))
            strange = [value for value, n in found.items() if n > known.get(value, 0)]
            if strange or gaps > column.gaps:
                shown = repr(strange[0]) if strange else "missing entries"
                raise InputError(
                    f"expected {what}, got {shown:.60} in the column {column.name!r} more often than learned"
                )

    def with_numbers(self, names: Sequence[str]) -> "TableEncoding":
        """With further columns of numbers behind the others (G)."""
        new = [ColumnEncoding(name, "number", 1, self.width + i) for i, name in enumerate(names)]
        return TableEncoding((*self.columns, *new), self.width + len(new))

    def without(self, cells: Cells) -> tuple["TableEncoding", Array]:
        """The encoding without these rows, and which of the encoded columns are left, in their order.

        Values that no row has any more are forgotten.
        """
        columns, dropped = [], set[int]()
        for column, part in self._parts(cells):
            found, gaps = column.counted(part)
            left = [n - found.get(value, 0) for value, n in zip(column.values, column.counts, strict=True)]
            kept = [i for i, n in enumerate(left) if n > 0]
            dropped.update(place for i, place in enumerate(column.places) if left[i] <= 0)
            column = replace(
                column,
                values=tuple(column.values[i] for i in kept),
                places=tuple(column.places[i] for i in kept),
                counts=tuple(left[i] for i in kept),
                gaps=column.gaps - gaps,
            )
            if column.gap >= 0 and column.gaps <= 0:
                dropped.add(column.gap)
                column = replace(column, gap=-1, gaps=0)
            columns.append(column)
        places = np.array([place for place in range(self.width) if place not in dropped], int)
        moved = {int(old): new for new, old in enumerate(places)}
        return TableEncoding(tuple(_moved(column, moved) for column in columns), len(places)), places

    def merged(self, other: "TableEncoding") -> tuple["TableEncoding", Array]:
        """With what another encoding of the same columns has met, and where its columns are there.

        The second result has for every column of the merged encoding its place in the other one, or -1.
        """
        differ = {n: (k, other.kinds.get(n)) for n, k in self.kinds.items() if other.kinds.get(n) != k}
        if differ or len(self.columns) != len(other.columns):
            more = [name for name in other.kinds if name not in self.kinds]
            shown = "; ".join(f"{name!r}: {a} and {b or 'absent'}" for name, (a, b) in list(differ.items())[:8])
            raise InputError(
                f"expected tables with the same columns of the same kinds, got differences in {shown or more[:8]}; "
                f"declare the kinds when the models are started",
                arguments=("columns",),
            )
        theirs = {column.name: column for column in other.columns}
        columns, width, sources = [], self.width, dict[int, int]()
        for column in self.columns:
            there = theirs[column.name]
            if column.width != there.width:
                raise InputError(
                    f"expected {column.width} numbers for {column.name!r}, as here, got {there.width} in the other"
                )
            column, width = _with_counts(column, dict(zip(there.values, there.counts, strict=True)), there.gaps, width)
            columns.append(column)
            sources.update({column.place + i: there.place + i for i in range(column.width)})
            known = dict(zip(column.values, column.places, strict=True))
            sources.update({known[v]: place for v, place in zip(there.values, there.places, strict=True)})
            if there.gap >= 0:
                sources[column.gap] = there.gap
        return TableEncoding(tuple(columns), width), np.array([sources.get(i, -1) for i in range(width)], int)

    def _parts(self, cells: Cells) -> Sequence[tuple[ColumnEncoding, Any]]:
        """Every column with its values: an Arrow column of text, or numbers (n, width)."""
        parts: list[tuple[ColumnEncoding, Any]] = []
        number = word = 0
        for column in self.columns:
            if column.kind in WORDS:
                parts.append((column, cells.words[word]))
                word += 1
            else:
                width = column.width if column.kind == "embedding" else 1
                parts.append((column, cells.numbers[:, number : number + width]))
                number += width
        return parts


def _with_counts(column: ColumnEncoding, found: Mapping[str, int], gaps: int, width: int) -> tuple[ColumnEncoding, int]:
    """The column with values and gaps counted, new ones behind `width` columns, and the number of columns then."""
    if gaps:
        place, width = (column.gap, width) if column.gap >= 0 else (width, width + 1)
        column = replace(column, gap=place, gaps=column.gaps + gaps)
    if not found:
        return column, width
    column.check_written(found)
    new = sorted(found.keys() - set(column.values))
    if len(column.values) + len(new) > MOST_VALUES:
        raise InputError(
            f"expected at most {MOST_VALUES} values in the category {column.name!r}, got more, like {new[0]!r:.60}; "
            f"declare the column as text, which is hashed, or ignore it",
            arguments=("columns", "ignored"),
        )
    values = (*column.values, *new)
    places = (*column.places, *range(width, width + len(new)))
    counts = tuple(n + found.get(v, 0) for v, n in zip(values, (*column.counts, *[0] * len(new)), strict=True))
    return replace(column, values=values, places=places, counts=counts), width + len(new)


def _moved(column: ColumnEncoding, moved: Mapping[int, int]) -> ColumnEncoding:
    return replace(
        column,
        place=moved[column.place] if column.width else 0,
        places=tuple(moved[place] for place in column.places),
        gap=moved.get(column.gap, -1),
    )


def encoding_problem(columns: Sequence[ColumnEncoding], width: int) -> str:
    """Why these cannot be the columns of an encoding; empty if they can."""
    taken: list[tuple[int, int]] = []  # places, and how many numbers are there
    for column in columns:
        if not len(column.values) == len(column.places) == len(column.counts):
            return f"expected a place and a count for every value of {column.name!r:.40}"
        if len(set(column.values)) < len(column.values) or (column.values and column.kind != "category"):
            return f"expected distinct values of the category {column.name!r:.40}"
        if (column.gap >= 0) != (column.gaps > 0) or min(column.counts, default=1) < 1:
            return f"expected counts of the values of {column.name!r:.40}"
        if (column.width == 0) != (column.kind == "category"):
            return f"expected some numbers for {column.name!r:.40}"
        taken += [(place, 1) for place in (*column.places, *[column.gap] * (column.gap >= 0))]
        taken += [(column.place, column.width)] * (column.width > 0)
    if len({column.name for column in columns}) < len(columns):
        return "expected distinct columns"
    end = 0
    for place, count in sorted(taken):
        if place != end:
            return f"expected every place of {width} numbers once"
        end += count
    return "" if end == width else f"expected places of {width} numbers, got {end}"
