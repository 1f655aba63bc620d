"""What orthogonal gradient descent remembers: the strongest directions of all gradients, and θ along them.

    GᵀG = U diag(s²) Uᵀ + what was let go         (M1)   by incremental SVD; its trace is counted as `dropped`
    K = Uᵀθ                                       (M2)   at the weights of the moment

So for every Δ with UᵀΔ = 0 the answers behind G move, to first order, by ‖GΔ‖ ≤ √dropped ‖Δ‖.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remanence.arrays import Array
from remanence.deep.nn.distributed import all_gather
from remanence.errors import InputError
from remanence.memory.long_rows import absorbed_rows
from remanence.memory.truncated_svd import Spectrum, no_spectrum

AT_ONCE = 16_000_000  # numbers of gradients that may wait to be folded in
MOST_ROWS = 2048
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class GradientMemory:
    """What the guard remembers after the tasks so far."""

    spectrum: Spectrum  # of all gradients (M1)
    anchor: Array  # (r,) K (M2)
    tasks: int = 0
    rows: int = 0  # gradients seen
    frozen: dict[str, Tensor] = field(default_factory=dict)


def empty_gradient_memory(size: int) -> GradientMemory:
    return GradientMemory(no_spectrum(size, 0), np.zeros(0))


def gradient_spectrum(rows: Iterable[Tensor], size: int, rank: int) -> tuple[Spectrum, int]:
    """The `rank` strongest directions of gradients (n, D) that come in pieces, and how many there were (M1)."""
    spectrum, count = no_spectrum(size, 0), 0
    waiting: list[Tensor] = []
    for piece in rows:
        waiting.append(piece)
        count += len(piece)
        # a fold costs as much as the memory is large, so let rows of about its size wait for it
        if sum(map(len, waiting)) >= max(min(AT_ONCE // size, MOST_ROWS), spectrum.rank // 2):
            spectrum, waiting = absorbed_rows(spectrum, torch.cat(waiting).numpy(), rank), []
    return (absorbed_rows(spectrum, torch.cat(waiting).numpy(), rank) if waiting else spectrum), count


def merge_spectra(spectrum: Spectrum, others: list[Spectrum], rank: int) -> Spectrum:
    """Several spectra as one, cut to the `rank` strongest directions."""
    for other in others:
        if spectrum.rank:
            dropped = spectrum.dropped + other.dropped
            spectrum = absorbed_rows(replace(spectrum, dropped=dropped), other.rows(), rank)
        else:
            spectrum = other
    return spectrum


def gather_spectra(mine: Spectrum, rows: int, device: torch.device) -> tuple[list[Spectrum], int]:
    """What every process of a distributed run saw, and how many gradients in all, the same on each of them."""
    told = all_gather(torch.tensor([rows, mine.rank, mine.dropped], dtype=torch.float64), device)
    room = torch.zeros(max(int(rank) for _, rank, _ in told), mine.basis.shape[0], dtype=torch.float64)
    room[: mine.rank] = torch.from_numpy(mine.rows())
    found = []
    for theirs, (_, rank, dropped) in zip(all_gather(room, device), told, strict=True):
        spectrum = absorbed_rows(no_spectrum(room.shape[1], 0), theirs[: int(rank)].numpy(), int(rank))
        found.append(replace(spectrum, dropped=float(dropped)))
    return found, sum(int(count) for count, _, _ in told)


def memory_to_state(memory: GradientMemory, shapes: Shapes) -> dict[str, Any]:
    """The memory as tensors and plain values."""
    return {
        "parameters": {name: list(shape) for name, shape in shapes.items()},
        "tasks": memory.tasks,
        "rows": memory.rows,
        "dropped": memory.spectrum.dropped,
        "directions": torch.from_numpy(np.array(memory.spectrum.basis.T, order="C")),  # (r, D)
        "strength": torch.from_numpy(memory.spectrum.strength.copy()),
        "anchor": torch.from_numpy(memory.anchor.copy()),
        "held": {name: value.clone() for name, value in memory.frozen.items()},
    }


def memory_from_state(
    state: dict[str, Any], shapes: Shapes, needed: set[str], buffers: set[str], bound: int
) -> GradientMemory:
    """The memory that `saved` wrote, for a model with the same parameters."""
    theirs = {name: tuple(shape) for name, shape in state["parameters"].items()}
    if theirs != shapes:
        differing = [n for n in {**theirs, **shapes} if theirs.get(n) != shapes.get(n)]
        raise InputError(
            f"expected a state of the same parameters, but {differing[0]} is {theirs.get(differing[0])} there and "
            f"{shapes.get(differing[0])} here; make the guard for the same model, frozen and free"
        )
    if state["tasks"] and not needed <= set(state["held"]) <= needed | buffers:
        raise InputError(
            f"expected a state that holds {sorted(needed)}, got one that holds {sorted(state['held'])}; "
            "make the guard with the same frozen and free"
        )
    directions, strength, anchor = (np.array(state[part].numpy()) for part in ("directions", "strength", "anchor"))
    if len(strength) > bound:
        raise InputError(f"expected a state of at most {bound} directions, got {len(strength)}; make a guard with room")
    size = sum(int(np.prod(shape)) for shape in shapes.values())
    for part, wanted in ((directions, (len(strength), size)), (strength, (len(strength),)), (anchor, strength.shape)):
        if part.shape != wanted or part.dtype != np.float64 or not np.isfinite(part).all():
            raise InputError(f"expected finite numbers of shape {wanted} in a state, got a damaged one: {part.shape}")
    spectrum = Spectrum(directions.T, strength, np.zeros((len(strength), 0)), np.zeros(0), float(state["dropped"]))
    copies = {name: value.clone() for name, value in state["held"].items()}
    return GradientMemory(spectrum, anchor, int(state["tasks"]), int(state["rows"]), copies)
