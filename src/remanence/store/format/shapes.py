"""Check the parts of an object against its record: types, lengths that must be the same, and one precision."""

from collections.abc import Callable
from typing import Any

import numpy as np

from remanence.store.format.arrays import finite
from remanence.store.format.record import ArraySpec, External, PartValues, Record
from remanence.store.records.registry import find_name, is_method, spec_of

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
COMPLEX = (np.dtype(np.complex128), np.dtype(np.complex64))
LARGEST = float(np.finfo(np.float64).max)
UNIT = 2.0  # no entry of a column of length 1 is as large
LABELS = "iufbUSmM"  # dtypes that labels may have, by NumPy's letters


class PartChecker:
    """The letters met so far and the lengths they stand for."""

    def __init__(self) -> None:
        self.lengths: dict[str, int] = {}
        self.precisions: set[np.dtype[Any]] = set()

    def problem(self, value: Any, spec: str) -> str:
        """What is wrong with a part; empty if nothing."""
        first, *rest = spec.split()
        if first == "optional":
            return "" if value is None else self.problem(value, " ".join(rest))
        if first == "tuple":
            if type(value) is not tuple:
                return f"expected a tuple, got {type(value).__name__}"
            return next(filter(None, (self.problem(v, " ".join(rest)) for v in value)), "")
        if first in ("names", "labels"):
            return self._column(value, first, rest[0])
        if first in PLAIN:
            expected = PLAIN[first][0].format(" or ".join(rest) or 0)
            return "" if PLAIN[first][1](value, rest) else f"expected {expected}, got {value!r:.40}"
        if first == "state":
            good, expected = spec_of(value) is not None, "the state of a method"
        elif first[0].isupper():
            good, expected = find_name(value) in first.split("|"), " or ".join(first.split("|"))
        else:
            good, expected, rest = isinstance(value, np.ndarray), "an array", [first, *rest]
        if not good:
            return f"expected {expected}, got {type(value).__name__}"
        return self._shape(value, rest) if rest else ""

    def _shape(self, value: Any, words: list[str]) -> str:
        array = isinstance(value, np.ndarray)
        found = ArraySpec(value.shape, value.dtype) if array else spec_of(value)
        assert found is not None  # (every class that records name with lengths has some)
        letters = [word for word in words if word not in MODIFIERS]
        if "float64" in words:
            if found.dtype != np.float64:
                return f"expected float64, got {found.dtype}"
        elif "any" in words:
            if found.dtype.kind not in "fiu":
                return f"expected real numbers, got {found.dtype}"
        elif found.dtype not in (FLOATS + COMPLEX if "complex" in words else FLOATS):
            return f"expected float64 or float32, got {found.dtype}"
        else:
            self.precisions.add(found.dtype)
            if len(self.precisions) > 1:
                return f"expected one precision, got {' and '.join(sorted(map(str, self.precisions)))}"
        if len(letters) != len(found.shape) or not all(map(self._fits, letters, found.shape)):
            lengths = ", ".join(str(self.lengths.get(letter, letter)) for letter in letters)
            return f"expected the shape ({lengths}), got {found.shape}"
        if not array:
            return ""
        return _size_problem(value, words) if finite(value) else "expected finite numbers, got NaN or infinity"

    def _fits(self, letter: str, length: int) -> bool:
        return letter == "*" or self.lengths.setdefault(letter, length) == length

    def _column(self, value: Any, what: str, letter: str) -> str:
        """Names, or distinct sorted labels."""
        if not isinstance(value, np.ndarray) or value.ndim != 1 or not self._fits(letter, len(value)):
            return f"expected {self.lengths.get(letter, 'some')} {what} in one dimension, got {value!s:.40}"
        if what == "names":
            good = value.dtype.kind in "OU" and all(isinstance(name, str) for name in value)
            return "" if good else f"expected names of text, got {value.dtype}"
        if value.dtype.kind not in LABELS or not len(value) or not finite(value):
            return f"expected labels that are numbers or text, got {len(value)} of {value.dtype}"
        return "" if (value[:-1] < value[1:]).all() else "expected distinct labels in ascending order"


MODIFIERS = ("float64", "any", "complex", "unit", "squarable")


def _size_problem(array: np.ndarray[Any, Any], words: list[str]) -> str:
    """Whether numbers are larger than they can be."""
    if "unit" not in words and "squarable" not in words:
        return ""
    limit = UNIT if "unit" in words else float(np.sqrt(np.finfo(array.dtype).max))
    largest = float(np.abs(array).max(initial=0.0))
    return f"expected numbers within ±{limit:.0e}, got {largest:.1e}" if largest > limit else ""


def _is_integer(value: Any, low: float = -np.inf) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= low


def _is_number(value: Any, rest: list[str]) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    number: Any = value
    return bool(abs(number) <= LARGEST or (rest == ["any"] and number == number))


def _is_bool(value: Any, rest: list[str]) -> bool:
    return isinstance(value, (bool, np.bool_)) or (type(value) is int and value in (0, 1))


def _is_dtype(value: Any, rest: list[str]) -> bool:
    return isinstance(value, (str, np.dtype)) and str(value) in ("float64", "float32")


def _are_features(value: Any, rest: list[str]) -> bool:
    return value is None or type(value) is External or callable(getattr(value, "transform", None))


PLAIN: dict[str, tuple[str, Callable[[Any, list[str]], bool]]] = {  # word: what is expected, and whether a value is it
    "setting": ("", lambda value, rest: True),
    "count": ("an integer of at least {}", lambda value, rest: _is_integer(value, int(*rest or ["0"]))),
    "int": ("an integer", lambda value, rest: _is_integer(value)),
    "number": ("a real number", _is_number),
    "bool": ("true or false", _is_bool),
    "str": ("a text", lambda value, rest: isinstance(value, str)),
    "choice": ("{}", lambda value, rest: isinstance(value, str) and str(value) in rest),
    "dtype": ("float64 or float32", _is_dtype),
    "features": ("frozen features with transform", _are_features),
    "method": ("a method", lambda value, rest: is_method(value)),
}


def problem(record: Record, parts: PartValues) -> str:
    """What is wrong with the parts of an object; empty if nothing."""
    checker = PartChecker()
    for group in (record.parts, record.learned, record.optional):
        for name, spec in group.items():
            wrong = checker.problem(parts[name], spec) if name in parts else ""
            if wrong:
                return f"{name}: {wrong}"
    return record.check(parts, checker.lengths)
