"""One BLAS thread for triangular factors: their steps are too small to share.

On a quiet machine a second thread gains a fold little; on a busy one each of its thousands of small products waits
for a thread that does not run, and the fold takes many times as long.

The number of threads belongs to the whole process, so it is lowered when the first of our calls needs it and put back
when the last one is done, whichever Python threads they run in.
"""

import os
from functools import cache
from threading import Lock
from typing import Any


@cache
def _libraries() -> list[Any]:
    """The BLAS libraries that NumPy and SciPy have loaded."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


def set_number(library: Any, count: int) -> None:
    """Set the number of threads of a library, from any Python thread.

    `set_num_threads` of newer versions of threadpoolctl does nothing in all threads but the first that has called it.
    """
    getattr(library, "_real_set_num_threads", library.set_num_threads)(count)


class _OneThread:
    """A context in which BLAS uses one thread; cheap to enter, safe to nest and to enter from many threads."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.inside = 0
        self.before: list[int] = []
        self.left_by_fork: list[int] | None = None

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                self.before = self.left_by_fork or [library.get_num_threads() for library in _libraries()]
                self.left_by_fork = None
                for library, count in zip(_libraries(), self.before, strict=True):
                    if count != 1:
                        set_number(library, 1)
            self.inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                for library, count in zip(_libraries(), self.before, strict=True):
                    if count != 1:
                        set_number(library, count)

    def allowed(self) -> int:
        """The number of threads that BLAS is limited to outside of this context, by its user or by threadpoolctl."""
        with self.lock:
            counts = self.before if self.inside else [library.get_num_threads() for library in _libraries()]
        return min(counts, default=1)

    def after_fork(self) -> None:
        """In a forked child no other thread is inside, nor holds the lock; the number is put back at the next exit."""
        if self.inside:
            self.left_by_fork = self.before
        self.lock, self.inside = Lock(), 0


one_thread = _OneThread()
if os.name == "posix":
    os.register_at_fork(after_in_child=one_thread.after_fork)
