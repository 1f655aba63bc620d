"""Fingerprints that identify frozen encoders, the same in every process and on every machine."""

import re
import sys
from types import FunctionType
from typing import Any

import numpy as np

from remanence.hashing import new_digest, short

ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def fingerprint(transformer: Any) -> str:
    """The transformer's own fingerprint if it has one, else a hash of its settings and of all it has learned.

    Functions count by their name, so a transformer made of functions must be named apart by its settings.
    """
    own = getattr(transformer, "fingerprint", None)
    if callable(own):
        return str(own())
    digest = new_digest()
    _add(digest, transformer, ())
    return short(digest)


def stands_for(identity: str, known: str) -> bool:
    """Whether features of fingerprint `identity` are the known ones; those not fitted yet stand for fitted ones."""
    fitted_here = identity.startswith(("random:", "conv:"))
    return identity == known or (fitted_here and identity == f"{known.rpartition(':')[0]}:auto")


def _add(digest: Any, value: Any, above: tuple[int, ...]) -> None:
    """Add a value with all it consists of; what contains itself is entered once."""
    digest.update(f"<{type(value).__qualname__}>".encode())
    if id(value) in above:
        return
    above = (*above, id(value))
    if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
        value = value.detach().cpu().double().numpy()
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        flat = np.ascontiguousarray(value).reshape(-1)  # hashed where it lies: a copy costs more than the hash
        digest.update(flat.tobytes() if value.dtype.hasobject or not value.size else flat.view(np.uint8))
    elif isinstance(value, (list, tuple, np.ndarray)):
        for part in value:
            _add(digest, part, above)
    elif isinstance(value, (set, frozenset)):
        digest.update(repr(sorted(map(repr, value))).encode())
    elif isinstance(value, (type, FunctionType)):
        digest.update(f"{value.__module__}.{value.__qualname__}".encode())
    elif isinstance(value, (bool, int, float, str, bytes, np.generic, type(None))):
        with np.printoptions(legacy=False):
            digest.update(repr(value).encode())
    else:
        _add_named(digest, value, above)


def _add_named(digest: Any, value: Any, above: tuple[int, ...]) -> None:
    """Add an object by what it holds under names, in the order of the names; of an estimator all but private names."""
    from sklearn.base import BaseEstimator

    if isinstance(value, BaseEstimator):
        learned = {k: v for k, v in vars(value).items() if k.endswith("_") and not k.startswith("_")}
        learned |= {k: v for k, v in vars(value).items() if isinstance(v, BaseEstimator)}  # (TfidfVectorizer hides one)
        named: dict[Any, Any] = {**value.get_params(deep=False), **learned}
    else:
        named = value if isinstance(value, dict) else getattr(value, "__dict__", {})
        if isinstance(value, np.ufunc):  # what else a ufunc holds is a cache that other libraries fill
            named = {"__module__": "numpy", "__qualname__": value.__name__}
        if not isinstance(value, dict):
            digest.update(ADDRESS.sub("", repr(value)).encode())
    for name in sorted(named, key=repr):
        digest.update(repr(name).encode())
        _add(digest, named[name], above)
