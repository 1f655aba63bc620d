"""Claims about ORFit of networks: one pass, every sample fitted to first order, earlier outputs kept.

θ ← θ + J̄⁺(y − f(x; θ)),    J̄ = J(I − UUᵀ),    J = ∂f(x; θ)/∂θ            (ORFit)   U: all J so far
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, condition, difference
from remanence.certificates.instances.data import Generator, Instance, independent_streams
from remanence.certificates.instances.networks import (
    draw_layers,
    draw_tasks,
    inputs_of,
    jacobian,
    network,
    vector,
    weights,
)
from remanence.certificates.instances.runs import operations, walked, within
from remanence.deep import ORFit
from remanence.methods import ICL
from remanence.methods.protocol import Method

Learner = Callable[..., Any]


@claim(
    "ORFit of a network with one linear layer is ICL",
    source="(ORFit) and Proposition 1",
    instances=independent_streams,
    edge=("ORFit", "ICL"),
    conditions=("any samples",),
)
def orfit_of_one_layer_is_icl(
    X: Array, Y: Array, learner: Learner = ORFit, method: Method[Any] | None = None
) -> Evidence:
    """Compare the weights after every sample."""
    net = network([np.zeros((X.shape[1], Y.shape[1]))], bias=False)
    orfit, path = learner(net), [weights(net)[0]]
    for t in range(len(X)):
        orfit.step(X[t : t + 1], Y[t : t + 1])
        path.append(weights(net)[0])
    return within(
        difference(np.array(path), walked(method or ICL(), X, Y)), condition(X) ** 2, operations(*X.shape), "cond²"
    )


def fitted_networks(rng: Generator) -> Iterator[Instance]:
    """Networks with more parameters than outputs to fit, one sample per step."""
    while True:
        for widths, n in (([3, 4, 1], 6), ([2, 5, 2], 4), ([4, 3, 3, 2], 5)):
            X, Y = draw_tasks(rng, [n], widths[0], widths[-1])[0]
            yield {"layers": draw_layers(rng, widths), "X": X, "Y": Y}


@claim(
    "A step of ORFit fits its sample to first order and changes no earlier linearized output",
    source="(ORFit), for networks",
    instances=fitted_networks,
    conditions=("f + JΔ = y for the sample, J_iΔ = 0 for all before", "independent derivatives"),
)
def orfit_meets_each_sample_to_first_order(
    layers: list[Array], X: Array, Y: Array, learner: Learner = ORFit
) -> Evidence:
    """Multiply the derivatives of all samples so far, each where it was learned, by the step."""
    net = network(layers)
    orfit, seen = learner(net), np.zeros((0, len(vector(net))))
    worst = []
    for t in range(len(X)):
        x, y, before = X[t : t + 1], Y[t : t + 1], vector(net)
        J, missed = jacobian(net, x), (y - inputs_of(net, x)[1])[0]
        orfit.step(x, y)
        step = vector(net) - before
        seen = np.vstack([seen, J])
        wanted = np.concatenate([np.zeros(len(seen) - len(J)), missed])
        size = float(np.linalg.norm(seen) * (np.linalg.norm(before) + np.linalg.norm(step)) + np.linalg.norm(missed))
        worst.append(float(np.linalg.norm(seen @ step - wanted)) / size)
    unit = seen / np.linalg.norm(seen, axis=1, keepdims=True)
    return within(max(worst), condition(unit), operations(*seen.shape), "condition of the derivatives")
