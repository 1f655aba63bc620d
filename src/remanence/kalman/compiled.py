"""The loops over time, compiled, for models small enough that calling LAPACK costs more than the work.

Imported only where it is used. The equations are those of memory/gaussian.py (G) and smoothing.py (RTS).
"""

import numba
import numpy as np

from remanence.checks import Array
from remanence.memory.gaussian import CAREFUL, CONFLICT, DECIDED, LOG_2PI, MISSING, ROUNDING, SEEN

# Sums may be reordered (that is what vector units do); NaN and infinity keep their meaning.
_SUMS = {"reassoc", "contract", "nsz"}
_EPS = float(np.finfo(float).eps)
_compiled = numba.njit(cache=True, fastmath=_SUMS, nogil=True, error_model="numpy")
BLAS = 14  # from this many features on, BLAS multiplies faster than three loops


@_compiled
def _times(A: Array, B: Array, n: int, out: Array) -> None:
    """out = A Bᵀ, the first n rows."""
    for i in range(n):
        for j in range(B.shape[0]):
            total = 0.0
            for k in range(A.shape[1]):
                total += A[i, k] * B[j, k]
            out[i, j] = total


@_compiled
def _mirror(P: Array) -> None:
    """The upper triangle from the lower one."""
    for i in range(1, P.shape[0]):
        for j in range(i):
            P[j, i] = P[i, j]


@_compiled
def _congruence(A: Array, P: Array, add: Array, work: Array, out: Array) -> None:
    """out = A P Aᵀ + add, for symmetric P and add."""
    d = len(P)
    if d < BLAS:
        _times(A, P, d, work)
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
    _mirror(out)


@_compiled
def _near(P: Array, B: Array, ulps: float) -> bool:
    """Whether two covariances differ by no more than that many roundings."""
    for i in range(P.shape[0]):
        for j in range(i + 1):
            if P[i, j] != B[i, j]:
                gap = P[i, j] - B[i, j]
                if ulps == 0 or gap * gap > (ulps * _EPS) ** 2 * P[i, i] * P[j, j]:
                    return False
    return True


@_compiled
def covariances(
    A: Array,
    Q: Array,
    X: Array,
    R: Array,
    least_R: Array,
    start: Array,
    there: Array,
    constant: bool,
    ulps: float,
    predicted: Array,
    filtered: Array,
    G: Array,
    W: Array,
    logdet: Array,
    kinds: Array,
    slack: Array,
) -> int:
    """Every covariance and gain of the filter; returns the step from which on they no longer changed."""
    T, m = there.shape
    d = start.shape[0]
    work, B, noise = np.empty((d, d)), np.empty((d, d)), np.empty((d, d))
    Z, ZP, S, C = np.empty((m, d)), np.empty((m, d)), np.empty((m, m)), np.empty((m, m))
    V, g, KR, K = np.empty((m, m)), np.empty((m, d)), np.empty((d, m)), np.empty((d, m))
    which = np.empty(m, np.int64)
    settled, mark, stride, frozen = T, 0, 32, False
    for t in range(T):
        a, q = (t if len(A) > 1 else 0), (t if len(Q) > 1 else 0)
        x, r = (t if len(X) > 1 else 0), (t if len(R) > 1 else 0)
        n = 0
        for k in range(m):
            kinds[t, k] = MISSING
            if there[t, k]:
                which[n] = k
                n += 1
        if frozen and n == m:
            predicted[t], filtered[t], G[t], W[t] = predicted[t - 1], filtered[t - 1], G[t - 1], W[t - 1]
            logdet[t], kinds[t], slack[t] = logdet[t - 1], kinds[t - 1], slack[t - 1]
            continue
        frozen = False
        P, F = predicted[t], filtered[t]
        if t == 0:
            P[:] = start
        else:
            _congruence(A[a], filtered[t - 1], Q[q], work, P)  # (G4)
        G[t], W[t], logdet[t], slack[t] = 0, 0, 0, 0
        if n == 0:
            F[:] = P
            mark, settled, stride = t + 1, T, 32
            continue
        for k in range(n):
            for i in range(d):
                Z[k, i] = X[x, which[k], i]
        _times(Z, P, n, ZP)
        largest = 0.0
        for k in range(n):
            for j in range(k + 1):
                total = R[r, which[k], which[j]]
                for i in range(d):
                    total += ZP[k, i] * Z[j, i]
                S[k, j] = total
            largest = max(largest, S[k, k])
        least = least_R[r]
        careful = least <= CAREFUL * largest
        for k in range(n):  # the Cholesky factor C of S, row by row, and V = C⁻¹
            own = S[k, k]
            for j in range(k):
                total = S[k, j]
                for i in range(j):
                    total -= C[k, i] * C[j, i]
                C[k, j] = total / C[j, j] if kinds[t, which[j]] == SEEN else 0.0
                own -= C[k, j] * C[k, j]
            kinds[t, which[k]] = SEEN
            scale = 0.0
            if careful:
                for i in range(d):
                    scale += abs(Z[k, i]) * np.sqrt(max(P[i, i], 0.0))
                scale = scale * scale + R[r, which[k], which[k]]
                own = max(own, least)
                if least == 0 and own <= ROUNDING * d * scale:
                    kinds[t, which[k]] = DECIDED
                    slack[t, which[k]] = CONFLICT * np.sqrt(scale)
                    own = 1.0
            C[k, k] = np.sqrt(own)
            logdet[t] += np.log(own)
            inverse = 1 / C[k, k]
            for j in range(k):
                total = 0.0
                for i in range(j, k):
                    total -= C[k, i] * V[i, j]
                V[k, j] = total * inverse
                V[j, k] = 0.0
            V[k, k] = inverse
        for k in range(n):
            for i in range(d):
                g[k, i] = 0.0
            for j in range(k + 1):
                W[t, which[k], which[j]] = V[k, j]
                if kinds[t, which[k]] == SEEN:
                    for i in range(d):
                        g[k, i] += V[k, j] * ZP[j, i]  # (G1)
            for i in range(d):
                G[t, which[k], i] = g[k, i]
        if careful:
            for i in range(d):
                for k in range(n):
                    total = 0.0
                    for j in range(k, n):
                        total += g[j, i] * V[j, k]
                    K[i, k] = total
            for i in range(d):
                for j in range(d):
                    B[i, j] = 1.0 if i == j else 0.0
                for k in range(n):
                    total = 0.0
                    for j in range(n):
                        total += K[i, j] * R[r, which[j], which[k]]
                    KR[i, k] = total
                    for j in range(d):
                        B[i, j] -= K[i, k] * Z[k, j]
                for j in range(i + 1):
                    total = 0.0
                    for k in range(n):
                        total += KR[i, k] * K[j, k]
                    noise[i, j] = total
            _congruence(B, P, noise, work, F)  # (G3)
            if least == 0:
                for i in range(d):
                    if F[i, i] <= ROUNDING * d * P[i, i]:
                        F[i, :] = 0
                        F[:, i] = 0
        else:
            for i in range(d):
                for j in range(d):
                    F[i, j] = P[i, j]
                for k in range(n):
                    for j in range(d):
                        F[i, j] -= g[k, i] * g[k, j]  # (G2)
            _mirror(F)
        if not constant or n < m:
            mark, settled, stride = t + 1, T, 32
        elif t > mark:
            if _near(F, filtered[t - 1], 0.0) or (t - mark >= 8 * ulps and _near(F, filtered[mark], ulps)):
                frozen, settled = True, t
            elif t - mark >= stride:
                mark, stride = t, 2 * stride
    return int(settled)


@_compiled
def means(
    A: Array,
    X: Array,
    Y: Array,
    start: Array,
    G: Array,
    W: Array,
    logdet: Array,
    kinds: Array,
    slack: Array,
    predicted: Array,
    filtered: Array,
    logliks: Array,
) -> None:
    """The means and log-likelihoods of N series (N, T, m) that miss the same entries."""
    N, T, m = Y.shape
    d = len(start)
    e = np.empty(m)
    for s in range(N):
        for t in range(T):
            p, f = predicted[s, t], filtered[s, t]
            if t == 0:
                p[:] = start
            else:
                F, old = A[t if len(A) > 1 else 0], filtered[s, t - 1]
                for i in range(d):
                    total = 0.0
                    for j in range(d):
                        total += F[i, j] * old[j]
                    p[i] = total  # (G4)
            f[:] = p
            Z = X[t if len(X) > 1 else 0]
            total, seen = 0.0, 0
            for k in range(m):
                kind = kinds[t, k]
                e[k] = 0
                if kind == MISSING:
                    continue
                expected = 0.0
                for i in range(d):
                    expected += Z[k, i] * p[i]
                e[k] = Y[s, t, k] - expected
                w = 0.0
                for j in range(k + 1):
                    w += W[t, k, j] * e[j]
                if kind == SEEN:
                    total += w * w
                    seen += 1
                    g = G[t, k]
                    for i in range(d):
                        f[i] += w * g[i]  # (G2)
                elif abs(w) > slack[t, k] + CONFLICT * (abs(Y[s, t, k]) + abs(expected)):
                    total = np.inf
            logliks[s, t] = -0.5 * (total + logdet[t] + seen * LOG_2PI)


@_compiled
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
) -> None:
    """Every covariance and gain of the smoother, backward."""
    T, d = filtered.shape[:2]
    work, B, noise, rest = np.empty((d, d)), np.empty((d, d)), np.empty((d, d)), np.empty((d, d))
    C, H, J, inverse = np.empty((d, d)), np.empty((d, d)), np.empty((d, d)), np.empty(d)
    nothing = np.zeros((d, d))
    smoothed[T - 1] = filtered[T - 1]
    mark, stride, known, frozen = T - 1, 32, False, False
    for t in range(T - 2, -1, -1):
        F, P, N = filtered[t], predicted[t + 1], smoothed[t]
        a, q = (t + 1 if len(A) > 1 else 0), (t + 1 if len(Q) > 1 else 0)
        same = known and constant and _near(F, filtered[t + 1], 0.0) and _near(P, predicted[t + 2], 0.0)
        if same and frozen:
            N[:] = smoothed[t + 1]
            L[t] = J
            continue
        frozen = False
        if not same:
            mark, stride, known = t, 32, True
            if d < BLAS:
                _times(A[a], F, d, H)
            else:
                np.dot(A[a], F, H)
            largest = 0.0
            for i in range(d):  # P = C Cᵀ, row by row, and H = C⁻¹AF; what the rows before decide is passed over
                own = P[i, i]
                largest = max(largest, own)
                for j in range(i):
                    total = P[i, j]
                    for k in range(j):
                        total -= C[i, k] * C[j, k]
                    total *= inverse[j]
                    C[i, j] = total
                    own -= total * total
                    for k in range(d):
                        H[i, k] -= total * H[j, k]
                inverse[i] = 1 / np.sqrt(own) if own > ROUNDING * d * P[i, i] else 0.0
                for k in range(d):
                    H[i, k] *= inverse[i]
            summed = least_Q[q] <= CAREFUL * largest
            if not summed:
                for i in range(d):
                    for j in range(d):
                        rest[i, j] = F[i, j]
                    for k in range(d):
                        for j in range(d):
                            rest[i, j] -= H[k, i] * H[k, j]
            for i in range(d - 1, -1, -1):
                for k in range(i + 1, d):
                    for j in range(d):
                        H[i, j] -= C[k, i] * H[k, j]
                for j in range(d):
                    H[i, j] *= inverse[i]
            for i in range(d):
                for j in range(d):
                    J[i, j] = H[j, i]  # (RTS1)
            if summed:
                for i in range(d):
                    for j in range(d):
                        B[i, j] = 1.0 if i == j else 0.0
                    for k in range(d):
                        for j in range(d):
                            B[i, j] -= J[i, k] * A[a, k, j]
                _congruence(J, Q[q], nothing, work, noise)
                _congruence(B, F, noise, work, rest)  # (RTS3)
        L[t] = J
        _congruence(J, smoothed[t + 1], rest, work, N)  # (RTS2)
        if same:
            if _near(N, smoothed[t + 1], 0.0) or (mark - t >= 8 * ulps and _near(N, smoothed[mark], ulps)):
                frozen = True
            elif mark - t >= stride:
                mark, stride = t, 2 * stride


@_compiled
def smoothed_means(L: Array, filtered: Array, predicted: Array, smoothed: Array) -> None:
    """The smoothed means of N series that share their gains."""
    N, T, d = filtered.shape
    gap = np.empty(d)
    for s in range(N):
        smoothed[s, T - 1] = filtered[s, T - 1]
        for t in range(T - 2, -1, -1):
            for i in range(d):
                gap[i] = smoothed[s, t + 1, i] - predicted[s, t + 1, i]
            for i in range(d):
                total = filtered[s, t, i]
                for j in range(d):
                    total += L[t, i, j] * gap[j]
                smoothed[s, t, i] = total  # (RTS2)
