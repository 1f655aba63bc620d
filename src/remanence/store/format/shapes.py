"""Whether the parts of an object fit together: kinds, lengths that must be the same, and the precision."""

from collections.abc import Callable
from typing import Any

import numpy as np

from remanence.store.format.arrays import finite
from remanence.store.format.record import External, Outline, Parts, Record
from remanence.store.records.pairs import STATES
from remanence.store.records.registry import find_name, outline_of

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
LARGEST = float(np.finfo(np.float64).max)
LABELS = "iufbUSmM"  # kinds of element that labels may be


class Letters:
    """The letters met so far and what they stand for."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.precisions: set[np.dtype[Any]] = set()

    def problem(self, value: Any, wanted: str) -> str:
        """What is wrong with a part, in words; empty if nothing."""
        first, *rest = wanted.split()
        if first == "maybe":
            return "" if value is None else self.problem(value, " ".join(rest))
        if first == "each":
            if type(value) is not tuple:
                return f"expected a tuple, got {type(value).__name__}"
            return next(filter(None, (self.problem(v, " ".join(rest)) for v in value)), "")
        if first in ("names", "labels"):
            return self._column(value, first, rest[0])
        if first in PLAIN:
            expected = PLAIN[first][0].format(" or ".join(rest))
            return "" if PLAIN[first][1](value, rest) else f"expected {expected}, got {value!r:.40}"
        name = find_name(value)
        if first == "state":
            good, expected = name == "Exact" or name in STATES.values(), "the state of a method"
        elif first[0].isupper():
            good, expected = name in first.split("|"), " or ".join(first.split("|"))
        else:
            good, expected, rest = isinstance(value, np.ndarray), "an array", [first, *rest]
        if not good:
            return f"expected {expected}, got {type(value).__name__}"
        return self._outline(value, rest) if rest else ""

    def _outline(self, value: Any, words: list[str]) -> str:
        array = isinstance(value, np.ndarray)
        found = Outline(value.shape, value.dtype) if array else outline_of(value)
        assert found is not None  # (every class that records name with lengths has an outline)
        if words[-1] == "float64":
            words = words[:-1]
            if found.dtype != np.float64:
                return f"expected float64, got {found.dtype}"
        elif words[-1] == "any":
            words = words[:-1]
            if found.dtype.kind not in "fiu":
                return f"expected real numbers, got {found.dtype}"
        elif found.dtype not in FLOATS:
            return f"expected real numbers, got {found.dtype}"
        else:
            self.precisions.add(found.dtype)
            if len(self.precisions) > 1:
                return f"expected one precision, got {' and '.join(sorted(map(str, self.precisions)))}"
        good = len(words) == len(found.shape) and all(map(self._fits, words, found.shape))
        if not good:
            lengths = ", ".join(str(self.known.get(w, w)) for w in words)
            return f"expected the shape ({lengths}), got {found.shape}"
        return "" if not array or finite(value) else "expected finite numbers, got NaN or infinity"

    def _fits(self, letter: str, length: int) -> bool:
        return letter == "*" or self.known.setdefault(letter, length) == length

    def _column(self, value: Any, kind: str, letter: str) -> str:
        """Names, or labels that differ and are in order."""
        if not isinstance(value, np.ndarray) or value.ndim != 1 or not self._fits(letter, len(value)):
            return f"expected {self.known.get(letter, 'some')} {kind} in a row, got {value!s:.40}"
        if kind == "names":
            good = value.dtype.kind in "OU" and all(isinstance(name, str) for name in value)
            return "" if good else f"expected names of text, got {value.dtype}"
        if value.dtype.kind not in LABELS or not len(value) or not finite(value):
            return f"expected labels that are numbers or text, got {len(value)} of {value.dtype}"
        return "" if (value[:-1] < value[1:]).all() else "expected labels that differ, in order"


def _is_count(value: Any, rest: list[str]) -> bool:
    good = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return good and int(value) >= int(*rest)


def _is_number(value: Any, rest: list[str]) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    number: Any = value
    return bool(abs(number) <= LARGEST or (rest == ["any"] and number == number))


def _is_truth(value: Any, rest: list[str]) -> bool:
    return isinstance(value, (bool, np.bool_)) or (type(value) is int and value in (0, 1))


def _is_precision(value: Any, rest: list[str]) -> bool:
    return isinstance(value, (str, np.dtype)) and str(value) in ("float64", "float32")


def _are_features(value: Any, rest: list[str]) -> bool:
    return value is None or type(value) is External or callable(getattr(value, "transform", None))


PLAIN: dict[str, tuple[str, Callable[[Any, list[str]], bool]]] = {  # word: what is expected, and whether a value is it
    "setting": ("", lambda value, rest: True),
    "count": ("an integer of at least {}", lambda value, rest: _is_count(value, rest or ["0"])),
    "number": ("a real number", _is_number),
    "truth": ("true or false", _is_truth),
    "text": ("a text", lambda value, rest: isinstance(value, str)),
    "one": ("{}", lambda value, rest: isinstance(value, str) and str(value) in rest),
    "precision": ("float64 or float32", _is_precision),
    "features": ("frozen features with transform", _are_features),
    "method": ("a method", lambda value, rest: find_name(value) in STATES),
}


def problem(record: Record, parts: Parts) -> str:
    """What does not fit together among the parts of an object, in words; empty if nothing."""
    letters = Letters()
    for group in (record.parts, record.learned, record.sometimes):
        for name, wanted in group.items():
            wrong = letters.problem(parts[name], wanted) if name in parts else ""
            if wrong:
                return f"{name}: {wrong}"
    return record.sound(parts, letters.known)
