"""Claims about the limits of RLS as λ or β vanish: the minimum-norm solution, ICL and APA, for independent inputs.

    θ − θ̂ = −Xᵀ(λB + G)⁻¹ λB G⁻¹y      G = XXᵀ      ‖Xᵀ(λB + G)⁻¹‖ ≤ 1/σ                           (V1)
    ‖θ − θ̂‖ ≤ λ b ‖G⁻¹y‖ / σ           ‖λΦ − P‖ ≤ λ b / σ²                                       (V2)

θ̂ is the minimum-norm solution, b the largest of β, …, βᵗ, and σ the smallest singular value of independent inputs.
"""

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, condition, difference, rounding
from remanence.certificates.claims.rls.rls import FORGETTING, noisy_streams, settings
from remanence.certificates.claims.rls.rls_phi import phi, state_after
from remanence.certificates.instances.data import Generator, Instance, independent_streams, unit_rows
from remanence.certificates.instances.runs import learned, operations
from remanence.certificates.oracles import LeastSquares
from remanence.methods import APA, ICL, RLS, min_norm
from remanence.methods.protocol import Method

FULL_RANK = ("linearly independent inputs",)


def small_ridges(rng: Generator) -> Iterator[Instance]:
    """Independent samples, and a λ that is small for any β."""
    ridges, forgetting = cycle((1e-2, 1e-4, 1e-8)), cycle(FORGETTING)
    for data in independent_streams(rng):
        yield data | {"ridge": next(ridges), "forget": next(forgetting)}


def small_forgetting(rng: Generator) -> Iterator[Instance]:
    """A few independent samples, and a small β for any λ."""
    settings = cycle({"ridge": ridge, "forget": forget} for forget in (0.1, 1e-2, 1e-4) for ridge in (1e-3, 1.0))
    while True:
        d = int(rng.integers(2, 7))
        X = unit_rows(rng, int(rng.integers(1, min(d, 4) + 1)), d)
        yield {"X": X, "Y": rng.standard_normal((len(X), 2))} | next(settings)


def _distance(X: Array, Y: Array, ridge: float, forget: float) -> float:
    """The right-hand side of (V2)."""
    U, s, _ = np.linalg.svd(X, full_matrices=False)
    multipliers = float(np.linalg.norm((U.T @ Y) / s[:, None] ** 2))  # ‖G⁻¹y‖
    return ridge * max(forget, forget ** len(X)) * multipliers / float(s[-1])


def _within_bound(found: Array, best: Array, X: Array, Y: Array, ridge: float, forget: float) -> Evidence:
    """Compare the distance of two solutions with (V2) plus rounding."""
    exact = LeastSquares(X, Y, ridge, forget).allowed_pending() + rounding(condition(X), operations(*X.shape))
    allowed = _distance(X, Y, ridge, forget) + exact * float(np.linalg.norm(best))
    return Evidence(difference(found, best, 1.0), allowed, settings(ridge, forget))


@claim(
    "As λ vanishes RLS becomes the minimum-norm solution",
    source="RLS and orthogonal projection",
    instances=small_ridges,
    kind="bound",
    edge=("RLS", "Min-Norm"),
    conditions=(*FULL_RANK, "for every β: ‖θ − θ̂‖ ≤ λ max βⁱ ‖G⁻¹y‖/σ"),
)
def rls_tends_to_the_minimum_norm_solution(
    X: Array, Y: Array, ridge: float = 1e-4, forget: float = 1.0, method: Method[Any] | None = None
) -> Evidence:
    """The distance of the two solutions against (V2), and what rounding may add."""
    found, best = learned(method or RLS(ridge, forget), X, Y), min_norm(X, Y)
    return _within_bound(found, best, X, Y, ridge, forget)


@claim(
    "As β vanishes RLS becomes ICL",
    source="Lemma 1",
    instances=small_forgetting,
    kind="bound",
    conditions=(*FULL_RANK, "for every λ: ‖θ − θ̂‖ ≤ λβ ‖G⁻¹y‖/σ"),
)
def rls_tends_to_icl_as_forgetting_vanishes(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1e-3, method: Method[Any] | None = None
) -> Evidence:
    """The distance of the two models against (V2), and what rounding may add."""
    found, best = learned(method or RLS(ridge, forget), X, Y), learned(ICL(), X, Y)
    return _within_bound(found, best, X, Y, ridge, forget)


@claim(
    "As β vanishes λΦ becomes the projection onto the complement of all inputs",
    source="Lemma 1",
    instances=small_forgetting,
    kind="bound",
    conditions=(*FULL_RANK, "‖λΦ − P‖ ≤ λβ/σ²"),
)
def phi_tends_to_the_projection(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1e-3, method: RLS | None = None
) -> Evidence:
    """Compare λΦ, computed from the variances, with the projection of ICL's memory."""
    rls, system = method or RLS(ridge, forget), LeastSquares(X, Y, ridge, forget)
    found = ridge * phi(rls, state_after(rls, X, Y), system)
    icl = ICL()
    passed = icl.update(icl.init(X.shape[1], Y.shape[1]), X, Y).past.away(np.eye(X.shape[1]))
    least = float(np.linalg.svd(X, compute_uv=False)[-1])
    allowed = ridge * forget / least**2 + system.allowed_phi() * float(np.linalg.norm(found))
    return Evidence(float(np.linalg.norm(found - passed, 2)), allowed, settings(ridge, forget))


@claim(
    "RLS with exact constraints (β = 0) is ICL",
    source="Lemma 1",
    instances=independent_streams,
    conditions=FULL_RANK,
)
def rls_of_exact_constraints_is_icl(
    X: Array, Y: Array, method: Method[Any] | None = None, other: Method[Any] | None = None
) -> Evidence:
    """Both methods on the same samples."""
    found, expected = learned(method or RLS(forget=0.0), X, Y), learned(other or ICL(), X, Y)
    kappa = condition(X)
    return Evidence(difference(found, expected), rounding(kappa, operations(*X.shape)), (f"condition {kappa:.0e}",))


@claim(
    "RLS with exact constraints (β = 0) is APA that keeps every sample",
    source="Lemma 1 and Theorem 4",
    instances=independent_streams,
    edge=("RLS", "APA"),
    conditions=FULL_RANK,
)
def rls_of_exact_constraints_is_apa(
    X: Array, Y: Array, method: Method[Any] | None = None, other: Method[Any] | None = None
) -> Evidence:
    """Both methods on the same samples."""
    found, expected = learned(method or RLS(forget=0.0), X, Y), learned(other or APA(buffer=None), X, Y)
    kappa = condition(X)
    return Evidence(difference(found, expected), rounding(kappa, operations(*X.shape)), (f"condition {kappa:.0e}",))


def contradictory_streams(rng: Generator) -> Iterator[Instance]:
    """Orthogonal inputs that recur with other targets; small β."""
    for forget in cycle((0.3, 0.1, 1e-2, 1e-3)):
        d = int(rng.integers(1, 6))
        inputs = np.linalg.qr(rng.standard_normal((d, d)))[0]
        which = rng.integers(0, d, int(rng.integers(2, 10)))
        settings = {"ridge": float(10 ** rng.uniform(-3, 0)), "forget": forget}
        yield {"X": inputs[which], "Y": rng.standard_normal((len(which), 1))} | settings


@claim(
    "If samples contradict each other, RLS with vanishing β fits the newest, while ICL fits the oldest",
    source="Lemma 1 without full rank",
    instances=contradictory_streams,
    kind="bound",
    conditions=("orthogonal inputs that recur", "an older target counts βᵏ after k samples, the prior λβᵗ"),
)
def rls_that_forgets_everything_answers_the_newest(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1e-2, method: Method[Any] | None = None
) -> Evidence:
    """Compare the prediction for every input with its newest target, allowing for the weight of all older ones."""
    found = learned(method or RLS(ridge, forget), X, Y)
    same, times = np.abs(X @ X.T) > 0.5, np.arange(1.0, len(X) + 1)
    off, allowed = [], []
    for last in (t for t in range(len(X)) if not same[t, t + 1 :].any()):
        older = np.flatnonzero(same[last, :last])
        weight = forget ** (times[last] - times[older])
        allowed.append(
            float(weight @ np.abs(Y[older] - Y[last])[:, 0] + ridge * forget ** times[last] * abs(Y[last, 0]))
        )
        off.append(float(X[last] @ found[:, 0] - Y[last, 0]))
    exact = LeastSquares(X, Y, ridge, forget).allowed_pending() * float(np.linalg.norm(found))
    return Evidence(float(np.linalg.norm(off)), float(np.linalg.norm(allowed)) + exact, settings(ridge, forget))


def truthful_streams(rng: Generator) -> Iterator[Instance]:
    """The inputs of noisy streams with the outputs of one model."""
    for data in noisy_streams(rng):
        truth = rng.standard_normal((data["X"].shape[1], data["Y"].shape[1]))
        yield data | {"Y": data["X"] @ truth, "truth": truth}


@claim(
    "If one model fits all samples, RLS differs from it by λΦ times that model, for every β",
    source="RLS on consistent data",
    instances=truthful_streams,
    conditions=("β < 1, β = 1 and β > 1",),
)
def rls_misses_the_truth_by_the_prior_alone(
    X: Array, Y: Array, truth: Array, ridge: float = 1.0, forget: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare θ − θ* with −λΦθ*, both computed from what the method returns."""
    rls, system = method or RLS(ridge, forget), LeastSquares(X, Y, ridge, forget)
    state, size = state_after(rls, X, Y), float(np.linalg.norm(truth))
    missed = ridge * phi(rls, state, system) @ truth
    allowed = system.allowed_pending() * float(np.linalg.norm(system.weights)) / size
    allowed += system.allowed_phi() * ridge * float(np.linalg.norm(system.phi))
    return Evidence(difference(rls.weights(state), truth - missed, size), allowed, settings(ridge, forget))
