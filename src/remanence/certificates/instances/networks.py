"""Small torch networks made of NumPy arrays, and how the claims about guards and online learners train them.

x^ℓ = tanh([x^{ℓ−1} 1] Θ_ℓ),   the last layer without tanh            (N1)   Θ_ℓ (inputs + 1, outputs)
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from remanence.arrays import Array
from remanence.certificates.instances.data import Generator, Instance
from remanence.deep import Guard

Task = tuple[Array, Array]  # X (n, d), Y (n, c)
MakeGuard = Callable[[nn.Module], Guard]
MakeOptimizer = Callable[[Any], torch.optim.Optimizer]

OPTIMIZERS: dict[str, MakeOptimizer] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD with momentum and decay": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.1),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.02),
    "LBFGS": lambda p: torch.optim.LBFGS(p, lr=0.3, max_iter=2, line_search_fn="strong_wolfe"),
}
STEPS = 3


def network(layers: list[Array], bias: bool = True) -> nn.Sequential:
    """The network (N1) in double precision; without the row of ones if there is no bias."""
    parts: list[nn.Module] = []
    for i, layer in enumerate(layers):
        inputs = len(layer) - bias
        linear = nn.Linear(inputs, layer.shape[1], bias, dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(layer[:inputs].T))
            if bias:
                linear.bias.copy_(torch.from_numpy(layer[-1]))
        parts += [nn.Tanh(), linear] if i else [linear]
    return nn.Sequential(*parts)


def linear_layers(net: nn.Sequential) -> list[nn.Linear]:
    return [part for part in net if isinstance(part, nn.Linear)]


def weights(net: nn.Sequential) -> list[Array]:
    """Θ_ℓ of every layer, as copies."""
    found = []
    for layer in linear_layers(net):
        parts = [layer.weight.T] if layer.bias is None else [layer.weight.T, layer.bias[None]]
        found.append(torch.cat(parts).detach().numpy().copy())
    return found


def vector(net: nn.Module) -> Array:
    """Return all parameters as one vector (D,)."""
    return np.concatenate([p.detach().numpy().ravel() for p in net.parameters()])


@torch.no_grad()
def inputs_of(net: nn.Sequential, X: Array) -> tuple[list[Array], Array]:
    """Return the inputs of each layer for X, with a constant one if it has a bias, and the network's outputs."""
    found, x = [], torch.from_numpy(X)
    for part in net:
        if isinstance(part, nn.Linear):
            found.append(x.numpy() if part.bias is None else np.column_stack([x.numpy(), np.ones(len(X))]))
        x = part(x)
    return found, x.numpy()


def jacobian(net: nn.Module, X: Array) -> Array:
    """Return the derivatives of every output by every parameter, (n c, D), by plain backward passes."""
    outputs, parameters = net(torch.from_numpy(X)).flatten(), list(net.parameters())
    rows = [torch.autograd.grad(output, parameters, retain_graph=True) for output in outputs]
    return np.array([np.concatenate([g.numpy().ravel() for g in row]) for row in rows])


def train(net: nn.Module, optimizer: torch.optim.Optimizer, task: Task, steps: int = STEPS) -> None:
    """A few steps on the mean squared error."""
    x, y = (torch.from_numpy(part) for part in task)

    def loss() -> Any:
        optimizer.zero_grad()
        found = (net(x) - y).square().mean()
        found.backward()
        return found

    for _ in range(steps):
        optimizer.step(loss)


def learned_tasks(net: nn.Sequential, guard: Guard, tasks: list[Task], optimizer: str) -> Iterator[Task]:
    """Learn and absorb task after task; yield each task after it has been absorbed."""
    made = OPTIMIZERS[optimizer](net.parameters())
    for task in tasks:
        if optimizer == "LBFGS":  # its curvature estimate belongs to the last task
            made = OPTIMIZERS[optimizer](net.parameters())
        with quiet():
            with guard.protect(made):
                train(net, made, task)
            guard.absorb([torch.from_numpy(task[0])])
        yield task


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings about full memories, which some instances cause on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def draw_layers(rng: Generator, widths: list[int], bias: bool = True) -> list[Array]:
    return [rng.standard_normal((a + bias, b)) / np.sqrt(a) for a, b in pairwise(widths)]


def draw_tasks(rng: Generator, sizes: list[int], inputs: int, outputs: int) -> list[Task]:
    return [(rng.standard_normal((n, inputs)), rng.standard_normal((n, outputs))) for n in sizes]


def guarded_tasks(rng: Generator) -> Iterator[Instance]:
    """Networks of one to three layers, tasks of one sample and of many, every optimizer twice; some memories fill up.

    There are only these instances, because training is slow compared with the other claims.
    """
    cases = [([5, 3], [1, 1, 1]), ([6, 5, 2], [1] * 4), ([8, 7, 6, 2], [2, 3, 2]), ([9, 12, 3], [4, 4])]
    cases += [([3, 4, 2], [5, 5])]
    cases += [(rng.integers(2, 10, int(rng.integers(2, 5))).tolist(), rng.integers(1, 5, 3).tolist()) for _ in range(5)]
    for (widths, sizes), optimizer in zip(cases, 2 * list(OPTIMIZERS), strict=True):
        layers, tasks = draw_layers(rng, widths), draw_tasks(rng, sizes, widths[0], widths[-1])
        yield {"layers": layers, "tasks": tasks, "optimizer": optimizer}
