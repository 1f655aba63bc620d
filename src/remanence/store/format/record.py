"""How one class is stored: which parts it has, and what each of them must be.

    "d c"           an array of finite numbers in float64 or float32; a letter is one length, "*" any
    "c float64"     in this precision, whatever that of the others      "c any"      of any kind of element
    "Root d c"      an object of this class and outline; "Window|Everything d c": of one of these
    "state d c"     the state of a method         "method"     a method         "features"     frozen features, or None
    "maybe …"       or None                       "each …"     a tuple of such
    "count"         an integer of at least 0, "count 1" of at least 1
    "number"        a finite real number, "number any" also an infinite one
    "truth"         true or false        "text"     a text        "one a b"     one of these texts
    "precision"     float64 or float32   "names n"  texts, or None        "labels c"     labels that differ, in order
    "setting"       looked at by the class itself when it is put together

A letter stands for the same length in all parts of an object; nothing else gets into an object, whatever a file says.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np


class External(NamedTuple):
    """What a file names by its fingerprint and does not hold: a frozen encoder, a network."""

    role: str
    fingerprint: str


class Outline(NamedTuple):
    """What the owner of an object sees of it: lengths, as if it were an array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def like(rows: str, columns: str | None = None) -> Callable[[Any], Outline]:
    """The outline of the array of this name; with two names the rows of the one and the columns of the other."""

    def outline(value: Any) -> Outline:
        first = getattr(value, rows)
        return Outline((*first.shape[:1], *getattr(value, columns or rows).shape[1:]), first.dtype)

    return outline


def attributes(value: Any) -> dict[str, Any]:
    """The parts of a dataclass."""
    return {f.name: getattr(value, f.name) for f in fields(value) if f.init}


def constructed(kind: Any, parts: dict[str, Any]) -> Any:
    """The dataclass made of its parts; its own checks run."""
    return kind(**parts)


Parts = Mapping[str, Any]
Lengths = Mapping[str, int]  # what the letters stand for
Sound = Callable[[Parts, Lengths], str]  # what is wrong with parts, in words; empty if nothing


def nothing_else(parts: Parts, lengths: Lengths) -> str:
    """No further conditions."""
    return ""


@dataclass(frozen=True, slots=True)
class Record:
    """A class of the registry."""

    home: str  # the module it is in, imported when first needed
    parts: Mapping[str, str]  # name: what it must be
    outline: Callable[[Any], Outline] | None = None
    apart: Callable[[Any], dict[str, Any]] = attributes
    together: Callable[[Any, dict[str, Any]], Any] = constructed
    learned: Mapping[str, str] = field(default_factory=dict)  # parts it has once it has learned: all or none
    sometimes: Mapping[str, str] = field(default_factory=dict)  # parts that may be there besides
    sound: Sound = nothing_else  # what else is wrong
    alone: bool = False  # it may be a file of its own

    def misfit(self, parts: Parts) -> tuple[list[str], list[str]]:
        """The names that are missing, and those that should not be there."""
        needed = set(self.parts)
        if parts.keys() & self.learned.keys():
            needed |= set(self.learned)
        return sorted(needed - parts.keys()), sorted(parts.keys() - needed - self.sometimes.keys())
