"""Claims about switching models: contradicting tasks without labels.

Π (y − xᵀθᵢ) = 0 for every sample, so that the least-squares fit of yⁿ by the other monomials of degree n is exact.
"""

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference, rounding
from remanence.certificates.instances.data import Generator, Instance
from remanence.methods import Switching
from remanence.methods.hybrid.monomials import monomials


def switching_streams(rng: Generator) -> Iterator[Instance]:
    """Two or three models that take turns every few samples, in two to four features."""
    while True:
        d, n, every = int(rng.integers(2, 5)), int(rng.integers(2, 4)), int(rng.integers(1, 9))
        models = np.linalg.qr(rng.standard_normal((max(d, n), max(d, n))))[0][:n, :d] + 2 * np.arange(n)[:, None]
        X, mode = rng.standard_normal((300, d)), np.arange(300) // every % n
        yield {"X": X, "mode": mode, "models": models, "Y": np.einsum("ij,ij->i", X, models[mode])[:, None]}


@claim(
    "Models that take turns without a label are found exactly, and how many there are",
    source="Vidal (2008); the paper's open problem of contradicting tasks",
    instances=switching_streams,
    conditions=("no noise",),
)
def switching_models_are_found(X: Array, Y: Array, mode: Array, models: Array, method: Any = None) -> Evidence:
    """The models against those that made the samples, in the best order; infinite where their number differs."""
    method = method or Switching(modes=len(models))
    state = method.update(method.init(X.shape[1], 1), X, Y)
    found = method.models(state)
    rows = monomials(X, Y[:, 0], len(models))[:, :-1]
    kappa = float(np.linalg.cond(rows / np.linalg.norm(rows, axis=0))) ** 2
    conditions = (f"{len(models)} models", f"cond² of the monomials {kappa:.0e}")
    if len(found) != len(models):
        return Evidence(float("inf"), 1.0, conditions)
    off = min(difference(found[list(order)], models) for order in permutations(range(len(models))))
    return Evidence(off, rounding(kappa, 10 * rows.size), conditions)


@claim(
    "Every sample of switching models is assigned to the model that made it",
    source="Vidal (2008), segmentation",
    instances=switching_streams,
    conditions=("no noise", "samples that two models predict alike are left out"),
)
def switching_samples_are_told_apart(X: Array, Y: Array, mode: Array, models: Array, method: Any = None) -> Evidence:
    """The share of samples whose assigned model does not predict them."""
    method = method or Switching(modes=len(models))
    state = method.update(method.init(X.shape[1], 1), X, Y)
    chosen = method.models(state)[method.segment(state, X, Y)]
    off = np.linalg.norm(chosen - models[mode], axis=1) > 1e-3
    predicted = np.sort(X @ models.T, axis=1)
    clear = np.diff(predicted, axis=1).min(axis=1) > 1e-6
    return Evidence(float((off & clear).mean()), 0.0)
