"""Loops whose every step needs the one before, compiled: LMS and APA, sample by sample at machine speed.

Imported only when a method first learns, because importing the compiler takes longer than most streams.
"""

import numpy as np

from remanence.arrays import Array
from remanence.kernels.jit import njit

# Sums may be reordered (that is what vector units do); NaN and infinity keep their meaning.
_SUMS = {"reassoc", "contract", "nsz"}


@njit(fastmath=_SUMS, nogil=True)
def lms_walk(W: Array, X: Array, Y: Array, steps: Array, normalized: bool, errors: Array) -> int:
    """LMS over the rows, W (c, d) in place; returns the first row that is not finite, or the number of rows."""
    n, d = X.shape
    for i in range(n):
        x = X[i]
        square = x[0] * 0
        for k in range(d):
            square += x[k] * x[k]
        scale = x[0] * 0 + 1
        if not (1e-290 < square < 1e280):  # zero, out of range, or not finite: look at the size first
            largest = x[0] * 0
            for k in range(d):
                if not np.isfinite(x[k]):
                    return int(i)
                largest = max(largest, abs(x[k]))
            if largest > 0:
                scale = largest
                square = x[0] * 0
                for k in range(d):
                    square += (x[k] / scale) * (x[k] / scale)
            else:
                square = scale
        for j in range(W.shape[0]):
            w = W[j]
            answer = x[0] * 0
            for k in range(d):
                answer += x[k] * w[k]
            error = Y[i, j] - answer
            errors[i, j] = error
            if normalized:
                gain = steps[i] * (error / scale / square)
                if scale == 1:
                    for k in range(d):
                        w[k] += gain * x[k]
                else:
                    for k in range(d):
                        w[k] += gain * (x[k] / scale)
            else:
                gain = steps[i] * error
                for k in range(d):
                    w[k] += gain * x[k]
    return int(n)


@njit(fastmath=_SUMS, nogil=True)
def apa_walk(
    W: Array, Z: Array, T: Array, first: int, buffer: int, steps: Array, errors: Array, skip: int, bound: float
) -> int:
    """APA over rows first, first+1, … of Z (n, d), T (n, c), each with up to `buffer` rows before it; W in place.

    Stops at a row whose constraints are too dependent for a Gram matrix (squared pivot ratio below `bound`) and returns
    its index; the caller solves that one with care and comes back with `skip` past it.
    """
    n, d = Z.shape
    c = W.shape[0]
    size = buffer + 1
    G = np.empty((size, size), Z.dtype)
    L = np.empty((size, size), Z.dtype)
    r = np.empty((size, c), Z.dtype)
    known = 0  # constraints whose products are in G
    for i in range(first + skip, n):
        low = max(0, i - buffer)
        m = i - low + 1
        if known and m == known:  # the oldest row left: move the products up
            for a in range(m - 1):
                for b in range(a + 1):
                    G[a, b] = G[a + 1, b + 1]
        fresh = m - 1 if known else 0
        for a in range(fresh, m):
            for b in range(a + 1):
                total = Z[i, 0] * 0
                for k in range(d):
                    total += Z[low + a, k] * Z[low + b, k]
                G[a, b] = total
        known = m
        for a in range(m):
            for j in range(c):
                answer = Z[i, 0] * 0
                for k in range(d):
                    answer += Z[low + a, k] * W[j, k]
                r[a, j] = T[low + a, j] - answer
        for j in range(c):
            errors[i - first, j] = r[m - 1, j]
        for a in range(m):  # Cholesky, row by row
            for b in range(a + 1):
                total = G[a, b]
                for k in range(b):
                    total -= L[a, k] * L[b, k]
                if a == b:
                    if not (total > bound * G[a, a] and 1e-290 < G[a, a] < 1e280):
                        return int(i)
                    L[a, a] = np.sqrt(total)
                else:
                    L[a, b] = total / L[b, b]
        for j in range(c):
            for a in range(m):
                total = r[a, j]
                for k in range(a):
                    total -= L[a, k] * r[k, j]
                r[a, j] = total / L[a, a]
            for a in range(m - 1, -1, -1):
                total = r[a, j]
                for k in range(a + 1, m):
                    total -= L[k, a] * r[k, j]
                r[a, j] = total / L[a, a]
            for a in range(m):
                gain = steps[i - first] * r[a, j]
                for k in range(d):
                    W[j, k] += gain * Z[low + a, k]
    return int(n)
