"""Claims about learning the drift of tasks (EM): each step is the exact maximum and never decreases the likelihood.

S₀ = Σ E θ_{t−1}θ_{t−1}ᵀ     S₁ = Σ E θ_tθ_{t−1}ᵀ     S₂ = Σ E θ_tθ_tᵀ,    t = 2 … T                      (M1)
A = S₁S₀⁻¹     Q = (S₂ − A S₁ᵀ)/(T − 1)     R = (1/T) Σ E(y_t − Xθ_t)(y_t − Xθ_t)ᵀ                       (M2)
‖ΔA‖ ≤ δ (1 + ‖A‖) T m / σ,   δ relative to m, the size of E θθᵀ, and σ the least singular value of S₀          (M3)
"""

from collections.abc import Callable, Iterator

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference
from remanence.certificates.instances.data import Generator, Instance
from remanence.certificates.instances.gaussian_models import gaussian_model
from remanence.certificates.oracles import JointGaussian, weakest
from remanence.kalman import Learned, LinearGaussian, learn
from remanence.kalman import sample as draw

STEPS = 6

Learn = Callable[..., Learned]


def learnable_models(rng: Generator) -> Iterator[Instance]:
    """A model, and observations drawn from another one."""
    while True:
        T, d, m = int(rng.integers(5, 15)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
        truth, model = gaussian_model(rng, d=d, m=m), gaussian_model(rng, d=d, m=m)
        model = LinearGaussian(model.A, model.Q, truth.X, model.R, model.mean, model.cov)
        yield {"model": model, "Y": draw(truth, T, rng)[1]}


@claim(
    "An EM step maximises the expected joint log density of models and observations",
    source="learning the task relationship",
    instances=learnable_models,
    conditions=("A, Q, R, mean and cov from the joint posterior of all tasks",),
)
def a_step_of_learning_is_the_exact_maximum(model: LinearGaussian, Y: Array, teach: Learn = learn) -> Evidence:
    """Compare one iteration with (M2), computed from the moments of the joint Gaussian."""
    found, joint, T, X = teach(model, Y, iterations=1, tolerance=0.0).model, JointGaussian(model, Y), len(Y), model.X
    mean, cov = joint.posterior()
    moments = cov.transpose(0, 2, 1, 3) + np.einsum("ti,sj->tsij", mean, mean)  # (T, T, d, d) E θ_tθ_sᵀ
    before, after = np.arange(T - 1), np.arange(1, T)
    S0, S1, S2 = (moments[t, s].sum(axis=0) for t, s in ((before, before), (after, before), (after, after)))  # (M1)
    A = np.linalg.solve(S0, S1.T).T  # (M2)
    Q = (S2 - A @ S1.T) / (T - 1)
    left = Y - mean @ X.T
    R = (left.T @ left + np.sum([X @ cov[t, :, t] @ X.T for t in range(T)], axis=0)) / T
    size = joint.spread + joint.reach**2
    magnified = (1 + float(np.linalg.norm(A))) * T * size / float(np.linalg.svd(S0, compute_uv=False)[-1])
    inside, outside = (1 + float(np.linalg.norm(A))) * magnified, float(np.linalg.norm(X)) ** 2 + np.sum(Y**2) / size
    exact = joint.allowed()
    pairs = (
        (found.A, A, 1.0, exact * magnified),
        (found.Q, Q, size, exact * inside),
        (found.R, R, size, exact * (1 + outside)),
        (found.mean, mean[0], joint.reach, exact),
        (found.cov, cov[0, :, 0], joint.spread, exact),
    )
    given = (f"condition {joint.condition:.0e}", f"moments magnified {magnified:.0e}")
    return weakest(Evidence(difference(a, b, scale), float(allowed), given) for a, b, scale, allowed in pairs)


@claim(
    "EM never decreases the likelihood of the observations",
    source="learning the task relationship",
    instances=learnable_models,
    kind="bound",
    conditions=(f"each of {STEPS} steps, by the joint density",),
)
def learning_never_loses_likelihood(model: LinearGaussian, Y: Array, teach: Learn = learn) -> Evidence:
    """The joint density of all observations before and after each step, relative to the size of its terms."""
    evidence, before = [], JointGaussian(model, Y)
    for _ in range(STEPS):
        model = teach(model, Y, iterations=1, tolerance=0.0).model
        after = JointGaussian(model, Y)
        size = after.distance + float(np.abs(np.log(2 * np.pi * np.linalg.eigvalsh(after.S))).sum())
        lost = (before.loglik - after.loglik) / size
        evidence.append(Evidence(lost, before.allowed() + after.allowed()))
        before = after
    return weakest(evidence)
