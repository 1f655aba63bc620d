"""Claims about hard memory beyond linear models: GP in every layer, and ICL on linearized tasks; no torch needed.

    Θ_ℓ ← Θ_ℓ + P^{ℓ−1}Δ_ℓ  with any Δ_ℓ, projected last          (GP)    old features of every layer stay
    f̃_i(θ) = f_i(θ^{i−1}) + ∇f_i(θ^{i−1})ᵀ(θ − θ^{i−1}) = y_i      (N1)    the equations that linearized ICL satisfies

The memory is the one `remanence.deep` uses; the networks here are small and made of NumPy arrays.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, condition, difference
from remanence.certificates.instances.data import Generator, Instance, stepped_streams, unit_rows
from remanence.certificates.instances.runs import largest, operations, walked, within, worst_of
from remanence.kalman import linearized
from remanence.memory.subspace import Subspace, nothing
from remanence.methods import OGD, min_norm
from remanence.methods.protocol import Method


@claim(
    "GP of a network with one linear layer is OGD",
    source="(GP), one layer",
    instances=stepped_streams,
    edge=("GP", "OGD"),
    conditions=("Δ is the gradient",),
)
def gp_of_one_layer_is_ogd(
    X: Array, Y: Array, given: list[float], memory: Subspace | None = None, method: Method[Any] | None = None
) -> Evidence:
    """Compare gradient steps projected off the inputs seen before with OGD with the same steps."""
    past, theta = memory or nothing(X.shape[1], X), np.zeros((X.shape[1], Y.shape[1]))
    for x, y, step in zip(X, Y, given, strict=True):
        theta = theta + step * past.away(np.outer(x, y - x @ theta))
        past = past.extended(x[:, None])
    path = walked(method or OGD(given), X, Y)
    size = largest(np.linalg.norm(path, axis=1))
    growth = float(np.prod([max(1.0, abs(1 - step)) for step in given]))
    return within(difference(path[-1], theta, size), max(growth, condition(X)), operations(*X.shape), "growth or cond")


def networks(rng: Generator) -> Iterator[Instance]:
    """Networks of one to four layers and more tasks than any layer can hold; directions of any size."""
    for widths in ([5, 3], [6, 5, 2], [9, 8, 7, 3]):
        yield _network(rng, widths, 4)
    while True:
        yield _network(rng, rng.integers(2, 12, int(rng.integers(2, 6))).tolist(), int(rng.integers(2, 8)))


def _network(rng: Generator, widths: list[int], tasks: int) -> Instance:
    moves = [[rng.standard_normal(shape) for shape in pairwise(widths)] for _ in range(tasks)]
    return {"X": rng.standard_normal((tasks, widths[0])), "moves": moves}


@claim(
    "Steps projected orthogonally to the features of earlier samples keep those features in every layer",
    source="Theorem 6",
    instances=networks,
    conditions=("any directions Δ, projected last", "no bias", "features stored after the task's own update"),
)
def projected_layers_keep_old_features(
    X: Array, moves: list[list[Array]], memory: Callable[[int, Array], Subspace] = nothing
) -> Evidence:
    """Change a tanh network by arbitrary steps and compare the features of all old samples in all layers."""
    layers = [np.zeros_like(move) for move in moves[0]]
    past = [memory(len(layer), layer) for layer in layers]
    kept: list[list[Array]] = []  # the features of sample i in every layer, right after its own task
    worst, kappa = 0.0, 1.0
    for x, directions in zip(X, moves, strict=True):
        layers = [layer + m.away(move) for layer, m, move in zip(layers, past, directions, strict=True)]
        kappa = max(kappa, float(np.prod([max(1.0, float(np.linalg.norm(layer, 2))) for layer in layers])))
        for old, features in zip(X, kept, strict=False):
            pairs = zip(_features(layers, old), features, strict=True)
            worst = worst_of(worst, *(largest(now - then) for now, then in pairs))
        features = _features(layers, x)
        kept.append(features)
        past = [m.extended(f[:, None]) for m, f in zip(past, [x, *features[:-1]], strict=True)]
    size = float(np.linalg.norm(X, axis=1).max())
    widest = max(max(layer.shape) for layer in layers)
    return within(worst / size, kappa, operations(len(X) * len(layers), widest), "product of layer norms")


def _features(layers: list[Array], x: Array) -> list[Array]:
    found = []
    for layer in layers:
        x = np.tanh(x @ layer)
        found.append(x)
    return found


def nonlinear_tasks(rng: Generator) -> Iterator[Instance]:
    """y_t = f(x_tᵀθ*) with f(s) = s + sin(s)/2, from one task to as many as parameters."""
    for tasks, d in ((1, 2), (6, 6), (4, 9)):
        yield _nonlinear(rng, tasks, d)
    while True:
        d = int(rng.integers(2, 14))
        yield _nonlinear(rng, int(rng.integers(1, d + 1)), d)


def _nonlinear(rng: Generator, tasks: int, d: int) -> Instance:
    X = unit_rows(rng, tasks, d)
    seen = X @ rng.standard_normal(d)
    return {"X": X, "y": seen + np.sin(seen) / 2, "start": rng.standard_normal(d)}


@claim(
    "Linearized ICL satisfies every linearized equation so far and stays nearest to its start",
    source="Section APA, linearization",
    instances=nonlinear_tasks,
    conditions=("y_t = s + sin(s)/2, s = x_tᵀθ*", "independent gradients"),
)
def linearised_icl_meets_every_linearised_answer(
    X: Array, y: Array, start: Array, method: Method[Any] | None = None
) -> Evidence:
    """Compare θ^T with the solution nearest to θ⁰ of all linear equations so far."""

    def observing(x: Array) -> Callable[[Array], Array]:
        return lambda theta: x @ theta + np.sin(x @ theta) / 2

    def slope(x: Array) -> Callable[[Array], Array]:
        return lambda theta: x * (1 + np.cos(x @ theta) / 2)

    observe, jacobian = [observing(x) for x in X], [slope(x) for x in X]
    run = linearized(observe, y, start=start, method=method, jacobian=jacobian)
    J = np.array([df(theta) for df, theta in zip(jacobian, run.path[:-1], strict=True)])
    values = np.array([f(theta) for f, theta in zip(observe, run.path[:-1], strict=True)])
    targets = y - values + np.einsum("td,td->t", J, run.path[:-1])
    nearest = min_norm(J, targets[:, None], start[:, None])[:, 0]
    size = float(np.linalg.norm(nearest) + np.linalg.norm(run.path, axis=1).max())
    kappa = condition(J) ** 2  # the solution of the equations may be large
    return within(difference(run.theta, nearest, size), kappa, operations(*X.shape), "cond² of the gradients")
