"""Claims about the Ideal Continual Learner, its projection P_t, and the minimum-norm solution it reaches.

θ^t ∈ argmin (y_t − x_tᵀθ)²  subject to  y_i = x_iᵀθ, i < t                    (ICL)
P_t = I − X(XᵀX)⁻¹Xᵀ = I − U_tU_tᵀ,   U_tᵀU_t = I_t                            (J1)
P_t = P_{t−1} − P_{t−1}x xᵀP_{t−1}/(xᵀP_{t−1}x),   P_t P_{t−1} = P_t            (J2)
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, condition, difference, rounding
from remanence.certificates.instances.data import (
    Generator,
    Instance,
    consistent,
    graded_rows,
    independent_streams,
    nearly_dependent_rows,
    unit_rows,
)
from remanence.certificates.instances.runs import largest, operations, walked, within, worst_of
from remanence.methods import APA, ICL, ORFit, min_norm
from remanence.methods.protocol import Method


@claim(
    "One step of ICL fits the new sample and every earlier one exactly",
    source="Proposition 1",
    instances=independent_streams,
    conditions=("consistent samples",),
)
def icl_solves_its_constrained_problem(X: Array, Y: Array, method: Method[Any] | None = None) -> Evidence:
    """After each t the errors on all of the first t samples: the constraints, and the smallest loss there is."""
    path = walked(method or ICL(), X, Y)
    size = np.linalg.norm(X, axis=1).max() * np.linalg.norm(path, axis=1).max() + largest(Y)
    left = worst_of(*(largest(Y[:t] - X[:t] @ path[t]) for t in range(1, len(X) + 1)))
    return Evidence(left / float(size), rounding(1.0, operations(*X.shape)))


@claim(
    "ICL is at the minimum-norm solution after every sample",
    source="Theorem 5",
    instances=independent_streams,
    edge=("ICL", "Min-Norm"),
    conditions=("consistent samples", "θ⁰ = 0"),
)
def icl_is_the_minimum_norm_solution(X: Array, Y: Array, method: Method[Any] | None = None) -> Evidence:
    """θ^t against the batch problem of the first t samples, for every t."""
    path = walked(method or ICL(), X, Y)
    worst = worst_of(*(difference(path[t], min_norm(X[:t], Y[:t])) for t in range(1, len(X) + 1)))
    return within(worst, condition(X), operations(*X.shape), "cond")


def conflicting_streams(rng: Generator) -> Iterator[Instance]:
    """Streams with more samples than directions, whose later targets contradict the earlier ones."""
    yield {"X": np.ones((2, 1)), "Y": np.array([[0.0], [1.0]])}
    yield {"X": np.repeat(unit_rows(rng, 3, 4), 2, axis=0), "Y": rng.standard_normal((6, 2))}
    yield {"X": unit_rows(rng, 30, 4) @ np.diag([1.0, 1.0, 1.0, 0.0]), "Y": rng.standard_normal((30, 1))}
    while True:
        d = int(rng.integers(1, 12))
        X = unit_rows(rng, d + int(rng.integers(1, 10)), d)
        yield {"X": X, "Y": rng.standard_normal((len(X), 2))}


@claim(
    "If samples contradict each other, ICL keeps the oldest: a sample in the span of the past changes nothing",
    source="completes Proposition 1",
    instances=conflicting_streams,
    conditions=("any samples",),
)
def icl_keeps_the_oldest_answers(X: Array, Y: Array, method: Method[Any] | None = None) -> Evidence:
    """Against the minimum-norm solution of the first sample in each new direction, oldest first."""
    chosen: list[int] = []
    for t in range(len(X)):
        if np.linalg.matrix_rank(X[[*chosen, t]], tol=1e-9) > len(chosen):
            chosen.append(t)
    best = min_norm(X[chosen], Y[chosen])
    theta = walked(method or ICL(), X, Y)[-1]
    size = float(np.linalg.norm(best)) + largest(Y)
    return within(difference(theta, best, size), condition(X[chosen]) ** 2, operations(*X.shape), "cond²")


@claim(
    "From any start, APA over all samples, ICL and ORFit reach the solution nearest to the start",
    source="Theorems 4 and 5, for θ⁰ ≠ 0",
    instances=independent_streams,
    conditions=("consistent samples", "any θ⁰"),
)
def hard_memory_reaches_the_solution_nearest_its_start(
    X: Array, Y: Array, start: Array | None = None, methods: tuple[Method[Any], ...] | None = None
) -> Evidence:
    """All three against the batch problem ‖θ − θ⁰‖, and each other."""
    if start is None:
        start = np.cos(np.arange(X.shape[1] * Y.shape[1])).reshape(X.shape[1], Y.shape[1])
    nearest = min_norm(X, Y, start)
    size = float(np.linalg.norm(nearest) + np.linalg.norm(start))
    found = [walked(method, X, Y, start)[-1] for method in methods or (APA(buffer=None), ICL(), ORFit())]
    worst = worst_of(*(difference(theta, nearest, size) for theta in found))
    return within(worst, condition(X), operations(*X.shape), "cond")


@claim(
    "The minimum-norm solution fits every sample and lies in the span of the inputs",
    source="problem (Min-Norm)",
    instances=independent_streams,
    conditions=("consistent samples",),
)
def minimum_norm_solution_lies_in_the_span(X: Array, Y: Array, best: Array | None = None) -> Evidence:
    """The two conditions that define it: no error, and no part orthogonal to all samples."""
    best = min_norm(X, Y) if best is None else best
    V = np.linalg.svd(X, full_matrices=False)[2].T  # (d, t)
    size = float(np.linalg.norm(best))
    outside = float(np.linalg.norm(best - V @ (V.T @ best))) / size
    missed = float(np.linalg.norm(Y - X @ best)) / (float(np.linalg.norm(X, 2)) * size)
    return within(worst_of(outside, missed), condition(X), operations(*X.shape), "cond")


# The projection P_t


def spanning_streams(rng: Generator) -> Iterator[Instance]:
    """Independent samples, up to the point where they span everything; nearly dependent and graded ones."""
    yield consistent(rng, unit_rows(rng, 7, 7))
    yield consistent(rng, nearly_dependent_rows(rng, 6, 9, 1e-3))
    yield consistent(rng, graded_rows(rng, 10, 15, 1e5))
    while True:
        d = int(rng.integers(2, 20))
        yield consistent(rng, unit_rows(rng, int(rng.integers(2, d + 1)), d), 1)


def _bases(method: Method[Any], X: Array, Y: Array) -> list[Array]:
    """U_1 … U_T as the method's hard memory holds them, (d, t) each."""
    state, found = method.init(X.shape[1], Y.shape[1]), []
    for t in range(len(X)):
        state = method.update(state, X[t : t + 1], Y[t : t + 1])
        found.append(np.asarray(state.past.basis))
    return found


@claim(
    "The basis of the memory is orthonormal, with one direction per sample: U_tᵀU_t = I_t",
    source="Remark 1",
    instances=spanning_streams,
    conditions=("independent samples",),
)
def memory_basis_is_orthonormal(X: Array, Y: Array, method: Method[Any] | None = None) -> Evidence:
    """For every t; Gram–Schmidt is applied twice, so the condition number of the data does not matter."""
    worst = 0.0
    for t, U in enumerate(_bases(method or ICL(), X, Y), start=1):
        worst = worst_of(worst, float(np.linalg.norm(U.T @ U - np.eye(t))) if U.shape[1] == t else float("inf"))
    return Evidence(worst, rounding(1.0, operations(*X.shape)))


@claim(
    "The basis of the memory gives the projection onto the complement of all samples: I − UUᵀ = I − X(XᵀX)⁻¹Xᵀ",
    source="Remark 1",
    instances=spanning_streams,
    conditions=("independent samples",),
)
def memory_basis_gives_the_projection(X: Array, Y: Array, method: Method[Any] | None = None) -> Evidence:
    """P_t of the memory against the singular vectors of the first t samples (J1), for every t."""
    worst = 0.0
    for t, U in enumerate(_bases(method or ICL(), X, Y), start=1):
        V = np.linalg.svd(X[:t], full_matrices=False)[2].T
        worst = worst_of(worst, float(np.linalg.norm(U @ U.T - V @ V.T)))
    return within(worst, condition(X), operations(*X.shape), "cond")


@claim(
    "A new sample reduces the rank of the projection by one: P_t = P_{t−1} − P_{t−1}xxᵀP_{t−1}/(xᵀP_{t−1}x)",
    source="Remark 1",
    instances=spanning_streams,
    conditions=("independent samples",),
)
def projection_loses_one_rank_a_sample(X: Array, Y: Array, method: Method[Any] | None = None) -> Evidence:
    """The memory's own P_t against the formula applied to its P_{t−1} (J2), for every t."""
    worst, kappa, P = 0.0, 1.0, np.eye(X.shape[1])
    for x, U in zip(X, _bases(method or ICL(), X, Y), strict=True):
        new, after = P @ x, np.eye(X.shape[1]) - U @ U.T
        kappa = max(kappa, float(x @ x / (new @ new)))
        worst = worst_of(worst, float(np.linalg.norm(after - (P - np.outer(new, new) / (x @ new)))))
        P = after
    return within(worst, kappa, operations(*X.shape), "‖x‖²/‖x̄‖²")


@claim(
    "The projections are nested: P_t P_{t−1} = P_t",
    source="Theorem 4, proof",
    instances=spanning_streams,
    conditions=("any samples",),
)
def projections_are_nested(X: Array, Y: Array, method: Method[Any] | None = None) -> Evidence:
    """For every t, with the memory's own projections (J2)."""
    worst, P = 0.0, np.eye(X.shape[1])
    for U in _bases(method or ICL(), X, Y):
        after = np.eye(X.shape[1]) - U @ U.T
        worst = worst_of(worst, float(np.linalg.norm(after @ P - after)))
        P = after
    return Evidence(worst, rounding(1.0, operations(*X.shape)))
