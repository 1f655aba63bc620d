"""Class labels: the kind of an array of labels, when two kinds match, and how labels in files are read.

In memory labels are numbers, booleans, text or bytes, told apart by dtype (`family_of`). In files they are integers or
text (`LabelKind`), decided once for a model from the first file and kept. Among numbers, words such as NA and null mean
a missing label, as they do among features. Among text only an empty label is missing, because any word may name a class
(NA is a country); a new class of such a name is an error where rows with missing entries are to be dropped.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Literal, get_args

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError

# Labels in memory

LEARNABLE = ("numbers", "booleans", "text", "bytes")
FAMILIES = {"i": "numbers", "u": "numbers", "f": "numbers", "b": "booleans", "U": "text", "S": "bytes"}


def family_of(labels: Array) -> str:
    """What labels are, by their dtype; labels of one family can be compared."""
    return FAMILIES.get(labels.dtype.kind, labels.dtype.kind)


def are_labels(Y: Array) -> bool:
    """Whether targets are class labels: one column that is not of real numbers (floats may be either)."""
    return Y.ndim == 1 and Y.dtype.kind != "f"


def are_numbers(Y: Array) -> bool:
    """Whether targets are integers or real numbers, not booleans or text."""
    return family_of(Y) == "numbers"


def family_of_value(value: Any) -> str:
    """What a single label is; "" if it cannot be a label."""
    if isinstance(value, (str, bytes)):
        return "text" if isinstance(value, str) else "bytes"
    if isinstance(value, (bool, np.bool_)):
        return "booleans"
    return "numbers" if isinstance(value, (int, float, np.integer, np.floating)) else ""


def check_same_kind(labels: Array, known: Array) -> None:
    """Raise an InputError if labels cannot be compared with those known."""
    if family_of(labels) != family_of(known):
        raise InputError(
            f"expected labels like those met so far ({family_of(known)}), got {family_of(labels)}; "
            f"use one kind of label"
        )


# Labels in files

LabelKind = Literal["integers", "text"]
LABEL_KINDS = get_args(LabelKind)
MISSING = {"", "na", "n/a", "nan", "null", "none"}  # how text says that a number is missing, in any case of letters
MISSING_WORDS = sorted(MISSING - {""})
FEW = 64  # labels that are parsed one by one
LARGEST = 2.0**53  # integers up to here are exact as float64
FRACTION = re.compile(r"([+-]?\d+)\.0*|([+-]?\d+\.\d*?[1-9])0+")


class LabelKindChanged(Exception):
    """Labels that were integers so far turned out to be text; the file has to be read again as text."""


class LabelReader:
    """Reads the labels of one file block by block; `kind` is decided from the labels unless the model has one."""

    def __init__(self, kind: LabelKind | None, decided: bool = False) -> None:
        self.kind, self.decided = kind, decided

    def read(self, raw: Array, where: str, first: int) -> tuple[Array, Array]:
        """The labels of a block, (n,), and which are present; see `read_labels`."""
        if raw.ndim == 1 and raw.dtype.kind in "OU" and len(raw) > FEW:
            written = raw.tolist()
            place = {label: k for k, label in enumerate(dict.fromkeys(written))}
            if len(place) < len(raw) // 4:  # parse every label once; an error is raised by the rows themselves
                codes = np.fromiter(map(place.__getitem__, written), np.intp, len(raw))
                with suppress(InputError):
                    labels, present = self._read(np.array(list(place), dtype=raw.dtype), where, first)
                    return labels[codes], present[codes]
        return self._read(raw, where, first)

    def _read(self, raw: Array, where: str, first: int) -> tuple[Array, Array]:
        if self.decided:
            return read_labels(raw, self.kind, where, first)
        parsed = _parsed(raw)
        found = _kind_of_values(parsed[0])
        if (self.kind, found) == ("integers", "text"):
            raise LabelKindChanged
        self.kind = self.kind or found
        return read_labels(raw, self.kind, where, first, parsed)


def _kind_of_values(values: Array) -> LabelKind | None:
    """The kind of labels that are present; None if there are none. Real numbers are an InputError."""
    if not len(values):
        return None
    if values.dtype.kind == "U":
        return "text"
    if not _are_whole(values):
        off = values[values != np.trunc(values)] if (np.abs(values) <= LARGEST).all() else values
        raise InputError(
            f"expected classes as labels, integers or text, got real numbers like {off[0]:g}; "
            f"learn them as a numeric target",
            arguments=("targets",),
        )
    return "integers"


def kind_of_classes(classes: Array, learning: bool = False) -> LabelKind:
    """The kind of the labels in files for the classes of a model; when `learning`, they must be integers or text."""
    if learning and classes.dtype.kind not in "iuU":
        raise InputError(f"expected a model whose labels are integers or text, got {classes.dtype}")
    return "text" if classes.dtype.kind == "U" else "integers"


def read_labels(
    raw: Array, kind: LabelKind | None, where: str, first: int, parsed: tuple[Array, Array] | None = None
) -> tuple[Array, Array]:
    """The labels as a model of this kind has them, (n,), and which are present, (n,).

    `where` and `first`, the column and the number of the first row, are for messages; `parsed` saves parsing them.
    """
    raw = raw.astype(str) if raw.dtype.kind == "S" else raw
    if raw.dtype.kind not in "biufUO":
        raise InputError(f"expected labels that are numbers or text, got {raw.dtype}; convert them first")
    if kind == "text":
        present = present_labels(raw)
        written = np.array([_as_text(v) for v in raw[present].tolist()], dtype=str)
        labels = np.full(len(raw), "", dtype=written.dtype if len(written) else "<U1")
        labels[present] = written
        return labels, present
    values, present = _parsed(raw) if parsed is None else parsed
    labels = np.zeros(len(raw), np.int64)
    if len(values) and (values.dtype.kind == "U" or not _are_whole(values)):
        place, found = next((i, v) for i, v in enumerate(raw.tolist()) if present[i] and not _is_whole(v))
        raise InputError(
            f"expected integers as labels in {where}, as the model has learned so far, got {str(found)!r} in row "
            f"{first + place + 1}; use one kind of label, or start a model whose labels are text"
        )
    labels[present] = values
    return labels, present


def check_new_labels(labels: Array, known: Iterable[Any], drop: bool, where: str) -> None:
    """Raise an InputError for new text labels that are likely to be mistakes: one number written in two ways and,
    where rows with missing entries are dropped, a word that may mean a missing label."""
    if labels.dtype.kind != "U":
        return
    old = {str(label) for label in known}
    new = set(np.unique(labels).tolist()) - old
    truths = {label.lower(): label for label in sorted(old) if label.lower() in ("true", "false")}
    written = {shortest(label): label for label in sorted(old, reverse=True)}
    for label in sorted(new):
        if label.lower() in ("true", "false") and truths.setdefault(label.lower(), label) != label:
            raise InputError(
                f"expected truth values in {where} as they were written so far, {truths[label.lower()]!r}, got "
                f"{label!r}; write them as before"
            )
        other = written.setdefault(shortest(label), label)
        if other != label:
            raise InputError(
                f"expected one way to write a label in {where}, got {label!r} and {other!r}, which are one number; "
                f"write it as before"
            )
        if drop and label.lower() in MISSING:
            raise InputError(
                f"expected labels in {where} that are classes or missing, got {label!r}, which may be either; leave "
                f"missing labels empty, or rename the class"
            )


def as_labels(values: Any) -> Array:
    """Labels as text, integers or real numbers; text that holds numbers, as in a CSV file, becomes numbers."""
    array = np.asarray(values)
    if array.dtype.kind in "bS" or (array.dtype.kind == "u" and (array > np.iinfo(np.int64).max).any()):
        return array.astype(str)  # (numbers too large for int64 are codes, as in a CSV file)
    if array.dtype.kind not in "OU":
        return array
    text = np.char.strip(array.astype(str))
    try:
        whole = text.astype(np.int64)
    except (ValueError, OverflowError):
        try:
            return text.astype(np.float64)
        except ValueError:
            return text
    return whole if (whole.astype(str) == text).all() else text  # '01' is a code and not the number 1


def present_labels(raw: Array) -> Array:
    """Which labels are present, in the shape of `raw`: finite numbers, and text that is not empty."""
    if raw.dtype.kind == "f":
        return np.asarray(np.isfinite(raw))
    if raw.dtype.kind in "OU":
        return np.asarray(raw != "")
    return np.ones(raw.shape, bool)


def _parsed(raw: Array) -> tuple[Array, Array]:
    """The labels that are present, as numbers if all of them are, and which rows they are in."""
    raw = raw.astype(str) if raw.dtype.kind == "O" else raw
    present = present_labels(raw)
    if raw.dtype.kind == "U":
        words = present & np.isin(np.char.lower(np.char.strip(raw)), MISSING_WORDS)
        others = present & ~words
        if words.any() and others.any() and as_labels(raw[others]).dtype.kind in "if":
            present = others  # 'NA' among numbers is a missing label, as it is among features
    values = as_labels(raw[present])
    if values.dtype.kind == "f" and raw.dtype.kind == "U" and (np.abs(values) > LARGEST).any():
        values = np.char.strip(raw[present])  # too many digits for a number: a code
    if values.dtype.kind not in "iufU":
        raise InputError(f"expected labels that are numbers or text, got {values.dtype}; convert them first")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        present[np.flatnonzero(present)[~np.isfinite(values)]] = False
        values = values[np.isfinite(values)]
    return values, present


def _are_whole(values: Array) -> bool:
    return values.dtype.kind == "i" or bool((np.abs(values) <= LARGEST).all() and (values == np.trunc(values)).all())


def _is_whole(value: Any) -> bool:
    try:
        number = as_labels(np.array([value]))
    except (ValueError, OverflowError):
        return False
    return number.dtype.kind in "iuf" and _are_whole(number)


def _as_text(value: Any) -> str:
    """1.0 and 1 are one label; white space around text is removed."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def shortest(label: str) -> str:
    """1.0 and 1.50 as 1 and 1.5; 01 and 1 are two codes."""
    match = FRACTION.fullmatch(label)
    return label if match is None else match[1] or match[2]
