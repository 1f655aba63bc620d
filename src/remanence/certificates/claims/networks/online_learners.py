"""Claims about networks that learn online with a soft memory: EBP, linearized RLS and the extended Kalman filter.

    Θ ← Θ + Φ a gᵀ,  Φ = (λI + Σ aaᵀ)⁻¹ with the new input a                 (EBP)   g: back-propagated error
    θ ← θ + K(y − f(x; θ)),  J = ∂f(x; θ)/∂θ in place of x                   (EKF)

On one linear layer each is the method it generalizes; on networks they are compared with each other and with the
equations they solve.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, condition, difference
from remanence.certificates.claims.rls.rls import noisy_streams, settings
from remanence.certificates.instances.data import Generator, Instance
from remanence.certificates.instances.networks import (
    Task,
    draw_layers,
    draw_tasks,
    inputs_of,
    jacobian,
    linear_layers,
    network,
    quiet,
    vector,
    weights,
)
from remanence.certificates.instances.runs import operations, walked, within
from remanence.certificates.oracles import JointGaussian, LeastSquares, weakest
from remanence.deep import EBP, EKF, OWM, LinearizedRLS
from remanence.kalman import LinearGaussian
from remanence.kalman.streaming import Kalman
from remanence.methods import RLS

Learner = Callable[..., Any]


def one_layer(X: Array, Y: Array) -> Any:
    return network([np.zeros((X.shape[1], Y.shape[1]))], bias=False)


def _cuts(rows: int) -> list[slice]:
    """A stream in batches of one, two, three, … rows."""
    ends = np.minimum(np.cumsum(np.arange(1, rows + 1)), rows)
    return [slice(int(a), int(b)) for a, b in zip([0, *ends[:-1]], ends, strict=True) if b > a]


def _is_rls(learner: Any, net: Any, X: Array, Y: Array, ridge: float, forget: float) -> Evidence:
    """Compare a learner of one layer, batch by batch, with RLS row by row."""
    path, found = walked(RLS(ridge, forget), X, Y), []
    for cut in _cuts(len(X)):
        learner.step(X[cut], Y[cut])
        system = LeastSquares(X[: cut.stop], Y[: cut.stop], ridge, forget)
        off = difference(weights(net)[0], path[cut.stop])
        found.append(Evidence(off, system.allowed_pending(), settings(ridge, forget)))
    return weakest(found)


@claim(
    "EBP of a network with one linear layer is RLS",
    source="layer-wise RLS",
    instances=noisy_streams,
    edge=("RLS", "EBP"),
    conditions=("cut into batches anywhere", "β < 1, β = 1 and β > 1"),
)
def ebp_of_one_layer_is_rls(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, learner: Learner = EBP
) -> Evidence:
    """The weights after every batch."""
    net = one_layer(X, Y)
    return _is_rls(learner(net, ridge, forget), net, X, Y, ridge, forget)


@claim(
    "Linearized RLS of a network with one linear layer is RLS",
    source="linearized RLS",
    instances=noisy_streams,
    edge=("Linearized RLS", "RLS"),
    conditions=("cut into batches anywhere", "β < 1, β = 1 and β > 1"),
)
def linearised_rls_of_one_layer_is_rls(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, learner: Learner = LinearizedRLS
) -> Evidence:
    """The weights after every batch."""
    net = one_layer(X, Y)
    return _is_rls(learner(net, ridge, forget), net, X, Y, ridge, forget)


def remembering_networks(rng: Generator) -> Iterator[Instance]:
    """Networks of one to three layers, inputs they remember, and one new sample; from large to small ridges."""
    while True:
        for depth in (1, 2, 3):
            widths = rng.integers(1, 6, depth + 1).tolist()
            (X, _), (x, y) = draw_tasks(rng, [int(rng.integers(1, 8)), 1], widths[0], widths[-1])
            ridge = float(10 ** rng.uniform(-4, 2))
            yield {"layers": draw_layers(rng, widths), "X": X, "x": x, "y": y, "ridge": ridge}


@claim(
    "A step of EBP on one sample is a step of OWM along the gradient, 1/(α + aᵀPa) long in a layer with input a",
    source="OWM as an application of EBP",
    instances=remembering_networks,
    edge=("EBP", "OWM"),
    conditions=("the same inputs remembered", "α = λ", "networks of any depth"),
)
def ebp_is_owm_with_a_step(
    layers: list[Array], X: Array, x: Array, y: Array, ridge: float = 1.0, learner: Learner = EBP, guard: Learner = OWM
) -> Evidence:
    """Compare the two networks after the step; targets equal to the outputs teach EBP the inputs and change nothing."""
    one, two = network(layers), network(layers)
    ebp = learner(one, ridge, 1.0)
    ebp.step(X, inputs_of(one, X)[1])
    ebp.step(x, y)
    kept, groups, kappa = guard(two, ridge), [], 1.0
    for part, A, a in zip(linear_layers(two), inputs_of(two, X)[0], inputs_of(two, x)[0], strict=True):
        information = ridge * np.eye(A.shape[1]) + A.T @ A
        passed = ridge * np.linalg.solve(information, a[0])
        groups.append({"params": part.parameters(), "lr": 1 / (ridge + float(a[0] @ passed))})
        kappa = max(kappa, float(np.linalg.cond(information)))
    optimizer = torch.optim.SGD(groups)
    with quiet():
        kept.absorb([torch.from_numpy(X)])
        with kept.protect(optimizer):
            ((torch.from_numpy(y) - two(torch.from_numpy(x))).square().sum() / 2).backward()
            strides = [float(group["lr"] * _length(group["params"])) for group in optimizer.param_groups]
            optimizer.step()
    grown = float(np.prod([1 + np.linalg.norm(layer, 2) for layer in layers]))
    lengths = sum(strides) + float(sum(np.linalg.norm(layer) for layer in [*layers, *weights(one)]))
    off = max(float(np.linalg.norm(a - b)) for a, b in zip(weights(one), weights(two), strict=True)) / lengths
    return within(
        off,
        kappa * grown,
        operations(len(X) + 1, max(map(len, layers))),
        "condition of the memory times layer norms",
        f"λ = {ridge:g}",
    )


def _length(parameters: list[Any]) -> float:
    """The length of the gradient: subtracting part of a step loses digits relative to the whole step."""
    return float(np.sqrt(sum(float(p.grad.square().sum()) for p in parameters)))


def curved_networks(rng: Generator) -> Iterator[Instance]:
    """Small networks, batches of one sample and of several, from narrow to wide priors."""
    while True:
        for widths in ([2, 3, 1], [3, 2], [2, 2, 2, 1]):
            sizes = rng.integers(1, 4, 3).tolist()
            ridge = float(10 ** rng.uniform(-1, 2))
            yield {
                "layers": draw_layers(rng, widths),
                "tasks": draw_tasks(rng, sizes, widths[0], widths[-1]),
                "ridge": ridge,
            }


@claim(
    "Linearized RLS of a network is its extended Kalman filter without drift",
    source="linearized RLS and extensions of KF",
    instances=curved_networks,
    edge=("EKF", "Linearized RLS"),
    conditions=("Q = 0", "R = 1", "β = 1", "each step from the same weights"),
)
def linearised_rls_of_networks_is_their_extended_filter(
    layers: list[Array], tasks: list[Task], ridge: float, learner: Learner = LinearizedRLS, other: Learner = EKF
) -> Evidence:
    """Compare the weights after every batch; one memory stores information, the other a covariance."""
    one, two = network(layers), network(layers)
    rls, ekf = learner(one, ridge), other(two, noise=1.0, drift=0.0, ridge=ridge)
    rows, found = [np.sqrt(ridge) * np.eye(len(vector(one)))], []
    for X, Y in tasks:
        before = vector(one)
        rows.append(jacobian(one, X))
        error = float(np.linalg.norm(Y - inputs_of(one, X)[1]))
        rls.step(X, Y)
        ekf.step(X, Y)
        A = np.vstack(rows)
        kappa = condition(A) ** 2
        size = float(np.linalg.norm(before) + np.linalg.norm(rows[-1]) * error / ridge)
        off = difference(vector(one), vector(two), size)
        found.append(within(off, kappa, operations(*A.shape), "condition of the information", f"λ = {ridge:g}"))
        two.load_state_dict(one.state_dict())
    return weakest(found)


def drifting_tasks(rng: Generator) -> Iterator[Instance]:
    """Tasks of different lengths, with no drift, some drift or one number per feature, and small to large noise."""
    while True:
        d = int(rng.integers(1, 5))
        for drift in (0.0, 0.3, tuple(rng.uniform(0, 1, d))):
            tasks = draw_tasks(rng, rng.integers(1, 2 * d + 3, int(rng.integers(1, 6))).tolist(), d, 1)
            scales = {"noise": float(10 ** rng.uniform(-2, 1)), "ridge": float(10 ** rng.uniform(-1, 1))}
            yield {"tasks": tasks, "drift": drift} | scales


@claim(
    "The extended Kalman filter of a network with one linear layer is the Kalman filter",
    source="extensions of KF",
    instances=drifting_tasks,
    edge=("EKF", "KF"),
    conditions=("one batch per task", "drift before every task but the first"),
)
def extended_filter_of_one_layer_is_the_filter(
    tasks: list[Task], drift: Any, noise: float, ridge: float, learner: Learner = EKF
) -> Evidence:
    """Compare the weights after every task with the filter as a streaming method."""
    d = tasks[0][0].shape[1]
    net = one_layer(*tasks[0])
    ekf, method = learner(net, noise=noise, drift=drift, ridge=ridge), Kalman(drift, noise, ridge)
    state, found = method.init(d, 1), []
    Q, R = np.diag(np.broadcast_to(drift, d)), [noise * np.eye(len(X)) for X, _ in tasks]
    model = LinearGaussian(np.eye(d), Q, [X for X, _ in tasks], R, np.zeros(d), np.eye(d) / ridge)
    for t, (X, Y) in enumerate(tasks, start=1):
        ekf.step(X, Y)
        state = method.update(state, X, Y)
        joint = JointGaussian(model, [y[:, 0] for _, y in tasks], t)
        off = difference(weights(net)[0], np.asarray(method.weights(state)), joint.reach)
        found.append(Evidence(off, joint.allowed(), (f"condition of the outputs {joint.condition:.0e}",)))
    return weakest(found)
