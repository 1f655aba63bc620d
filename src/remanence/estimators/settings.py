"""Settings of the estimators: their checks, and copies of a method or an encoder with changed settings."""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from remanence.errors import InputError
from remanence.methods import RLS
from remanence.methods.protocol import Method

DEFAULT = RLS()


def check_method(method: Any) -> Method[Any]:
    """The method, RLS() where none is given."""
    if method is None:
        return DEFAULT
    if isinstance(method, Method) and not method.linear:
        raise InputError(
            f"expected a method whose model is linear, got {method!r:.60}; call its own update and predict, or use "
            f'rm.RLS() with features=rm.RandomFeatures(1000, activation="fourier")'
        )
    if not isinstance(method, Method):
        name = method.__name__ if isinstance(method, type) else "RLS"
        raise InputError(f"expected a method with its settings, like rm.{name}(), got {method!r:.60}")
    return method


def check_bool(value: Any, name: str) -> None:
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"expected {name} to be True or False, got {value!r:.60}")


def check_encoder(features: Any) -> None:
    """Raise an InputError unless `features` is None or a transformer."""
    if features is not None and (isinstance(features, type) or not callable(getattr(features, "transform", None))):
        raise InputError(
            f"expected features to be None or a fitted transformer, like rm.RandomFeatures(1000), got {features!r:.60}"
        )


def settings_of(method: Any) -> dict[str, Any]:
    """The settings of a method by name."""
    known: Any = DEFAULT if method is None else method
    if not isinstance(known, Method):
        return {}
    return {f.name: getattr(known, f.name) for f in fields(known)}  # type: ignore[arg-type]


def changed_clone(value: Any, changes: dict[str, Any], name: str) -> Any:
    """A copy of a method or an encoder with changed settings; the original may be shared and is not changed."""
    if isinstance(value, Method):
        known = sorted(settings_of(value))
        if not set(changes) <= set(known):
            raise InputError(f"expected settings of {type(value).__name__}, {known}, got {sorted(changes)}")
        return replace(value, **changes)  # type: ignore[type-var]
    from sklearn.base import BaseEstimator, clone

    if not isinstance(value, BaseEstimator):
        raise InputError(f"expected {name} to be an estimator to set {sorted(changes)} of, got {value!r:.60}")
    try:
        return clone(value).set_params(**changes)
    except (TypeError, ValueError) as problem:
        raise InputError(f"{name} cannot take {sorted(changes)}: {problem}") from None
