"""Claims about APA: the last b + 1 samples are fitted at once, or all of them.

    θ^t = argmin ‖θ − θ^{t−1}‖²  subject to  y_i = x_iᵀθ,  i = max(1, t−b) … t              (APA)
    b = 0 is LMS with γ = 1;  b = t − 1 (APA†) minimises ‖θ − θ⁰‖ all along                 (P1)   Theorem 4

A window is solved through its Gram matrix where that is safe, so the rounding error grows with the square of its
condition number.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, condition, difference, not_applicable, rounding
from remanence.certificates.instances.data import (
    Generator,
    Instance,
    consistent,
    independent_streams,
    nearly_dependent_rows,
    unit_rows,
)
from remanence.certificates.instances.runs import largest, learned, operations, tightest, walked, within, worst_of
from remanence.methods import APA, ICL, LMS, min_norm
from remanence.methods.protocol import Method


def buffered_streams(rng: Generator) -> Iterator[Instance]:
    """Consistent streams with buffers from none to all, repeated and nearly dependent samples, more rows than d."""
    repeated = np.repeat(unit_rows(rng, 3, 6), 3, axis=0)
    for buffer in (0, 1, 4):
        yield {**consistent(rng, unit_rows(rng, 12, 5)), "buffer": buffer}
        yield {**consistent(rng, nearly_dependent_rows(rng, 8, 10, 1e-2)), "buffer": buffer}
        yield {**consistent(rng, repeated), "buffer": buffer}
    while True:
        X = unit_rows(rng, int(rng.integers(1, 20)), int(rng.integers(2, 16)))
        yield {**consistent(rng, X), "buffer": int(rng.integers(0, 8))}


def _windows(X: Array, buffer: int) -> list[slice]:
    return [slice(max(0, t - buffer), t + 1) for t in range(len(X))]


def _squared_condition(X: Array, buffer: int) -> float:
    return max(condition(X[window]) for window in _windows(X, buffer)) ** 2


@claim(
    "One step of APA is the smallest change that fits the new sample and those in the buffer",
    source="problem (APA)",
    instances=buffered_streams,
    conditions=("min(b, t−1) old samples",),
)
def apa_solves_its_constrained_problem(X: Array, Y: Array, buffer: int, method: Method[Any] | None = None) -> Evidence:
    """Each window's constrained problem is solved again by a general solver, from where APA stood."""
    path = walked(method or APA(buffer), X, Y)
    worst = 0.0
    for t, window in enumerate(_windows(X, buffer)):
        smallest = np.linalg.lstsq(X[window], Y[window] - X[window] @ path[t], rcond=1e-12)[0]
        size = float(np.linalg.norm(path[t]) + np.linalg.norm(smallest))
        worst = worst_of(worst, difference(path[t + 1], path[t] + smallest, size))
    kappa = _squared_condition(X, buffer)
    return within(worst, kappa, operations(buffer + 1, X.shape[1]), "cond² of a window", f"b = {buffer}")


@claim(
    "After every step APA fits the new sample and those in its buffer exactly",
    source="problem (APA), constraints",
    instances=buffered_streams,
    conditions=("consistent samples",),
)
def apa_answers_its_buffer_exactly(X: Array, Y: Array, buffer: int, method: Method[Any] | None = None) -> Evidence:
    """The largest error on the window, after each sample."""
    path = walked(method or APA(buffer), X, Y)
    left = [largest(Y[window] - X[window] @ path[t + 1]) for t, window in enumerate(_windows(X, buffer))]
    size = largest(Y) + largest(np.linalg.norm(X, axis=1)) * largest(np.linalg.norm(path, axis=1))
    kappa = _squared_condition(X, buffer)
    return within(
        worst_of(*left) / size, kappa, operations(buffer + 1, X.shape[1]), "cond² of a window", f"b = {buffer}"
    )


@claim(
    "APA without a buffer is LMS with step 1",
    source="Section APA, b = 0",
    instances=independent_streams,
    edge=("APA", "LMS"),
    conditions=("any samples",),
)
def apa_without_a_buffer_is_lms(
    X: Array, Y: Array, method: Method[Any] | None = None, other: Method[Any] | None = None
) -> Evidence:
    """The iterates of both, sample by sample."""
    one, two = walked(method or APA(buffer=0), X, Y), walked(other or LMS(), X, Y)
    return Evidence(difference(one, two), rounding(1.0, operations(*X.shape)))


@claim(
    "APA over all samples is at the minimum-norm solution after every sample",
    source="Theorem 4",
    instances=independent_streams,
    edge=("APA", "Min-Norm"),
    conditions=("consistent samples", "θ⁰ = 0"),
)
def apa_of_everything_is_the_minimum_norm_solution(X: Array, Y: Array, method: Method[Any] | None = None) -> Evidence:
    """θ^t against the batch problem of the first t samples, for every t (P1)."""
    path = walked(method or APA(buffer=None), X, Y)
    worst = worst_of(*(difference(path[t], min_norm(X[:t], Y[:t])) for t in range(1, len(X) + 1)))
    return within(worst, condition(X), operations(*X.shape), "cond")


@claim(
    "APA over all samples and ICL have the same iterates",
    source="Theorems 4 and 5",
    instances=independent_streams,
    edge=("APA", "ICL"),
    conditions=("consistent samples",),
)
def apa_of_everything_is_icl(
    X: Array, Y: Array, method: Method[Any] | None = None, other: Method[Any] | None = None
) -> Evidence:
    """The iterates of both, sample by sample."""
    one, two = walked(method or APA(buffer=None), X, Y), walked(other or ICL(), X, Y)
    worst = worst_of(*(difference(one[t], two[t]) for t in range(1, len(X) + 1)))
    return within(worst, condition(X), operations(*X.shape), "cond")


@claim(
    "ICL with a memory buffer is APA",
    source="after Theorem 5",
    instances=buffered_streams,
    conditions=("consistent samples", "each step starts where the previous one ended"),
)
def icl_with_a_buffer_is_apa(
    X: Array, Y: Array, buffer: int, method: Method[Any] | None = None, other: Method[Any] | None = None
) -> Evidence:
    """ICL restarted at θ^{t−1} that learns the buffer and the new sample, against a step of APA."""
    apa, icl = method or APA(buffer), other or ICL()
    path = walked(apa, X, Y)
    worst = 0.0
    for t, window in enumerate(_windows(X, buffer)):
        again = learned(icl, X[window], Y[window], start=path[t])
        worst = worst_of(worst, difference(path[t + 1], again, float(np.linalg.norm(path[t]) + np.linalg.norm(again))))
    kappa = _squared_condition(X, buffer)
    return within(worst, kappa, operations(2 * buffer + 2, X.shape[1]), "cond² of a window", f"b = {buffer}")


@claim(
    "APA never moves away from a model that fits all samples, whatever its buffer",
    source="θ^t − θ* is projected",
    kind="bound",
    instances=buffered_streams,
    conditions=("consistent samples",),
)
def apa_never_moves_away_from_the_truth(X: Array, Y: Array, buffer: int, method: Method[Any] | None = None) -> Evidence:
    """‖θ^t − θ*‖ ≤ ‖θ^{t−1} − θ*‖ at every step, θ* the minimum-norm model of the whole stream."""
    best, path = min_norm(X, Y), walked(method or APA(buffer), X, Y)
    distance = np.linalg.norm(path - best, axis=(1, 2))
    kappa = max(_squared_condition(X, buffer), condition(X))
    slack = rounding(kappa, operations(buffer + 1, X.shape[1])) * float(np.linalg.norm(best))
    return tightest(zip(distance[1:], distance[:-1], strict=True), slack, f"b = {buffer}", f"cond² {kappa:.0e}")


@claim(
    "APA with a buffer of p − 1 solves p recurring tasks at the p-th sample and stays there",
    source="completes Theorem 3",
    instances=independent_streams,
    conditions=("consistent tasks", "θ⁰ = 0"),
)
def apa_ends_recurring_tasks_after_one_round(X: Array, Y: Array, method: Method[Any] | None = None) -> Evidence:
    """θ^p and θ^2p of the tasks X seen twice, against their minimum-norm solution."""
    p = len(X)
    kappa = condition(X) ** 2
    if rounding(kappa, operations(2 * p, X.shape[1])) > 1e-3:
        return not_applicable(f"the squared condition {kappa:.0e} leaves no digits to compare")
    path = walked(method or APA(buffer=p - 1), np.tile(X, (2, 1)), np.tile(Y, (2, 1)))
    best = min_norm(X, Y)
    worst = worst_of(difference(path[p], best), difference(path[2 * p], best))
    return within(worst, kappa, operations(2 * p, X.shape[1]), "cond²", f"p = {p}")
