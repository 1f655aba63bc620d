"""What a guard of layers remembers after the tasks so far, and the same as a state that can be saved."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remanence.deep.cover import Cover
from remanence.deep.restraint import Restraint
from remanence.errors import InputError
from remanence.memory.root import Root


@dataclass(frozen=True)
class Memory:
    """What a guard remembers after the tasks so far."""

    tasks: int = 0
    restraints: dict[str, Restraint] = field(default_factory=dict)
    roots: dict[str, list[Root]] = field(default_factory=dict)  # of all inputs so far, with the answers given then
    rows: dict[str, int] = field(default_factory=dict)
    held: dict[str, Tensor] = field(default_factory=dict)
    table_rows: dict[str, Tensor] = field(default_factory=dict)  # which rows of a table old tasks looked up
    table_values: dict[str, Tensor] = field(default_factory=dict)


def drift(roots: list[Root], values: Tensor) -> float:
    """How far a layer's answers on all it has seen are from those given then, relative to them."""
    moved = size = 0.0
    for root, W in zip(roots, values.numpy(), strict=True):
        moved += float(((root.factor @ W.T - root.target) ** 2).sum() + root.rest.sum())
        size += float((root.target**2).sum() + root.rest.sum())
    return float(np.sqrt(moved / size)) if size else 0.0


def saved(memory: Memory) -> dict[str, Any]:
    """The memory as nested dicts of tensors and numbers."""
    layers: dict[str, dict[str, Any]] = {}
    for name, kept in memory.restraints.items():
        layers[name] = {"basis": kept.basis.clone(), "answers": kept.answers.clone(), "rows": memory.rows[name]}
        if kept.strength is not None:
            layers[name]["strength"] = kept.strength.clone()
        for part in ("factor", "target", "rest"):
            arrays = [np.array(getattr(root, part), order="C") for root in memory.roots[name]]
            layers[name][part] = torch.stack([torch.from_numpy(a) for a in arrays])
    return {
        "tasks": memory.tasks,
        "layers": layers,
        "held": _copies(memory.held),
        "table_rows": _copies(memory.table_rows),
        "table_values": _copies(memory.table_values),
    }


def restored(state: dict[str, Any], cover: Cover) -> Memory:
    """The memory that `saved` wrote, for a model of the same layers."""
    restraints, roots, rows = {}, {}, {}
    for name, layer in state["layers"].items():
        matrix = cover.matrices.get(name)
        groups, outputs, _ = layer["answers"].shape
        shape = (groups, outputs, layer["basis"].shape[1])
        if matrix is None or matrix.shape != shape:
            mine = None if matrix is None else matrix.shape
            raise InputError(
                f"expected a state of the same model: layer {name} has (groups, outputs, inputs) {shape} there and "
                f"{mine} here; was a head grown? Grow it here too, then load"
            )
        strength = layer.get("strength")
        restraints[name] = Restraint(
            layer["basis"].clone(), None if strength is None else strength.clone(), layer["answers"].clone()
        )
        parts = [layer[part].numpy() for part in ("factor", "target", "rest")]
        roots[name] = [Root(*(np.array(part[g], order="F") for part in parts)) for g in range(groups)]
        rows[name] = int(layer["rows"])
    for kind, known in (("held", cover.held), ("table_rows", cover.tables)):
        if state["tasks"] and set(state[kind]) != set(known):
            raise InputError(
                f"expected a state that holds {sorted(known)}, got one that holds {sorted(state[kind])}; "
                "make the guard with the same frozen and free"
            )
    return Memory(
        int(state["tasks"]),
        restraints,
        roots,
        rows,
        _copies(state["held"]),
        _copies(state["table_rows"]),
        _copies(state["table_values"]),
    )


def _copies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}
