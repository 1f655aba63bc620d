"""One block of observations, or one step of time, in compiled loops: (G1), (G3) and (G5) of memory/gaussian.py."""

import numpy as np

from remanence.arrays import Array
from remanence.kernels.compiled_kalman import BLAS, inner, times, triangular
from remanence.kernels.constants import CAREFUL, CONFLICT, DECIDED, SEEN


@inner
def plain(P: Array, Z: Array, R: Array, n: int, least: float, ZP: Array, C: Array) -> bool:
    """C of (G1) for the first n rows of Z, unless the noise is so small that (G3) is called for: then False."""
    d = len(P)
    if d < BLAS:
        times(Z, P, n, ZP)
    else:
        np.dot(Z[:n], P, ZP[:n])
    largest = 0.0
    for k in range(n):
        for j in range(k + 1):
            total = R[k, j]
            for i in range(d):
                total += ZP[k, i] * Z[j, i]
            C[k, j] = total
        largest = max(largest, C[k, k])
    if not least > CAREFUL * largest:
        return False
    for k in range(n):
        for j in range(k + 1):
            total = C[k, j]
            for i in range(j):
                total -= C[k, i] * C[j, i]
            C[k, j] = np.sqrt(max(total, least)) if j == k else total / C[j, j]
    return True


@inner
def rotated(
    L: Array, Z: Array, R: Array, root: Array, n: int, tolerance: float, C: Array, g: Array, kinds: Array, slack: Array
) -> None:
    """C and G of (G1), and L after the block, by the rotations (G3)."""
    d, m = len(L), len(Z)
    M, v, floor, place = np.zeros((n + d, m + d)), np.empty(m + d), np.empty(n), np.empty(n, np.int64)
    sizes, old = np.zeros(d), np.zeros(d)
    for i in range(d):
        for j in range(d):
            sizes[i] += L[i, j] * L[i, j]
            M[n + i, m + j] = L[i, j]
        old[i] = sizes[i]
        sizes[i] = np.sqrt(sizes[i])
    for k in range(n):
        scale = 0.0
        for i in range(d):
            scale += abs(Z[k, i]) * sizes[i]
            for j in range(d):
                M[k, m + j] += Z[k, i] * L[i, j]
        for j in range(m):
            M[k, j] = root[k, j]
        scale = scale * scale + R[k, k]
        floor[k] = tolerance * scale if tolerance > 0 else -1.0
        slack[k] = CONFLICT * np.sqrt(scale)
    taken = triangular(M, n, floor, place, v)
    for k in range(n):
        kinds[k] = SEEN if place[k] >= 0 else DECIDED
        for j in range(k):
            C[k, j] = M[k, place[j]] if place[j] >= 0 else 0.0
        C[k, k] = M[k, place[k]] if place[k] >= 0 else 1.0
        for i in range(d):
            g[k, i] = M[n + i, place[k]] if place[k] >= 0 else 0.0
    for i in range(d):
        left = 0.0
        for j in range(d):
            L[i, j] = M[n + i, taken + j]
            left += L[i, j] * L[i, j]
        if tolerance > 0 and left <= tolerance * old[i]:
            for j in range(d):
                L[i, j] = 0.0


@inner
def advanced(L: Array, A: Array, root: Array, wide: Array) -> None:
    """L one step later (G5)."""
    d = len(L)
    for i in range(d):
        for j in range(d):
            wide[i, j], wide[i, d + j] = 0.0, root[i, j]
        for k in range(d):
            for j in range(d):
                wide[i, j] += A[i, k] * L[k, j]
    triangular(wide, d - d, np.empty(0), np.empty(0, np.int64), np.empty(2 * d))
    for i in range(d):
        for j in range(d):
            L[i, j] = wide[i, j]


@inner
def inverse_of(C: Array, n: int, V: Array) -> float:
    """V = C⁻¹, and log det C Cᵀ."""
    logdet = 0.0
    for k in range(n):
        inverse = 1 / C[k, k]
        logdet += np.log(C[k, k])
        for j in range(k):
            total = 0.0
            for i in range(j, k):
                total -= C[k, i] * V[i, j]
            V[k, j] = total * inverse
        V[k, k] = inverse
    return float(2 * logdet)
