"""Claims about GEM and constrained learning, the guards that keep samples of old tasks.

GEM:          minimise ½‖x − Δ‖²   where   ⟨∇ℓₖ(θ), x⟩ ≤ 0  for every old task k      Δ: the optimizer's step from θ
Constrained:  θ ← θ − γ(∇ℓ + Σ max(0, λₖ + ρ(ℓₖ − boundₖ)) ∇ℓₖ),   λₖ ← max(0, λₖ + η(ℓₖ − boundₖ))
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference, rounding
from remanence.certificates.instances.data import Generator, Instance
from remanence.deep import GEM, Constrained

RATE = 1e-4
STEPS, PRIMAL, DUAL, PENALTY, SLACK = 20, 0.05, 0.1, 1.0, 0.01
Tasks = list[tuple[Array, Array]]


def linear_tasks(rng: Generator) -> Iterator[Instance]:
    """Up to three old tasks and a new one for a linear model, from weights that fit none of them."""
    while True:
        d, count = int(rng.integers(4, 9)), int(rng.integers(2, 5))
        tasks = [(rng.standard_normal((12, d)), rng.standard_normal((12, 1))) for _ in range(count)]
        yield {"W": rng.standard_normal(d), "tasks": tasks}


def learned_tasks(rng: Generator) -> Iterator[Instance]:
    """The same from the weights that fit all old tasks best, so that learning the new one reaches a bound."""
    for data in linear_tasks(rng):
        X, Y = (np.concatenate(parts) for parts in zip(*data["tasks"][:-1], strict=True))
        yield data | {"W": np.linalg.lstsq(X, Y, rcond=None)[0][:, 0]}


def _trained(W: Array, tasks: Tasks, guard: Callable[[Any], Any], rate: float, steps: int) -> tuple[Array, Any]:
    """The weights after some steps of SGD on the last task, from W, with the others absorbed; and the guard."""
    net = torch.nn.Linear(len(W), 1, bias=False).double()
    with torch.no_grad():
        net.weight.copy_(torch.from_numpy(W)[None])
    guarded, pairs = guard(net), [(torch.from_numpy(X), torch.from_numpy(Y)) for X, Y in tasks]
    for pair in pairs[:-1]:
        guarded.absorb([pair])
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    with guarded.protect(optimizer):
        for _ in range(steps):
            optimizer.zero_grad()
            (net(pairs[-1][0]) - pairs[-1][1]).square().mean().backward()
            optimizer.step()
    return net.weight.detach().numpy()[0], guarded


def _slope(W: Array, X: Array, Y: Array) -> Array:
    return np.asarray(2 * X.T @ (X @ W - Y[:, 0]) / len(X))


@claim(
    "Under GEM a step is the nearest one along which no old loss rises, a quadratic program over the gradients",
    source="Lopez-Paz and Ranzato (2017); the paper's constrained learning for networks",
    instances=linear_tasks,
    conditions=("a linear model", "the first step after a task", f"SGD, step {RATE:g}"),
)
def gem_makes_the_nearest_step(W: Array, tasks: Tasks, guard: Callable[[Any], Any] = GEM) -> Evidence:
    """One step of SGD, against non-negative least squares over all gradients."""
    from scipy.optimize import nnls

    after, _ = _trained(W, tasks, guard, RATE, 1)
    G, g = np.array([_slope(W, *task) for task in tasks[:-1]]), _slope(W, *tasks[-1])
    exact = g + G.T @ nnls(G.T, -g)[0]
    found = (W - after) / RATE
    kappa = float(np.linalg.cond(G)) ** 2
    scale = float(np.linalg.norm(g) + np.linalg.norm(W) / RATE / kappa)
    return Evidence(difference(found, exact, scale), rounding(kappa, 40 * G.size), (f"cond² {kappa:.0e}",))


def _constrained(net: Any) -> Constrained:
    return Constrained(net, slack=SLACK, penalty=PENALTY, step=DUAL)


@claim(
    "Under constrained learning weights and multipliers make the steps of the augmented Lagrangian",
    source="Elenter et al. (2022); Bertsekas (1982); the paper's constrained learning for networks",
    instances=learned_tasks,
    conditions=("a linear model", f"{STEPS} steps of SGD, step {PRIMAL:g}", f"ρ {PENALTY:g}, η {DUAL:g}"),
)
def constrained_learning_follows_the_augmented_lagrangian(
    W: Array, tasks: Tasks, guard: Callable[[Any], Any] = _constrained
) -> Evidence:
    """Weights and multipliers after a few steps, against the same steps with gradients written out."""
    after, guarded = _trained(W, tasks, guard, PRIMAL, STEPS)
    V, multipliers = W, np.zeros(len(tasks) - 1)
    bounds = np.array([_loss(W, *task) for task in tasks[:-1]]) + SLACK
    for _ in range(STEPS):
        excess = np.array([_loss(V, *task) for task in tasks[:-1]]) - bounds
        pull = np.maximum(0, multipliers + PENALTY * excess) @ np.array([_slope(V, *task) for task in tasks[:-1]])
        V, multipliers = V - PRIMAL * (_slope(V, *tasks[-1]) + pull), np.maximum(0, multipliers + DUAL * excess)
    found = np.concatenate([after, guarded.report().multipliers])
    exact = np.concatenate([V, multipliers])
    return Evidence(difference(found, exact), rounding(1e2, 40 * STEPS * sum(X.size for X, _ in tasks)))


def _loss(W: Array, X: Array, Y: Array) -> float:
    return float(np.square(X @ W - Y[:, 0]).mean())
