"""Claims about the loss, evidence and variance of RLS.

J = min  λ‖W‖² + Σ ‖yᵢ − Wᵀxᵢ‖²/βⁱ                                                          (E1)
log p(y) = log N(y; 0, D + XXᵀ/λ),  D = diag(βⁱ)                                            (E2)
         = −½ Σ_t [log 2πS_t + ε_t²/S_t],  S_t = βᵗ + x_tᵀΦ_{t−1}x_t                             (E3)
variance(x) = (J/t)(1 + xᵀΦx)                                                              (E4)
y_i − x_iᵀθ_{without i} = e_i / (1 − h_i),  h_i = x_iᵀΦx_i                                      (E5)
"""

from collections.abc import Iterator

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference, rounding
from remanence.certificates.claims.rls.rls import noisy, noisy_streams, settings
from remanence.certificates.claims.rls.rls_phi import state_after
from remanence.certificates.instances.data import Generator, Instance, graded_rows, nearly_dependent_rows, unit_rows
from remanence.certificates.oracles import LeastSquares, weakest
from remanence.methods import RLS


def _loss_allowed(system: LeastSquares) -> float:
    """Rounding error allowed for J relative to ‖B‖²: the residual changes by ε(‖B‖ + ‖A‖‖W‖)."""
    whole = float(np.linalg.norm(system.B))
    kappa = 2 * (1 + system.length * float(np.linalg.norm(system.weights)) / whole)
    return rounding(kappa, 2 * system.size)


@claim(
    "RLS computes the minimum of its objective without stored data",
    source="problem (RLS)",
    instances=noisy_streams,
    conditions=("β < 1, β = 1 and β > 1",),
)
def rls_loss_is_the_minimum_of_its_objective(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare `loss` with the objective at the solution of the whole problem, relative to the objective at 0."""
    rls, system = method or RLS(ridge, forget), LeastSquares(X, Y, ridge, forget)
    at_zero = float(np.sum(system.B**2)) / system.unit
    off = abs(rls.loss(state_after(rls, X, Y)) - system.loss) / at_zero
    return Evidence(off, _loss_allowed(system), settings(ridge, forget))


@claim(
    "The evidence that RLS accumulates is the joint log density of all targets",
    source="RLS as a Gaussian model",
    instances=noisy_streams,
    conditions=("weights N(0, I/λ)", "noise of variance βⁱ"),
)
def rls_evidence_is_the_joint_density(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare `evidence` with the density of one Gaussian over all targets (E2), relative to the size of its terms."""
    rls, system = method or RLS(ridge, forget), LeastSquares(X, Y, ridge, forget)
    S = np.diag(system.noise) + X @ X.T / ridge
    distance, logdet = float(np.sum(Y * np.linalg.solve(S, Y))), float(np.linalg.slogdet(2 * np.pi * S)[1])
    exact = -0.5 * (distance + Y.shape[1] * logdet)
    pivots = np.abs(np.log(np.linalg.eigvalsh(S))).sum() + len(X) * np.log(2 * np.pi)
    size = float(distance + Y.shape[1] * (pivots + X.shape[1] * abs(np.log(ridge))))
    kappa = float(np.linalg.cond(S)) + system.condition
    off = abs(rls.evidence(state_after(rls, X, Y)) - exact) / size
    given = (*settings(ridge, forget), f"condition of the answers {kappa:.0e}")
    return Evidence(off, rounding(kappa, 2 * system.size), given)


@claim(
    "The evidence is the sum of the log predictive densities of the samples, each before it is learned",
    source="RLS as a Gaussian model",
    instances=noisy_streams,
    conditions=("−½ Σ [log 2πS_t + ε_t²/S_t]",),
)
def rls_evidence_adds_up_along_the_stream(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare `evidence` with the sum (E3) of the errors and variances reported before every sample."""
    rls, system = method or RLS(ridge, forget), LeastSquares(X, Y, ridge, forget)
    state, terms, steps = rls.init(X.shape[1], Y.shape[1]), [], []
    for t in range(len(X)):
        variance = rls.variance(state, np.array([np.zeros(X.shape[1]), X[t]]))[:, 0]
        S = forget ** (t + 1) + forget**t * (variance[1] / variance[0] - 1)
        state, errors = rls.track(state, X[t : t + 1], Y[t : t + 1])
        steps.append(LeastSquares(X[: t + 1], Y[: t + 1], ridge, forget).condition)
        terms.append([Y.shape[1] * np.log(2 * np.pi * S), float(np.sum(errors**2)) / S])
    size = float(np.abs(terms).sum()) + X.shape[1] * Y.shape[1] * abs(float(np.log(ridge)))
    kappa = (
        max(steps) ** 2
    )  # an error of prediction moves with κ of the samples before, its square and S with twice that
    off = abs(rls.evidence(state) + 0.5 * float(np.sum(terms))) / size
    return Evidence(off, rounding(2 * kappa, 2 * system.size), settings(ridge, forget))


def unweighted_streams(rng: Generator) -> Iterator[Instance]:
    """Noisy streams with β = 1: t = d, nearly dependent and graded inputs among them."""
    yield noisy(rng, unit_rows(rng, 6, 6)) | {"ridge": 0.1}
    yield noisy(rng, nearly_dependent_rows(rng, 12, 5, 1e-3)) | {"ridge": 1e-6}
    yield noisy(rng, graded_rows(rng, 20, 8, 1e4)) | {"ridge": 1e-6}
    while True:
        X = rng.standard_normal((int(rng.integers(2, 25)), int(rng.integers(1, 12))))
        yield noisy(rng, X, int(rng.integers(1, 4))) | {"ridge": float(10 ** rng.uniform(-3, 2))}


@claim(
    "The predictive variance of RLS is J/t times 1 + xᵀΦx",
    source="RLS as a Gaussian model",
    instances=unweighted_streams,
    conditions=("β = 1",),
)
def rls_variance_is_that_of_the_gaussian_model(
    X: Array, Y: Array, ridge: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare `variance` at the samples and far from them with (E4), J and Φ being of the whole problem."""
    rls, system = method or RLS(ridge), LeastSquares(X, Y, ridge)
    asked = np.vstack([X, 10 * np.eye(X.shape[1])])
    left = np.sum((system.A @ system.weights - system.B) ** 2, axis=0)
    expected = (1 + np.einsum("ij,jk,ik->i", asked, system.phi, asked))[:, None] * left / len(X)
    size = (1 + np.sum(asked**2, axis=1, keepdims=True) * np.linalg.norm(system.phi, 2)) * np.sum(system.B**2) / len(X)
    off = float(np.max(np.abs(rls.variance(state_after(rls, X, Y), asked) - expected) / size))
    given = (f"λ = {ridge:g}", f"condition {system.condition:.0e}")
    return Evidence(off, _loss_allowed(system) + system.allowed_phi(), given)


@claim(
    "The leave-one-out error of a sample is e/(1 − h), without retraining",
    source="removal of a sample",
    instances=unweighted_streams,
    conditions=("β = 1", "h = xᵀΦx, the leverage"),
)
def leaving_a_sample_out_multiplies_its_error(
    X: Array, Y: Array, ridge: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare the error of a model that never saw the sample with (E5) from the model that did."""
    rls, whole = method or RLS(ridge), LeastSquares(X, Y, ridge)
    state = state_after(rls, X, Y)
    variance = rls.variance(state, np.vstack([np.zeros(X.shape[1]), X]))[:, 0]
    leverage = variance[1:] / variance[0] - 1
    errors, found = Y - rls.predict(state, X), []
    for i in range(len(X)):
        rest = LeastSquares(np.delete(X, i, axis=0), np.delete(Y, i, axis=0), ridge)
        exact = Y[i] - X[i] @ rest.weights
        length = float(np.linalg.norm(X[i]))
        size = float(np.linalg.norm(Y[i])) + length * float(
            np.linalg.norm(rest.weights) + np.linalg.norm(whole.weights)
        )
        # e and h are divided by 1 − h: what is wrong with either counts that much more, h as often as e/(1 − h) does.
        share = 1 / (1 - leverage[i])
        spread = length**2 * float(np.linalg.norm(whole.phi)) * float(np.linalg.norm(exact)) / size
        allowed = rest.allowed() + share * (whole.allowed_pending() + spread * (whole.allowed_phi() + rounding(1.0, 4)))
        given = (f"λ = {ridge:g}", f"leverage {leverage[i]:.4f}")
        found.append(Evidence(difference(errors[i] * share, exact, size), allowed, given))
    return weakest(found)
