"""Everything a model file can hold, by name: the only classes that reading one ever makes."""

from importlib import import_module
from typing import Any

from remanence.errors import InputError
from remanence.store.format.record import Outline, Record
from remanence.store.records.deep import DEEP_RECORDS
from remanence.store.records.estimators import ESTIMATOR_RECORDS
from remanence.store.records.kalman import KALMAN_RECORDS
from remanence.store.records.linear import LINEAR_RECORDS

RECORDS: dict[str, Record] = {**LINEAR_RECORDS, **KALMAN_RECORDS, **ESTIMATOR_RECORDS, **DEEP_RECORDS}

_NAMES = {(record.home, name.split(".")[-1]): name for name, record in RECORDS.items()}


def class_of(name: str) -> Any:
    """The class stored under this name."""
    return getattr(import_module(RECORDS[name].home), name.split(".")[-1])


def find_name(value: Any) -> str | None:
    """The name a value of this class is stored under, if it is stored at all; a subclass is another class."""
    return _NAMES.get((type(value).__module__, type(value).__qualname__))


def name_of(value: Any, path: str) -> str:
    """The name a value is stored under, or a clear refusal."""
    name = find_name(value)
    if name is not None:
        return name
    if path.split(".")[-1] == "step" and callable(value):
        raise InputError(
            f"expected steps that a file can hold, got the function {value!r:.60}; give a number, a sequence of one a "
            f"sample, or a rule of rm.steps (code is never stored)"
        )
    raise InputError(
        f"expected a learner of Remanence whose parts can all be stored, got {type(value).__name__}"
        f"{' as ' + path if path else ''}; code and objects of other libraries are never stored"
    )


def outline_of(value: Any) -> Outline | None:
    """What its owner sees of a stored object, as if it were an array."""
    name = find_name(value)
    outline = None if name is None else RECORDS[name].outline
    return None if outline is None else outline(value)
