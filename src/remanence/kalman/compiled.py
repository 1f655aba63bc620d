"""Small matrices in compiled loops: below some twenty features calling LAPACK costs more than the work.

Imported only where it is used, because importing the compiler takes longer than most filters.
"""

import numba
import numpy as np

from remanence.checks import Array

# Sums may be reordered (that is what vector units do); NaN and infinity keep their meaning.
compiled = numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz"}, nogil=True, error_model="numpy")
BLAS = 14  # from this many features on, BLAS multiplies faster than three loops
EPS = float(np.finfo(float).eps)


@compiled
def times(A: Array, B: Array, n: int, out: Array) -> None:
    """out = A Bᵀ, the first n rows."""
    for i in range(n):
        for j in range(B.shape[0]):
            total = 0.0
            for k in range(A.shape[1]):
                total += A[i, k] * B[j, k]
            out[i, j] = total


@compiled
def mirror(P: Array) -> None:
    """The upper triangle from the lower one."""
    for i in range(1, P.shape[0]):
        for j in range(i):
            P[j, i] = P[i, j]


@compiled
def congruence(A: Array, P: Array, add: Array, work: Array, out: Array) -> None:
    """out = A P Aᵀ + add, for symmetric P and add."""
    d = len(P)
    if d < BLAS:
        times(A, P, d, work)
        for i in range(d):
            for j in range(i + 1):
                total = add[i, j]
                for k in range(d):
                    total += work[i, k] * A[j, k]
                out[i, j] = total
    else:
        np.dot(A, P, work)
        np.dot(work, A.T, out)
        for i in range(d):
            for j in range(i + 1):
                out[i, j] += add[i, j]
    mirror(out)


@compiled
def near(P: Array, B: Array, ulps: float) -> bool:
    """Whether two covariances differ by no more than that many roundings."""
    for i in range(P.shape[0]):
        for j in range(i + 1):
            if P[i, j] != B[i, j]:
                gap = P[i, j] - B[i, j]
                if ulps == 0 or gap * gap > (ulps * EPS) ** 2 * P[i, i] * P[j, j]:
                    return False
    return True
