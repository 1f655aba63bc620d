"""How much a learner carries: the bytes of all arrays it holds, each counted once.

Arrays that look into one buffer count as that buffer. Settings, names and code weigh next to nothing and are left out.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import FunctionType, MethodType, ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np

LIGHT = (str, bytes, int, float, complex, bool, type(None), type, FunctionType, MethodType, ModuleType)


@runtime_checkable
class Block(Protocol):
    """Numbers in one piece of memory, such as an array or a tensor."""

    @property
    def nbytes(self) -> int: ...


def carried_bytes(thing: Any) -> int:
    """The bytes of every array that can be reached from `thing` through its fields, lists and dictionaries."""
    found: dict[int, int] = {}  # identity of the buffer: its bytes
    seen: set[int] = set()
    waiting = [thing]
    kept = []  # an object made on the way must not die and hand its identity on
    while waiting:
        part = waiting.pop()
        if isinstance(part, LIGHT) or id(part) in seen:
            continue
        seen.add(id(part))
        kept.append(part)
        if isinstance(part, Block):
            owner = _owner(part) if isinstance(part, np.ndarray) else part
            found[id(owner)] = owner.nbytes
            kept.append(owner)
        elif isinstance(part, Mapping):
            waiting.extend(part.values())
        elif isinstance(part, (list, tuple, set, frozenset)):
            waiting.extend(part)
        elif is_dataclass(part):  # with slots it has no dictionary
            waiting.extend(getattr(part, field.name) for field in fields(part))
        else:
            waiting.extend(getattr(part, "__dict__", {}).values())
    return sum(found.values())


def _owner(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
