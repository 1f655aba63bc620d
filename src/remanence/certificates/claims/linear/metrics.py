"""Claims about the error matrix and the metrics computed from it.

ε_ij = y_i − x_iᵀθ^j,  j = 0 … T                                              (T1)
E_t = (1/t) Σ_{i≤t} ε_it²,    F_t = (1/(t−1)) Σ_{i<t} (ε_it² − ε_ii²)           (T2)
F_t ≤ t/(t−1) E_t,  with equality if ε_ii = 0 for every i                      (T3)
Σ_{i≤t} ε_{i,i−1}² = Σ of the squared a-priori errors                          (T4)
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference, rounding
from remanence.certificates.instances.data import Generator, Instance, consistent, independent_streams, unit_rows
from remanence.certificates.instances.runs import operations, tightest, walked, worst_of
from remanence.evaluation import ErrorMatrix, evaluate, metrics
from remanence.methods import ICL, LMS
from remanence.methods.protocol import Method
from remanence.streams import Task


def noisy_streams(rng: Generator) -> Iterator[Instance]:
    """One sample per task, from one task to more tasks than features, with and without a model that fits all."""
    yield {"X": unit_rows(rng, 1, 1), "Y": rng.standard_normal((1, 1)), "step": 1.0}
    yield {**consistent(rng, unit_rows(rng, 6, 6), 1), "step": 1.999}
    yield {**consistent(rng, np.tile(unit_rows(rng, 2, 4), (5, 1)), 1), "step": 1.0}
    while True:
        X = unit_rows(rng, int(rng.integers(2, 12)), int(rng.integers(1, 9)))
        yield {"X": X, "Y": rng.standard_normal((len(X), 1)), "step": float(rng.uniform(0.1, 1.9))}


def _matrix(method: Method[Any], X: Array, Y: Array) -> ErrorMatrix:
    tasks = [Task(f"task {t}", X[t : t + 1], Y[t : t + 1]) for t in range(len(X))]
    return evaluate(method, tasks, progress=False)


def _plain(method: Method[Any], X: Array, Y: Array) -> Array:
    """ε_ij² from the sequence of models alone, (T, T + 1)."""
    return np.asarray((Y - np.einsum("id,jd->ij", X, walked(method, X, Y)[:, :, 0])) ** 2)


@claim(
    "The error matrix contains ε_ij² for every task i and every model j, including the model before learning",
    source="the error matrix",
    instances=noisy_streams,
    conditions=("one sample per task", "columns j = 0 … T"),
)
def error_matrix_is_what_it_says(
    X: Array, Y: Array, step: float, run: Callable[[Method[Any], Array, Array], ErrorMatrix] = _matrix
) -> Evidence:
    """`evaluate` against the sequence of models (T1)."""
    exact = _plain(LMS(step), X, Y)
    size = float(exact.max() + (Y**2).max())
    return Evidence(difference(run(LMS(step), X, Y).values, exact, size), rounding(2.0, operations(*X.shape)))


@claim(
    "Average error, forgetting and backward transfer are the paper's E_t, F_t and −F_t for every t",
    source="Section LMS, metrics",
    instances=noisy_streams,
    conditions=("one sample per task",),
)
def metrics_are_what_they_say(X: Array, Y: Array, step: float, read: Any = metrics) -> Evidence:
    """Each metric of the evaluated matrix against the sums (T2) over the sequence of models."""
    matrix, exact = _matrix(LMS(step), X, Y), _plain(LMS(step), X, Y)
    worst, size = 0.0, float(exact.max() + (Y**2).max())
    for t in range(1, len(X) + 1):
        mean = sum(exact[i, t] for i in range(t)) / t
        rise = sum(exact[i, t] - exact[i, i + 1] for i in range(t - 1)) / max(t - 1, 1)
        found = (read.average(matrix, t), read.forgetting(matrix, t), read.backward_transfer(matrix, t))
        worst = worst_of(worst, *(abs(a - b) for a, b in zip(found, (mean, rise, -rise), strict=True)))
    return Evidence(worst / size, rounding(2.0, operations(*X.shape)))


@claim(
    "Forgetting is at most t/(t−1) times the average error",
    source="F_t ≤ t/(t−1) E_t",
    kind="bound",
    instances=noisy_streams,
    conditions=("losses of at least 0", "t ≥ 2"),
)
def forgetting_is_at_most_the_error(X: Array, Y: Array, step: float, read: Any = metrics) -> Evidence:
    """Both metrics for every t (T3)."""
    matrix = _matrix(LMS(step), X, Y)
    ts = range(2, len(X) + 1) if len(X) > 1 else (1,)
    sides = [(read.forgetting(matrix, t), t / max(t - 1, 1) * read.average(matrix, t)) for t in ts]
    return tightest(sides, rounding(2.0, len(X)) * float(matrix.values.max()))


@claim(
    "LMS with step 1 forgets exactly t/(t−1) times its average error: each task is solved when it is learned",
    source="F_t ≤ t/(t−1) E_t, with equality",
    instances=noisy_streams,
    conditions=("γ = 1", "t ≥ 2"),
)
def unit_steps_forget_all_of_their_error(
    X: Array, Y: Array, step: float = 1.0, method: Method[Any] | None = None
) -> Evidence:
    """The two sides of (T3), where every ε_ii is 0."""
    matrix = _matrix(method or LMS(), X, Y)
    size = float(matrix.values.max() + (Y**2).max())
    worst = 0.0
    for t in range(2, len(X) + 1):
        worst = worst_of(worst, abs(metrics.forgetting(matrix, t) - t / (t - 1) * metrics.average(matrix, t)) / size)
    return Evidence(worst, rounding(2.0, operations(*X.shape)))


@claim(
    "The regret computed from the matrix is the sum of the squared a-priori errors",
    source="the regret, with a corrected index",
    instances=noisy_streams,
    conditions=("tested on the rows that are learned next", "best = 0"),
)
def regret_adds_up_the_errors_before_learning(
    X: Array, Y: Array, step: float, read: Any = metrics, method: Method[Any] | None = None
) -> Evidence:
    """The diagonal ε_{i,i−1} against what `track` reports while learning (T4)."""
    lms = method or LMS(step)
    errors = lms.track(lms.init(X.shape[1], 1), X, Y)[1]
    total = float(np.sum(errors**2))
    measured = abs(read.regret(_matrix(lms, X, Y)) - total) / max(total, float(np.finfo(float).tiny))
    return Evidence(measured, rounding(2.0, operations(*X.shape)))


@claim(
    "Methods with hard memory have no error and no forgetting on samples that one model fits",
    source="Theorems 4 and 5, in metrics",
    instances=independent_streams,
    conditions=("consistent samples", "independent"),
)
def hard_memory_does_not_forget(X: Array, Y: Array, method: Method[Any] | None = None) -> Evidence:
    """E_t and |F_t| for every t."""
    matrix = _matrix(method or ICL(), X, Y[:, :1])
    size = float(np.max(Y**2))
    ts = range(1, len(X) + 1)
    worst = worst_of(*(f for t in ts for f in (metrics.average(matrix, t), abs(metrics.forgetting(matrix, t)))))
    theta = walked(method or ICL(), X, Y[:, :1])[-1]
    kappa = max(1.0, float(np.linalg.norm(theta)) ** 2 / size)
    return Evidence(
        np.sqrt(worst / size), rounding(np.sqrt(kappa), operations(*X.shape)), (f"‖θ‖/|y| {kappa**0.5:.0e}",)
    )
