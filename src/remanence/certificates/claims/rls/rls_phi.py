"""Claims about the matrix Φ of RLS: its definition, its update by a sample, and that it never grows.

    Φ_t = (λI + Σ xᵢxᵢᵀ/βⁱ)⁻¹      variance(x) / variance(0) = 1 + xᵀΦ_t x / βᵗ                     (P)
    θ ← θ + G(Y − Xθ)     G = ΦXᵀ(B + XΦXᵀ)⁻¹                                                    (S)

Φ is computed from the predictive variances that the method returns (P), so the method itself is checked and not a copy.
"""

from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference, rounding
from remanence.certificates.claims.rls.rls import noisy_streams, settings
from remanence.certificates.oracles import LeastSquares, weakest
from remanence.methods import RLS


def phi(method: RLS, state: Any, system: LeastSquares) -> Array:
    """Φ (d, d) by (P), from inputs so large that the 1 in it costs no digits."""
    rows, d = system.A.shape
    newest = method.forget ** (rows - d)  # βᵗ
    reach = float(np.linalg.norm(system.A)) * np.sqrt(newest / system.unit)
    one, pairs = np.eye(d), np.triu_indices(d, 1)
    asked = reach * np.vstack([np.zeros(d), one, one[pairs[0]] + one[pairs[1]]])
    variance = method.variance(state, asked)[:, 0]
    spread = newest * (variance[1:] / variance[0] - 1) / reach**2
    found = np.diag(spread[:d])
    found[pairs] = (spread[d:] - spread[:d][pairs[0]] - spread[:d][pairs[1]]) / 2
    return np.asarray(found + np.triu(found, 1).T)


def state_after(method: RLS, X: Array, Y: Array) -> Any:
    """The state after all rows, learned at once; the initial state if there are no rows."""
    state = method.init(X.shape[1], Y.shape[1])
    return method.update(state, X, Y) if len(X) else state


@claim(
    "Φ is the inverse of half the Hessian of the RLS objective",
    source="definition of Φ_t",
    instances=noisy_streams,
    conditions=("β < 1, β = 1 and β > 1",),
)
def phi_is_the_inverse_of_half_the_hessian(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare Φ, computed from the predictive variances, with the inverse of λI + Σ xᵢxᵢᵀ/βⁱ."""
    rls = method or RLS(ridge, forget)
    system = LeastSquares(X, Y, ridge, forget)
    found = phi(rls, state_after(rls, X, Y), system)
    given = (*settings(ridge, forget), f"condition {system.condition:.0e}")
    return Evidence(difference(found, system.phi), system.allowed_phi(), given)


@claim(
    "Φ after a sample is Φ before it minus a matrix of rank one",
    source="Remark 4",
    instances=noisy_streams,
    conditions=("Φ − ΦxxᵀΦ/(βᵗ + xᵀΦx)",),
)
def phi_is_updated_by_a_matrix_of_rank_one(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare Φ after every sample with the update of the remark applied to Φ before it."""
    rls = method or RLS(ridge, forget)
    state = rls.init(X.shape[1], Y.shape[1])
    last = LeastSquares(X[:0], Y[:0], ridge, forget)
    before, found = phi(rls, state, last), []
    for t in range(1, len(X) + 1):
        state, _ = rls.track(state, X[t - 1 : t], Y[t - 1 : t])
        system = LeastSquares(X[:t], Y[:t], ridge, forget)
        after, seen = phi(rls, state, system), before @ X[t - 1]
        expected = before - np.outer(seen, seen) / (forget**t + X[t - 1] @ seen)
        off = difference(after, expected, float(np.linalg.norm(before)))
        through = np.eye(len(seen)) - np.outer(seen, X[t - 1]) / (forget**t + X[t - 1] @ seen)
        allowed = system.allowed_phi() + float(np.linalg.norm(through)) ** 2 * last.allowed_phi()
        found.append(Evidence(off, allowed, settings(ridge, forget)))
        before, last = after, system
    return weakest(found)


@claim(
    "The information of a sample is added to that of the samples before it",
    source="Remark 4",
    instances=noisy_streams,
    conditions=("Φ_t⁻¹ = Φ_{t−1}⁻¹ + xxᵀ/βᵗ",),
)
def information_adds_up(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare RᵀR after every sample with RᵀR before it plus xxᵀ/βᵗ; no inverse is needed."""
    rls = method or RLS(ridge, forget)
    state = rls.init(X.shape[1], Y.shape[1])
    before, found = np.zeros((X.shape[1], X.shape[1])), []
    for t in range(1, len(X) + 1):
        state = rls.update(state, X[t - 1 : t], Y[t - 1 : t])
        factor = rls.data(state).factor
        kept, weight = (forget, 1.0) if forget <= 1 else (1.0, forget**-t)  # in units in which the newest weighs 1
        after = factor.T @ factor
        expected = kept * before + weight * np.outer(X[t - 1], X[t - 1])
        off = difference(after, expected, float(np.trace(expected)))
        found.append(Evidence(off, rounding(2.0, 4 * t * X.shape[1]), settings(ridge, forget)))
        before = after
    return weakest(found)


@claim(
    "Φ is 1/λ times a soft projection onto the complement of the samples",
    source="Φ_t by the Woodbury identity",
    instances=noisy_streams,
    conditions=("Φ = (I − X(λB + XᵀX)⁻¹Xᵀ)/λ",),
)
def phi_is_a_soft_projection(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare Φ, computed from the predictive variances, with the form that inverts a matrix of samples."""
    rls = method or RLS(ridge, forget)
    system = LeastSquares(X, Y, ridge, forget)
    found = ridge * phi(rls, state_after(rls, X, Y), system)
    gram = ridge * np.diag(forget ** np.arange(1.0, len(X) + 1)) + X @ X.T
    kappa = float(np.linalg.cond(gram))
    expected = np.eye(X.shape[1]) - X.T @ np.linalg.solve(gram, X)
    allowed = system.allowed_phi() + rounding(kappa, 4 * X.size)
    return Evidence(difference(found, expected, 1.0), allowed, (*settings(ridge, forget), f"condition {kappa:.0e}"))


@claim(
    "Information never decreases: Φ does not grow with a sample",
    source="after Remark 4",
    instances=noisy_streams,
    kind="bound",
    conditions=("largest eigenvalue of Φ_t − Φ_{t−1}, relative to Φ_{t−1}, at most rounding",),
)
def information_never_shrinks(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare Φ before and after every sample; βᵗ is part of it, so this holds for every β."""
    rls = method or RLS(ridge, forget)
    state = rls.init(X.shape[1], Y.shape[1])
    last = LeastSquares(X[:0], Y[:0], ridge, forget)
    before, found = phi(rls, state, last), []
    for t in range(1, len(X) + 1):
        state, _ = rls.track(state, X[t - 1 : t], Y[t - 1 : t])
        system = LeastSquares(X[:t], Y[:t], ridge, forget)
        after = phi(rls, state, system)
        grown = float(np.linalg.eigvalsh(after - before)[-1] / np.linalg.norm(before))
        found.append(Evidence(grown, system.allowed_phi() + last.allowed_phi(), settings(ridge, forget)))
        before, last = after, system
    return weakest(found)


@claim(
    "RLS learns a block by the update common to all methods, with Φ as its memory",
    source="Lemma 2 and Proposition 2",
    instances=noisy_streams,
    conditions=("θ + ΦX(B + XᵀΦX)⁻¹(y − Xᵀθ)",),
)
def rls_takes_the_step_that_all_methods_share(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Learn the second half of a stream as one step (S) from the state after the first half."""
    rls, cut = method or RLS(ridge, forget), len(X) // 2
    state, later = state_after(rls, X[:cut], Y[:cut]), X[cut:]
    half, whole = (LeastSquares(X[:k], Y[:k], ridge, forget) for k in (cut, len(X)))
    W, known = rls.weights(state), phi(rls, state, half)
    S = np.diag(forget ** np.arange(cut + 1.0, len(X) + 1)) + later @ known @ later.T
    G, z = np.linalg.solve(S, later @ known).T, np.linalg.solve(S, Y[cut:] - later @ W)
    found, size = rls.weights(rls.update(state, later, Y[cut:])), float(np.linalg.norm(whole.weights))
    sizes = np.linalg.norm(known) * np.linalg.norm(later) * np.linalg.norm(z)
    through = np.linalg.norm(np.eye(X.shape[1]) - G @ later) * (
        half.allowed_phi() * sizes + half.allowed_pending() * np.linalg.norm(W)
    )
    solving = np.linalg.norm(G) * np.linalg.norm(S) * np.linalg.norm(z) * rounding(1.0, 4 * later.size)
    allowed = whole.allowed_pending() + float(through + solving) / size
    return Evidence(difference(found, W + known @ later.T @ z, size), allowed, settings(ridge, forget))
