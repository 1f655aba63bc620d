"""The memory of a layer guard after the tasks so far, and its conversion to a state that can be saved."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from remanence.deep.guards.input_recorder import InputRecorder
from remanence.deep.guards.parameter_roles import ParameterRoles, copy_to_cpu
from remanence.deep.guards.projection.protected_directions import FrozenTensor, ProtectedDirections
from remanence.deep.guards.projection.sharded_layers import moved_here
from remanence.deep.nn.adapters import scale_moved
from remanence.deep.nn.lowrank.lowrank_root import LayerRoot, LowRankRoot, dropped_energy, root_from_arrays
from remanence.errors import InputError


@dataclass(frozen=True)
class GuardMemory:
    """What a layer guard remembers of the tasks so far."""

    tasks: int = 0
    directions: dict[str, ProtectedDirections] = field(default_factory=dict)
    roots: dict[str, list[LayerRoot]] = field(
        default_factory=dict
    )  # of all inputs so far, with the outputs at the time
    rows: dict[str, int] = field(default_factory=dict)
    frozen: dict[str, Tensor] = field(default_factory=dict)
    table_rows: dict[str, Tensor] = field(default_factory=dict)  # rows of an embedding that earlier tasks looked up
    table_values: dict[str, Tensor] = field(default_factory=dict)
    scales: dict[str, Tensor] = field(default_factory=dict)  # of the outputs of adapters with a magnitude


def add_task(old: GuardMemory, recorded: InputRecorder, directions: dict[str, ProtectedDirections]) -> GuardMemory:
    """Return the memory extended by one recorded task, at the current weights."""
    roles, roots = recorded.roles, dict(old.roots)
    for name, found in recorded.roots.items():
        mine = old.roots.get(name)
        roots[name] = found if mine is None else [a.merged(b) for a, b in zip(mine, found, strict=True)]  # type: ignore[arg-type]
    by_name = {n for n in roles.frozen if n not in roles.norm_of and n not in roles.read}
    called = {n for n, norm in roles.norm_of.items() if recorded.called[norm]} | {
        n for n, read in recorded.read.items() if read
    }
    used = {n: looked | old.table_rows.get(n, looked) for n, looked in recorded.looked_up.items()}
    return replace(
        old,
        tasks=old.tasks + 1,
        directions=old.directions | directions,
        roots=roots,
        rows=old.rows | {name: old.rows.get(name, 0) + n for name, n in recorded.rows.items()},
        frozen={n: copy_to_cpu(t) for n, t in roles.frozen.items() if n in by_name | called | old.frozen.keys()},
        table_rows=used,
        table_values={n: copy_to_cpu(roles.tables[n].weight)[rows] for n, rows in used.items()},
        scales={n: magnitude.scale() for n, magnitude in roles.magnitudes.items()},
    )


def moved_names(memory: GuardMemory, roles: ParameterRoles) -> Iterator[str]:
    """Yield the names of everything that no longer has the protected values, as far as this process holds it."""
    for name, kept in memory.directions.items():
        if moved_here(roles.matrices[name], kept):
            yield name
    for name, value in memory.frozen.items():
        if name not in roles.read and FrozenTensor(name, roles.frozen[name], value).moved():
            yield name
    for name, used in memory.table_rows.items():
        rows = used.nonzero()[:, 0]
        if FrozenTensor(name, roles.tables[name].weight, memory.table_values[name], rows).moved():
            yield name
    for name, scale in memory.scales.items():
        if scale_moved(roles.magnitudes[name], scale):
            yield name


def changed_buffers(memory: GuardMemory, roles: ParameterRoles) -> list[str]:
    """Return the frozen buffers of the user's own modules that have changed."""
    values = {
        n: value for n, value in memory.frozen.items() if n in roles.read and roles.frozen[n].shape == value.shape
    }
    return [n for n, value in values.items() if not equals(roles.frozen[n], value)]


def equals(tensor: Tensor, value: Tensor) -> bool:
    return torch.equal(tensor.detach().cpu(), value.to(tensor.dtype))


def missing_names(memory: GuardMemory, before: ParameterRoles, now: ParameterRoles) -> list[str]:
    """Return what the memory protects and the model no longer has, or has in another shape."""
    modules = {n: before.matrices[n].module for n in memory.directions}
    kept = [n for n, m in now.matrices.items() if n in modules and m.module is modules[n]]
    gone = [n for n, r in memory.directions.items() if n not in kept or now.matrices[n].shape != r.shape]
    frozen = {n: value for n, value in memory.frozen.items() if n not in now.read}  # a buffer may grow, like a cache
    gone += [n for n, value in frozen.items() if n not in now.frozen or now.frozen[n].shape != value.shape]
    gone += [n for n in memory.scales if n not in now.magnitudes]
    rows = {n: len(table.weight) for n, table in now.tables.items()}
    return gone + [n for n, used in memory.table_rows.items() if rows.get(n) != len(used)]


def grow_outputs(memory: GuardMemory, roles: ParameterRoles, name: str, more: int) -> GuardMemory:
    """Return the memory for a layer with more outputs, which are all zero so far."""
    if name not in memory.directions:
        return memory
    kept, roots = memory.directions[name], memory.roots[name]
    sources = np.r_[np.arange(kept.shape[1]), np.full(more, -1)]
    bias = roles.matrices[name].module.bias
    return replace(
        memory,
        directions=memory.directions | {name: replace(kept, outputs=nn.functional.pad(kept.outputs, (0, 0, 0, more)))},
        roots=memory.roots | {name: [root.with_outputs(sources) for root in roots]},
        frozen={n: nn.functional.pad(v, (0, more)) if roles.frozen[n] is bias else v for n, v in memory.frozen.items()},
    )


def drift(roots: list[LayerRoot], values: Tensor) -> float:
    """Return how far a layer's outputs on everything recorded have changed, relative to the outputs then.

    A memory of bounded rank knows this of the directions that it kept.
    """
    moved = size = 0.0
    for root, W in zip(roots, values.numpy(), strict=True):
        unseen = 0.0 if isinstance(root, LowRankRoot) else float(root.rest.sum())
        moved += float(((root.factor @ W.T - root.target) ** 2).sum()) + unseen
        size += float((root.target**2).sum()) + unseen
    return float(np.sqrt(moved / size)) if size else 0.0


def memory_to_state(memory: GuardMemory) -> dict[str, Any]:
    """Return the memory as nested dicts of tensors and numbers."""
    layers: dict[str, dict[str, Any]] = {}
    for name, kept in memory.directions.items():
        layers[name] = {"basis": kept.basis.clone(), "answers": kept.outputs.clone(), "rows": memory.rows[name]}
        if kept.strength is not None:
            layers[name]["strength"] = kept.strength.clone()
        for part in ("factor", "target", "rest"):
            arrays = [np.array(getattr(root, part), order="C") for root in memory.roots[name]]
            layers[name][part] = torch.stack([torch.from_numpy(a) for a in arrays])
        if any(isinstance(root, LowRankRoot) for root in memory.roots[name]):
            layers[name]["dropped"] = torch.tensor(
                [dropped_energy(root) for root in memory.roots[name]], dtype=torch.float64
            )
    return {
        "tasks": memory.tasks,
        "layers": layers,
        "held": _copies(memory.frozen),
        "table_rows": _copies(memory.table_rows),
        "table_values": _copies(memory.table_values),
        **({"scales": _copies(memory.scales)} if memory.scales else {}),
    }


def memory_from_state(state: dict[str, Any], roles: ParameterRoles, rank: int | None = None) -> GuardMemory:
    """Return the memory that `memory_to_state` converted, for a model of the same layers."""
    try:
        memory = _memory_from_dict(state, rank)
    except InputError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        raise InputError(f"expected what state_dict returned, got a damaged state ({error!r})") from error
    for name, kept in memory.directions.items():
        mine = roles.matrices[name].shape if name in roles.matrices else None
        if mine != kept.shape:
            raise InputError(
                f"expected a state of the same model: layer {name} has (groups, outputs, inputs) {kept.shape} there "
                f"and {mine} here; was a head grown, or another part frozen? Do the same here before loading"
            )
        _check_layer(name, kept, memory.roots[name])
    known = {n: tuple(t.shape) for n, t in roles.frozen.items()} | {
        n: (len(t.weight),) for n, t in roles.tables.items()
    }
    theirs = {n: tuple(t.shape) for n, t in (memory.frozen | memory.table_rows).items() if n not in roles.read}
    needed = [n for n in roles.frozen if n not in roles.norm_of and n not in roles.read] if memory.tasks else []
    wrong = [n for n in theirs if known.get(n) != theirs[n]] + [n for n in needed if n not in theirs]
    if wrong:
        raise InputError(
            f"expected a state of the same model, but {wrong[0]} is {theirs.get(wrong[0], 'not frozen')} there and "
            f"{known.get(wrong[0], 'not frozen')} here; create the guard with the same frozen and free"
        )
    shapes = {n: tuple(magnitude.scale().shape) for n, magnitude in roles.magnitudes.items()}
    if {n: tuple(t.shape) for n, t in memory.scales.items()} != (shapes if memory.tasks else {}):
        raise InputError("expected a state of the same model, got one with other adapters; add the same adapters first")
    check_no_nan(memory.scales)
    # a NaN may be a value of a buffer of the user's own modules
    check_no_nan({n: t for n, t in memory.frozen.items() if n not in roles.read} | memory.table_values)
    for name, used in memory.table_rows.items():
        table, found = roles.tables.get(name), memory.table_values.get(name)
        shape = None if table is None else (int(used.sum()), table.weight.shape[1])
        if used.dtype != torch.bool or found is None or tuple(found.shape) != shape:
            raise InputError(f"expected values of shape {shape} for the embedding {name}, got a damaged state")
    return memory


def check_no_nan(tensors: dict[str, Tensor]) -> None:
    """Raise InputError if a saved tensor contains NaN."""
    for name, value in tensors.items():
        if value.isnan().any():
            raise InputError(f"expected numbers in the saved values of {name}, got a damaged state with NaN")


def _check_layer(name: str, kept: ProtectedDirections, roots: list[LayerRoot]) -> None:
    """Raise InputError if the saved memory of a layer has wrong shapes, another dtype or values that are not finite."""
    (g, out, width), r = kept.shape, kept.basis.shape[2]
    parts: dict[str, tuple[Tensor, tuple[int, ...]]] = {"basis": (kept.basis, (g, width, r))}
    parts["answers"] = (kept.outputs, (g, out, r))
    if kept.strength is not None:
        parts["strength"] = (kept.strength, (g, 1, r))
    for k, root in enumerate(roots):
        rows = root.rank if isinstance(root, LowRankRoot) else width
        shapes: dict[str, tuple[int, ...]] = {"factor": (rows, width), "target": (rows, out), "rest": (out,)}
        parts |= {f"{part}[{k}]": (torch.from_numpy(getattr(root, part)), shape) for part, shape in shapes.items()}
    for part, (found, shape) in parts.items():
        if tuple(found.shape) != shape or found.dtype != torch.float64 or not bool(found.square().isfinite().all()):
            raise InputError(
                f"expected {part} of layer {name} to be float64 numbers of shape {shape} with finite squares, got a "
                f"damaged state: {found.dtype}, {tuple(found.shape)}"
            )


def _memory_from_dict(state: dict[str, Any], rank: int | None) -> GuardMemory:
    directions, roots, rows = {}, {}, {}
    for name, layer in state["layers"].items():
        strength = layer.get("strength")
        directions[name] = ProtectedDirections(
            layer["basis"].clone(), None if strength is None else strength.clone(), layer["answers"].clone()
        )
        factor, target, rest = (layer[part].numpy() for part in ("factor", "target", "rest"))
        if (rank is not None) != ("dropped" in layer):
            raise InputError(
                f"expected the state of a guard with memory={'full' if rank is None else 'lowrank'!r}, got another; "
                "create the guard with the same memory"
            )
        dropped = [0.0] * len(layer["basis"]) if rank is None else layer["dropped"].tolist()
        roots[name] = [
            root_from_arrays(factor[g], target[g], rest[g], rank, dropped[g]) for g in range(len(layer["basis"]))
        ]
        rows[name] = int(layer["rows"])
    copies = [_copies(state[part]) for part in ("held", "table_rows", "table_values")]
    copies.append(_copies(state.get("scales", {})))
    return GuardMemory(int(state["tasks"]), directions, roots, rows, *copies)


def _copies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}
