"""All classes that a model file can hold, by name: the only classes that reading a file ever constructs."""

from importlib import import_module
from typing import Any

import numpy as np

from remanence.errors import InputError
from remanence.methods import method_classes
from remanence.store.format.derive import derived_records
from remanence.store.format.record import ArraySpec, Record
from remanence.store.records.deep import DEEP_RECORDS
from remanence.store.records.estimators import ESTIMATOR_RECORDS
from remanence.store.records.kalman import KALMAN_RECORDS
from remanence.store.records.linear import LINEAR_RECORDS
from remanence.store.records.tables import TABLE_RECORDS

METHODS = method_classes()
_WRITTEN = {**LINEAR_RECORDS, **KALMAN_RECORDS, **ESTIMATOR_RECORDS, **TABLE_RECORDS, **DEEP_RECORDS}
RECORDS: dict[str, Record] = {**derived_records(METHODS.values(), _WRITTEN), **_WRITTEN}

PREDICTORS = {"ContinualClassifier": "LinearClassifier", "ContinualRegressor": "LinearRegressor"}


def _class_name(name: str) -> str:
    return RECORDS[name].class_name or name.split(".")[-1]


_NAMES = {(record.module, _class_name(name)): name for name, record in RECORDS.items()}


def class_of(name: str) -> Any:
    """The class stored under this name."""
    return getattr(import_module(RECORDS[name].module), _class_name(name))


def predictor_of(name: str) -> Any:
    """The class that predicts as the one stored under this name does; without frozen features no scikit-learn loads."""
    if name not in PREDICTORS:
        return class_of(name)
    return getattr(import_module("remanence.estimators.linear_predictor"), PREDICTORS[name])


def find_name(value: Any) -> str | None:
    """The name under which a value of this class is stored, if it is stored at all; a subclass is another class."""
    return _NAMES.get((type(value).__module__, type(value).__qualname__))


def is_method(value: Any) -> bool:
    """Whether this is a method of the library."""
    return find_name(value) in METHODS


def name_of(value: Any, path: str) -> str:
    """The name under which a value is stored; raises InputError if there is none."""
    name = find_name(value)
    if name is not None:
        return name
    if path.split(".")[-1] == "step" and callable(value):
        raise InputError(
            f"expected steps that a file can hold, got the function {value!r:.60}; give a number, a sequence with one "
            f"per sample, or a rule of rm.steps (code is never stored)"
        )
    raise InputError(
        f"expected a learner of Remanence whose parts can all be stored, got {type(value).__name__}"
        f"{' as ' + path if path else ''}; code and objects of other libraries are never stored"
    )


def spec_of(value: Any) -> ArraySpec | None:
    """Shape (features, outputs) and dtype of a stored object; None for an object that has none.

    An object without outputs, such as a basis, has the shape of its first array.
    """
    name = find_name(value)
    if name is None:
        return None
    record = RECORDS[name]
    if record.spec is not None:
        return record.spec(value)
    lengths: dict[str, int] = {}
    found: list[ArraySpec] = []
    for part, spec in record.parts.items():
        array = getattr(value, part, None)
        if type(array) is tuple and array:
            array = array[0]
        inner = ArraySpec(array.shape, array.dtype) if isinstance(array, np.ndarray) else spec_of(array)
        letters = [word for word in spec.split() if len(word) == 1]
        if inner is not None and len(letters) == len(inner.shape):
            lengths |= {letter: n for letter, n in zip(letters, inner.shape, strict=True) if letter not in lengths}
            found.append(inner)
    if not found:
        return None
    shape = (lengths["d"], lengths["c"]) if {"d", "c"} <= lengths.keys() else found[0].shape
    return ArraySpec(shape, found[0].dtype)
