"""Data to try claims on: hard cases first, then random ones without end.

Rows are samples; Y = X W* exactly, so that one model fits all of them (consistent streams).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from remanence.arrays import Array

Instance = dict[str, Any]
Generator = np.random.Generator


def unit_rows(rng: Generator, n: int, d: int) -> Array:
    """Rows drawn evenly from the unit sphere, (n, d)."""
    X = rng.standard_normal((n, d))
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def with_cosine(rng: Generator, d: int, cosine: float) -> Array:
    """Two unit rows (2, d) at this cosine."""
    Q = np.linalg.qr(rng.standard_normal((d, 2)))[0]
    return np.array([Q[:, 0], cosine * Q[:, 0] + np.sqrt((1 - cosine) * (1 + cosine)) * Q[:, 1]])


def graded_rows(rng: Generator, n: int, d: int, cond: float) -> Array:
    """Rows (n, d) of full rank with singular values from 1 to 1/cond, then scaled to unit length."""
    k = min(n, d)
    left, right = np.linalg.qr(rng.standard_normal((n, k)))[0], np.linalg.qr(rng.standard_normal((d, k)))[0]
    X = (left * np.geomspace(1, 1 / cond, k)) @ right.T
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def nearly_dependent_rows(rng: Generator, n: int, d: int, gap: float) -> Array:
    """Unit rows (n, d), each from the third on within `gap` of the span of the two before it."""
    X = unit_rows(rng, n, d)
    for i in range(2, n):
        X[i] = X[i - 1] + X[i - 2] + gap * X[i]
        X[i] /= np.linalg.norm(X[i])
    return X


def consistent(rng: Generator, X: Array, outputs: int = 2) -> Instance:
    """X with answers that one model gives."""
    return {"X": X, "Y": X @ rng.standard_normal((X.shape[1], outputs))}


def independent_streams(rng: Generator) -> Iterator[Instance]:
    """Consistent streams of at most d independent samples: one sample, t = d, nearly dependent and graded ones."""
    yield consistent(rng, unit_rows(rng, 1, 4))
    yield consistent(rng, unit_rows(rng, 8, 8))
    yield consistent(rng, nearly_dependent_rows(rng, 6, 12, 1e-3))
    yield consistent(rng, nearly_dependent_rows(rng, 10, 10, 1e-2))
    yield consistent(rng, graded_rows(rng, 12, 20, 1e6))
    yield consistent(rng, graded_rows(rng, 9, 9, 1e3))
    while True:
        d = int(rng.integers(2, 25))
        yield consistent(rng, unit_rows(rng, int(rng.integers(1, d + 1)), d), int(rng.integers(1, 4)))


def stepped_streams(rng: Generator) -> Iterator[Instance]:
    """Streams with a step a sample, of any size and sign, and more samples than directions."""
    yield {**consistent(rng, unit_rows(rng, 5, 8)), "given": [1e-3, -2.0, 50.0, 1.0, 3.0]}
    yield {**consistent(rng, nearly_dependent_rows(rng, 6, 9, 1e-4)), "given": [1.0] * 6}
    yield {"X": unit_rows(rng, 12, 4), "Y": rng.standard_normal((12, 2)), "given": [0.5] * 12}
    while True:
        X = unit_rows(rng, int(rng.integers(2, 16)), int(rng.integers(2, 16)))
        yield {"X": X, "Y": rng.standard_normal((len(X), 2)), "given": rng.uniform(-3, 3, len(X)).tolist()}
