"""Claims about the smoother: every task's model given all tasks, and positive backward transfer.

    L = Σ_{j−1|j−1} A_jᵀ Σ_{j|j−1}⁻¹     Σ_{j−1|t} = Σ_{j−1|j−1} + L (Σ_{j|t} − Σ_{j|j−1}) Lᵀ                  (RTS)
    θ_{j−1|t} = θ_{j−1|j−1} + L (θ_{j|t} − θ_{j|j−1})
    Σ_{i|t} ⪯ Σ_{i|s}  for i ≤ s ≤ t,  and  E‖θ_i − θ_{i|t}‖² = tr Σ_{i|t}                                   (T7)
    minimise  ‖θ₁ − μ‖²_Σ + Σ ‖θ_j − A_jθ_{j−1}‖²_Q + Σ ‖y_j − X_jθ_j‖²_R   over all θ                        (MAP)

This holds in expectation under a correct model: a single run can get worse.
"""

from collections.abc import Callable, Iterator

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import ERROR_RATE, Evidence, difference, rounding
from remanence.certificates.claims.kalman.kalman import beside
from remanence.certificates.instances.data import Generator, Instance
from remanence.certificates.instances.gaussian_models import (
    DRAWS,
    chance,
    constant_models,
    drawn_streams,
    gaussian_model,
    gaussian_models,
)
from remanence.certificates.oracles import JointGaussian, LeastSquares, weakest
from remanence.kalman import Filtered, LinearGaussian, Smoothed, backward_transfer, filter, smooth
from remanence.kalman import sample as draw

Smoother = Callable[[LinearGaussian, Filtered], Smoothed]


@claim(
    "The Kalman filter followed by the smoother gives every task's posterior given all observations",
    source="problem (MAP)",
    instances=gaussian_models,
    edge=("RTS", "KF"),
    conditions=("Q may be singular, observations may be missing", "at the last task it is the filter's"),
)
def smoother_is_the_posterior(model: LinearGaussian, Y: Array, smoother: Smoother = smooth) -> Evidence:
    """Compare θ_{i|T} and Σ_{i|T} of every task with the joint Gaussian conditioned on everything."""
    found, joint = smoother(model, filter(model, Y)), JointGaussian(model, Y)
    return weakest(e for t in range(len(Y)) for e in beside(joint, found.mean[t], found.cov[t], t))


def drifting_models(rng: Generator) -> Iterator[Instance]:
    """Models whose drift has full rank, constant and varying."""
    while True:
        for kind in ("plain", "varying", "growing", "nearly exact answers"):
            T, d = int(rng.integers(2, 8)), int(rng.integers(1, 5))
            yield {"model": gaussian_model(rng, kind, T, d, 2), "Y": rng.standard_normal((T, 2))}


@claim(
    "The smoother steps back from task j to j − 1 with the transition A_j",
    source="RTS-Σ",
    instances=drifting_models,
    conditions=("Σ_{j|j−1} invertible", "means and covariances"),
)
def smoother_steps_back_through_its_own_transition(
    model: LinearGaussian, Y: Array, smoother: Smoother = smooth
) -> Evidence:
    """Every step of (RTS) from what filter and smoother returned."""
    f, joint, evidence = filter(model, Y), JointGaussian(model, Y), []
    s = smoother(model, f)
    for j in range(1, len(Y)):
        A = model.A if model.A.ndim == 2 else model.A[j]
        P = f.predicted_cov[j]
        L = np.linalg.solve(P, A @ f.cov[j - 1]).T
        mean = f.mean[j - 1] + L @ (s.mean[j] - f.predicted_mean[j])
        cov = f.cov[j - 1] + L @ (s.cov[j] - P) @ L.T
        kappa = float(np.linalg.cond(P)) * (1 + float(np.linalg.norm(L, 2))) ** 2
        allowed, given = joint.allowed() * kappa, (f"condition of the step back {kappa:.0e}",)
        evidence.append(Evidence(difference(s.mean[j - 1], mean, joint.reach), allowed, given))
        evidence.append(Evidence(difference(s.cov[j - 1], cov, joint.spread), allowed, given))
    return weakest(evidence)


@claim(
    "The smoothed models of all tasks maximise their joint density",
    source="problem (MAP)",
    instances=drifting_models,
    conditions=("Q of full rank",),
)
def smoothed_models_maximise_the_joint_density(
    model: LinearGaussian, Y: Array, smoother: Smoother = smooth
) -> Evidence:
    """Compare θ_{1|T}, …, θ_{T|T} with the least-squares problem whitened by Σ, Q and R (MAP)."""
    T, d, s, root = len(Y), model.features, model.steps, np.linalg.cholesky
    rows, aims = [np.linalg.solve(root(model.cov), np.eye(d, T * d))], [np.linalg.solve(root(model.cov), model.mean)]
    for t in range(T):
        A, Q, X, R = (v[t if len(v) > 1 else 0] for v in (s.A, s.Q, s.X, s.R))
        here = np.eye(d, T * d, t * d)
        if t:
            rows.append(np.linalg.solve(root(Q), here - A @ np.eye(d, T * d, (t - 1) * d)))
            aims.append(np.zeros(d))
        rows.append(np.linalg.solve(root(R), X @ here))
        aims.append(np.linalg.solve(root(R), Y[t]))
    system = np.vstack(rows)
    best = np.linalg.lstsq(system, np.concatenate(aims), rcond=None)[0].reshape(T, d)
    joint, kappa = JointGaussian(model, Y), float(np.linalg.cond(system)) ** 2
    worst = max(float(np.linalg.cond(v)) for stack in (model.cov[None], s.Q, s.R) for v in stack)
    allowed = joint.allowed() + rounding(kappa * np.sqrt(worst), 4 * system.size)
    found = smoother(model, filter(model, Y)).mean
    return Evidence(difference(found, best, joint.reach), allowed, (f"condition of the problem {kappa:.0e}",))


@claim(
    "Later tasks never make an earlier one less certain: positive backward transfer",
    source="Theorem 7",
    instances=constant_models,
    kind="bound",
    conditions=("largest eigenvalue of Σ_{i|t} − Σ_{i|s}, relative to the prior, at most rounding", "i ≤ s ≤ t"),
)
def later_tasks_never_make_earlier_ones_less_certain(
    model: LinearGaussian, Y: Array, smoother: Smoother = smooth
) -> Evidence:
    """Compare Σ_{i|t} for every i ≤ t with that of one task fewer."""
    covs = [smoother(model, filter(model, Y[: t + 1])).cov for t in range(len(Y))]
    joint = JointGaussian(model, Y)
    grown = [np.linalg.eigvalsh(covs[t][i] - covs[t - 1][i])[-1] for t in range(1, len(Y)) for i in range(t)]
    return Evidence(float(np.max(grown, initial=-joint.spread)) / joint.spread, joint.allowed())


@claim(
    "The expected squared error on a task after learning another is the trace of its posterior covariance",
    source="Theorem 7",
    instances=constant_models,
    conditions=("for every pair of tasks i ≤ t",),
)
def backward_transfer_is_the_trace_of_the_posterior(
    model: LinearGaussian, Y: Array, table: Callable[[LinearGaussian, int], Array] = backward_transfer
) -> Evidence:
    """Compare `backward_transfer` with the traces of the joint Gaussian given the first tasks."""
    found, evidence = table(model, len(Y)), []
    for t in range(len(Y)):
        joint = JointGaussian(model, Y, t + 1)
        traces = np.trace(joint.given()[1], axis1=1, axis2=2)[: t + 1]
        off = difference(found[: t + 1, t], traces, model.features * joint.spread)
        evidence.append(Evidence(off, joint.allowed(), (f"condition of the answers {joint.condition:.0e}",)))
    return weakest(evidence)


@claim(
    "On average over streams the squared error on a task is the trace the smoother reports, at most the filter's",
    source="Theorem 7",
    instances=drawn_streams,
    kind="statistical",
    conditions=("the model is right", f"{DRAWS} streams drawn from it", f"error rate {ERROR_RATE:g} a model"),
)
def smoother_errs_as_much_as_it_says(
    model: LinearGaussian, steps: int, seed: int = 0, smoother: Smoother = smooth
) -> Evidence:
    """Compare the mean of ‖θ₁ − θ_{1|T}‖² over streams with tr Σ_{1|T}, which is at most tr Σ_{1|1}."""
    rng = np.random.default_rng(seed)
    drawn = [draw(model, steps, rng) for _ in range(DRAWS)]
    theta, Y = np.array([t for t, _ in drawn]), np.array([y for _, y in drawn])
    filtered = filter(model, Y)
    smoothed = smoother(model, filtered)
    known = np.asarray(smoothed.cov[0, 0])
    if np.trace(known) > np.trace(filtered.cov[0, 0]) * (1 + rounding(1.0, 4 * known.size)):
        return Evidence(float("inf"), 0.0, ("tr Σ_{1|T} > tr Σ_{1|1}",))
    mean = float(np.sum((theta[:, 0] - smoothed.mean[:, 0]) ** 2, axis=1).mean())
    return Evidence(abs(mean - float(np.trace(known))), chance(known, DRAWS))


def unmoved_models(rng: Generator) -> Iterator[Instance]:
    """One model for all tasks, observed through different inputs."""
    while True:
        T, d, m = int(rng.integers(2, 8)), int(rng.integers(1, 5)), int(rng.integers(1, 3))
        X, Y = rng.standard_normal((T, m, d)), rng.standard_normal((T, m))
        yield {"X": X, "Y": Y, "ridge": float(10 ** rng.uniform(-2, 1))}


@claim(
    "Without drift the smoother gives all tasks one model, that of ridge regression on all of them",
    source="Lemma 3 and RTS",
    instances=unmoved_models,
    conditions=("A = I", "Q = 0"),
)
def smoother_without_drift_has_one_model(
    X: Array, Y: Array, ridge: float = 1.0, smoother: Smoother = smooth
) -> Evidence:
    """Compare the smoothed model of every task with the solution of the joint problem."""
    T, m, d = X.shape
    model = LinearGaussian(np.eye(d), np.zeros((d, d)), X, np.eye(m), np.zeros(d), np.eye(d) / ridge)
    found, joint = smoother(model, filter(model, Y)).mean, JointGaussian(model, Y)
    system = LeastSquares(X.reshape(T * m, d), Y.reshape(T * m, 1), ridge)
    allowed = joint.allowed() + system.allowed()
    off = (difference(mean, system.weights[:, 0], joint.reach) for mean in found)
    return weakest(Evidence(value, allowed, (f"λ = {ridge:g}",)) for value in off)
