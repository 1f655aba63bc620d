"""Claims about editing a layer: one least-squares problem, hard preservation, and undoing.

D = argmin  λ/n ‖K D‖² + μ ‖D‖² + Σᵢ wᵢ ‖kᵢᵀD − tᵢ‖²            K: absorbed keys, tᵢ: wanted change          (ED)
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, condition, difference
from remanence.certificates.instances.data import Generator, Instance, graded_rows, unit_rows
from remanence.certificates.instances.runs import operations, within
from remanence.deep import Editor

MakeEditor = Callable[..., Any]


def edited_layers(rng: Generator) -> Iterator[Instance]:
    """Weights, absorbed keys of even or graded size, and edits with their weights."""
    while True:
        for spread in (1.0, 1e2):
            d, c, n = int(rng.integers(3, 12)), int(rng.integers(1, 5)), int(rng.integers(2, 9))
            yield {
                "W": rng.standard_normal((d, c)),
                "K": graded_rows(rng, 3 * d, d, spread),
                "keys": unit_rows(rng, n, d),
                "values": rng.standard_normal((n, c)),
                "importance": 10 ** rng.uniform(-1, 1, n),
                "undone": int(rng.integers(1, n)),
            }


def few_absorbed_keys(rng: Generator) -> Iterator[Instance]:
    """The same with fewer absorbed keys than inputs, so that hard preservation leaves room for edits."""
    for data in edited_layers(rng):
        yield data | {"K": data["K"][: len(data["W"]) // 2]}


def _editor(make: MakeEditor, W: Array, K: Array, **settings: Any) -> Any:
    """An editor of a layer with weights W (d, c) that has absorbed K."""
    layer = torch.nn.Linear(W.shape[0], W.shape[1], bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(W.T.copy()))
    editor = make(torch.nn.Sequential(layer), "0", **settings)
    editor.absorb([torch.from_numpy(K)])
    return editor


def _weights(editor: Any) -> Array:
    return np.asarray(editor.model[0].weight.detach()).T


@claim(
    "An edited layer solves least squares over what it absorbed and the edits in force",
    source="(ED); MEMIT, Meng et al. (2023)",
    instances=edited_layers,
    conditions=("soft preservation", "one edit after another, each with a weight"),
)
def edits_solve_least_squares(
    W: Array, K: Array, keys: Array, values: Array, importance: Array, undone: int, make: MakeEditor = Editor
) -> Evidence:
    """Compare the layer with the stacked problem, solved at once."""
    strength, ridge = 3.0, 1e-3
    editor = _editor(make, W, K, strength=strength, ridge=ridge)
    for i, (k, v, w) in enumerate(zip(keys, values, importance, strict=True)):
        editor.edit(k[None], v[None], f"{i}", w)
    root = np.sqrt(importance)[:, None]
    stacked = np.vstack([np.sqrt(strength / len(K)) * K, np.sqrt(ridge) * np.eye(len(W)), root * keys])
    wanted = np.vstack([np.zeros((len(stacked) - len(keys), W.shape[1])), root * (values - keys @ W)])
    D = np.linalg.lstsq(stacked, wanted)[0]
    size = float(np.linalg.norm(W) + np.linalg.norm(D))
    kappa = condition(stacked) ** 2
    return within(difference(_weights(editor), W + D, size), kappa, operations(*stacked.shape), "cond²")


@claim(
    "An edit that was undone is as if it had never been made",
    source="completes (ED)",
    instances=edited_layers,
    conditions=("undone in another order than made", "soft preservation"),
)
def undone_edits_were_never_made(
    W: Array, K: Array, keys: Array, values: Array, importance: Array, undone: int, make: MakeEditor = Editor
) -> Evidence:
    """Make all edits and undo the first ones, against an editor that made only the others."""
    whole, fewer = (_editor(make, W, K) for _ in range(2))
    for i, (k, v, w) in enumerate(zip(keys, values, importance, strict=True)):
        whole.edit(k[None], v[None], f"{i}", w)
        if i >= undone:
            fewer.edit(k[None], v[None], f"{i}", w)
    for i in range(undone):
        whole.undo(f"{i}")
    return within(difference(_weights(whole), _weights(fewer), float(np.linalg.norm(W))), 1.0, W.size, "factor")


@claim(
    "Hard preservation keeps the answers to absorbed keys, whatever is edited",
    source="AlphaEdit, Fang et al. (2025)",
    instances=few_absorbed_keys,
    conditions=("energy 1", "fewer keys than inputs"),
)
def hard_preservation_keeps_answers(
    W: Array, K: Array, keys: Array, values: Array, importance: Array, undone: int, make: MakeEditor = Editor
) -> Evidence:
    """Compare the answers to the absorbed keys before and after."""
    editor = _editor(make, W, K, preserve="hard", ridge=1.0)
    for i, (k, v, w) in enumerate(zip(keys, values, importance, strict=True)):
        editor.edit(k[None], v[None], f"{i}", w)
    after = _weights(editor)
    length = float(np.linalg.norm(K) * (np.linalg.norm(W) + np.linalg.norm(after - W)))
    return within(float(np.linalg.norm(K @ after - K @ W)) / length, condition(K), operations(*K.shape), "cond")
