"""Claims about guards of torch optimizers: GP and OGD keep the outputs of networks, OWM keeps them approximately.

    Θ ← Θ + PΔ,   Δ the optimizer's own step, projected last                 (GP)     PX = 0, X: inputs of old tasks
    Θ ← Θ + αΦΔ,  Φ = (αI + Σ xxᵀ)⁻¹                                         (OWM)
    θ ← θ + (I − UUᵀ)Δ,  all parameters together                             (OGD)    U: gradients of old outputs

The guards of `remanence.deep` are run on small networks; tasks have one sample or many, and steps are made by several
optimizers, with momentum, decay and line searches.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, condition, difference, rounding
from remanence.certificates.claims.rls.rls_phi import phi, state_after
from remanence.certificates.instances.data import Generator, Instance, graded_rows, stepped_streams, unit_rows
from remanence.certificates.instances.networks import (
    MakeGuard,
    Task,
    guarded_tasks,
    inputs_of,
    learned_tasks,
    network,
    quiet,
    weights,
)
from remanence.certificates.instances.runs import largest, operations, tightest, walked, within
from remanence.certificates.oracles import LeastSquares, weakest
from remanence.deep import OWM, GradientProjection
from remanence.methods import OGD, RLS
from remanence.methods.protocol import Method

ROUNDING_FLOOR = 64  # directions below this many units of rounding count as rounding, see memory/subspace.py


def roundings(layers: list[Array], tasks: list[Task]) -> int:
    """Number of roundings that an output goes through in all layers, including what the memories treat as rounding."""
    widest, rows = max(max(layer.shape) for layer in layers), max(len(X) for X, _ in tasks)
    return operations(len(tasks) * len(layers), widest) + 2 * ROUNDING_FLOOR * len(tasks) * len(layers) * rows


def magnification(layers: list[Array]) -> float:
    """Bound on how much the layers amplify an error made in the first of them; tanh does not amplify."""
    return float(np.prod([max(1.0, float(np.linalg.norm(layer, 2))) for layer in layers]))


@claim(
    "A guarded network keeps the features of old inputs in every layer, with any optimizer and any number of steps",
    source="Theorem 6",
    instances=guarded_tasks,
    conditions=("the step is projected, and last", "biases are weights on a constant one"),
)
def guarded_networks_keep_old_features(
    layers: list[Array], tasks: list[Task], optimizer: str, guard: MakeGuard = GradientProjection
) -> Evidence:
    """Compare the inputs of every layer and the outputs, for all old tasks, after every later task."""
    net = network(layers)
    kept: list[tuple[Array, list[Array]]] = []
    worst, kappa = 0.0, 1.0
    for X, _ in learned_tasks(net, guard(net), tasks, optimizer):
        kappa = max(kappa, magnification(weights(net)))
        for old, then in kept:
            pairs = zip(_everything(net, old), then, strict=True)
            worst = max(worst, *(largest(now - before) for now, before in pairs))
        kept.append((X, _everything(net, X)))
    size = max(float(np.linalg.norm(X, axis=1).max()) for X, _ in tasks) + 1
    return within(worst / size, kappa, roundings(layers, tasks), "product of layer norms", optimizer)


def _everything(net: Any, X: Array) -> list[Array]:
    inputs, outputs = inputs_of(net, X)
    return [*inputs, outputs]


def few_stepped_streams(rng: Generator) -> Iterator[Instance]:
    """The hard streams and some random ones; each sample is a task of its own."""
    return islice(stepped_streams(rng), 8)


@claim(
    "The guard of one linear layer, with gradient steps, is OGD",
    source="(GP), one layer",
    instances=few_stepped_streams,
    edge=("GP", "OGD"),
    conditions=("one sample per task", "steps of any size and sign"),
)
def guard_of_one_layer_is_ogd(
    X: Array, Y: Array, given: list[float], guard: MakeGuard = GradientProjection, method: Method[Any] | None = None
) -> Evidence:
    """Compare steps of length one on the loss times γ, which may be negative, with OGD with the same steps."""
    net = network([np.zeros((X.shape[1], Y.shape[1]))], bias=False)
    guarding, optimizer = guard(net), torch.optim.SGD(net.parameters(), lr=1.0)
    for i, step in enumerate(given):
        x, y = (torch.from_numpy(part[i : i + 1]) for part in (X, Y))
        with quiet():
            with guarding.protect(optimizer):
                optimizer.zero_grad()
                (step * (y - net(x)).square().sum() / 2).backward()
                optimizer.step()
            guarding.absorb([x])
    path = walked(method or OGD(given), X, Y)
    growth = float(np.prod([max(1.0, abs(1 - step)) for step in given]))
    kappa, size = max(growth, condition(X)), largest(np.linalg.norm(path, axis=1))
    off = difference(weights(net)[0], path[-1], size)
    return within(off, kappa, operations(*X.shape) + 2 * ROUNDING_FLOOR * len(X), "growth or cond")


def weakly_guarded_tasks(rng: Generator) -> Iterator[Instance]:
    """The same tasks with an energy below one: from nearly all directions to very few."""
    for i, data in enumerate(guarded_tasks(rng)):
        yield data | {"energy": (0.999, 0.9, 0.5, 0.1)[i % 4]}


MakeWeakGuard = Callable[..., Any]


@claim(
    "The drift that a guard reports is the change of each layer's outputs on everything it absorbed",
    source="completes Theorem 6, low-rank GP",
    instances=weakly_guarded_tasks,
    conditions=("energy below 1", "root mean square, relative to the outputs"),
)
def reported_drift_is_measured_drift(
    layers: list[Array], tasks: list[Task], optimizer: str, energy: float, guard: MakeWeakGuard = GradientProjection
) -> Evidence:
    """Compare the report, which needs no stored data, with the outputs on all inputs of each layer."""
    net = network(layers)
    guarding = guard(net, energy)
    seen = [(weights(net), inputs_of(net, X)[0]) for X, _ in learned_tasks(net, guarding, tasks, optimizer)]
    evidence = []
    for i, (now, report) in enumerate(zip(weights(net), guarding.report().layers, strict=True)):
        moved = sum(float(((inputs[i] @ (now - then[i])) ** 2).sum()) for then, inputs in seen)
        outputs = sum(float(((inputs[i] @ then[i]) ** 2).sum()) for then, inputs in seen)
        length = float(np.sqrt(sum((inputs[i] ** 2).sum() for _, inputs in seen)))
        kappa = length * float(np.linalg.norm(now) + max(np.linalg.norm(then[i]) for then, _ in seen)) / outputs**0.5
        off = abs(report.drift - (moved / outputs) ** 0.5)
        evidence.append(within(off, kappa, roundings(layers, tasks), "lengths over outputs", f"energy {energy:g}"))
    return weakest(evidence)


@claim(
    "With a share e of the energy protected, the outputs of a task change by at most √(1 − e) ‖inputs‖ ‖ΔΘ‖",
    source="completes Theorem 6, low-rank GP",
    kind="bound",
    instances=weakly_guarded_tasks,
    conditions=("layer by layer, on the inputs of the layer", "any optimizer"),
)
def weak_guards_bound_what_is_forgotten(
    layers: list[Array], tasks: list[Task], optimizer: str, energy: float, guard: MakeWeakGuard = GradientProjection
) -> Evidence:
    """For every task and layer, compare the change of its outputs with the change of the layer."""
    net = network(layers)
    seen = [(weights(net), inputs_of(net, X)[0]) for X, _ in learned_tasks(net, guard(net, energy), tasks, optimizer)]
    sides = []
    for then, inputs in seen[:-1]:
        for before, now, A in zip(then, weights(net), inputs, strict=True):
            length = float(np.linalg.norm(A))
            rounds = rounding(float(np.linalg.norm(now) + np.linalg.norm(before)) * length, roundings(layers, tasks))
            limit = (1 - energy) ** 0.5 * length * float(np.linalg.norm(now - before, 2))
            sides.append((float(np.linalg.norm(A @ (now - before))), limit + rounds))
    return tightest(sides, 0.0, f"energy {energy:g}", optimizer)


def softly_guarded_moves(rng: Generator) -> Iterator[Instance]:
    """Tasks of a few inputs, a step direction for each, and a damping from strong to weak."""
    cases = [unit_rows(rng, 6, 4), graded_rows(rng, 6, 8, 1e2), unit_rows(rng, 9, 12)]
    while True:
        for X in cases:
            moves = [rng.standard_normal((X.shape[1], 3)) for _ in range(3)]
            yield {"tasks": np.array_split(X, 3), "moves": moves, "damping": float(10 ** rng.uniform(-10, 0))}
        cases = [unit_rows(rng, int(rng.integers(3, 10)), int(rng.integers(2, 10))) for _ in cases]


def faintly_damped_moves(rng: Generator) -> Iterator[Instance]:
    """The same with a damping close to zero."""
    for data in softly_guarded_moves(rng):
        yield data | {"damping": float(10 ** rng.uniform(-12, -6))}


def _moved(make_guard: MakeGuard, tasks: list[Array], moves: list[Array]) -> Array:
    """Return Θ of one layer after a step along −Δ before each task is absorbed."""
    net = network([np.zeros_like(moves[0])], bias=False)
    guard, optimizer = make_guard(net), torch.optim.SGD(net.parameters(), lr=1.0)
    for X, move in zip(tasks, moves, strict=True):
        net[0].weight.grad = torch.from_numpy(move.T.copy())
        with quiet():
            with guard.protect(optimizer):
                optimizer.step()
            guard.absorb([torch.from_numpy(X)])
    return weights(net)[0]


@claim(
    "As its damping vanishes OWM becomes GP",
    source="(GP) and OWM",
    kind="bound",
    instances=faintly_damped_moves,
    edge=("GP", "OWM"),
    conditions=("one layer, any directions", "‖Θ − Θ'‖ ≤ Σ ‖Δ‖ α/(σ² + α), σ the weakest input direction"),
)
def owm_tends_to_gp(
    tasks: list[Array],
    moves: list[Array],
    damping: float,
    soft: MakeWeakGuard = OWM,
    hard: MakeGuard = GradientProjection,
) -> Evidence:
    """Compare the layer after the same steps under both guards."""
    apart = difference(_moved(lambda net: soft(net, damping), tasks, moves), _moved(hard, tasks, moves), 1.0)
    limit, size = 0.0, float(sum(np.linalg.norm(move) for move in moves))
    for t in range(1, len(tasks)):
        s = np.linalg.svd(np.vstack(tasks[:t]), compute_uv=False)
        weakest_direction = float(s[s > 1e-9 * s[0]][-1])
        limit += float(np.linalg.norm(moves[t])) * damping / (weakest_direction**2 + damping)
    rows, d = sum(map(len, tasks)), tasks[0].shape[1]
    kappa = condition(np.vstack(tasks)) * size
    return Evidence(
        apart, limit + rounding(kappa, operations(rows, d) + 2 * ROUNDING_FLOOR * rows), (f"α = {damping:g}",)
    )


@claim(
    "OWM multiplies each step by αΦ, Φ being that of RLS with the ridge α",
    source="OWM and layer-wise RLS",
    instances=softly_guarded_moves,
    edge=("RLS", "OWM"),
    conditions=("one layer, any directions",),
)
def owm_lets_through_the_phi_of_rls(
    tasks: list[Array], moves: list[Array], damping: float, guard: MakeWeakGuard = OWM, method: RLS | None = None
) -> Evidence:
    """Compare the sum of all projected steps with Φ computed from the predictive variances of RLS."""
    found = _moved(lambda net: guard(net, damping), tasks, moves)
    rls, allowed = method or RLS(damping), 0.0
    expected, size = -moves[0], float(sum(np.linalg.norm(move) for move in moves))
    for t in range(1, len(tasks)):
        X = np.vstack(tasks[:t])
        system = LeastSquares(X, np.ones((len(X), 1)), damping)
        shape = damping * phi(rls, state_after(rls, X, np.ones((len(X), 1))), system)
        expected = expected - shape @ moves[t]
        allowed += system.allowed_phi() * float(np.linalg.norm(shape)) * float(np.linalg.norm(moves[t])) / size
    rows, d = sum(map(len, tasks)), tasks[0].shape[1]
    return Evidence(
        difference(found, expected, size), allowed + rounding(1.0, operations(rows, d)), (f"α = {damping:g}",)
    )
