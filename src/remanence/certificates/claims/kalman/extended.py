"""Claims about nonlinear tasks: the extended filter and linearised RLS.

θ_{t|t} = θ_{t|t−1} + K(y_t − f(θ_{t|t−1}))     K = Σ_{t|t−1}Xᵀ(R + XΣ_{t|t−1}Xᵀ)⁻¹     X = ∂f at θ_{t|t−1}      (EKF)
linearised RLS learns x = ∇f(θ^{t−1}) with the target y − f(θ^{t−1}) + xᵀθ^{t−1}                             (LIN)
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference, rounding
from remanence.certificates.claims.kalman.kalman import single_answers
from remanence.certificates.claims.rls.rls import settings
from remanence.certificates.instances.data import Generator, Instance
from remanence.certificates.instances.gaussian_models import constant_models
from remanence.certificates.instances.runs import walked
from remanence.certificates.oracles import JointGaussian, LeastSquares, weakest
from remanence.kalman import Filtered, LinearGaussian, Linearized, extended, filter, linearized
from remanence.methods import RLS

Extended = Callable[..., Filtered]
Linearize = Callable[..., Linearized]


@claim(
    "On linear functions the extended Kalman filter is the Kalman filter",
    source="extensions of KF",
    instances=constant_models,
    edge=("EKF", "KF"),
    conditions=("means, covariances and likelihood",),
)
def extended_filter_of_linear_functions_is_the_filter(
    model: LinearGaussian, Y: Array, run: Extended = extended
) -> Evidence:
    """Both filters on the same model, the one given A and X as functions with their Jacobians."""
    found = run(
        lambda v: model.A @ v, lambda v: model.X @ v, Y, Q=model.Q, R=model.R, mean=model.mean, cov=model.cov,
        transition_jacobian=lambda v: model.A, observe_jacobian=lambda v: model.X,
    )  # fmt: skip
    expected, joint = filter(model, Y), JointGaussian(model, Y)
    size = joint.distance + float(np.abs(np.log(2 * np.pi * np.linalg.eigvalsh(joint.S))).sum())
    off = (
        difference(found.mean, expected.mean, joint.reach),
        difference(found.cov, expected.cov, np.sqrt(len(Y)) * joint.spread),
        abs(float(found.loglik) - float(expected.loglik)) / size,
    )
    given = (f"condition of the answers {joint.condition:.0e}",)
    return weakest(Evidence(value, joint.allowed(), given) for value in off)


def curved_tasks(rng: Generator) -> Iterator[Instance]:
    """One observation per step, a sine of a few inputs; narrow to wide priors, observations near to far."""
    while True:
        for width in (1e-2, 1.0, 10.0):
            d, T = int(rng.integers(1, 5)), int(rng.integers(1, 8))
            yield {
                "inputs": rng.standard_normal((T, d)),
                "Y": rng.uniform(-1.5, 1.5, T),
                "mean": rng.standard_normal(d),
                "ridge": 1 / width,
            }


def _curves(inputs: Array) -> tuple[list[Any], list[Any]]:
    """f(θ) = sin(aᵀθ) + aᵀθ/2 of every input a, and its gradient."""
    values = [lambda v, a=a: np.sin(a @ v) + a @ v / 2 for a in inputs]
    return values, [lambda v, a=a: a * (np.cos(a @ v) + 0.5) for a in inputs]


@claim(
    "The extended Kalman filter corrects by the prediction error, y − f(θ)",
    source="extensions of KF",
    instances=curved_tasks,
    conditions=("observations sin(aᵀθ) + aᵀθ/2", "not y − ∇fᵀθ"),
)
def extended_filter_corrects_by_the_prediction_error(
    inputs: Array, Y: Array, mean: Array, ridge: float = 1.0, run: Extended = extended
) -> Evidence:
    """Every correction of (EKF), computed from the prediction with derivatives written by hand."""
    (T, d), (values, slopes) = inputs.shape, _curves(inputs)
    found = run(lambda v: v, values, Y[:, None], Q=0.1 * np.eye(d), R=np.eye(1), mean=mean, cov=np.eye(d) / ridge)
    evidence = []
    for t in range(T):
        before, P, x = found.predicted_mean[t], found.predicted_cov[t], slopes[t](found.predicted_mean[t])
        gain = P @ x / (1 + x @ P @ x)
        missed = Y[t] - values[t](before)
        size = float(
            np.linalg.norm(before)
            + np.linalg.norm(gain) * (abs(Y[t]) + abs(missed) + np.linalg.norm(x) * np.linalg.norm(before))
        )
        kappa = 1 + float(x @ x) * float(np.linalg.norm(P, 2))
        off = difference(found.mean[t], before + gain * missed, size)
        evidence.append(Evidence(off, rounding(kappa, 8 * d * d + 16), (f"condition of the answer {kappa:.0e}",)))
    return weakest(evidence)


@claim(
    "Linearised RLS is the extended Kalman filter of a model that does not drift",
    source="linearised RLS and extensions of KF",
    instances=curved_tasks,
    edge=("EKF", "Linearized RLS"),
    conditions=("Q = 0", "R = 1", "observations sin(aᵀθ) + aᵀθ/2"),
)
def linearised_rls_is_the_extended_filter(
    inputs: Array,
    Y: Array,
    mean: Array,
    ridge: float = 1.0,
    run: Extended = extended,
    linearize: Linearize = linearized,
) -> Evidence:
    """The estimates after every step; a small difference early may grow by as much as the steps magnify it."""
    d, (values, slopes) = inputs.shape[1], _curves(inputs)
    path = linearize(values, Y, start=mean, method=RLS(ridge), jacobian=slopes).path
    found = run(
        lambda v: v, values, Y[:, None], Q=np.zeros((d, d)), R=np.eye(1), mean=mean, cov=np.eye(d) / ridge,
        transition_jacobian=lambda v: np.eye(d), observe_jacobian=[lambda v, s=s: s(v)[None] for s in slopes],
    )  # fmt: skip
    evidence, grown = [], 1.0
    for t in range(len(Y)):
        X = np.array([slopes[i](path[i]) for i in range(t + 1)])
        aims = np.array([Y[i] - values[i](path[i]) + X[i] @ path[i] for i in range(t + 1)])
        system = LeastSquares(X, aims[:, None], ridge, start=mean[:, None])
        gain = system.phi @ X[t]
        bend = float(inputs[t] @ inputs[t])  # |f''| ≤ ‖a‖²: how much a slope and an answer move with θ
        grown *= 1 + float(np.linalg.norm(gain)) * (
            1.5 * np.sqrt(bend) + bend * (np.linalg.norm(path[t]) + abs(aims[t]))
        )
        kappa = grown * system.pending_magnification()
        size = float(np.linalg.norm(path[: t + 2], axis=1).max())
        off = difference(path[t + 1], found.mean[t], size)
        evidence.append(Evidence(off, rounding(kappa, 2 * system.size), (f"condition of the path {kappa:.0e}",)))
    return weakest(evidence)


@claim(
    "On linear functions linearised RLS is RLS",
    source="linearised RLS",
    instances=single_answers,
    edge=("Linearized RLS", "RLS"),
    conditions=("after every sample",),
)
def linearised_rls_of_linear_functions_is_rls(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, linearize: Linearize = linearized
) -> Evidence:
    """The paths of both."""
    values = [lambda v, x=x: x @ v for x in X]
    slopes = [lambda v, x=x: x for x in X]
    found = linearize(values, Y[:, 0], start=np.zeros(X.shape[1]), method=RLS(ridge, forget), jacobian=slopes).path
    expected, evidence = walked(RLS(ridge, forget), X, Y)[:, :, 0], []
    for t in range(1, len(X) + 1):
        # The answer goes through y − xᵀθ + xᵀθ, which costs what ‖x‖‖θ‖ is beside the answers.
        system = LeastSquares(X[:t], Y[:t], ridge, forget)
        aside = 1 + float(np.linalg.norm(X[:t]) * np.linalg.norm(expected[:t]) / np.linalg.norm(Y[:t]))
        share = float(np.linalg.norm(system.B) / np.linalg.norm(system.weights)) / system.length
        allowed = rounding(aside * (system.pending_magnification() + system.condition * share), 2 * system.size)
        evidence.append(Evidence(difference(found[t], expected[t]), allowed, settings(ridge, forget)))
    return weakest(evidence)
