"""Rotations of single rows into a triangular factor, compiled. Imported only where it is used."""

import numpy as np

from remanence.arrays import Array
from remanence.kernels.jit import njit


@njit(fastmath={"contract", "nsz"}, nogil=True, inline="always")
def _rotation(own: float, new: float, g: float, fade: float) -> tuple[float, float, float, float, float]:
    """The coefficients of tracking.py's (T2) for a diagonal entry `own` that fades and an entry `new` of weight g."""
    own = fade * own
    r = np.sqrt(own * own + g * new * new)
    if r == 0:
        return own, fade, own * 0, own * 0 + 1, own * 0
    cos, share = own / r, new / r
    return r, fade * cos, g * share, cos, fade * share


@njit(fastmath={"contract", "nsz"}, nogil=True)
def rotate_rows(
    R: Array, z: Array, rest: Array, X: Array, Y: Array, weights: Array, fades: Array, errors: Array
) -> None:
    """Fold rows one by one into R (d, d), z (d, c), all row-major, in place; X and Y are used up (tracking.py, T2).

    Two rows travel together through R, the second one step behind the first: half the traffic. An odd last row
    needs a companion that weighs nothing: n is even.
    """
    n, d = X.shape
    c = Y.shape[1]
    for i in range(0, n, 2):
        x, y, u, v = X[i], Y[i], X[i + 1], Y[i + 1]
        g, h, p, q = weights[i], weights[i + 1], fades[i], fades[i + 1]
        first, second = p * 0 + 1, p * 0 + 1  # the products of the cosines
        for k in range(d):
            row, aim = R[k], z[k]
            r, a1, a2, a3, a4 = _rotation(row[k], x[k], g, p)
            r, b1, b2, b3, b4 = _rotation(r, u[k], h, q)
            row[k] = r
            for j in range(k + 1, d):
                kept, came, next_one = row[j], x[j], u[j]
                x[j] = a3 * came - a4 * kept
                kept = a1 * kept + a2 * came
                u[j] = b3 * next_one - b4 * kept
                row[j] = b1 * kept + b2 * next_one
            for j in range(c):
                kept, came, next_one = aim[j], y[j], v[j]
                y[j] = a3 * came - a4 * kept
                kept = a1 * kept + a2 * came
                v[j] = b3 * next_one - b4 * kept
                aim[j] = b1 * kept + b2 * next_one
            first *= a3
            second *= b3
        for j in range(c):
            rest[j] = p * p * rest[j] + g * y[j] * y[j]
            rest[j] = q * q * rest[j] + h * v[j] * v[j]
            errors[i, j] = y[j] / first  # (T1)
            errors[i + 1, j] = v[j] / second


@njit(fastmath={"reassoc", "contract", "nsz"}, nogil=True)
def live_rows(
    R: Array, W0: Array, X: Array, Y: Array, S: Array, C: Array, U: Array, done: int, k: int, scales: Array, W: Array
) -> int:
    """Add the images of rows done, …, k−1 (waiting.py, W1) and write the weights with k rows to W (W2).

    R (d, d) column-major; scales = (forget, gain, smallest pivot, largest diagonal, spread of R, limit), the third and
    fourth kept up to date. Returns the number of rows whose image can be trusted; W is written only if that is k.
    """
    d, c = W0.shape
    forget, gain, spread, limit = scales[0], scales[1], scales[4], scales[5]
    for i in range(done, k):
        s = S[:, i]
        own = forget ** (i + 1)
        square = own * 0
        for a in range(d):  # Rᵀs = x, down the columns of R
            column = R[:, a]
            total = X[i, a]
            for b in range(a):
                total -= column[b] * s[b]
            s[a] = total / column[a]
            square += s[a] * s[a]
        own += gain * square
        pivot = own
        for j in range(i):
            other = S[:, j]
            total = own * 0
            for a in range(d):
                total += other[a] * s[a]
            total *= gain
            for b in range(j):
                total -= C[j, b] * C[i, b]
            C[i, j] = total / C[j, j]
            pivot -= C[i, j] * C[i, j]
        scales[2], scales[3] = min(scales[2], pivot), max(scales[3], own)
        if not (scales[2] > 0 and scales[3] * spread <= limit * scales[2] < np.inf):  # false for NaN too
            return int(i)
        C[i, i] = np.sqrt(pivot)
        for j in range(c):
            total = Y[i, j]
            for a in range(d):
                total -= X[i, a] * W0[a, j]
            for b in range(i):
                total -= C[i, b] * U[b, j]
            U[i, j] = total / C[i, i]
    V, step = np.empty(k, R.dtype), np.empty(d, R.dtype)
    for j in range(c):
        for i in range(k - 1, -1, -1):
            total = U[i, j]
            for b in range(i + 1, k):
                total -= C[b, i] * V[b]
            V[i] = total / C[i, i]
        step[:] = 0
        for i in range(k):
            s = S[:, i]
            for a in range(d):
                step[a] += V[i] * s[a]
        for a in range(d - 1, -1, -1):  # R step = S V, up the columns of R
            column = R[:, a]
            step[a] /= column[a]
            for b in range(a):
                step[b] -= column[b] * step[a]
        for a in range(d):
            W[a, j] = W0[a, j] + gain * step[a]
    return int(k)
