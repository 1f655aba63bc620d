"""Claims about LMS on recurring tasks: Theorems 2 and 3, and step sizes that solve more than two tasks exactly.

c = (x₁ᵀx₂)²,  ‖x_i‖ = 1,  θ⁰ = 0,  θ* the minimum-norm solution of the distinct tasks
‖θ^T − θ*‖² = c^{T−1} (‖θ*‖² − y₁²)                                    (R1)   γ = 1, any T ≥ 1
E_T = (⌊T/2⌋/T) (1 − c) c^{T−1} (‖θ*‖² − y₁²) ≤ ‖θ*‖²/(e(T − 1))        (R2)   T ≥ 2
γ_t = 1, 1/(1 − c), 1, …  ⇒  θ³ = θ*                                   (R3)   Theorem 3
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, condition, difference, not_applicable
from remanence.certificates.instances.data import Generator, Instance, graded_rows, unit_rows, with_cosine
from remanence.certificates.instances.runs import operations, tightest, walked, within
from remanence.errors import NumericalError
from remanence.methods import LMS, min_norm
from remanence.methods import step_sizes as steps
from remanence.methods.protocol import Method

COSINES = (0.0, 1e-8, -0.5, 0.99, 1 - 1e-6)


def pairs(rng: Generator) -> Iterator[Instance]:
    """Two unit tasks, from orthogonal to nearly parallel, seen 2, 3 or more times in all."""
    for cosine in COSINES:
        for length in (2, 3, 50):
            yield _recurring(rng, with_cosine(rng, 4, cosine), length)
    while True:
        length = int(rng.integers(2, 40))
        worst = np.sqrt((length - 1) / length)  # where the bound on E_T is tight
        cosine = worst if rng.random() < 0.5 else float(rng.uniform(-1, 1))
        yield _recurring(rng, with_cosine(rng, int(rng.integers(2, 20)), cosine), length)


def _recurring(rng: Generator, X: Array, length: int) -> Instance:
    return {"X": X, "Y": X @ rng.standard_normal((X.shape[1], 1)), "length": length}


def _cycle(X: Array, Y: Array, length: int) -> tuple[Array, Array]:
    turn = np.arange(length) % len(X)
    return X[turn], Y[turn]


@claim(
    "After two recurring tasks the squared distance to θ* is exactly c^{T−1}(‖θ*‖² − y₁²)",
    source="Theorem 2, with equality",
    instances=pairs,
    conditions=("‖x_i‖ = 1", "θ⁰ = 0", "γ = 1", "any T"),
)
def two_recurring_tasks_contract_exactly(
    X: Array, Y: Array, length: int, method: Method[Any] | None = None
) -> Evidence:
    """(R1) after T samples."""
    best, c = min_norm(X, Y), float(X[0] @ X[1]) ** 2
    theta = walked(method or LMS(), *_cycle(X, Y, length))[-1]
    size = float(np.sum(best**2))
    exact = c ** (length - 1) * (size - float(Y[0, 0]) ** 2)
    measured = abs(float(np.sum((theta - best) ** 2)) - exact) / size
    return within(measured, 2 * condition(X), operations(length, X.shape[1]), "2 cond", f"c = {c:.3g}, T = {length}")


@claim(
    "After two recurring tasks the mean squared error is exactly (⌊T/2⌋/T)(1−c)c^{T−1}(‖θ*‖² − y₁²)",
    source="Theorem 2, with equality",
    instances=pairs,
    conditions=("‖x_i‖ = 1", "θ⁰ = 0", "γ = 1", "any T ≥ 2"),
)
def two_recurring_tasks_err_exactly(X: Array, Y: Array, length: int, method: Method[Any] | None = None) -> Evidence:
    """The first half of (R2), over all T samples."""
    best, c = min_norm(X, Y), float(X[0] @ X[1]) ** 2
    rows, answers = _cycle(X, Y, length)
    theta = walked(method or LMS(), rows, answers)[-1]
    size = float(np.sum(best**2))
    exact = (length // 2) / length * (1 - c) * c ** (length - 1) * (size - float(Y[0, 0]) ** 2)
    measured = abs(float(np.mean((answers - rows @ theta) ** 2)) - exact) / size
    return within(measured, 2 * condition(X), operations(length, X.shape[1]), "2 cond", f"c = {c:.3g}, T = {length}")


@claim(
    "After two recurring tasks the mean squared error is at most ‖θ*‖²/(e(T−1)), even if they are nearly parallel",
    source="Theorem 2",
    kind="bound",
    instances=pairs,
    conditions=("‖x_i‖ = 1", "θ⁰ = 0", "γ = 1", "T ≥ 2"),
)
def two_recurring_tasks_err_at_most(X: Array, Y: Array, length: int, method: Method[Any] | None = None) -> Evidence:
    """The second half of (R2) for every T from 2 to the length."""
    rows, answers = _cycle(X, Y, length)
    path = walked(method or LMS(), rows, answers)
    size = float(np.sum(min_norm(X, Y) ** 2))
    sides = []
    for T in range(2, length + 1):
        sides.append((float(np.mean((answers[:T] - rows[:T] @ path[T]) ** 2)), size / (math.e * (T - 1))))
    return tightest(sides, 0.0, f"c = {float(X[0] @ X[1]) ** 2:.3g}")


@claim(
    "Alternating steps 1 and 1/(1−c) solve two recurring tasks at the third sample",
    source="Theorem 3",
    instances=pairs,
    conditions=("T ≥ 3", "θ⁰ = 0 or in the span", "c < 1"),
)
def alternating_steps_end_at_the_third_sample(
    X: Array, Y: Array, length: int = 3, method: Method[Any] | None = None
) -> Evidence:
    """θ³ with the steps of `steps.alternating` against the minimum-norm solution (R3)."""
    if length < 3:
        return not_applicable(f"T = {length} is below 3")
    rule = steps.alternating(X[0], X[1])
    theta = walked(method or LMS(rule), *_cycle(X, Y, 3))[-1]
    return within(difference(theta, min_norm(X, Y)), rule(2), operations(3, X.shape[1]), "1/(1 − c)")


def cycles(rng: Generator) -> Iterator[Instance]:
    """Three to five independent tasks: orthogonal, even, graded, and of any length."""
    for p in (3, 4, 5):
        yield _recurring(rng, np.eye(p, 6), p * (p + 1) // 2)
        yield _recurring(rng, unit_rows(rng, p, 8), p * (p + 1) // 2)
        yield _recurring(rng, graded_rows(rng, p, p, 30.0), p * (p + 1) // 2)
    while True:
        p = int(rng.integers(1, 6))
        lengths = 10 ** rng.uniform(-3, 3, (p, 1))
        yield _recurring(rng, lengths * unit_rows(rng, p, int(rng.integers(p, 12))), p * (p + 1) // 2)


@claim(
    "Terminating steps solve p recurring tasks after p(p+1)/2 samples, p up to 5",
    source="completes Theorem 3",
    instances=cycles,
    conditions=("independent tasks", "θ⁰ = 0"),
)
def terminating_steps_end_exactly(X: Array, Y: Array, length: int, method: Method[Any] | None = None) -> Evidence:
    """θ^N with the steps of `steps.terminating` against the minimum-norm solution."""
    try:
        given = steps.terminating(X)
    except NumericalError as refusal:
        return not_applicable(str(refusal))
    rows, answers = _cycle(X, Y, length)
    theta = walked(method or LMS(given), rows, answers)[-1]
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    unit, growth = X / lengths, _growth(rows / lengths[np.arange(length) % len(X)], given)
    kappa = max(growth, condition(unit))
    return within(difference(theta, min_norm(unit, Y / lengths)), kappa, operations(length, X.shape[1]), "growth")


def _growth(unit: Array, given: tuple[float, ...]) -> float:
    """The most that the rounding of one step is magnified, by the step itself and by those before and after it."""
    before = [np.eye(unit.shape[1])]
    for x, step in zip(unit, given, strict=True):
        before.append(before[-1] - step * np.outer(x, x @ before[-1]))
    after, most = np.eye(unit.shape[1]), 1.0
    for t in range(len(given) - 1, -1, -1):
        sizes = np.linalg.norm(after, 2) * np.linalg.norm(before[t], 2)
        most = max(most, float(sizes) * (1 + abs(given[t])))
        after = after - given[t] * np.outer(after @ unit[t], unit[t])
    return most


def long_cycles(rng: Generator) -> Iterator[Instance]:
    """Up to six tasks, many rounds; orthogonal and nearly dependent ones among them."""
    yield {**_recurring(rng, np.eye(3, 5), 2), "step": 1.0}
    yield {**_recurring(rng, with_cosine(rng, 4, 1 - 1e-4), 60), "step": 1.0}
    while True:
        p = int(rng.integers(1, 7))
        X = unit_rows(rng, p, int(rng.integers(p, 12)))
        yield {**_recurring(rng, X, int(rng.integers(1, 40))), "step": float(rng.uniform(0.2, 1.8))}


@claim(
    "On recurring tasks LMS converges linearly to the minimum-norm solution, at the rate given by one cycle",
    source="after Theorem 4 (Herman et al. 1978)",
    kind="bound",
    instances=long_cycles,
    conditions=("consistent tasks", "θ⁰ = 0", "0 < γ < 2"),
)
def recurring_tasks_lead_to_the_minimum_norm_solution(
    X: Array, Y: Array, length: int, step: float, method: Method[Any] | None = None
) -> Evidence:
    """‖θ^{kp} − θ̂‖ ≤ ρ^k ‖θ̂‖ for k rounds, ρ < 1 the norm of a round on the span of the tasks."""
    best = min_norm(X, Y)
    theta = walked(method or LMS(step), *_cycle(X, Y, length * len(X)))[-1]
    U = np.linalg.svd(X, full_matrices=False)[2].T  # (d, p)
    turn = np.eye(U.shape[1])
    for x in X @ U:
        turn = turn - step * np.outer(x, x @ turn) / (x @ x)
    rho, size = float(np.linalg.norm(turn, 2)), float(np.linalg.norm(best))
    slack = within(0.0, condition(X), operations(length * len(X), X.shape[1]), "cond").allowed * size
    sides = [(float(np.linalg.norm(theta - best)), rho**length * size)]
    return tightest(sides, slack, f"ρ = {rho:.3g}, {length} rounds", f"cond {condition(X):.0e}")
