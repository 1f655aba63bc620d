"""The memory size of a learner: the bytes of all arrays it holds, each buffer counted once.

Views of one buffer count as that buffer. Settings, names and code are small and are left out.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import FunctionType, MethodType, ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np

IGNORED = (str, bytes, int, float, complex, bool, type(None), type, FunctionType, MethodType, ModuleType)


@runtime_checkable
class HasBytes(Protocol):
    """An array or a tensor: numbers in one block of memory."""

    @property
    def nbytes(self) -> int: ...


def memory_size(thing: Any) -> int:
    """The bytes of every array that can be reached from `thing` through its fields, lists and dictionaries."""
    found: dict[int, int] = {}  # identity of the buffer: its bytes
    seen: set[int] = set()
    pending = [thing]
    alive = []  # objects stay alive meanwhile, so that no id is used twice
    while pending:
        part = pending.pop()
        if isinstance(part, IGNORED) or id(part) in seen:
            continue
        seen.add(id(part))
        alive.append(part)
        if isinstance(part, HasBytes):
            owner = _owner(part) if isinstance(part, np.ndarray) else part
            found[id(owner)] = owner.nbytes
            alive.append(owner)
        elif isinstance(part, Mapping):
            pending.extend(part.values())
        elif isinstance(part, (list, tuple, set, frozenset)):
            pending.extend(part)
        elif is_dataclass(part):  # with slots it has no dictionary
            pending.extend(getattr(part, field.name) for field in fields(part))
        else:
            pending.extend(getattr(part, "__dict__", {}).values())
    return sum(found.values())


def _owner(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
