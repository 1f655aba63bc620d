"""The array type of the library, views that cannot be written to, and triangles packed into half the numbers."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
PIECE = 8192  # numbers per product: OpenBLAS shares longer ones among threads


def squared_sum(array: Array) -> float:
    """The sum of the squares of all entries; NaN, or infinite, where one is or where they overflow.

    In pieces that BLAS does on one thread: after a shared product OpenBLAS's other threads go on waiting actively for a
    tenth of a second, on the cores that our own threads need.
    """
    flat = array.ravel(order="K")
    pieces = (flat[i : i + PIECE] for i in range(0, len(flat), PIECE))
    return sum((float(np.vdot(piece, piece)) for piece in pieces), 0.0)  # (vdot does not announce an overflow)


def aligned(array: Array) -> Array:
    """The array, or a copy if its entries are not where compiled code expects numbers of their size.

    Arrays over bytes that came from elsewhere, a message or a mapped file, begin anywhere.
    """
    return array if array.flags.aligned else array.copy(order="K")


def read_only(array: Array) -> Array:
    """A view of `array` that cannot be written to, so that a caller cannot change a state through its weights."""
    view = array.view()
    view.flags.writeable = False
    return view


def triangle(factor: Array) -> Array:
    """The upper triangle of a matrix (d, d), column by column: d(d + 1)/2 numbers."""
    return np.concatenate([factor[: j + 1, j] for j in range(len(factor))] or [factor.reshape(-1)])


def square(packed: Array, d: int) -> Array:
    """The upper triangular matrix (d, d), column-major, of such columns."""
    if packed.shape != (d * (d + 1) // 2,):
        raise ValueError(f"expected a triangle of {d * (d + 1) // 2} numbers, got {packed.shape}")
    factor = np.zeros((d, d), packed.dtype, order="F")
    start = 0
    for j in range(d):
        factor[: j + 1, j] = packed[start : start + j + 1]
        start += j + 1
    return factor
