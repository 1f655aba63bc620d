"""Rotations of single rows into a triangular factor, compiled. Imported only where it is used."""

import numba
import numpy as np

from remanence.checks import Array


@numba.njit(cache=True, fastmath={"contract", "nsz"}, nogil=True, inline="always")
def _rotation(own: float, new: float, g: float, fade: float) -> tuple[float, float, float, float, float]:
    """The coefficients of tracking.py's (T2) for a diagonal entry `own` that fades and an entry `new` of weight g."""
    own = fade * own
    r = np.sqrt(own * own + g * new * new)
    if r == 0:
        return own, fade, own * 0, own * 0 + 1, own * 0
    cos, share = own / r, new / r
    return r, fade * cos, g * share, cos, fade * share


@numba.njit(cache=True, fastmath={"contract", "nsz"}, nogil=True)
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
