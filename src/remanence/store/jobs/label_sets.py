"""Columns of label sets: lists of text, or text with a separator between the labels.

Both are the same rows: a table that was converted is known again. An empty cell or list is a row without labels; a list
that is null is a missing label, as a cell among numeric labels is that says so (NA).
"""

from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.labels import LabelReader
from remanence.tables import Table
from remanence.tables.arrow import is_present, whole_values
from remanence.tables.encoding.cells import plain

SEPARATOR = ";"  # between labels in text, where none is declared
BETWEEN = "\x1f"  # between labels in the key of a row


def check_label_column(table: Table, label: str | None) -> None:
    """Raise an InputError for a column of vectors, which cannot be told from lists of labels."""
    if label in table.vectors:
        raise InputError(
            f"expected labels that are numbers or text, or lists of text, in {label!r} of {table.path.name}, got lists "
            f"of numbers; write the labels as text"
        )


def separator_of(table: Table, label: str, declared: str | None) -> str | None:
    """What separates the labels of this column in text; None if every row has one label."""
    import pyarrow as pa

    if declared is not None:
        if not declared.strip() or BETWEEN in declared:
            raise InputError(f"expected a separator of labels like ; or |, got {declared!r}", arguments=("separator",))
        return declared
    found = table.sample([label]).get(label)
    lists = found is not None and (pa.types.is_list(found.type) or pa.types.is_large_list(found.type))
    return SEPARATOR if lists else None


def read_sets(column: Any, separator: str, reader: LabelReader, where: str, first: int) -> tuple[Array, Array]:
    """The labels of a block as frozensets, (n,), and which rows have them, (n,)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = plain(column)
    nested = pa.types.is_nested(column.type.value_type if _is_list(column.type) else column.type)
    if nested or pa.types.is_fixed_size_list(column.type):
        raise InputError(f"expected text or lists of text in {where}, got {column.type}; write the labels as text")
    if not _is_list(column.type):
        text = column.cast(pa.string())
        column = pc.split_pattern(text if not text.null_count else text.fill_null(""), separator)
    present = is_present(column)
    lengths = np.zeros(len(column), int)
    lengths[present] = whole_values(pc.list_value_length(column).cast(pa.int64()), np.int64)[present]
    items = pc.utf8_trim_whitespace(column.flatten().cast(pa.string())).fill_null("")
    places = np.repeat(np.arange(len(column)), lengths)
    words = np.array(items.to_pylist(), dtype=object)
    full = words != ""
    words, places = words[full], places[full]
    _check_words(words, separator, where)
    rows = [set[Any]() for _ in range(len(column))]
    if len(words):
        labels, there = reader.read(words, where, first)
        present[places[~there]] = False
        for place, label in zip(places[there].tolist(), labels[there].tolist(), strict=True):
            rows[place].add(label)
    found, same = np.empty(len(rows), object), dict[frozenset[Any], frozenset[Any]]()
    for i, row in enumerate(rows):
        kept = frozenset(row)
        found[i] = same.setdefault(kept, kept)
    return found, present


def _check_words(words: Array, separator: str, where: str) -> None:
    for word in dict.fromkeys(words.tolist()):
        if separator in word or BETWEEN in word:
            raise InputError(
                f"expected labels in {where} without {separator!r}, which separates labels in text, got {word!r:.60}; "
                f"start a model with another separator",
                arguments=("separator",),
            )


def _is_list(found: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(found) or pa.types.is_large_list(found))


def are_sets(y: Array) -> bool:
    """Whether the outputs of rows are sets of labels."""
    return y.dtype.kind == "O"


def distinct_labels(y: Array) -> Array:
    """The labels that rows have, one by one."""
    if not are_sets(y):
        return y
    return np.array(sorted(frozenset().union(*dict.fromkeys(y.tolist()))))


def set_texts(y: Array, between: str = BETWEEN) -> Array:
    """Sets as text, sorted, (n,)."""
    known = {labels: between.join(sorted(map(str, labels))) for labels in dict.fromkeys(y.tolist())}
    return np.array([known[labels] for labels in y.tolist()], dtype=object)


def as_column(y: Array, separator: str, lists: bool) -> Any:
    """Sets as a column of a table: lists of text as Arrow has them, or text."""
    if not lists:
        return set_texts(y, separator)
    import pyarrow as pa

    return pa.array([sorted(map(str, labels)) for labels in y.tolist()], pa.list_(pa.string()))
