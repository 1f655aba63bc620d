"""Claims about LMS in expectation: Theorem 1, exactly by enumeration and by sampling on the sphere.

    x_t independent, ‖x_t‖ = 1, Σ = E xxᵀ,    ρ = 1 − γ(2 − γ) λ_min(Σ)
    E E_t ≤ E‖θ^t − θ*‖² ≤ ρ^t ‖θ*‖²                              (E1)   θ* fixed, θ⁰ = 0
    E‖θ^t − θ*‖² = (1 − γ(2 − γ)/d)^t ‖θ*‖²                        (E2)   x_t uniform on the sphere, where Σ = I/d

As printed θ* is the minimum-norm solution, which depends on the x_t: then E‖θ*‖² belongs on the right of (E1).
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import ERROR_RATE, Evidence, interval, not_applicable, rounding
from remanence.certificates.instances.data import Generator, Instance, unit_rows, with_cosine
from remanence.certificates.instances.runs import operations, tightest
from remanence.methods import LMS, min_norm
from remanence.methods.protocol import Method

RUNS = 2000  # independent streams of a statistical certificate


def distributions(rng: Generator) -> Iterator[Instance]:
    """A few unit vectors with probabilities; orthogonal, nearly parallel and rare ones; steps over (0, 2)."""
    for step in (0.1, 1.0, 1.9):
        yield _distribution(rng, np.eye(3), np.ones(3) / 3, step)
        yield _distribution(rng, with_cosine(rng, 2, 1 - 1e-6), np.ones(2) / 2, step)
        yield _distribution(rng, unit_rows(rng, 3, 2), np.array([0.5, 0.499, 0.001]), step)
    while True:
        d = int(rng.integers(1, 4))
        yield _distribution(
            rng, unit_rows(rng, d + 1, d), rng.dirichlet(np.ones(d + 1)), float(rng.uniform(0.05, 1.95))
        )


def _distribution(rng: Generator, support: Array, chances: Array, step: float) -> Instance:
    return {"support": support, "chances": chances, "truth": rng.standard_normal((support.shape[1], 1)), "step": step}


def expectations(
    method: Method[Any], support: Array, chances: Array, truth: Array, samples: int, of: Callable[[Array, Array], Array]
) -> Array:
    """The mean over all streams of `samples` draws of a vector found from the rows (t, d) and the path θ⁰ … θ^t."""
    state = method.init(support.shape[1], 1)
    streams = [(1.0, state, support[:0], [np.array(method.weights(state))])]
    for _ in range(samples):
        longer = []
        for chance, state, X, path in streams:
            for x, p in zip(support, chances, strict=True):
                after = method.update(state, x[None], (x @ truth)[None])
                seen = np.concatenate([X, x[None]])
                longer.append((chance * p, after, seen, [*path, np.array(method.weights(after))]))
        streams = longer
    return np.asarray(sum(chance * of(X, np.array(path)) for chance, _, X, path in streams))


@claim(
    "The squared distance of LMS to a fixed θ* contracts by 1 − γ(2−γ)λ_min per sample, in expectation",
    source="Theorem 1",
    kind="bound",
    instances=distributions,
    conditions=("x_t independent, ‖x_t‖ = 1", "θ* fixed", "θ⁰ = 0", "exact expectation over all streams"),
)
def lms_contracts_in_expectation(
    support: Array, chances: Array, truth: Array, step: float, samples: int = 4, method: Method[Any] | None = None
) -> Evidence:
    """Both inequalities of (E1) for every t, with every stream of the distribution run through LMS."""

    def squares(X: Array, path: Array) -> Array:  # (2, t): E_t and ‖θ^t − θ*‖²
        mean = [np.mean((X[:t] @ (path[t] - truth)) ** 2) for t in range(1, len(path))]
        return np.array([mean, np.sum((path[1:] - truth) ** 2, axis=(1, 2))])

    rate = _rate(support, chances, step)
    if rate is None:
        return not_applicable("E xxᵀ is singular")
    error, distance = expectations(method or LMS(step), support, chances, truth, samples, squares)
    size = float(np.sum(truth**2))
    bounds = rate ** np.arange(1, samples + 1) * size
    sides = [*zip(error, distance, strict=True), *zip(distance, bounds, strict=True)]
    return tightest(sides, rounding(2.0, operations(samples, support.shape[1])) * size, f"γ = {step:g}")


@claim(
    "The same rate holds for the minimum-norm solution, with E‖θ*‖² in place of ‖θ*‖²",
    source="Theorem 1, for its own θ*",
    kind="bound",
    instances=distributions,
    conditions=("x_t independent, ‖x_t‖ = 1", "y_t = x_tᵀθ₀, θ₀ fixed", "exact expectation over all streams"),
)
def lms_contracts_to_the_minimum_norm_solution(
    support: Array, chances: Array, truth: Array, step: float, samples: int = 4, method: Method[Any] | None = None
) -> Evidence:
    """θ* is the minimum-norm solution of each stream, as the paper's assumption says, and so it is random."""

    def squares(X: Array, path: Array) -> Array:  # ‖θ*‖², then ‖θ^t − θ*‖² for t = 1..T
        best = min_norm(X, X @ truth)
        return np.array([np.sum(best**2), *np.sum((path[1:] - best) ** 2, axis=(1, 2))])

    rate = _rate(support, chances, step)
    if rate is None:
        return not_applicable("E xxᵀ is singular")
    size, *distance = expectations(method or LMS(step), support, chances, truth, samples, squares)
    sides = zip(distance, rate ** np.arange(1, samples + 1) * size, strict=True)
    kappa = max(1.0, float(np.linalg.cond(support)))
    slack = rounding(2 * kappa, operations(samples, support.shape[1])) * float(np.sum(truth**2))
    return tightest(sides, slack, f"γ = {step:g}", f"cond {kappa:.0e}")


def _rate(support: Array, chances: Array, step: float) -> float | None:
    smallest = float(np.linalg.eigvalsh((support.T * chances) @ support)[0])
    return 1 - step * (2 - step) * smallest if smallest > np.finfo(float).eps else None


def dimensions(rng: Generator) -> Iterator[Instance]:
    """Three small spheres."""
    for features, samples, step in ((1, 1, 0.5), (3, 4, 1.0), (6, 8, 1.5)):
        yield {"features": features, "samples": samples, "step": step, "seed": int(rng.integers(2**31))}


@claim(
    "For inputs uniform on the sphere LMS contracts by exactly 1 − γ(2−γ)/d per sample, in expectation",
    source="Theorem 1, with equality",
    kind="statistical",
    instances=dimensions,
    conditions=("x_t uniform on the unit sphere", f"error rate {ERROR_RATE:g}", f"{RUNS} streams"),
)
def lms_contracts_on_the_sphere(
    features: int, samples: int, step: float, seed: int, method: Method[Any] | None = None
) -> Evidence:
    """The mean of ‖θ^T − θ*‖²/‖θ*‖² over independent streams, which lies in [0, 1], against (E2)."""
    rng, lms = np.random.default_rng(seed), method or LMS(step)
    truth = rng.standard_normal((features, 1))
    left = np.empty(RUNS)
    for run in range(RUNS):
        X = unit_rows(rng, samples, features)
        theta = lms.weights(lms.update(lms.init(features, 1), X, X @ truth))
        left[run] = np.sum((theta - truth) ** 2) / np.sum(truth**2)
    expected = (1 - step * (2 - step) / features) ** samples
    if not left.max() <= 1 + rounding(2.0, operations(samples, features)):
        return Evidence(float("inf"), 0.0, ("a stream moved away from the truth",))
    return Evidence(abs(left.mean() - expected), interval(np.minimum(left, 1.0), 0.0, 1.0), (f"γ = {step:g}",))
