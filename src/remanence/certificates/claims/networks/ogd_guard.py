"""Claims about OGD as a guard of torch optimizers: old outputs are kept to first order, for any network.

θ ← θ + (I − UUᵀ)Δ        (OGD)   U: the gradients of all old outputs, Δ the optimizer's own step
J_i(θ^t − θ^i) = 0        (F1)    for every old task i, J_i the derivatives of its outputs at θ^i
‖G Δ‖ ≤ √dropped ‖Δ‖      (F2)    G: all gradients seen, if the memory cannot hold all of them
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, rounding
from remanence.certificates.instances.data import Generator, Instance
from remanence.certificates.instances.networks import (
    OPTIMIZERS,
    MakeGuard,
    Task,
    draw_layers,
    draw_tasks,
    guarded_tasks,
    inputs_of,
    jacobian,
    learned_tasks,
    network,
    quiet,
    train,
    vector,
    weights,
)
from remanence.certificates.instances.runs import largest, operations, tightest
from remanence.deep import OGD


def sizeable_tasks(rng: Generator) -> Iterator[Instance]:
    """Networks and tasks that leave some directions free."""
    for data in guarded_tasks(rng):
        outputs = sum(Y.size for _, Y in data["tasks"])
        if outputs < sum(layer.size for layer in data["layers"]):
            yield data


@claim(
    "Guarded by OGD, a network keeps its old outputs to first order, with any optimizer",
    source="(OGD), for networks",
    instances=sizeable_tasks,
    conditions=("J(θ' − θ) = 0 with J, θ after the old task", "any number of steps"),
)
def ogd_moves_no_old_answer_to_first_order(
    layers: list[Array], tasks: list[Task], optimizer: str, guard: MakeGuard = OGD
) -> Evidence:
    """Multiply the derivatives of all old outputs by the change of θ since they were absorbed (F1)."""
    net = network(layers)
    kept: list[tuple[Array, Array]] = []
    worst = 0.0
    for X, _ in learned_tasks(net, guard(net), tasks, optimizer):
        now = vector(net)
        for J, then in kept:
            size = float(np.linalg.norm(J) * (np.linalg.norm(now) + np.linalg.norm(then)))
            worst = max(worst, float(np.linalg.norm(J @ (now - then))) / size)
        kept.append((jacobian(net, X), now))
    rows = sum(len(J) for J, _ in kept)
    return Evidence(worst, rounding(1.0, operations(rows, len(now))), (f"{len(now)} parameters", optimizer))


@claim(
    "Guarded by OGD, a model that is linear in its parameters keeps every old output",
    source="(OGD)",
    instances=sizeable_tasks,
    conditions=("only the last layer is trained", "any optimizer, any number of steps"),
)
def ogd_keeps_the_answers_of_linear_models(
    layers: list[Array], tasks: list[Task], optimizer: str, guard: MakeGuard = OGD
) -> Evidence:
    """Compare the outputs of all old tasks after every later one."""
    net = network(layers)
    net[:-1].requires_grad_(False)
    kept: list[tuple[Array, Array]] = []
    worst = size = 0.0
    for X, _ in learned_tasks(net, guard(net), tasks, optimizer):
        changes = [_outputs(net, old) - then for old, then in kept]
        worst = max([worst, *map(largest, changes)])
        kept.append((X, _outputs(net, X)))
        size = max(size, float(np.linalg.norm(inputs_of(net, X)[0][-1]) * np.linalg.norm(weights(net)[-1])))
    rows = sum(Y.size for _, Y in tasks)
    return Evidence(worst / size, rounding(1.0, operations(rows, layers[-1].size)), (optimizer,))


def _outputs(net: Any, X: Array) -> Array:
    return np.asarray(net(torch.from_numpy(X)).detach().numpy())


def two_layers(rng: Generator) -> Iterator[Instance]:
    """Two linear layers without biases, inputs that do not use every direction, and few to many steps."""
    names = list(OPTIMIZERS)
    while True:
        for i, name in enumerate(names):
            d, hidden, c = (int(rng.integers(2, 7)) for _ in range(3))
            yield {
                "layers": draw_layers(rng, [d, hidden, c], bias=False),
                "tasks": draw_tasks(rng, [int(rng.integers(1, d + 1)), 4], d, c),
                "optimizer": name,
                "steps": 1 + 3 * i,
            }


@claim(
    "Guarded by OGD, two linear layers change an old output by xΔ₁Δ₂ only: quadratically in the distance",
    source="(OGD), for networks",
    instances=two_layers,
    conditions=("Δ₁, Δ₂ the changes of the layers since the output was absorbed",),
)
def ogd_moves_two_layers_by_the_square(
    layers: list[Array], tasks: list[Task], optimizer: str, steps: int, guard: MakeGuard = OGD
) -> Evidence:
    """Compare the change of an old output with the product of both changes: f is linear in each layer."""
    net = network(layers, bias=False)
    del net[1]  # no tanh
    (old, _), task = tasks
    guarding, made = guard(net), OPTIMIZERS[optimizer](net.parameters())
    with quiet():
        guarding.absorb([torch.from_numpy(old)])
        before, then = _outputs(net, old), weights(net)
        with guarding.protect(made):
            train(net, made, task, steps)
    first, second = (now - was for now, was in zip(weights(net), then, strict=True))
    spans = [float(np.linalg.norm(a) + np.linalg.norm(b)) for a, b in zip(weights(net), then, strict=True)]
    size = float(np.linalg.norm(old)) * spans[0] * spans[1]
    off = float(np.linalg.norm(_outputs(net, old) - before - old @ first @ second)) / size
    share = float(np.linalg.norm(old @ first @ second)) / size
    given = (optimizer, f"the quadratic term is {share:.0e} of the output's size")
    return Evidence(off, rounding(1.0, operations(before.size, len(vector(net)))), given)


def crowded_tasks(rng: Generator) -> Iterator[Instance]:
    """One linear layer and a rank below the number of directions of the tasks."""
    names = list(OPTIMIZERS)
    while True:
        for i, name in enumerate(names):
            d, c = int(rng.integers(3, 9)), int(rng.integers(1, 4))
            tasks = draw_tasks(rng, rng.integers(1, 5, 3).tolist(), d, c)
            yield {"layers": draw_layers(rng, [d, c]), "tasks": tasks, "optimizer": name, "rank": 1 + i}


@claim(
    "What OGD's memory discards bounds the change of old outputs: at most √dropped ‖Δ‖ in total",
    source="completes (OGD), bounded memory",
    kind="bound",
    instances=crowded_tasks,
    conditions=("a model linear in its parameters", "any optimizer"),
)
def ogd_bounds_what_a_full_memory_forgets(
    layers: list[Array], tasks: list[Task], optimizer: str, rank: int, guard: Callable[..., Any] = OGD
) -> Evidence:
    """Compare the change of θ with the change of the outputs while one more task is learned (F2)."""
    net = network(layers)
    guarding = guard(net, rank)
    for _ in learned_tasks(net, guarding, tasks[:-1], optimizer):
        pass
    old = np.vstack([X for X, _ in tasks[:-1]])
    before, start = _outputs(net, old), vector(net)
    made = OPTIMIZERS[optimizer](net.parameters())
    with quiet(), guarding.protect(made):
        train(net, made, tasks[-1])
    distance = float(np.linalg.norm(vector(net) - start))
    length = float(np.sqrt(((old**2).sum() + len(old)) * before.shape[1]))  # of all gradients together
    lost = rounding(1.0, operations(before.size, len(start)))
    limit = (guarding.report().dropped + lost * length**2) ** 0.5 * distance
    moved = float(np.linalg.norm(_outputs(net, old) - before))
    return tightest([(moved, limit)], lost * length * float(np.linalg.norm(start)), f"rank {rank}", optimizer)
