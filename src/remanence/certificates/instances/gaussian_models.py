"""Linear Gaussian models to try claims on, hard ones first, and answers for them.

    N ‖θ − E θ‖² of N draws lies within 2√(N x) ‖Σ‖_F and 2 x ‖Σ‖ of N tr Σ, but for a chance of 2e⁻ˣ        (X)

(X) is the deviation of a weighted χ² (Laurent and Massart 2000): no normality of the mean is assumed.
"""

from collections.abc import Iterator

import numpy as np

from remanence.arrays import Array
from remanence.certificates.certificate import ERROR_RATE
from remanence.certificates.instances.data import Generator, Instance
from remanence.kalman import LinearGaussian

HARD = ("no drift", "singular drift", "one coordinate drifts", "growing", "nearly exact answers", "varying", "missing")

DRAWS = 200  # streams, of a statistical claim


def spread(rng: Generator, d: int, rank: int | None = None) -> Array:
    """A covariance (d, d) of this rank."""
    B = rng.standard_normal((d, d if rank is None else rank))
    return np.asarray(B @ B.T / d)


def gaussian_model(rng: Generator, kind: str = "plain", T: int = 6, d: int = 3, m: int = 2) -> LinearGaussian:
    """A model of tasks with d unknowns and m answers each."""
    A = 0.9 * np.linalg.qr(rng.standard_normal((d, d)))[0]
    Q, X, R = spread(rng, d), rng.standard_normal((m, d)), spread(rng, m) + 0.1 * np.eye(m)
    if kind == "no drift":
        A, Q = np.eye(d), np.zeros((d, d))
    if kind == "singular drift":
        Q = spread(rng, d, 1)
    if kind == "one coordinate drifts":
        A, Q = np.eye(d) + np.diag(np.ones(d - 1), 1), np.diag(np.r_[np.zeros(d - 1), 0.5])
    if kind == "growing":
        A = 1.5 * A
    if kind == "nearly exact answers":
        R = 1e-6 * R
    if kind == "varying":
        A, Q = rng.standard_normal((T, d, d)) / 2, np.array([spread(rng, d) for _ in range(T)])
        X, R = rng.standard_normal((T, m, d)), np.array([spread(rng, m) + 0.1 * np.eye(m) for _ in range(T)])
    return LinearGaussian(A, Q, X, R, rng.standard_normal(d), spread(rng, d) + 0.1 * np.eye(d))


def constant_models(rng: Generator) -> Iterator[Instance]:
    """Models that stay the same from task to task, and answers (T, m) without NaN."""
    for kind in (kind for kind in HARD if kind not in ("varying", "missing")):
        yield {"model": gaussian_model(rng, kind), "Y": rng.standard_normal((6, 2))}
    while True:
        T, d, m = int(rng.integers(1, 8)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
        yield {"model": gaussian_model(rng, T=T, d=d, m=m), "Y": rng.standard_normal((T, m))}


def gaussian_models(rng: Generator) -> Iterator[Instance]:
    """Models of every kind, and answers (T, m), some of them missing."""
    for kind in HARD:
        Y = rng.standard_normal((6, 2))
        if kind == "missing":
            Y[rng.random(Y.shape) < 0.4] = np.nan
            Y[3] = np.nan
        yield {"model": gaussian_model(rng, kind), "Y": Y}
    while True:
        T, d, m = int(rng.integers(2, 8)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
        kind = str(rng.choice(["plain", *HARD[:-1]]))
        yield {"model": gaussian_model(rng, kind, T, d, m), "Y": rng.standard_normal((T, m))}


def drawn_streams(rng: Generator) -> Iterator[Instance]:
    """Models of a few tasks, and a seed to draw many streams from each."""
    for kind in ("no drift", "singular drift", "varying", "plain"):
        yield {"model": gaussian_model(rng, kind, T=5), "steps": 5, "seed": int(rng.integers(2**31))}


def chance(covariance: Array, draws: int, error_rate: float = ERROR_RATE) -> float:
    """How far the mean of ‖θ − E θ‖² over these draws may be from tr Σ, but for this error rate (X)."""
    x = float(np.log(2 / error_rate))
    wide, longest = float(np.linalg.norm(covariance)), float(np.linalg.norm(covariance, 2))
    return 2 * wide * float(np.sqrt(x / draws)) + 2 * longest * x / draws
