"""Whether the parts of an object fit together: lengths that must be the same are, and so is the precision."""

from typing import Any

import numpy as np

from remanence.store.record import Outline, Parts, Record
from remanence.store.registry import outline_of

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


class Letters:
    """The letters met so far and what they stand for."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.precisions: set[np.dtype[Any]] = set()

    def problem(self, value: Any, wanted: str) -> str:
        """What is wrong with a part, in words; empty if nothing."""
        words = wanted.split()
        match words:
            case ["anything"]:
                return ""
            case ["maybe", *rest]:
                return "" if value is None else self.problem(value, " ".join(rest))
            case ["each", *rest]:
                if type(value) is not tuple:
                    return f"expected a tuple, got {type(value).__name__}"
                return next(filter(None, (self.problem(v, " ".join(rest)) for v in value)), "")
            case ["count"]:
                good = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 0
                return "" if good else f"expected a whole number of at least 0, got {value!r:.40}"
            case ["number"]:
                good = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
                return "" if good else f"expected a real number, got {value!r:.40}"
        return self._outline(value, words)

    def _outline(self, value: Any, words: list[str]) -> str:
        found = Outline(value.shape, value.dtype) if isinstance(value, np.ndarray) else outline_of(value)
        if found is None:
            return f"expected an array or a memory, got {type(value).__name__}"
        if words[-1] == "float64":
            words = words[:-1]
            if found.dtype != np.float64:
                return f"expected float64, got {found.dtype}"
        elif words[-1] == "any":
            words = words[:-1]
        elif found.dtype not in FLOATS:
            return f"expected real numbers, got {found.dtype}"
        else:
            self.precisions.add(found.dtype)
            if len(self.precisions) > 1:
                return f"expected one precision, got {' and '.join(sorted(map(str, self.precisions)))}"
        good = len(words) == len(found.shape) and all(
            letter == "*" or self.known.setdefault(letter, n) == n for letter, n in zip(words, found.shape, strict=True)
        )
        lengths = ", ".join(str(self.known.get(w, w)) for w in words)
        return "" if good else f"expected the shape ({lengths}), got {found.shape}"


def problem(record: Record, parts: Parts) -> str:
    """What does not fit together among the parts of an object, in words; empty if nothing."""
    letters = Letters()
    for group in (record.parts, record.learned, record.sometimes):
        for name, wanted in group.items():
            wrong = letters.problem(parts[name], wanted) if name in parts else ""
            if wrong:
                return f"{name}: {wrong}"
    return record.sound(parts, letters.known)
