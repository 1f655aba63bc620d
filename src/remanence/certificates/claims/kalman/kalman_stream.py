"""Claims about streams of drifting tasks: predictions, innovations, and the filter as a streaming method.

e_t = y_t − X_tθ_{t|t−1}     S_t = R_t + X_tΣ_{t|t−1}X_tᵀ     Σ e_tᵀS_t⁻¹e_t = (y − E y)ᵀ cov(y)⁻¹ (y − E y)      (I1)
mean of (I1) over N streams drawn from the model = number of observations, within (X) of gaussian_models.py    (I2)
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import ERROR_RATE, Evidence, difference
from remanence.certificates.claims.kalman.kalman import beside
from remanence.certificates.instances.data import Generator, Instance
from remanence.certificates.instances.gaussian_models import (
    DRAWS,
    chance,
    constant_models,
    drawn_streams,
    gaussian_models,
    spread,
)
from remanence.certificates.oracles import JointGaussian, weakest
from remanence.kalman import Filtered, Forecast, Innovations, Kalman, LinearGaussian, filter, forecast, innovations
from remanence.kalman import sample as draw
from remanence.methods.protocol import Method

InnovationsFunction = Callable[[LinearGaussian, Filtered, Any], Innovations]
Outlook = Callable[[LinearGaussian, Filtered, int], Forecast]


@claim(
    "The normalized squared innovations of all tasks add up to the joint distance of all observations",
    source="Proposition 3, innovations",
    instances=gaussian_models,
    conditions=("Σ eᵀS⁻¹e over the tasks",),
)
def innovations_add_up_to_the_joint_distance(
    model: LinearGaussian, Y: Array, compute: InnovationsFunction = innovations
) -> Evidence:
    """Compare the squares of `innovations` with the distance of all observations from their mean (I1)."""
    joint = JointGaussian(model, Y)
    off = abs(float(compute(model, filter(model, Y), Y).squares.sum()) - joint.distance)
    size = float(np.linalg.norm(joint.e) * np.linalg.norm(np.linalg.solve(joint.S, joint.e)))
    return Evidence(off / size, joint.allowed(), (f"condition of the answers {joint.condition:.0e}",))


@claim(
    "Under the model the sum of normalized squared innovations is on average the number of observations",
    source="Proposition 3, innovations",
    instances=drawn_streams,
    kind="statistical",
    conditions=(f"{DRAWS} streams drawn from the model", f"error rate {ERROR_RATE:g} per model"),
)
def innovations_are_as_many_as_observations(
    model: LinearGaussian, steps: int, seed: int = 0, compute: InnovationsFunction = innovations
) -> Evidence:
    """The mean over streams of the sum of squares (I2): χ² with one degree of freedom per observation."""
    rng = np.random.default_rng(seed)
    Y = np.array([draw(model, steps, rng)[1] for _ in range(DRAWS)])  # (N, T, m)
    found = compute(model, filter(model, Y), Y).squares.sum(axis=1)
    return Evidence(abs(float(found.mean()) - Y[0].size), chance(np.eye(Y[0].size), DRAWS))


@claim(
    "A forecast is the posterior of future tasks",
    source="KF↓, without observations",
    instances=constant_models,
    conditions=("three tasks ahead",),
)
def forecast_is_the_posterior_of_tasks_to_come(model: LinearGaussian, Y: Array, look: Outlook = forecast) -> Evidence:
    """Compare means and covariances with those of the joint Gaussian that includes the future tasks."""
    found = look(model, filter(model, Y), 3)
    joint = JointGaussian(model, np.vstack([Y, np.full((3, Y.shape[1]), np.nan)]))
    ahead = ((found.mean[k], found.cov[k], len(Y) + k) for k in range(3))
    return weakest(e for mean, cov, t in ahead for e in beside(joint, mean, cov, t))


def streamed_tasks(rng: Generator) -> Iterator[Instance]:
    """Tasks of different length, few rows and many; drift as a number, one per feature, or a singular matrix."""
    while True:
        d = int(rng.integers(1, 5))
        for drift in (0.0, 0.3, tuple(rng.uniform(0, 1, d)), spread(rng, d, 1)):
            rows = rng.integers(1, 2 * d + 3, int(rng.integers(1, 6)))
            tasks = [(rng.standard_normal((n, d)), rng.standard_normal((n, 2))) for n in rows]
            settings = {"noise": float(10 ** rng.uniform(-2, 1)), "ridge": float(10 ** rng.uniform(-1, 1))}
            yield {"tasks": tasks, "drift": drift} | settings


def _model(tasks: list[tuple[Array, Array]], drift: Any, noise: float, ridge: float) -> LinearGaussian:
    d = tasks[0][0].shape[1]
    Q = np.asarray(drift) if np.ndim(drift) == 2 else np.diag(np.broadcast_to(drift, d))
    X, R = [X for X, _ in tasks], [noise * np.eye(len(X)) for X, _ in tasks]
    return LinearGaussian(np.eye(d), Q, X, R, np.zeros(d), np.eye(d) / ridge)


def _learned(method: Method[Any], tasks: list[tuple[Array, Array]]) -> Any:
    state = method.init(tasks[0][0].shape[1], tasks[0][1].shape[1])
    for X, Y in tasks:
        state = method.update(state, X, Y)
    return state


@claim(
    "Kalman, which learns one task per call, equals the filter of the whole stream",
    source="Proposition 3, as a method",
    instances=streamed_tasks,
    conditions=("A = I", "tasks of any number of rows"),
)
def streaming_kalman_is_the_filter(
    tasks: list[tuple[Array, Array]], drift: Any, noise: float = 1.0, ridge: float = 1.0, method: Kalman | None = None
) -> Evidence:
    """Compare the weights after the last task, and the evidence, with the joint Gaussian of each output."""
    kalman = method or Kalman(drift, noise, ridge)
    state, model = _learned(kalman, tasks), _model(tasks, drift, noise, ridge)
    W, found, sizes, total = kalman.weights(state), [], 0.0, 0.0
    for k in range(W.shape[1]):
        joint = JointGaussian(model, [Y[:, k] for _, Y in tasks])
        off = difference(W[:, k], joint.given()[0][-1], joint.reach)
        found.append(Evidence(off, joint.allowed(), (f"condition of the answers {joint.condition:.0e}",)))
        sizes += joint.distance + float(np.abs(np.log(2 * np.pi * np.linalg.eigvalsh(joint.S))).sum())
        total += joint.loglik
    found.append(Evidence(abs(kalman.evidence(state) - total) / sizes, joint.allowed(), found[0].conditions))
    return weakest(found)


@claim(
    "Kalman with a lag smooths the last tasks as the smoother of the whole stream does",
    source="RTS, over the last tasks",
    instances=streamed_tasks,
    conditions=("A = I", "the last two tasks before the newest"),
)
def streaming_smoother_is_the_posterior(
    tasks: list[tuple[Array, Array]], drift: Any, noise: float = 1.0, ridge: float = 1.0, method: Kalman | None = None
) -> Evidence:
    """Compare `smoothed` with the joint Gaussian of all tasks, for the first output."""
    kalman = method or Kalman(drift, noise, ridge, lag=2)
    found = kalman.smoothed(_learned(kalman, tasks))
    joint = JointGaussian(_model(tasks, drift, noise, ridge), [Y[:, 0] for _, Y in tasks])
    last = zip(found, range(len(tasks) - len(found), len(tasks)), strict=True)
    return weakest(e for known, t in last for e in beside(joint, known.mean[:, 0], known.cov, t))
