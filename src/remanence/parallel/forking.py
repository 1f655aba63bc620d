"""Keep the process from forking during BLAS products.

NumPy lets other Python threads run while BLAS multiplies, so that one of them may fork meanwhile; OpenBLAS has a lock
of its own, which the child then finds closed for ever. Products that are made while answering and learning live rows
are therefore made inside `unforked`: each thread holds a lock of its own, which costs next to nothing, and a fork waits
for the locks of all threads. (SciPy's LAPACK calls let no other thread run, and need no such care.)
"""

import os
from threading import Lock, local
from typing import Any
from weakref import WeakSet


class _Unforked(local):
    """A context, one per thread, inside which no other thread forks; it may be nested."""

    def __init__(self) -> None:
        self.lock, self.depth = Lock(), 0
        with _registering:
            _locks.add(self.lock)

    def __enter__(self) -> None:
        if not self.depth:
            self.lock.acquire()
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
        if not self.depth:
            self.lock.release()


_locks: WeakSet[Any] = WeakSet()
_registering = Lock()
_taken: list[Any] = []
unforked = _Unforked()


def _before() -> None:
    own = unforked.lock if unforked.depth else None  # (a new thread is registered here, before nobody can be)
    _registering.acquire()
    for lock in [lock for lock in _locks if lock is not own]:
        lock.acquire()
        _taken.append(lock)


def _after() -> None:
    while _taken:
        _taken.pop().release()
    _registering.release()


if os.name == "posix":
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
