"""Fold blocks of rows into the triangular factor of a root, on several cores where that pays.

The work is cut into tiles of columns and chunks of rows by the shape of the block alone, so that the result has the
same bits for any number of threads; native/fold.pyx has the equations.
"""

import numpy as np

from remanence.arrays import Array
from remanence.kernels.fold import Fold
from remanence.parallel.blas_threads import one_thread
from remanence.parallel.forking import unforked
from remanence.parallel.pool import pool
from remanence.parallel.thread_count import thread_count

WORTH = 10_000_000  # n·d², from which on a second thread gains more than waking it costs
CALL = 16  # chunks per call at most: a fork waits for the end of a call


def chunk(features: int) -> int:
    """Rows folded at once: tall enough for matrix speed, small beside the factor when the factor is large."""
    return 1000 if features < 2048 else max(500, features // 8)  # (powers of two collide in the cache)


def tile(features: int) -> int:
    """Columns per tile: wide enough for matrix speed, even, and enough tiles for several threads."""
    count = max(1, round(features / (64 if features >= 192 else 32)))
    return 8 * -(-features // (8 * count))


def fold(
    factor: Array,
    target: Array,
    X: Array,
    Y: Array,
    scale: Array | None = None,
    shrink: float = 1.0,
    old: tuple[Array, Array] | None = None,
    triangle: bool = False,
    scratch: bool = False,
) -> Array:
    """Rotate the rows scale · [X Y] into shrink · [factor target], in place; returns ρ of the rows, see memory/root.py.

    `old` is the factor and the target to begin with, where they are not to be overwritten: then what is in `factor` and
    `target` does not matter. `triangle`: X is upper triangular. `scratch`: X and Y are column-major and may be used up.
    """
    (n, d), c = X.shape, Y.shape[1]
    if not n:
        for own, first in zip((factor, target), old or (factor, target), strict=True):
            np.multiply(first, factor.dtype.type(shrink), out=own)
        return np.zeros(c)
    size, width = n if triangle else min(n, chunk(d)), tile(d)
    slots = 2 if n > size and d < 1024 else 1
    B, D = None, None
    if not scratch:
        B, D = (np.empty((slots, columns, _spread(size)), factor.dtype) for columns in (d, c))
    T = np.empty((slots, -(-d // width), width, width), factor.dtype)
    old_factor, old_target = (None, None) if old is None else old
    rest, rows = np.zeros(c), size if slots == 1 else CALL * size
    with one_thread, unforked:
        for i in range(0, n, rows):
            part = slice(i, i + rows)
            taken = X[part], Y[part], None if scale is None else scale[part]
            left = np.empty((-(-len(taken[0]) // size), c))
            job = Fold(factor, target, old_factor, old_target, shrink, *taken, B, D, T, left, size, triangle)
            shared(job, len(taken[0]), d)
            for squares in left:  # one after the other: a sum in another order has other bits
                rest += squares
            old_factor, old_target, shrink = None, None, 1.0
    return rest


def _spread(rows: int) -> int:
    """Numbers from a column to the next: not a power of two, whose columns would collide in the cache."""
    rows = -(-rows // 8) * 8
    return rows + 8 if rows % 128 == 0 else rows


def shared(job: Fold, rows: int, features: int) -> None:
    """Do a job, with as many threads as are allowed and pay; call it in `one_thread` and `unforked`."""
    worth = rows * features * features // WORTH
    pool.run(job.work, min(thread_count(), worth) if worth > 1 else 1)
