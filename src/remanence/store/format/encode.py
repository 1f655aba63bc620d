"""Encode a learner as a tree for JSON and arrays, and decode it.

    None, booleans, integers, finite numbers, text, lists      as in JSON
    everything else                                            {"tag": …}, see `TreeDecoder`

An object is stored under the name of its class in the registry (registry.py), as its parts, never as code: decoding
constructs only classes of the registry, from exactly the parts of their records, and raises FileError otherwise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import FileError, InputError
from remanence.store.format.arrays import REPEATS, dtype_name, flattened, restored, scalar_from
from remanence.store.format.record import External
from remanence.store.format.shapes import problem
from remanence.store.records.registry import RECORDS, class_of, name_of

Given = Callable[[External], Any]  # finds what a file names only by its fingerprint

ARRAY_METADATA = {"axes", "shape", "dtype"}
PLAIN = (type(None), bool, int, str)
HINT = "restore it from a copy, or load it with the version that wrote it"
NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass(slots=True)
class TreeEncoder:
    """Encodes a value; arrays are collected under the path that leads to them."""

    arrays: dict[str, Array] = field(default_factory=dict)
    repeats: bool = True  # whether repeated rows of a broadcast array are written once; see arrays.py
    met: dict[int, tuple[Any, Any]] = field(default_factory=dict)  # a value that occurs twice is written once
    objects: int = 0
    full_size: int = 0  # bytes of all arrays, broadcast ones in full

    def tree(self, value: Any, path: str) -> Any:
        """The value as a tree for JSON."""
        if type(value) in PLAIN:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if id(value) in self.met:
            return self.met[id(value)][1]
        tree = self._new(value, path)
        self.met.setdefault(id(value), (value, tree))
        return tree

    def _new(self, value: Any, path: str) -> Any:
        cls = type(value)
        if cls is list:
            return [self.tree(v, _joined(path, i)) for i, v in enumerate(value)]
        if cls is tuple:
            return self._tuple(value, path)
        if cls is dict:
            pairs = enumerate(value.items())
            return {
                "dict": [[self.tree(part, _joined(path, f"{i}.{j}")) for j, part in enumerate(p)] for i, p in pairs]
            }
        if isinstance(value, np.ndarray):
            return self._array(value, path)
        if isinstance(value, np.generic):
            return {"scalar": [dtype_name(value.dtype), value.tobytes().hex()]}
        if isinstance(value, np.dtype):
            return {"dtype": value.str}
        if cls is External:
            return {"external": [value.role, value.fingerprint]}
        return self._object(value, path)

    def _array(self, array: Array, path: str) -> Any:
        if array.dtype.kind == "O":
            if array.ndim != 1 or not all(type(v) is str for v in array):
                raise InputError(f"expected {path} to hold numbers or text, got objects; convert them first")
            return {"names": array.tolist()}
        self.arrays[path], metadata = flattened(array, self.repeats)
        self.full_size += array.nbytes
        return {"array": path, **metadata}

    def _tuple(self, value: tuple[Any, ...], path: str) -> Any:
        """A tuple of numbers, or of rows of numbers, is stored as an array: steps and drifts can be long."""
        rows = value if value and all(type(v) is tuple and len(v) == len(value[0]) for v in value) else (value,)
        if rows[0] and all(type(v) is float for row in rows for v in row):
            return {"numbers": self._array(np.array(value), path)}
        return {"tuple": [self.tree(v, _joined(path, i)) for i, v in enumerate(value)]}

    def _object(self, value: Any, path: str) -> Any:
        name = name_of(value, path)
        record = RECORDS[name]
        parts = record.to_parts(value)
        missing, extra = record.mismatch(parts)
        wrong = _difference(missing, extra) if missing or extra else problem(record, parts)
        if wrong:
            raise InputError(f"expected a {name} whose parts fit together, to store it, got one that does not: {wrong}")
        tree = {"class": name, "parts": {k: self.tree(v, _joined(path, k)) for k, v in parts.items()}}
        self.met[id(value)] = (value, {"same": self.objects})  # should it occur again
        self.objects += 1
        return tree


def _difference(missing: list[str], extra: list[str]) -> str:
    return " and ".join([*(f"without {name!r}" for name in missing), *(f"with {name!r}" for name in extra)])


def _joined(path: str, step: Any) -> str:
    return f"{path}.{step}" if path else str(step)


def encode(value: Any) -> tuple[Any, dict[str, Array]]:
    """The value as a tree for JSON, and the arrays it names."""
    encoder = TreeEncoder()
    tree = encoder.tree(value, "")
    if encoder.full_size > largest_full_size(encoder.arrays):  # more than a reader accepts
        encoder = TreeEncoder(repeats=False)
        tree = encoder.tree(value, "")
    return tree, encoder.arrays


def largest_full_size(arrays: dict[str, Array]) -> int:
    """The bytes that the arrays of a file may take in full, at most."""
    return REPEATS * sum(array.nbytes for array in arrays.values())


@dataclass(slots=True)
class TreeDecoder:
    """Decodes a tree; raises FileError for anything that `TreeEncoder` does not write."""

    arrays: dict[str, Array]
    given: Given
    class_of: Callable[[str], Any]
    budget: int  # bytes that further broadcast arrays may take
    used: set[str] = field(default_factory=set)
    objects: list[Any] = field(default_factory=list)  # in the order they were finished

    def value(self, tree: Any) -> Any:
        match tree:
            case None | bool() | int() | str():
                return tree
            case float() if math.isfinite(tree):
                return tree
            case list():
                return [self.value(v) for v in tree]
            case {"class": str(name), "parts": dict(parts), **rest} if not rest:
                return self._object(name, parts)
            case {"same": int(place), **rest} if not rest and 0 <= place < len(self.objects):
                return self.objects[place]
            case {"array": str(name), **metadata} if name in self.arrays and metadata.keys() <= ARRAY_METADATA:
                return self._array(name, {str(key): value for key, value in metadata.items()})
            case {"scalar": [str(dtype), str(digits)], **rest} if not rest:
                return scalar_from(dtype, digits)
            case {"numbers": {"array": str(name), **more}, **rest} if not rest and not more and name in self.arrays:
                return self._numbers(name)
            case {"tuple": list(parts), **rest} if not rest:
                return tuple(self.value(v) for v in parts)
            case {"dict": list(items), **rest} if not rest and all(type(i) is list and len(i) == 2 for i in items):
                return {self.value(k): self.value(v) for k, v in items}
            case {"names": list(names), **rest} if not rest and all(type(n) is str for n in names):
                return np.array(names, dtype=object)
            case {"float": str(text), **rest} if not rest and text in NOT_FINITE:
                return NOT_FINITE[text]
            case {"dtype": "<f8" | "<f4" as text, **rest} if not rest:
                return np.dtype(text)
            case {"external": [str(role), str(fingerprint)], **rest} if not rest:
                return self.given(External(role, fingerprint))
        raise FileError(f"expected values that this version knows, got {tree!s:.80}")

    def _array(self, name: str, metadata: dict[str, Any]) -> Array:
        self.used.add(name)
        array = restored(self.arrays[name], metadata)
        if "shape" in metadata:
            self.budget -= array.nbytes
            if self.budget < 0:
                raise FileError(f"expected arrays of at most {REPEATS} times what is stored, got one of {array.shape}")
        return array

    def _numbers(self, name: str) -> tuple[Any, ...]:
        """A tuple of numbers, or of rows of them."""
        array = self._array(name, {})
        if array.dtype != np.float64 or array.ndim not in (1, 2) or not np.isfinite(array).all():
            raise FileError(f"expected finite numbers in a row or in rows, got {array.dtype} {array.shape}")
        return tuple(tuple(row) if type(row) is list else row for row in array.tolist())

    def _object(self, name: str, trees: dict[str, Any]) -> Any:
        if name not in RECORDS:
            raise FileError(f"expected a class that this version knows, got {name!r:.60}")
        record = RECORDS[name]
        missing, extra = record.mismatch({**record.defaults, **trees})
        if missing or extra:
            raise FileError(f"expected {', '.join(record.parts)} of a {name}, got it {_difference(missing, extra)}")
        parts = {**record.defaults, **{k: self.value(v) for k, v in trees.items()}}
        wrong = problem(record, parts)
        if wrong:
            raise FileError(f"the parts of a {name} do not fit together: {wrong}")
        try:
            self.objects.append(record.from_parts(self.class_of(name), parts))
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as reason:
            raise FileError(f"the parts of a {name} are invalid: {reason}") from None
        return self.objects[-1]


def decode(tree: Any, arrays: dict[str, Array], given: Given, class_of: Callable[[str], Any] = class_of) -> Any:
    """The value that `encode` was given, of the classes that `class_of` gives by name; every array must be used."""
    decoder = TreeDecoder(arrays, given, class_of, largest_full_size(arrays))
    try:
        value = decoder.value(tree)
    except InputError:  # the caller passed no encoder or network, or another one: the file is valid
        raise
    except FileError as reason:
        raise FileError(f"{reason}; {HINT}") from None
    except MemoryError:
        raise FileError("it holds more than fits into the memory of this machine; load it on a larger one") from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as reason:
        raise FileError(f"its values are invalid: {reason}; {HINT}") from None
    unused = sorted(arrays.keys() - decoder.used)
    if unused:
        raise FileError(f"expected no arrays but those of the learner, got also {', '.join(unused):.80}; {HINT}")
    return value
