"""Claims about one step of LMS, and about any number of them on data that one model fits.

ε_t = y_t − x_tᵀθ^{t−1},    θ^t = θ^{t−1} + γ ε_t x_t/‖x_t‖²,    z^t = θ^t − θ*,    y_t = x_tᵀθ*
z^t = (I − γ x_t x_tᵀ/‖x_t‖²) z^{t−1}                                         (M1)
‖z^t‖² = ‖z^{t−1}‖² − γ(2 − γ) ε_t²/‖x_t‖²                                     (M2)
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference, rounding
from remanence.certificates.instances.data import Generator, Instance, nearly_dependent_rows, unit_rows
from remanence.certificates.instances.runs import largest, operations, tightest, walked, worst_of
from remanence.methods import LMS
from remanence.methods.protocol import Method

STEPS = (1e-3, 0.5, 1.0, 1.5, 1.999)


def samples_of_any_length(rng: Generator) -> Iterator[Instance]:
    """Samples from short to long that no model needs to fit; steps over all of (0, 2)."""
    for length in (1e-6, 1.0, 1e6):
        for step in STEPS:
            X = length * unit_rows(rng, 4, 5)
            yield {"X": X, "Y": length * rng.standard_normal((4, 2)), "step": step}
    while True:
        X = rng.standard_normal((int(rng.integers(1, 12)), int(rng.integers(1, 20))))
        yield {"X": X, "Y": rng.standard_normal((len(X), 2)), "step": float(rng.uniform(0.01, 1.99))}


def truthful_streams(rng: Generator) -> Iterator[Instance]:
    """Unit samples of one model, fewer or more than features; nearly parallel ones; a start other than zero."""
    hard = [unit_rows(rng, 1, 1), unit_rows(rng, 60, 6), unit_rows(rng, 8, 8), nearly_dependent_rows(rng, 20, 10, 1e-6)]
    for X in hard:
        for step in (STEPS[0], 1.0, STEPS[-1]):
            yield _truthful(rng, X, step)
    while True:
        X = unit_rows(rng, int(rng.integers(1, 40)), int(rng.integers(1, 20)))
        yield _truthful(rng, X, float(rng.uniform(0.01, 1.99)))


def _truthful(rng: Generator, X: Array, step: float) -> Instance:
    truth, start = rng.standard_normal((2, X.shape[1], 1))
    return {"X": X, "Y": X @ truth, "truth": truth, "start": start, "step": step}


@claim(
    "One step of LMS is the smallest change that leaves 1 − γ of the error",
    source="problem (LMS)",
    instances=samples_of_any_length,
    conditions=("any ‖x‖ > 0",),
)
def lms_solves_its_constrained_problem(X: Array, Y: Array, step: float, method: Method[Any] | None = None) -> Evidence:
    """Each sample's constrained problem is solved again by a general solver, from where LMS stood."""
    path = walked(method or LMS(step), X, Y)
    worst = 0.0
    for t, (x, y) in enumerate(zip(X, Y, strict=True)):
        smallest = np.linalg.lstsq(x[None], step * (y - x @ path[t])[None], rcond=None)[0]
        size = float(np.linalg.norm(path[t]) + np.linalg.norm(smallest))
        worst = worst_of(worst, difference(path[t + 1], path[t] + smallest, size))
    return Evidence(worst, rounding(1.0, operations(1, X.shape[1])), (f"γ = {step:g}",))


@claim(
    "After a step of LMS the error on its sample is 1 − γ of what it was before",
    source="problem (LMS), constraint",
    instances=samples_of_any_length,
    conditions=("any ‖x‖ > 0",),
)
def lms_leaves_a_share_of_the_error(X: Array, Y: Array, step: float, method: Method[Any] | None = None) -> Evidence:
    """The a-posteriori error of every sample against its a-priori error."""
    path = walked(method or LMS(step), X, Y)
    before = Y - np.einsum("td,tdc->tc", X, path[:-1])
    after = Y - np.einsum("td,tdc->tc", X, path[1:])
    lengths = np.linalg.norm(X, axis=1)[:, None]
    size = np.abs(Y) + lengths * (np.linalg.norm(path[:-1], axis=1) + np.linalg.norm(path[1:], axis=1))
    return Evidence(
        largest((after - (1 - step) * before) / size), rounding(1.0, operations(1, X.shape[1])), (f"γ = {step:g}",)
    )


@claim(
    "A step of LMS multiplies the distance to the true model by I − γxxᵀ",
    source="the recursion of θ^t − θ*",
    instances=truthful_streams,
    conditions=("y_t = x_tᵀθ*", "‖x_t‖ = 1"),
)
def lms_distance_is_multiplied_by_a_matrix(
    X: Array, Y: Array, truth: Array, start: Array, step: float, method: Method[Any] | None = None
) -> Evidence:
    """The product of all matrices, applied to θ⁰ − θ*, against θ^T − θ* (M1)."""
    path = walked(method or LMS(step), X, Y, start)
    z = start - truth
    size = float(np.linalg.norm(start) + np.linalg.norm(truth))
    for x in X:
        z = z - step * x[:, None] * (x @ z)
    allowed = rounding(1.0, operations(*X.shape))
    return Evidence(difference(path[-1] - truth, z, size), allowed, (f"γ = {step:g}",))


@claim(
    "LMS never moves away from a model that fits all samples",
    source="Theorem 1, proof",
    kind="bound",
    instances=truthful_streams,
    conditions=("y_t = x_tᵀθ*", "0 < γ < 2"),
)
def lms_never_moves_away_from_the_truth(
    X: Array, Y: Array, truth: Array, start: Array, step: float, method: Method[Any] | None = None
) -> Evidence:
    """‖θ^t − θ*‖ ≤ ‖θ^{t−1} − θ*‖ at every step."""
    path = walked(method or LMS(step), X, Y, start)
    distance = np.linalg.norm(path - truth, axis=(1, 2))
    slack = rounding(1.0, operations(1, X.shape[1])) * float(np.linalg.norm(start) + np.linalg.norm(truth))
    return tightest(zip(distance[1:], distance[:-1], strict=True), slack, f"γ = {step:g}")


@claim(
    "The mean squared error of any model is at most its squared distance to θ*",
    source="E_t ≤ ‖θ^t − θ*‖²",
    kind="bound",
    instances=truthful_streams,
    conditions=("y_t = x_tᵀθ*", "‖x_t‖ = 1"),
)
def mean_error_is_at_most_the_distance(
    X: Array, Y: Array, truth: Array, start: Array, step: float, method: Method[Any] | None = None
) -> Evidence:
    """Cauchy and Schwarz along the path of LMS: the error on all samples so far, after each."""
    path = walked(method or LMS(step), X, Y, start)
    sides = []
    for t in range(1, len(X) + 1):
        sides.append((float(np.mean((Y[:t] - X[:t] @ path[t]) ** 2)), float(np.sum((path[t] - truth) ** 2))))
    size = float(np.linalg.norm(start) + np.linalg.norm(truth))
    return tightest(sides, rounding(1.0, operations(1, X.shape[1])) * size**2, f"γ = {step:g}")


@claim(
    "The squared errors of LMS sum to its decrease in squared distance to θ*: Σε² = (‖θ⁰−θ*‖² − ‖θ^t−θ*‖²)/(γ(2−γ))",
    source="completes the regret of LMS",
    instances=truthful_streams,
    conditions=("y_t = x_tᵀθ*", "constant γ in (0, 2)"),
)
def lms_errors_add_up_to_the_way_gone(
    X: Array, Y: Array, truth: Array, start: Array, step: float, method: Method[Any] | None = None
) -> Evidence:
    """The a-priori errors that `track` reports, against the two distances (M2); needs no stored data."""
    lms = method or LMS(step)
    state, errors = lms.track(lms.init(X.shape[1], Y.shape[1], start), X, Y)
    missed = float(np.sum(errors**2 / np.sum(X**2, axis=1, keepdims=True)))
    gone = float(np.sum((start - truth) ** 2) - np.sum((lms.weights(state) - truth) ** 2))
    size = float(np.linalg.norm(start) + np.linalg.norm(truth)) ** 2
    # (M2) is local: each step adds its own rounding to the square, 2‖z‖ times that of the step.
    measured = abs(step * (2 - step) * missed - gone) / size
    return Evidence(measured, rounding(2.0, operations(*X.shape)), (f"γ = {step:g}",))
