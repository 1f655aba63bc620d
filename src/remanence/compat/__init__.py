"""Adapters to the interfaces of other libraries; each imports its library when it is first used."""

from importlib import import_module
from typing import Any

__all__ = ["river"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'remanence.compat' has no attribute {name!r}")
    return import_module(f"remanence.compat.{name}")
