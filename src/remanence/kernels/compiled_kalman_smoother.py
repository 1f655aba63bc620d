"""The smoother's loops over time, compiled: the equations (RTS) of smoothing.py."""

import numpy as np

from remanence.arrays import Array
from remanence.kernels.compiled_kalman import BLAS, compiled, congruence, copy, inner, near, pivoted_root, times
from remanence.kernels.constants import CAREFUL, DOUBTFUL


@inner
def _solved(P: Array, H: Array, C: Array, inverse: Array) -> bool:
    """H ← P⁻¹H by the Cholesky factor C of P; False, with H half done, where P is nearly singular."""
    d = len(P)
    for i in range(d):
        own = P[i, i]
        for j in range(i):
            total = P[i, j]
            for k in range(j):
                total -= C[i, k] * C[j, k]
            total *= inverse[j]
            C[i, j] = total
            own -= total * total
            for k in range(d):
                H[i, k] -= total * H[j, k]
        if not own > DOUBTFUL * P[i, i]:
            return False
        inverse[i] = 1 / np.sqrt(own)
        for j in range(d):
            H[i, j] *= inverse[i]
    for i in range(d - 1, -1, -1):
        for k in range(i + 1, d):
            for j in range(d):
                H[i, j] -= C[k, i] * H[k, j]
        for j in range(d):
            H[i, j] *= inverse[i]
    return True


@inner
def _solved_in_order(P: Array, H: Array, C: Array, left: Array) -> None:
    """H ← P⁺H for a P that may be singular: coordinates that others decide are passed over, their rows are 0."""
    d = len(P)
    order = np.empty(d, np.int64)
    rank = pivoted_root(P, C, order, left)
    for n in range(rank):
        i = order[n]
        for k in range(n):
            for j in range(d):
                H[i, j] -= C[i, k] * H[order[k], j]
        for j in range(d):
            H[i, j] /= C[i, n]
    for n in range(rank - 1, -1, -1):
        i = order[n]
        for k in range(n + 1, rank):
            for j in range(d):
                H[i, j] -= C[order[k], n] * H[order[k], j]
        for j in range(d):
            H[i, j] /= C[i, n]
    for n in range(rank, d):
        for j in range(d):
            H[order[n], j] = 0.0


@compiled
def smoothed_covariances(
    A: Array,
    Q: Array,
    least_Q: Array,
    filtered: Array,
    predicted: Array,
    constant: bool,
    ulps: float,
    smoothed: Array,
    L: Array,
) -> float:
    """Every covariance and gain of the smoother, backward; returns by how much a gain amplifies rounding at most."""
    T, d = filtered.shape[:2]
    work, B, noise, rest = np.empty((d, d)), np.empty((d, d)), np.empty((d, d)), np.empty((d, d))
    C, H, J, inverse = np.empty((d, d)), np.empty((d, d)), np.empty((d, d)), np.empty(d)
    nothing, deviations = np.zeros((d, d)), np.empty(d)
    copy(filtered[T - 1], smoothed[T - 1])
    mark, stride, known, frozen, summed = T - 1, 32, False, False, False
    worst = 0.0
    for t in range(T - 2, -1, -1):
        F, P, N = filtered[t], predicted[t + 1], smoothed[t]
        a, q = (t + 1 if len(A) > 1 else 0), (t + 1 if len(Q) > 1 else 0)
        same = known and constant and near(F, filtered[t + 1], 0.0) and near(P, predicted[t + 2], 0.0)
        if same and frozen:
            copy(smoothed[t + 1], N)
            copy(J, L[t])
            continue
        frozen = False
        if not same:
            mark, stride, known = t, 32, True
            if d < BLAS:
                times(A[a], F, d, H)
            else:
                np.dot(A[a], F, H)
            if not _solved(P, H, C, inverse):
                np.dot(A[a], F, H)
                _solved_in_order(P, H, C, work)
            largest = 0.0
            for i in range(d):
                largest = max(largest, P[i, i])
                deviations[i] = np.sqrt(P[i, i])
                for j in range(d):
                    J[i, j] = H[j, i]  # (RTS1)
            for i in range(d):
                total = 0.0
                for j in range(d):
                    total += abs(J[i, j]) * deviations[j]
                there = predicted[t, i, i]  # whose rounding F has anyway
                if total * total > worst * there and there > 0:
                    worst = total * total / there
            summed = least_Q[q] <= CAREFUL * largest
            if summed:
                for i in range(d):
                    for j in range(d):
                        B[i, j] = 1.0 if i == j else 0.0
                    for k in range(d):
                        for j in range(d):
                            B[i, j] -= J[i, k] * A[a, k, j]
                congruence(J, Q[q], nothing, work, noise)
                congruence(B, F, noise, work, rest)
        copy(J, L[t])
        if summed:
            congruence(J, smoothed[t + 1], rest, work, N)  # (RTS3)
        else:
            for i in range(d):
                for j in range(d):
                    B[i, j] = smoothed[t + 1, i, j] - P[i, j]
            congruence(J, B, F, work, N)  # (RTS2)
        if same:
            if near(N, smoothed[t + 1], 0.0) or (mark - t >= 8 * ulps and near(N, smoothed[mark], ulps)):
                frozen = True
            elif mark - t >= stride:
                mark, stride = t, 2 * stride
    return worst


@compiled
def smoothed_means(L: Array, filtered: Array, predicted: Array, smoothed: Array) -> None:
    """The smoothed means of N series that share their gains."""
    N, T, d = filtered.shape
    gap = np.empty(d)
    for s in range(N):
        for i in range(d):
            smoothed[s, T - 1, i] = filtered[s, T - 1, i]
        for t in range(T - 2, -1, -1):
            for i in range(d):
                gap[i] = smoothed[s, t + 1, i] - predicted[s, t + 1, i]
            for i in range(d):
                total = filtered[s, t, i]
                for j in range(d):
                    total += L[t, i, j] * gap[j]
                smoothed[s, t, i] = total  # (RTS2)
