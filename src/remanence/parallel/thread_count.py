"""How many threads fold large blocks of rows; the numbers are the same bits with any."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from remanence.errors import InputError
from remanence.parallel.blas_threads import one_thread
from remanence.parallel.cores import cores

MOST = 1024

_everywhere: int | None = None
_here: ContextVar[int | None] = ContextVar("remanence_threads", default=None)


def set_threads(count: int | None) -> None:
    """Set how many threads fold large blocks of rows in `update`, `fit`, `partial_fit` and `learn`.

    The default is the number of cores that this process may use: its affinity, the quota of its container,
    OMP_NUM_THREADS, and the limits that threadpoolctl sets for BLAS are respected. Small blocks are folded by one
    thread in any case. Models and predictions are the same to the bit with any number.

    Parameters
    ----------
    count : int or None
        Threads, the calling one included; None means the default.

    Returns
    -------
    None

    Examples
    --------
    >>> import remanence as rm
    >>> rm.set_threads(2)
    >>> rm.set_threads(None)
    """
    global _everywhere
    _everywhere = _checked(count)


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Fold large blocks of rows with this many threads inside a `with` block, whatever `set_threads` says.

    It holds for the Python thread (or asynchronous task) that enters it.

    Parameters
    ----------
    count : int or None
        Threads, the calling one included; None means the default of `set_threads`.

    Returns
    -------
    context manager

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> X, Y, rls = np.eye(3), np.ones((3, 1)), rm.RLS()
    >>> with rm.threads(1):
    ...     state = rls.update(rls.init(features=3, outputs=1), X, Y)
    >>> rls.weights(state).ravel().round(12).tolist()
    [0.5, 0.5, 0.5]
    """
    wanted = _checked(count)
    token = _here.set(0 if wanted is None else wanted)
    try:
        yield
    finally:
        _here.reset(token)


def thread_count() -> int:
    """The number of threads in force here."""
    here = _here.get()
    wanted = _everywhere if here is None else here
    return wanted or min(cores(), one_thread.allowed())


def _checked(count: Any) -> int | None:
    if count is None:
        return None
    whole = isinstance(count, (int, np.integer)) and not isinstance(count, (bool, np.bool_))
    if not whole or not 1 <= count <= MOST:
        raise InputError(
            f"expected the number of threads to be an integer from 1 to {MOST}, got {count!r:.60}; "
            f"None means as many as there are cores"
        )
    return int(count)
