"""Records of methods, states and memories, derived from the annotations of their dataclasses.

    W: Annotated[Array, "d c"]                    an array; the text is a specification of record.py
    past: Annotated[Subspace | Spectrum, "d *"]   an object of one of these classes, and its lengths
    members: Annotated[tuple[Member, ...], "d c"] a tuple of such objects
    count: int                                    in a state an integer of at least 0
    step: float | Sequence[float]                 in a method any other type: its __post_init__ checks it

So a new method, its state and its memory need no change in the store.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from remanence.methods.protocol import Method
from remanence.store.format.record import Record

PLAIN = {int: "count", float: "number", bool: "bool", str: "str"}


def derived_records(methods: Iterable[type[Method[Any]]], written: Mapping[str, Record]) -> dict[str, Record]:
    """Records of these methods, their states and all classes in those, but for records written by hand."""
    found: dict[str, Record] = {}
    by_hand = {(record.module, record.class_name or name) for name, record in written.items()}
    left: list[type] = [cls for method in methods for cls in (method, *_state_classes(method))]
    while left:
        cls = left.pop()
        if cls.__name__ in found or (cls.__module__, cls.__name__) in by_hand:
            continue
        found[cls.__name__] = derive(cls)
        left += [inner for hint in _hints(cls).values() for inner in _classes_in(hint)]
    return found


def derive(cls: type) -> Record:
    """The record of one dataclass."""
    is_method = issubclass(cls, Method)
    parts = {}
    for name, hint in _hints(cls).items():
        spec = _specification(hint, is_method)
        if spec is None:
            raise TypeError(
                f"expected an annotation that says how {cls.__name__}.{name} is stored, got {hint}; "
                f'write Annotated[Array, "d c"] for an array of d features and c outputs'
            )
        parts[name] = spec
    return Record(cls.__module__, parts)


def _hints(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {f.name: hints[f.name] for f in fields(cls) if f.init}


def _specification(hint: Any, is_method: bool) -> str | None:
    """What a part of this type must be; None where the type does not say it."""
    if get_origin(hint) is Annotated:
        inner, spec = get_args(hint)[:2]
        classes = "|".join(cls.__name__ for cls in _classes_in(inner))
        words = [classes, spec] if classes else [spec]
        if get_origin(inner) is tuple:
            words.insert(0, "tuple")
        if NoneType in get_args(inner):
            words.insert(0, "optional")
        return " ".join(words)
    if is_method:
        return "bool" if hint is bool else "setting"
    return PLAIN.get(hint)


def _classes_in(hint: Any) -> Iterator[type]:
    """The dataclasses that a type names."""
    if get_origin(hint) in (Annotated, Union, UnionType, tuple):
        for inner in get_args(hint):
            yield from _classes_in(inner)
    elif isinstance(hint, type) and is_dataclass(hint):
        yield hint


def _state_classes(method: type[Method[Any]]) -> list[type]:
    """The classes S of Method[S] or of a subclass of it."""
    bases = (base for cls in method.__mro__ for base in cls.__dict__.get("__orig_bases__", ()))
    arguments = (get_args(base) for base in bases if issubclass(get_origin(base) or object, Method))
    return [cls for hints in arguments for hint in hints if not isinstance(hint, TypeVar) for cls in _classes_in(hint)]
