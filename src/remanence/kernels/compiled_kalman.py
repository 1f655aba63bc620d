"""Small matrices in compiled loops: below a hundred features calling LAPACK costs more than it saves.

Imported only where it is used, because importing the compiler takes longer than most filters.
"""

from typing import Any

import numba
import numpy as np

from remanence.arrays import Array
from remanence.kernels.constants import DOUBTFUL
from remanence.kernels.jit import Loop, njit

# Sums may be reordered (that is what vector units do); NaN and infinity keep their meaning.
_SUMS = {"reassoc", "contract", "nsz"}
compiled = njit(fastmath=_SUMS, nogil=True, error_model="numpy")
BLAS = 14  # from this many features on, BLAS multiplies faster than three loops
EPS = float(np.finfo(float).eps)


def inner(function: Loop) -> Loop:
    """A function that only compiled loops call: without a door to Python it compiles in half the time."""
    settings: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    made = numba.njit(fastmath=_SUMS, nogil=True, error_model="numpy", **settings)
    return made(function)  # type: ignore[no-any-return]


@inner
def times(A: Array, B: Array, n: int, out: Array) -> None:
    """out = A Bᵀ, the first n rows."""
    for i in range(n):
        for j in range(B.shape[0]):
            total = 0.0
            for k in range(A.shape[1]):
                total += A[i, k] * B[j, k]
            out[i, j] = total


@inner
def copy(source: Array, out: Array) -> None:
    """out = source (slices assigned to slices compile for seconds)."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            out[i, j] = source[i, j]


@inner
def mirror(P: Array) -> None:
    """The upper triangle from the lower one."""
    for i in range(1, P.shape[0]):
        for j in range(i):
            P[j, i] = P[i, j]


@inner
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


@inner
def near(P: Array, B: Array, ulps: float) -> bool:
    """Whether two covariances differ by no more than that many roundings."""
    for i in range(P.shape[0]):
        for j in range(i + 1):
            if P[i, j] != B[i, j]:
                gap = P[i, j] - B[i, j]
                if ulps == 0 or gap * gap > (ulps * EPS) ** 2 * P[i, i] * P[j, j]:
                    return False
    return True


@inner
def pivoted_root(P: Array, C: Array, order: Array, left: Array) -> int:
    """Columns C with C Cᵀ = P, the least decided coordinate first; `order` lists them and the rank is returned.

    What is left of the others, no more than rounding, stays on the diagonal of `left`.
    """
    d = len(P)
    copy(P, left)
    for i in range(d):
        order[i] = i
        for j in range(d):
            C[i, j] = 0.0
    for k in range(d):
        best, top = k, -1.0
        for n in range(k, d):
            i = order[n]
            ratio = left[i, i] / P[i, i] if P[i, i] > 0 else 0.0
            if ratio > top:
                best, top = n, ratio
        if top <= 4 * EPS * d:
            return k
        order[k], order[best] = order[best], order[k]
        pivot = order[k]
        size = np.sqrt(left[pivot, pivot])
        C[pivot, k] = size
        for n in range(k + 1, d):
            C[order[n], k] = left[order[n], pivot] / size
        for n in range(k + 1, d):
            i = order[n]
            for j in range(d):
                left[i, j] -= C[i, k] * C[j, k]
    return d


@inner
def semidefinite_root(P: Array, L: Array, drop: bool) -> bool:
    """L with L Lᵀ = P, and whether part of P was no more than rounding: dropped, or raised to what rounding may be."""
    d = len(P)
    for i in range(d):
        own = P[i, i]
        for j in range(i):
            total = P[i, j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            L[i, j] = total / L[j, j]
            L[j, i] = 0.0
            own -= L[i, j] * L[i, j]
        if not own > DOUBTFUL * P[i, i]:
            order = np.empty(d, np.int64)
            rank = pivoted_root(P, L, order, np.empty((d, d)))
            if not drop:
                for k in range(rank, d):
                    L[order[k], k] = np.sqrt(4 * EPS * d * P[order[k], order[k]])
            return rank < d
        L[i, i] = np.sqrt(own)
    return False


@inner
def triangular(M: Array, rows: int, floor: Array, place: Array, v: Array) -> int:
    """Rotate the columns of M until its rows are triangular, diagonal ≥ 0; returns the columns the first `rows` took.

    One of the first `rows` whose square is not above its floor once the rows before it are gone takes no column
    (place −1): they decide it.
    """
    n, p = M.shape
    c, taken = 0, 0
    for k in range(n):
        if k == rows:
            taken = c
        square = 0.0
        for j in range(c, p):
            square += M[k, j] * M[k, j]
        if k < rows and square <= floor[k]:
            place[k] = -1
            for j in range(c, p):
                M[k, j] = 0.0
            continue
        if k < rows:
            place[k] = c
        size = np.sqrt(square)
        if size > 0 and c + 1 < p:
            for j in range(c, p):
                v[j] = M[k, j]
                M[k, j] = 0.0
            size = -size if v[c] > 0 else size
            v[c] -= size
            scale = -1 / (size * v[c])
            M[k, c] = size
            for i in range(k + 1, n):
                total = 0.0
                for j in range(c, p):
                    total += v[j] * M[i, j]
                total *= scale
                for j in range(c, p):
                    M[i, j] -= total * v[j]
        if M[k, c] < 0:
            for i in range(k, n):
                M[i, c] = -M[i, c]
        c += 1
    return taken if n > rows else c


@inner
def squared(L: Array, out: Array) -> None:
    """out = L Lᵀ."""
    for i in range(len(L)):
        for j in range(i + 1):
            total = 0.0
            for k in range(len(L)):
                total += L[i, k] * L[j, k]
            out[i, j] = total
            out[j, i] = total
