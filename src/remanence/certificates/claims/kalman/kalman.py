"""Claims about the Kalman filter: it is RLS when nothing drifts, and the posterior of the joint Gaussian when it does.

    θ_{t|t} = θ_{t|t−1} + K(y − Xθ_{t|t−1})     Σ_{t|t} = Σ_{t|t−1} − KXΣ_{t|t−1}     K = Σ_{t|t−1}Xᵀ S⁻¹       (KF)
    RLS(β, λ):  θ₁ ~ N(0, I/λ),  nothing drifts,  v_i ~ N(0, βⁱ)                                           (F1)
             =  θ₁ ~ N(0, I/λβ),  Q_t = (1/β − 1) Σ_{t−1|t−1},  v_i ~ N(0, 1),  with Σ_{t|t} = Φ_t/βᵗ          (F2)

Differences are measured relative to the prior covariance and to the size of the means. The condition number is that of
the covariance of all observations; the covariances of single steps are Schur complements of it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference, rounding
from remanence.certificates.claims.rls.rls import noisy_streams, settings
from remanence.certificates.claims.rls.rls_phi import phi
from remanence.certificates.instances.data import Generator, Instance
from remanence.certificates.instances.gaussian_models import gaussian_model, gaussian_models
from remanence.certificates.oracles import JointGaussian, LeastSquares, weakest
from remanence.kalman import Filtered, LinearGaussian, filter
from remanence.methods import RLS

Run = Callable[[LinearGaussian, Any], Filtered]


def single_answers(rng: Generator) -> Iterator[Instance]:
    """Noisy streams of one output, β from 0.5 to 2."""
    for data in noisy_streams(rng):
        yield data | {"Y": data["Y"][:, :1]}


def fading_answers(rng: Generator) -> Iterator[Instance]:
    """Noisy streams of one output, β up to 1."""
    return (data | {"forget": min(data["forget"], 1 / data["forget"])} for data in single_answers(rng))


def _beside_rls(
    rls: RLS, X: Array, Y: Array, ridge: float, forget: float, found: Filtered, scale: Array
) -> Iterator[Evidence]:
    """Compare θ and Σ of every step with those of RLS; Φ is divided by `scale`."""
    state = rls.init(X.shape[1], 1)
    for t in range(1, len(X) + 1):
        state, _ = rls.track(state, X[t - 1 : t], Y[t - 1 : t])
        system = LeastSquares(X[:t], Y[:t], ridge, forget)
        S = np.diag(system.noise) + X[:t] @ X[:t].T / ridge
        kappa, size = float(np.linalg.cond(S)), 4 * t * X[:t].size
        reach = float(np.linalg.norm(X[:t], 2) * np.linalg.norm(np.linalg.solve(S, Y[:t]))) / ridge
        length = float(np.linalg.norm(system.weights))
        off = difference(found.mean[t - 1], rls.weights(state)[:, 0], reach + length)
        given = (*settings(ridge, forget), f"condition of the answers {kappa:.0e}")
        yield Evidence(off, system.allowed() + rounding(kappa, size), given)
        off = difference(found.cov[t - 1] * scale[t - 1], phi(rls, state, system), 1 / ridge)
        yield Evidence(off, system.allowed_phi() + rounding(kappa, size), given)


@claim(
    "The Kalman filter of tasks that do not drift is RLS, in mean and covariance",
    source="Lemma 3",
    instances=single_answers,
    edge=("KF", "RLS"),
    conditions=("θ₁ ~ N(0, I/λ)", "v_i ~ N(0, βⁱ)", "after every sample"),
)
def kalman_filter_without_drift_is_rls(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, run: Run = filter, method: RLS | None = None
) -> Evidence:
    """Compare θ_{t|t} and Σ_{t|t} with the weights and Φ of RLS (F1)."""
    d, noise = X.shape[1], forget ** np.arange(1.0, len(X) + 1)
    model = LinearGaussian(
        np.eye(d), np.zeros((d, d)), X[:, None], noise[:, None, None], np.zeros(d), np.eye(d) / ridge
    )
    rls, scale = method or RLS(ridge, forget), np.ones(len(X))
    return weakest(_beside_rls(rls, X, Y, ridge, forget, run(model, Y), scale))


@claim(
    "RLS with forgetting is a Kalman filter whose drift is 1/β − 1 times the posterior covariance",
    source="Lemma 3, with forgetting",
    instances=fading_answers,
    conditions=("0 < β ≤ 1", "Q_t = (1/β − 1)Σ_{t−1|t−1}", "after every sample"),
)
def forgetting_is_drift(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 0.9, run: Run = filter, method: RLS | None = None
) -> Evidence:
    """Compare θ_{t|t} and Σ_{t|t} of the drifting model with the weights and Φ/βᵗ of RLS (F2)."""
    d, n = X.shape[1], len(X)
    powers = forget ** np.arange(0.0, n + 1)
    known = [LeastSquares(X[:t], Y[:t], ridge, forget).phi / powers[t] for t in range(n)]
    Q = (1 / forget - 1) * np.array(known)
    model = LinearGaussian(np.eye(d), Q, X[:, None], np.ones((n, 1, 1)), np.zeros(d), np.eye(d) / (ridge * forget))
    rls = method or RLS(ridge, forget)
    return weakest(_beside_rls(rls, X, Y, ridge, forget, run(model, Y), powers[1:]))


@claim(
    "The Kalman filter gives the posterior of the joint Gaussian of all tasks and observations, at every task",
    source="Proposition 3",
    instances=gaussian_models,
    conditions=("before and after every task", "Q may be singular, observations may be missing"),
)
def kalman_filter_is_the_posterior(model: LinearGaussian, Y: Array, run: Run = filter) -> Evidence:
    """Compare θ_{t|t}, Σ_{t|t}, θ_{t|t−1} and Σ_{t|t−1} with conditioning on everything at once."""
    found, pairs = run(model, Y), []
    for t in range(len(Y)):
        before, after = JointGaussian(model, Y, t), JointGaussian(model, Y, t + 1)
        pairs += [(after, found.mean[t], found.cov[t], t), (before, found.predicted_mean[t], found.predicted_cov[t], t)]
    return weakest(e for joint, mean, cov, t in pairs for e in beside(joint, mean, cov, t))


def beside(joint: JointGaussian, mean: Array, cov: Array, t: int) -> Iterator[Evidence]:
    """Compare mean and covariance of θ_t with those of the joint Gaussian."""
    means, covs = joint.given()
    given = (f"condition of the answers {joint.condition:.0e}",)
    yield Evidence(difference(mean, means[t], joint.reach), joint.allowed(), given)
    yield Evidence(difference(cov, covs[t], joint.spread), joint.allowed(), given)


def single_tasks(rng: Generator) -> Iterator[Instance]:
    """One task, m samples of it, with a prior of full rank."""
    while True:
        for noise in (1.0, 1e-6, 1e6):
            d, m = int(rng.integers(1, 6)), int(rng.integers(1, 6))
            model = gaussian_model(rng, d=d, m=m)
            model = LinearGaussian(model.A, model.Q, model.X, noise * model.R, model.mean, model.cov)
            yield {"model": model, "Y": rng.standard_normal((1, m))}


@claim(
    "The covariance form and the information form of conditioning agree",
    source="Woodbury identity",
    instances=single_tasks,
    conditions=("(Σ⁻¹ + XᵀR⁻¹X)⁻¹ = Σ − ΣXᵀ(R + XΣXᵀ)⁻¹XΣ",),
)
def covariance_and_information_form_agree(model: LinearGaussian, Y: Array, run: Run = filter) -> Evidence:
    """Compare the covariance after one task with the inverse of the summed information."""
    found, joint = run(model, Y), JointGaussian(model, Y)
    prior, noise = np.linalg.inv(model.cov), np.linalg.inv(model.R)
    information = prior + model.X.T @ noise @ model.X
    mean = np.linalg.solve(information, prior @ model.mean + model.X.T @ noise @ Y[0])
    kappa = float(np.linalg.cond(model.cov) + np.linalg.cond(model.R)) * float(np.linalg.cond(information))
    allowed = joint.allowed() + rounding(kappa, 4 * model.X.size + 4 * model.cov.size)
    pairs = ((found.cov[0], np.linalg.inv(information), joint.spread), (found.mean[0], mean, joint.reach))
    return weakest(Evidence(difference(*pair), allowed, (f"condition {kappa:.0e}",)) for pair in pairs)


@claim(
    "The residual after conditioning is uncorrelated with the observations",
    source="Lemma 2",
    instances=single_tasks,
    conditions=("K cov(y) = cov(θ, y)",),
)
def conditioning_leaves_nothing_correlated(model: LinearGaussian, Y: Array, run: Run = filter) -> Evidence:
    """Multiply the gain K, computed from unit observations, by their covariance."""
    m = len(model.X)
    answers = np.vstack([np.zeros(m), np.eye(m)])[:, None]  # one series without answers' pull, one for each of them
    means = run(model, answers).mean[:, 0]
    K = (means[1:] - means[0]).T
    joint = JointGaussian(model, Y)
    across = model.cov @ model.X.T
    size = float(np.linalg.norm(across, 2)) + float(np.linalg.norm(joint.S, 2) * np.abs(means).max())
    return Evidence(difference(K @ joint.S, across, size), joint.allowed(), (f"condition {joint.condition:.0e}",))


@claim(
    "The log-likelihood accumulated by the filter is the joint log density of all observations",
    source="Proposition 3",
    instances=gaussian_models,
    conditions=("Q may be singular, observations may be missing",),
)
def kalman_likelihood_is_the_joint_density(model: LinearGaussian, Y: Array, run: Run = filter) -> Evidence:
    """Compare `loglik` with the density of one Gaussian over all observations, relative to the size of its terms."""
    joint = JointGaussian(model, Y)
    size = joint.distance + float(np.abs(np.log(2 * np.pi * np.linalg.eigvalsh(joint.S))).sum())
    off = abs(float(run(model, Y).loglik) - joint.loglik) / size
    return Evidence(off, joint.allowed(), (f"condition of the answers {joint.condition:.0e}",))
