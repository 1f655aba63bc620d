"""Labels as files have them: integers or text, decided once for a model and kept.

Among numbers, words such as NA and null mean a missing one, as they do among features. Among text only an empty label
is missing: any word may be the name of a class (NA is a country). Whoever asks for rows with missing entries to be left
out and has such a word for a new class is asked which of the two it is.
"""

import re
from collections.abc import Iterable
from typing import Any, Literal, get_args

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.tables.table import MISSING, as_labels

Kind = Literal["integers", "text"]
KINDS = get_args(Kind)
LARGEST = 2.0**53  # integers that real numbers tell apart
WORDS = sorted(MISSING - {""})
FRACTION = re.compile(r"([+-]?\d+)\.0*|([+-]?\d+\.\d*?[1-9])0+")


def _present(raw: Array) -> Array:
    """Which labels are there at all, (n,)."""
    if raw.dtype.kind == "f":
        return np.asarray(np.isfinite(raw))
    if raw.dtype.kind in "OU":
        return np.asarray(raw.astype(str) != "")
    return np.ones(len(raw), bool)


def _understood(raw: Array) -> tuple[Array, Array]:
    """The labels that are there, as numbers if all of them are, and which rows they stand in."""
    present = _present(raw)
    if raw.dtype.kind in "OU":
        words = present & _says_missing(raw)
        others = present & ~words
        if words.any() and others.any() and as_labels(raw[others]).dtype.kind in "if":
            present = others  # 'NA' among numbers is a missing one, as it is among features
    values = as_labels(raw[present])
    if values.dtype.kind == "f" and raw.dtype.kind in "OU" and (np.abs(values) > LARGEST).any():
        values = np.char.strip(raw[present].astype(str))  # digits too many to be a number are a code
    if values.dtype.kind not in "iufU":
        raise InputError(f"expected labels that are numbers or text, got {values.dtype}; convert them first")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        present[np.flatnonzero(present)[~np.isfinite(values)]] = False
        values = values[np.isfinite(values)]
    return values, present


def _says_missing(raw: Array) -> Array:
    """Which labels are words that mean a missing number, (n,)."""
    return np.isin(np.char.lower(np.char.strip(raw.astype(str))), WORDS)


def _are_whole(values: Array) -> bool:
    return values.dtype.kind == "i" or bool((np.abs(values) <= LARGEST).all() and (values == np.trunc(values)).all())


def kind_of(raw: Array) -> Kind | None:
    """What labels are, taken by themselves; None where there is none."""
    values, _ = _understood(raw)
    if not len(values):
        return None
    if values.dtype.kind == "U":
        return "text"
    if not _are_whole(values):
        off = values[values != np.trunc(values)] if (np.abs(values) <= LARGEST).all() else values
        raise InputError(
            f"expected classes as labels, integers or text, got real numbers like {off[0]:g}; "
            f"learn them as a quantity with --target"
        )
    return "integers"


def read_labels(raw: Array, kind: Kind | None, where: str, first: int) -> tuple[Array, Array]:
    """The labels as the model has them, (n,), and which are there; `where` and `first` say where to look."""
    raw = raw.astype(str) if raw.dtype.kind == "S" else raw
    values, present = _understood(raw)
    if kind == "text":
        written = np.array([_as_text(v) for v in raw[_present(raw)].tolist()], dtype=str)
        present = _present(raw)
        labels = np.full(len(raw), "", dtype=written.dtype if len(written) else "<U1")
        labels[present] = written
        return labels, present
    labels = np.zeros(len(raw), np.int64)
    if len(values) and (values.dtype.kind == "U" or not _are_whole(values)):
        place, found = next((i, v) for i, v in enumerate(raw.tolist()) if present[i] and not _is_whole(v))
        raise InputError(
            f"expected integers as labels in {where}, as the model has learned so far, got {str(found)!r} in row "
            f"{first + place + 1}; use one kind of label, or begin a model whose labels are text"
        )
    labels[present] = values
    return labels, present


def _as_text(value: Any) -> str:
    """1.0 and 1 are one label; text loses the blanks around it."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _is_whole(value: Any) -> bool:
    try:
        number = as_labels(np.array([value]))
    except (ValueError, OverflowError):
        return False
    return number.dtype.kind in "iuf" and _are_whole(number)


def check_new_labels(labels: Array, known: Iterable[Any], drop: bool, where: str) -> None:
    """Refuse new classes of a model whose labels are text that cannot be meant: one class written in two ways, and,
    where missing entries are to be left out, a word that may mean a missing one."""
    if labels.dtype.kind != "U":
        return
    held = {str(label) for label in known}
    found = set(np.unique(labels).tolist())
    written: dict[str, str] = {}
    for label in (*sorted(held), *sorted(found - held)):
        if label in held:
            written.setdefault(_shortest(label), label)
            continue
        other = written.setdefault(_shortest(label), label)
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


def _shortest(label: str) -> str:
    """1.0 and 1.50 as 1 and 1.5; 01 and 1 are two codes."""
    match = FRACTION.fullmatch(label)
    return label if match is None else match[1] or match[2]
