"""Rows of a table that have given values in some of its columns.

A value is compared as what it says: as text, as a number with all of its digits, as a truth value, or as a date. Text
that begins with a further 0, such as 007, is a code and equals only itself.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

import numpy as np

from remanence.arrays import Array
from remanence.tables.encoding.cells import as_text, coded, time_of
from remanence.tables.table import Piece, Table

NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]{1,4})?")


def chosen_rows(table: Table, where: Mapping[str, str]) -> list[Array]:
    """Which rows of every piece of a table have these values, (n,) each."""
    return [np.concatenate([np.empty(0, bool), *_chosen(piece, where)]) for piece in table.pieces()]


def _chosen(piece: Piece, where: Mapping[str, str]) -> Iterator[Array]:
    for block in piece.blocks((), cells=tuple(where)):
        yield np.all([_have(block.cells[name], value) for name, value in where.items()], axis=0)


def _have(column: object, value: str) -> Array:
    """Which entries of an Arrow column are this value."""
    texts, places = coded(as_text(column), "")
    return np.array([*(is_same(text, value.strip()) for text in texts[:-1]), False])[places]


def is_same(text: str, value: str) -> bool:
    """Whether two texts say the same."""
    if text == value:
        return True
    if NUMBER.fullmatch(text) and NUMBER.fullmatch(value):
        return Decimal(text) == Decimal(value)
    if text.lower() in ("true", "false"):
        return text.lower() == value.lower()
    try:
        return "-" in text and "-" in value and time_of(text) == time_of(value)
    except ValueError:
        return False
