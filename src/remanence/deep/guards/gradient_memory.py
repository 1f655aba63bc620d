"""The memory of orthogonal gradient descent: the strongest directions of all gradients, and θ along them.

    GᵀG = U diag(s²) Uᵀ + what was discarded      (M1)   by incremental SVD; the trace of the rest is `dropped`
    K = Uᵀθ                                       (M2)   at the current weights

For every Δ with UᵀΔ = 0 the outputs behind G change, to first order, by ‖GΔ‖ ≤ √dropped ‖Δ‖.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remanence.arrays import Array
from remanence.deep.guards.guard_memory import check_no_nan
from remanence.deep.nn.distributed import all_gather
from remanence.errors import InputError
from remanence.memory.long_rows import absorbed_rows
from remanence.memory.truncated_svd import Spectrum, no_spectrum

AT_ONCE = 16_000_000  # gradient entries buffered before they are added to the spectrum
MOST_ROWS = 2048
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class GradientMemory:
    """What `OGD` remembers of the tasks so far."""

    spectrum: Spectrum  # of all gradients (M1)
    anchor: Array  # (r,) K (M2)
    tasks: int = 0
    rows: int = 0  # gradients absorbed
    frozen: dict[str, Tensor] = field(default_factory=dict)


def empty_gradient_memory(size: int) -> GradientMemory:
    return GradientMemory(no_spectrum(size, 0), np.zeros(0))


def gradient_spectrum(rows: Iterable[Tensor], size: int, rank: int) -> tuple[Spectrum, int]:
    """Return the `rank` strongest directions of gradients (n, D) given in pieces, and how many there were (M1)."""
    spectrum, count = no_spectrum(size, 0), 0
    pending: list[Tensor] = []
    for piece in rows:
        pending.append(piece)
        count += len(piece)
        # an update costs as much as the memory is large, so buffer about as many rows first
        if sum(map(len, pending)) >= max(min(AT_ONCE // size, MOST_ROWS), spectrum.rank // 2):
            spectrum, pending = absorbed_rows(spectrum, torch.cat(pending).numpy(), rank), []
    return (absorbed_rows(spectrum, torch.cat(pending).numpy(), rank) if pending else spectrum), count


def merge_spectra(spectrum: Spectrum, others: list[Spectrum], rank: int) -> Spectrum:
    """Merge several spectra into one, cut to the `rank` strongest directions."""
    for other in others:
        if spectrum.rank:
            dropped = spectrum.dropped + other.dropped
            spectrum = absorbed_rows(replace(spectrum, dropped=dropped), other.rows(), rank)
        else:
            spectrum = other
    return spectrum


def gather_spectra(mine: Spectrum, rows: int, device: torch.device) -> tuple[list[Spectrum], int]:
    """Return the spectra of all processes and the total number of gradients, identically in each process."""
    sizes = all_gather(torch.tensor([rows, mine.rank, mine.dropped], dtype=torch.float64), device)
    padded = torch.zeros(max(int(rank) for _, rank, _ in sizes), mine.basis.shape[0], dtype=torch.float64)
    padded[: mine.rank] = torch.from_numpy(mine.rows())
    found = []
    for theirs, (_, rank, dropped) in zip(all_gather(padded, device), sizes, strict=True):
        spectrum = absorbed_rows(no_spectrum(padded.shape[1], 0), theirs[: int(rank)].numpy(), int(rank))
        found.append(replace(spectrum, dropped=float(dropped)))
    return found, sum(int(count) for count, _, _ in sizes)


def memory_to_state(memory: GradientMemory, shapes: Shapes) -> dict[str, Any]:
    """Return the memory as tensors and plain values."""
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
    """Return the memory that `memory_to_state` converted, for a model with the same parameters."""
    theirs = {name: tuple(shape) for name, shape in state["parameters"].items()}
    if theirs != shapes:
        differing = [n for n in {**theirs, **shapes} if theirs.get(n) != shapes.get(n)]
        raise InputError(
            f"expected a state of the same parameters, but {differing[0]} is {theirs.get(differing[0])} there and "
            f"{shapes.get(differing[0])} here; create the guard with the same model, frozen and free"
        )
    if state["tasks"] and not needed <= set(state["held"]) <= needed | buffers:
        raise InputError(
            f"expected a state that freezes {sorted(needed)}, got one that freezes {sorted(state['held'])}; "
            "create the guard with the same frozen and free"
        )
    directions, strength, anchor = (np.array(state[part].numpy()) for part in ("directions", "strength", "anchor"))
    if len(strength) > bound:
        raise InputError(
            f"expected a state of at most {bound} directions, got {len(strength)}; create a guard with a larger rank"
        )
    size = sum(int(np.prod(shape)) for shape in shapes.values())
    for part, wanted in ((directions, (len(strength), size)), (strength, (len(strength),)), (anchor, strength.shape)):
        if part.shape != wanted or part.dtype != np.float64 or not np.isfinite(part).all():
            raise InputError(f"expected finite numbers of shape {wanted} in a state, got a damaged one: {part.shape}")
    dropped = float(state["dropped"])
    if not 0 <= dropped < np.inf:
        raise InputError(f"expected what a state dropped to be a number of at least 0, got a damaged one: {dropped}")
    copies = {name: value.clone() for name, value in state["held"].items()}
    check_no_nan({name: copies[name] for name in needed & copies.keys()})
    spectrum = Spectrum(directions.T, strength, np.zeros((len(strength), 0)), np.zeros(0), dropped)
    return GradientMemory(spectrum, anchor, int(state["tasks"]), int(state["rows"]), copies)
