"""Numba's njit with a cache on disk that is of the present sources, and without one where nothing can be written.

Numba takes a cached function for current as long as its own file is. What it inlines from other files, and constants it
was compiled with, may have changed since: so the stamp of every function here is a hash of all of these files.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core.caching import FunctionCache

Loop = TypeVar("Loop", bound=Callable[..., Any])
PACKAGE = Path(__file__).parents[1]
CONSTANTS = ("kernels/constants.py",)  # whose constants are compiled into loops


def njit(**options: Any) -> Callable[[Loop], Loop]:
    """numba.njit(cache=True, …), but a cache that cannot be written costs time and nothing else."""

    def compiled(function: Loop) -> Loop:
        made: Any = numba.njit(**options)(function)
        with suppress(RuntimeError):  # where neither the package's folder nor a home can be written
            made._cache = _Cache(function)
        return made  # type: ignore[no-any-return]

    return compiled


def stamped_files() -> list[Path]:
    """The files that compiled code is made of."""
    return sorted([*PACKAGE.rglob("compiled*.py"), *(PACKAGE / name for name in CONSTANTS), Path(__file__)])


@cache
def _stamp() -> str:
    parts = (str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes() for path in stamped_files())
    return sha256(b"\0".join(parts)).hexdigest()


class _Cache(FunctionCache):
    """A cache with our stamp; a disk that fills up later is no reason to fail either."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._cache_file._source_stamp = _stamp()

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
