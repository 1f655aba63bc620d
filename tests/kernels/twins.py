"""Slow NumPy twins of the kernels, written from the problems they solve; all in float64."""

import numpy as np


def lms(W, X, Y, steps, normalized):
    """The smallest change of W (c, d) that mends a share of every row's error, row by row."""
    W, errors = W.astype(float), np.empty(Y.shape)
    for i, x in enumerate(X.astype(float)):
        errors[i] = Y[i] - W @ x
        change = np.linalg.pinv(x[None])[:, 0] if normalized else x
        W = W + steps[i] * np.outer(errors[i], change)
    return W, errors


def apa(W, X, Y, steps, buffer, first):
    """The smallest change that meets the new row and the last `buffer` ones, by a pseudo-inverse."""
    W, errors = W.astype(float), np.empty((len(X) - first, Y.shape[1]))
    X, Y = X.astype(float), Y.astype(float)
    for i in range(first, len(X)):
        rows = slice(max(0, i - buffer), i + 1)
        errors[i - first] = Y[i] - W @ X[i]
        W = W + steps[i - first] * (np.linalg.pinv(X[rows]) @ (Y[rows] - X[rows] @ W.T)).T
    return W, errors


def fold(R, z, rest, X, Y, weights, fades):
    """Information, its right-hand side, what is left unexplained, and the errors before each row."""
    S, b, W = R.T @ R, R.T @ z, np.linalg.solve(R, z)
    energy, errors = rest + (z * z).sum(axis=0), np.empty(Y.shape)
    for i in range(len(X)):
        errors[i] = Y[i] - X[i] @ W
        S = fades[i] ** 2 * S + weights[i] * np.outer(X[i], X[i])
        b = fades[i] ** 2 * b + weights[i] * np.outer(X[i], Y[i])
        energy = fades[i] ** 2 * energy + weights[i] * Y[i] ** 2
        W = np.linalg.solve(S, b)
    return S, b, energy - np.einsum("ij,ij->j", b, W), errors


def gram(R, z, X, Y):
    """Products of the columns of [R z; X Y]: features with features, features with targets, targets with targets."""
    R, z, X, Y = (a.astype(float) for a in (R, z, X, Y))
    return R.T @ R + X.T @ X, R.T @ z + X.T @ Y, z.T @ z + Y.T @ Y


def weights_with(R, W0, X, Y, forget, gain):
    """Least squares over the rows behind R and the rows X, of which row i weighs gain / forget^(i+1)."""
    weights = gain / forget ** np.arange(1.0, len(X) + 1)
    S = R.T @ R
    return np.linalg.solve(S + (X.T * weights) @ X, S @ W0 + (X.T * weights) @ Y)


def kalman(A, Q, X, R, mean, cov, Y):
    """The textbook's filter and smoother, NaN entries of Y (T, m) left out; A, Q, X, R one a step."""
    T, d = len(Y), len(mean)
    before, after, spread, left = np.empty((T, d)), np.empty((T, d)), np.empty((T, d, d)), np.empty((T, d, d))
    logliks = np.zeros(T)
    for t in range(T):
        mean, cov = (A[t] @ after[t - 1], A[t] @ left[t - 1] @ A[t].T + Q[t]) if t else (mean, cov)
        before[t], spread[t] = mean, cov
        there = ~np.isnan(Y[t])
        Z = X[t][there]
        S, e = Z @ cov @ Z.T + R[t][np.ix_(there, there)], Y[t][there] - Z @ mean
        K = cov @ Z.T @ np.linalg.inv(S)
        after[t], left[t] = mean + K @ e, cov - K @ S @ K.T
        logliks[t] = -0.5 * (e @ np.linalg.solve(S, e) + np.log(np.linalg.det(2 * np.pi * S)))
    smooth, tight = after.copy(), left.copy()
    for t in range(T - 2, -1, -1):
        J = left[t] @ A[t + 1].T @ np.linalg.inv(spread[t + 1])
        smooth[t] += J @ (smooth[t + 1] - before[t + 1])
        tight[t] += J @ (tight[t + 1] - spread[t + 1]) @ J.T
    return before, after, spread, left, logliks, smooth, tight
