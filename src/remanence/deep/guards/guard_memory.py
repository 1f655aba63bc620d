"""What a guard of layers remembers after the tasks so far, and the same as a state that can be saved."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from remanence.deep.guards.input_recorder import Watch
from remanence.deep.guards.parameter_roles import Cover, held_value
from remanence.deep.guards.projection.protected_directions import Restraint
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


def extended(old: Memory, seen: Watch, restraints: dict[str, Restraint]) -> Memory:
    """The memory with one task more, at the weights of now."""
    cover, roots = seen.cover, dict(old.roots)
    for name, found in seen.roots.items():
        mine = old.roots.get(name)
        roots[name] = found if mine is None else [a.merged(b) for a, b in zip(mine, found, strict=True)]
    by_name = {n for n in cover.held if n not in cover.norm_of and n not in cover.read}
    called = {n for n, norm in cover.norm_of.items() if seen.called[norm]} | {
        n for n, read in seen.read.items() if read
    }
    used = {n: looked | old.table_rows.get(n, looked) for n, looked in seen.looked_up.items()}
    return replace(
        old,
        tasks=old.tasks + 1,
        restraints=old.restraints | restraints,
        roots=roots,
        rows=old.rows | {name: old.rows.get(name, 0) + n for name, n in seen.rows.items()},
        held={n: held_value(t) for n, t in cover.held.items() if n in by_name | called | old.held.keys()},
        table_rows=used,
        table_values={n: held_value(cover.tables[n].weight)[rows] for n, rows in used.items()},
    )


def moved(memory: Memory, cover: Cover) -> Iterator[str]:
    """The names of all that is no longer what the memory holds."""
    for name, kept in memory.restraints.items():
        if kept.moved(cover.matrices[name]):
            yield name
    for name, value in memory.held.items():
        if name not in cover.read and not same(cover.held[name], value):
            yield name
    for name, used in memory.table_rows.items():
        if not same(cover.tables[name].weight[used.to(cover.tables[name].weight.device)], memory.table_values[name]):
            yield name


def changed_buffers(memory: Memory, cover: Cover) -> list[str]:
    """The held buffers of the user's own modules that are no longer what they were."""
    values = {n: value for n, value in memory.held.items() if n in cover.read and cover.held[n].shape == value.shape}
    return [n for n, value in values.items() if not same(cover.held[n], value)]


def same(tensor: Tensor, value: Tensor) -> bool:
    return torch.equal(tensor.detach().cpu(), value.to(tensor.dtype))


def replaced(memory: Memory, before: Cover, now: Cover) -> list[str]:
    """What the memory holds and the model no longer has, or not in the same shape."""
    modules = {n: before.matrices[n].module for n in memory.restraints}
    kept = [n for n, m in now.matrices.items() if n in modules and m.module is modules[n]]
    gone = [n for n, r in memory.restraints.items() if n not in kept or now.matrices[n].shape != r.shape]
    held = {n: value for n, value in memory.held.items() if n not in now.read}  # a buffer may grow: a cache, say
    gone += [n for n, value in held.items() if n not in now.held or now.held[n].shape != value.shape]
    rows = {n: len(table.weight) for n, table in now.tables.items()}
    return gone + [n for n, used in memory.table_rows.items() if rows.get(n) != len(used)]


def grown(memory: Memory, cover: Cover, name: str, more: int) -> Memory:
    """The memory of a layer that gets more outputs, whose answers so far are all zero."""
    if name not in memory.restraints:
        return memory
    kept, roots = memory.restraints[name], memory.roots[name]
    sources = np.r_[np.arange(kept.shape[1]), np.full(more, -1)]
    bias = cover.matrices[name].module.bias
    return replace(
        memory,
        restraints=memory.restraints | {name: replace(kept, answers=nn.functional.pad(kept.answers, (0, 0, 0, more)))},
        roots=memory.roots | {name: [root.with_outputs(sources) for root in roots]},
        held={n: nn.functional.pad(v, (0, more)) if cover.held[n] is bias else v for n, v in memory.held.items()},
    )


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
    try:
        memory = _unpacked(state)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise InputError(f"expected what state_dict returned, got a damaged state ({error!r})") from error
    for name, kept in memory.restraints.items():
        mine = cover.matrices[name].shape if name in cover.matrices else None
        if mine != kept.shape:
            raise InputError(
                f"expected a state of the same model: layer {name} has (groups, outputs, inputs) {kept.shape} there "
                f"and {mine} here; was a head grown, or another part frozen? Do the same here, then load"
            )
        _check_layer(name, kept, memory.roots[name])
    known = {n: tuple(t.shape) for n, t in cover.held.items()} | {n: (len(t.weight),) for n, t in cover.tables.items()}
    theirs = {n: tuple(t.shape) for n, t in (memory.held | memory.table_rows).items() if n not in cover.read}
    needed = [n for n in cover.held if n not in cover.norm_of and n not in cover.read] if memory.tasks else []
    wrong = [n for n in theirs if known.get(n) != theirs[n]] + [n for n in needed if n not in theirs]
    if wrong:
        raise InputError(
            f"expected a state of the same model, but {wrong[0]} is {theirs.get(wrong[0], 'not held')} there and "
            f"{known.get(wrong[0], 'not held')} here; make the guard with the same frozen and free"
        )
    return memory


def _check_layer(name: str, kept: Restraint, roots: list[Root]) -> None:
    """Refuse numbers that are no memory of a layer: of other shapes, of another kind, or not finite."""
    (g, out, width), r = kept.shape, kept.basis.shape[2]
    parts: dict[str, tuple[Tensor, tuple[int, ...]]] = {"basis": (kept.basis, (g, width, r))}
    parts["answers"] = (kept.answers, (g, out, r))
    if kept.strength is not None:
        parts["strength"] = (kept.strength, (g, 1, r))
    for k, root in enumerate(roots):
        shapes: dict[str, tuple[int, ...]] = {"factor": (width, width), "target": (width, out), "rest": (out,)}
        parts |= {f"{part}[{k}]": (torch.from_numpy(getattr(root, part)), shape) for part, shape in shapes.items()}
    for part, (found, shape) in parts.items():
        if tuple(found.shape) != shape or found.dtype != torch.float64 or not bool(found.isfinite().all()):
            raise InputError(
                f"expected {part} of layer {name} to be finite numbers of float64 and shape {shape}, got a damaged "
                f"state: {found.dtype}, {tuple(found.shape)}"
            )


def _unpacked(state: dict[str, Any]) -> Memory:
    restraints, roots, rows = {}, {}, {}
    for name, layer in state["layers"].items():
        strength = layer.get("strength")
        restraints[name] = Restraint(
            layer["basis"].clone(), None if strength is None else strength.clone(), layer["answers"].clone()
        )
        parts = [layer[part].numpy() for part in ("factor", "target", "rest")]
        roots[name] = [Root(*(np.array(part[g], order="F") for part in parts)) for g in range(len(layer["basis"]))]
        rows[name] = int(layer["rows"])
    copies = [_copies(state[part]) for part in ("held", "table_rows", "table_values")]
    return Memory(int(state["tasks"]), restraints, roots, rows, *copies)


def _copies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}
