"""The filter's loops over time, compiled: the equations (G) of memory/gaussian.py, in the order of gains.py."""

import numpy as np

from remanence.checks import Array
from remanence.kalman.compiled import compiled, congruence, mirror, near, times
from remanence.memory.gaussian import CAREFUL, CONFLICT, DECIDED, LOG_2PI, MISSING, ROUNDING, SEEN


@compiled
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
            congruence(A[a], filtered[t - 1], Q[q], work, P)  # (G4)
        G[t], W[t], logdet[t], slack[t] = 0, 0, 0, 0
        if n == 0:
            F[:] = P
            mark, settled, stride = t + 1, T, 32
            continue
        for k in range(n):
            for i in range(d):
                Z[k, i] = X[x, which[k], i]
        times(Z, P, n, ZP)
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
            congruence(B, P, noise, work, F)  # (G3)
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
            mirror(F)
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
