"""How one class is stored: which parts it has, and what each part must be.

    "d c"             array of finite numbers in float64 or float32; a letter is one length, "*" any length
    "c float64"       in this dtype, whatever that of the other arrays       "c any"      any real dtype, integers too
    "d c complex"     in float64, float32, complex128 or complex64
    "d r unit"        with entries of at most 2 in size, as in columns of length 1
    "k d squarable"   whose squares are finite
    "Root d c"        object of this class and these lengths; "Window|Everything d c": of one of these classes
    "state d c"       state of a method         "method"    a method       "features"   frozen features, or None
    "optional …"      or None                   "tuple …"   a tuple of such
    "count"           integer of at least 0, "count 1" of at least 1       "int"        any integer
    "number"          finite real number, "number any" also an infinite one
    "bool"            true or false             "str"       text           "choice a b" one of these texts
    "dtype"           float64 or float32        "names n"   n texts        "labels c"   c distinct labels, sorted
    "setting"         anything; the class itself checks it when it is constructed

A letter stands for the same length in all parts of an object. Nothing else gets into an object, whatever a file says.
The specifications of most classes are derived from their annotations, see derive.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np


class External(NamedTuple):
    """Something that a file names by its fingerprint and does not hold: a frozen encoder, a network."""

    role: str
    fingerprint: str


class ArraySpec(NamedTuple):
    """Shape and dtype of an array, or of an object that stands for one, such as a state (features, outputs)."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def fields_of(value: Any) -> dict[str, Any]:
    """The parts of a dataclass."""
    return {f.name: getattr(value, f.name) for f in fields(value) if f.init}


def construct(cls: Any, parts: dict[str, Any]) -> Any:
    """The dataclass made of its parts; its own checks run."""
    return cls(**parts)


PartValues = Mapping[str, Any]
Lengths = Mapping[str, int]  # what the letters stand for
Check = Callable[[PartValues, Lengths], str]  # what is wrong with the parts; empty if nothing


def no_check(parts: PartValues, lengths: Lengths) -> str:
    """No further conditions."""
    return ""


@dataclass(frozen=True, slots=True)
class Record:
    """How a class of the registry is stored."""

    module: str  # where the class is defined; imported when first needed
    parts: Mapping[str, str]  # name: specification
    spec: Callable[[Any], ArraySpec | None] | None = None  # its lengths; None finds them by the letters of its parts
    to_parts: Callable[[Any], dict[str, Any]] = fields_of
    from_parts: Callable[[Any, dict[str, Any]], Any] = construct
    learned: Mapping[str, str] = field(default_factory=dict)  # parts it has once it has learned: all or none
    optional: Mapping[str, str] = field(default_factory=dict)  # parts that may be missing
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of parts that files of earlier versions do not have
    check: Check = no_check  # conditions beyond the specifications
    is_root: bool = False  # whether it may be a file of its own
    class_name: str = ""  # of the class, where it differs from the name in files

    def mismatch(self, parts: PartValues) -> tuple[list[str], list[str]]:
        """The names of parts that are missing, and of parts that do not belong."""
        needed = set(self.parts)
        if parts.keys() & self.learned.keys():
            needed |= set(self.learned)
        return sorted(needed - parts.keys()), sorted(parts.keys() - needed - self.optional.keys())
