"""Seeded streams of linear data with a little noise."""

import numpy as np

from remanence.arrays import Array


def linear_rows(rows: int, features: int, outputs: int = 1, seed: int = 0) -> tuple[Array, Array]:
    """X (rows, features) and Y (rows, outputs) = X W + noise, outputs of size 1."""
    rng = np.random.default_rng([seed, rows, features])
    X = rng.standard_normal((rows, features))
    W = rng.standard_normal((features, outputs)) / np.sqrt(features)
    return X, X @ W + 0.1 * rng.standard_normal((rows, outputs))


def faded_solution(X: Array, Y: Array, ridge: float, forget: float) -> Array:
    """The weights that RLS defines, by one orthogonal solve of all rows at once: the oracle for accuracy."""
    n, d = X.shape
    weights = np.sqrt(forget ** np.arange(n - 1.0, -1.0, -1.0))[:, None]
    kept = weights[:, 0] > 1e-40
    prior = np.sqrt(ridge * forget**n) * np.eye(d)
    A = np.vstack([(weights * X)[kept], prior])
    B = np.vstack([(weights * Y)[kept], np.zeros((d, Y.shape[1]))])
    return np.linalg.lstsq(A, B, rcond=None)[0]
