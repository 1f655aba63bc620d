"""Upper triangular matrices as their d(d + 1)/2 numbers, column by column: half the bytes in files and on the way."""

import numpy as np

from remanence.arrays import Array


def triangle(factor: Array) -> Array:
    """The upper triangle, column by column."""
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
