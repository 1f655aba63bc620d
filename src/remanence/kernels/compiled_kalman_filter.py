"""The filter's loops over time, compiled: the equations (G) of memory/gaussian.py, in the order of gains.py."""

import numpy as np

from remanence.arrays import Array
from remanence.kernels.compiled_kalman import BLAS, compiled, congruence, copy, mirror, near, semidefinite_root, squared
from remanence.kernels.compiled_kalman_block import advanced, inverse_of, plain, rotated
from remanence.kernels.constants import CONFLICT, DECIDED, LOG_2PI, MISSING, ROUNDING, SEEN


@compiled
def covariances(
    A: Array,
    Q: Array,
    X: Array,
    R: Array,
    root_Q: Array,
    root_R: Array,
    least_Q: Array,
    least_R: Array,
    start: Array,
    root: Array,
    there: Array,
    rooted: bool,
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
    work, L, wide = np.empty((d, d)), root.copy(), np.empty((d, 2 * d))
    Z, ZP, g, C, V = np.empty((m, d)), np.empty((m, d)), np.empty((m, d)), np.empty((m, m)), np.empty((m, m))
    noise, noise_root = np.empty((m, m)), np.empty((m, m))
    which, kind, loose = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m)
    settled, mark, stride, frozen = T, 0, 32, False
    zero, keep = m - m, T < 0  # 0 and False: handed on as literals they compile what takes them a second time
    for t in range(T):
        a, q = (t if len(A) > 1 else 0), (t if len(Q) > 1 else 0)
        x, r = (t if len(X) > 1 else 0), (t if len(R) > 1 else 0)
        n = zero
        for k in range(m):
            if there[t, k]:
                which[n] = k
                n += 1
        if frozen and n == m:
            logdet[t] = logdet[t - 1]
            for every in (predicted, filtered, G, W):
                copy(every[t - 1], every[t])
            for k in range(m):
                kinds[t, k], slack[t, k] = kinds[t - 1, k], slack[t - 1, k]
            continue
        frozen = False
        P, F = predicted[t], filtered[t]
        if t == 0:
            copy(start, P)
        elif rooted:
            advanced(L, A[a], root_Q[q], wide)
            squared(L, P)  # (G5)
        else:
            congruence(A[a], filtered[t - 1], Q[q], work, P)  # (G4)
        logdet[t] = 0.0
        for k in range(m):
            kinds[t, k], slack[t, k] = MISSING, 0.0
            for i in range(d):
                G[t, k, i] = 0.0
            for j in range(m):
                W[t, k, j] = 0.0
        if n == 0:
            copy(P, F)
            if not rooted and least_Q[q] == 0 and semidefinite_root(F, work, keep):
                squared(work, F)
            mark, settled, stride = t + 1, T, 32
            continue
        for k in range(n):
            for i in range(d):
                Z[k, i] = X[x, which[k], i]
            for j in range(m):
                noise_root[k, j] = root_R[r, which[k], j]
            for j in range(n):
                noise[k, j] = R[r, which[k], which[j]]
        least = least_R[r]
        if not rooted and plain(P, Z, noise, n, least, ZP, C):
            logdet[t] = inverse_of(C, n, V)
            for k in range(n):
                kind[k] = SEEN
                for i in range(d):
                    g[k, i] = 0.0
                for j in range(k + 1):
                    for i in range(d):
                        g[k, i] += V[k, j] * ZP[j, i]  # (G1)
            if d < BLAS:
                for i in range(d):
                    for j in range(d):
                        F[i, j] = P[i, j]
                    for k in range(n):
                        for j in range(d):
                            F[i, j] -= g[k, i] * g[k, j]  # (G2)
            else:
                np.dot(g[:n].T, g[:n], work)
                for i in range(d):
                    for j in range(d):
                        F[i, j] = P[i, j] - work[i, j]
            mirror(F)
            if least_Q[q] == 0 and semidefinite_root(F, L, keep):  # nothing holds Σ above 0 but this
                squared(L, F)
        else:
            if not rooted:
                semidefinite_root(P, L, least == 0)
            tolerance = ROUNDING * (d + m)
            tolerance = 0.0 if least > 0 else tolerance * tolerance if rooted else tolerance
            rotated(L, Z, noise, noise_root, n, tolerance, C, g, kind, loose)
            logdet[t] = inverse_of(C, n, V)
            squared(L, F)
        for k in range(n):
            kinds[t, which[k]] = kind[k]
            slack[t, which[k]] = loose[k] if kind[k] == DECIDED else 0.0
            for i in range(d):
                G[t, which[k], i] = g[k, i]
            for j in range(k + 1):
                W[t, which[k], which[j]] = V[k, j]
        if not constant or n < m:
            mark, settled, stride = t + 1, T, 32
        elif t > mark:
            if near(F, filtered[t - 1], 0.0) or (t - mark >= 8 * ulps and near(F, filtered[mark], ulps)):
                frozen, settled = True, t
            elif t - mark >= stride:
                mark, stride = t, 2 * stride
    return int(settled)


@compiled
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
                for i in range(d):
                    p[i] = start[i]
            else:
                F, old = A[t if len(A) > 1 else 0], filtered[s, t - 1]
                for i in range(d):
                    total = 0.0
                    for j in range(d):
                        total += F[i, j] * old[j]
                    p[i] = total  # (G4)
            for i in range(d):
                f[i] = p[i]
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
