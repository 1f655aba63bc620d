"""What the columns of a table are, guessed from its first rows.

    number      numbers                          truth     true and false, yes and no
    date        dates as ISO 8601 writes them    category  other text with few words
    text        text of several words            embedding lists of numbers
    ignored     row numbers, and text that is different in every row: such columns identify rows and say nothing of them

A column in which most cells are numbers and some are not is an error: it may be a category, or have mistakes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.labels import MISSING
from remanence.tables.arrow import is_numeric, is_vector
from remanence.tables.encoding.cells import FALSE, TRUE, as_numbers, as_text, coded, plain, time_of

KINDS = ("number", "truth", "category", "text", "date", "embedding", "ignored")
SENTENCE, LONG = 4.0, 40.0  # words, and characters, of a cell on average from which on a column is text
MANY = 32  # rows from which on text that never repeats identifies rows
COUNTED = 3  # rows from which on a column 0, 1, 2, … is taken for row numbers
PLAIN_NUMBER = r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
LEADING_ZERO = r"^[+-]?0[0-9]"
OTHER_DATE = re.compile(r"\d{1,2}([./-])\d{1,2}\1(\d{4}|\d{2})([ T].*)?|\d{4}([./])\d{1,2}\4\d{1,2}([ T].*)?")
OTHER_NUMBER = re.compile(
    r"(?=.*[^\d.+-])[$€£¥]?\s?[+-]?[$€£¥]?\s?(\d{1,3}([.,' ’]\d{3})+|\d+)([.,]\d+)?\s?(%|‰|[$€£¥]|[A-Z]{3})?"
)
LIKELY = 3  # values in another notation from which on it is told
LOOKED_AT = 100  # values among which dates are looked for
ROW_NUMBER_NAME = re.compile(r"(.*[_ .-])?(id|idx|index|nr|no|row|rownum|unnamed)([_ :.-]*\d*)", re.IGNORECASE)


@dataclass
class Guess:
    """What columns are, and why some are left out."""

    kinds: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)  # of columns that are ignored, and doubts about others
    widths: dict[str, int] = field(default_factory=dict)  # of embeddings

    def doubts(self, where: str) -> list[str]:
        """What to tell of columns that are left out, or may be another kind."""
        taken = {name: "left out" if kind == "ignored" else f"a {kind}" for name, kind in self.kinds.items()}
        return [f"the column {name!r} of {where} is {taken[name]}: {why}" for name, why in self.reasons.items()]


def guess_kinds(columns: Mapping[str, Any], declared: Mapping[str, str], where: str) -> Guess:
    """The kind of every Arrow column, as declared or by its first values; columns of no kind are one InputError."""
    check_kinds(declared)
    found, wrong = Guess(), list[str]()
    for name, column in columns.items():
        column = plain(column)
        try:
            kind, reason = (declared[name], "") if name in declared else _guess(name, column)
        except ValueError as problem:
            wrong.append(f"{name!r}: {problem}")
            continue
        found.kinds[name] = kind
        if reason:
            found.reasons[name] = reason
        if kind == "embedding":
            found.widths[name] = _width(column)
    if wrong:
        raise InputError(
            f"expected columns of {where} that are numbers, truth values, dates, categories, text or lists of numbers, "
            f"got others: {'; '.join(wrong)}; correct those cells, declare what the columns are, or ignore them",
            arguments=("columns", "ignored"),
        )
    return found


def check_kinds(declared: Mapping[str, str]) -> None:
    """Raise an InputError for kinds that there are not."""
    wrong = {name: kind for name, kind in declared.items() if kind not in KINDS}
    if wrong:
        shown = ", ".join(f"{kind!r:.40} for {name!r}" for name, kind in list(wrong.items())[:8])
        raise InputError(f"expected kinds of columns among {', '.join(KINDS)}, got {shown}", arguments=("columns",))


def _guess(name: str, column: Any) -> tuple[str, str]:
    import pyarrow as pa

    kind = column.type
    if not name:
        return "ignored", "it has no name"
    if pa.types.is_boolean(kind):
        return "truth", ""
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "date", ""
    if is_vector(kind):
        return "embedding", ""
    if pa.types.is_null(kind):
        return "number", ""
    if is_numeric(kind):
        return _number_or_place(name, column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _guess_text(name, column)
    raise ValueError(f"got {kind}")


def _number_or_place(name: str, column: Any) -> tuple[str, str]:
    if ROW_NUMBER_NAME.fullmatch(name) and counts_rows(as_numbers(column)):
        return "ignored", "it counts the rows"
    return "number", ""


def counts_rows(values: Array) -> bool:
    """Whether numbers are 0, 1, 2, … or 1, 2, 3, …"""
    places = np.arange(len(values))
    return len(values) >= COUNTED and bool((values == places).all() or (values == places + 1).all())


def _guess_text(name: str, column: Any) -> tuple[str, str]:
    import pyarrow.compute as pc

    if not column.null_count and pc.all(pc.match_substring_regex(column, PLAIN_NUMBER)).as_py():
        return _written_number(name, column)  # as below, in a fraction of the time
    values, places = coded(as_text(column), "")
    counts = np.bincount(places, minlength=len(values))[:-1]
    cells = int(counts.sum())
    if not cells:
        return "number", ""
    present = [v for v in values[:-1] if v.lower() not in MISSING]
    numbers = [_is_number(v) for v in values[:-1]]
    if present and sum(numbers) == len(present):
        return _written_number(name, column)
    if all(v.lower() in (*TRUE[:-1], *FALSE[:-1]) for v in present) and present:
        return "truth", ""
    if present and all(_is_date(v) for v in present):
        return "date", ""
    if counts[numbers].sum() >= 0.5 * cells:
        odd, first = next((v, np.flatnonzero(places == i)[0]) for i, v in enumerate(values[:-1]) if not numbers[i])
        raise ValueError(f"got numbers in most rows, and {odd!r:.40} in row {first + 1}")
    words = sum(n * len(v.split()) for v, n in zip(values, counts.tolist(), strict=False)) / cells
    length = sum(n * len(v) for v, n in zip(values, counts.tolist(), strict=False)) / cells
    if words >= SENTENCE or length > LONG:
        return "text", ""
    likely = _mostly_dates(present) or _other_notation(present)
    if cells >= MANY and len(counts) == cells:
        return "ignored", "its text is different in every row" + (likely and f"; {likely}")
    if cells >= MANY and 2 * len(counts) > cells:
        many = f"{len(counts):,} values in {cells:,} rows, each a column"
        return "category", f"{many}; {likely or 'is it text, or to be ignored?'}"
    return "category", likely


def _written_number(name: str, column: Any) -> tuple[str, str]:
    """As `_number_or_place`, for numbers written as text, which may be codes."""
    import pyarrow.compute as pc

    kind, reason = _number_or_place(name, column)
    coded_so = pc.fill_null(pc.match_substring_regex(column, LEADING_ZERO), False)
    first = pc.index(coded_so, True).as_py()
    if kind == "number" and first >= 0:
        reason = f"{column[first].as_py()!r:.40} begins with a zero, which a number does not keep; is it a category?"
    return kind, reason


def _mostly_dates(values: Sequence[str]) -> str:
    """What to say of text that is dates but for some values; empty if it is not."""
    first = values[:LOOKED_AT]
    if len(first) < LIKELY or 2 * sum(map(_is_date, first)) < len(first):
        return ""
    odd = next(v for v in values if not _is_date(v))
    return f"most of it is dates, but {odd!r:.40} is none"


def _other_notation(values: Sequence[str]) -> str:
    """What to say of text that is likely to be dates or numbers, as another notation has them; empty if it is not."""
    for what, pattern, plainly in (
        ("dates", OTHER_DATE, "dates are read as in 2024-01-31"),
        ("numbers", OTHER_NUMBER, "numbers are read without signs and separators, as in 1234.5"),
    ):
        found = [v for v in values if pattern.fullmatch(v)]
        if len(found) >= LIKELY and 3 * len(found) >= len(values):
            return f"it looks like {what}, such as {found[0]!r}, but {plainly}"
    return ""


def _is_number(text: str) -> bool:
    if "_" in text or not text.isascii() or text.lower() in MISSING:
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_date(text: str) -> bool:
    try:
        time_of(text)
    except ValueError:
        return False
    return True


def _width(column: Any) -> int:
    """The length of a column's vectors: as its type says, or as the first row has it that is not null."""
    import pyarrow as pa

    if not is_vector(column.type):
        raise InputError(f"expected lists of numbers in a column declared an embedding, got {column.type}")
    if pa.types.is_fixed_size_list(column.type):
        return int(column.type.list_size)
    there = column.drop_null()
    if not len(there) or not len(there[0]):
        raise InputError("expected a list of numbers in the first rows of an embedding, got none")
    return len(there[0])
