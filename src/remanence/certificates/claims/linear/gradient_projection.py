"""Claims about projected gradient steps: OGD and ORFit.

θ^t = θ^{t−1} + γ_t P_{t−1}x_t ε_t                          (OGD)     P_{t−1} orthogonal to Span(X_{:t−1})
γ_t = 1/(x_tᵀP_{t−1}x_t)                                    (ORFit)   = ICL
Θ_ℓ ← Θ_ℓ + P^{ℓ−1}Δ_ℓ  with any Δ_ℓ, projected last         (GP)      old features of every layer stay
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, condition, difference, rounding
from remanence.certificates.instances.data import independent_streams, stepped_streams
from remanence.certificates.instances.runs import largest, operations, tightest, walked, within, worst_of
from remanence.methods import ICL, OGD, ORFit, min_norm
from remanence.methods.protocol import Method


@claim(
    "OGD does not change the prediction for any earlier sample, for steps of any size and sign",
    source="Section APA, after (OGD)",
    instances=stepped_streams,
    conditions=("any samples, any steps",),
)
def ogd_never_moves_old_answers(X: Array, Y: Array, given: list[float], method: Method[Any] | None = None) -> Evidence:
    """The prediction for sample i after every t > i, against the prediction just after it was learned."""
    path = walked(method or OGD(given), X, Y)
    worst = 0.0
    for i in range(len(X)):
        worst = worst_of(worst, largest(X[i] @ path[i + 2 :] - X[i] @ path[i + 1]))
    return Evidence(worst / largest(np.linalg.norm(path, axis=1)), rounding(1.0, operations(*X.shape)))


@claim(
    "A step γ of OGD leaves 1 − γ‖x̄‖² of the error on its sample, where x̄ = P x",
    source="(OGD)",
    instances=stepped_streams,
    conditions=("any samples, any steps",),
)
def ogd_leaves_a_share_of_the_error(
    X: Array, Y: Array, given: list[float], method: Method[Any] | None = None
) -> Evidence:
    """The a-posteriori error of every sample against its a-priori error; x̄ from a QR factorisation of the past."""
    path = walked(method or OGD(given), X, Y)
    worst = 0.0
    for t, (x, y) in enumerate(zip(X, Y, strict=True)):
        U = np.linalg.qr(X[:t].T)[0]
        new = x - U @ (U.T @ x)
        new = new - U @ (U.T @ new)
        share = 0.0 if np.linalg.norm(new) <= 1e-9 else float(new @ new)
        before, after = y - x @ path[t], y - x @ path[t + 1]
        size = (1 + abs(given[t])) * (largest(y) + float(np.linalg.norm(path[t]) + np.linalg.norm(path[t + 1])))
        worst = worst_of(worst, largest(after - (1 - given[t] * share) * before) / size)
    kappa = condition(X[: X.shape[1]])
    return within(worst, kappa, operations(*X.shape), "cond")


@claim(
    "A step of OGD with 0 < γ ≤ 2/‖x‖² never increases the loss on its sample",
    source="Section APA, GP as descent",
    kind="bound",
    instances=independent_streams,
    conditions=("Δ is the gradient", "0 < γ ≤ 2/‖x‖²"),
)
def projected_gradient_still_descends(
    X: Array, Y: Array, step: float | None = None, method: Method[Any] | None = None
) -> Evidence:
    """The squared error of every sample before and after its step; ⟨PΔ, Δ⟩ = ‖PΔ‖² ≥ 0."""
    step = 2 / float(np.max(np.sum(X**2, axis=1))) if step is None else step
    path = walked(method or OGD(step), X, Y)
    sides = []
    for t, (x, y) in enumerate(zip(X, Y, strict=True)):
        sides.append((float(np.sum((y - x @ path[t + 1]) ** 2)), float(np.sum((y - x @ path[t]) ** 2))))
    size = largest(Y) + float(np.linalg.norm(path[-1]))
    return tightest(sides, rounding(4.0, operations(*X.shape)) * size**2, f"γ = {step:g}")


@claim(
    "ORFit is OGD with the step 1/(xᵀPx)",
    source="(OGD), (ORFit)",
    instances=independent_streams,
    edge=("ORFit", "OGD"),
    conditions=("independent samples",),
)
def orfit_is_ogd_with_the_exact_step(
    X: Array, Y: Array, method: Method[Any] | None = None, other: Callable[[list[float]], Method[Any]] = OGD
) -> Evidence:
    """The iterates of both; the steps of OGD from a QR factorisation of the past."""
    given = []
    for t, x in enumerate(X):
        U = np.linalg.qr(X[:t].T)[0]
        new = x - U @ (U.T @ x)
        new = new - U @ (U.T @ new)
        given.append(1 / float(new @ new))
    one, two = walked(method or ORFit(), X, Y), walked(other(given), X, Y)
    return within(difference(one, two), condition(X) ** 2, operations(*X.shape), "cond²")


@claim(
    "ORFit with a rank large enough for every direction is ICL",
    source="(ORFit) and Proposition 1",
    instances=independent_streams,
    edge=("ORFit", "ICL"),
    conditions=("any samples",),
)
def orfit_is_icl(
    X: Array, Y: Array, methods: tuple[Method[Any], ...] | None = None, other: Method[Any] | None = None
) -> Evidence:
    """The iterates of both forms of ORFit, a growing basis and an incremental SVD of full rank, against ICL's."""
    path = walked(other or ICL(), X, Y)
    found = [walked(one, X, Y) for one in methods or (ORFit(), ORFit(rank=len(X)))]
    worst = worst_of(*(difference(one, path) for one in found))
    return within(worst, condition(X) ** 2, operations(*X.shape), "cond²")


@claim(
    "ORFit with a rank large enough for every direction is at the minimum-norm solution after every sample",
    source="Section APA, after (ORFit)",
    instances=independent_streams,
    edge=("ORFit", "Min-Norm"),
    conditions=("consistent samples", "rank of at least t"),
)
def orfit_is_the_minimum_norm_solution(X: Array, Y: Array, method: Method[Any] | None = None) -> Evidence:
    """The bounded memory, kept by incremental SVD, against the batch problem of the first t samples, for every t."""
    path = walked(method or ORFit(rank=len(X)), X, Y)
    worst = worst_of(*(difference(path[t], min_norm(X[:t], Y[:t])) for t in range(1, len(X) + 1)))
    return within(worst, condition(X) ** 2, operations(*X.shape), "cond²")
