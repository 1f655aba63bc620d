"""Kernels k(x, y) of unit size: k(x, x) = 1, so that a distance in their space has one meaning for all rows.

    rbf       exp(−‖x − y‖² / (2 width²))
    laplace   exp(−‖x − y‖ / width)

‖φ(x) − φ(y)‖² = 2 − 2 k(x, y): 0 for one point, 2 for points that have nothing to do with each other.
"""

import numpy as np

from remanence.arrays import Array

KERNELS = ("rbf", "laplace")


def kernel_matrix(kernel: str, width: float, A: Array, B: Array) -> Array:
    """k between the rows of A (m, d) and of B (n, d), (m, n).

    Distances are differences, not expanded squares: nearby rows far from the origin keep their digits.
    """
    squares = np.zeros((len(A), len(B)), A.dtype)
    for a, b in zip(A.T, B.T, strict=True):
        apart = np.subtract.outer(a, b)
        apart /= width  # (afterwards: a/width and b/width may both be infinite)
        squares += np.square(apart, out=apart)
    return np.asarray(np.exp(-0.5 * squares) if kernel == "rbf" else np.exp(-np.sqrt(squares)))
