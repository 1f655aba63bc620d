"""Whether all processes of a run have the same memory: each projects its own part of every layer.

A guard that absorbed before the model was sharded, or was loaded by one process only, may have another memory in each.
"""

import numpy as np
import torch
from torch import Tensor

from remanence.deep.guards.guard_memory import GuardMemory
from remanence.deep.nn.distributed import all_gather
from remanence.errors import InputError

ROUNDING = 1e-6  # relative: processors may round differently


def check_same_memory(memory: GuardMemory, device: torch.device) -> None:
    """Raise InputError, in all processes, if their memories differ."""
    mine = torch.tensor(_summary(memory), dtype=torch.float64, device="cpu")
    sizes = {int(size) for size in all_gather(torch.tensor([len(mine)], device="cpu"), device)}
    if len(sizes) > 1 or not _equal(all_gather(mine, device)):
        raise InputError(
            "expected the same memory in all processes, got different ones; call absorb after fully_shard (with the "
            "batches of each process), or load the same state in each process"
        )


def _equal(found: list[Tensor]) -> bool:
    return all(torch.allclose(other, found[0], rtol=ROUNDING, atol=0.0) for other in found)


def _summary(memory: GuardMemory) -> list[float]:
    """Return some numbers that differ for different inputs, and that do not depend on the choice of a basis."""
    numbers = [float(memory.tasks)]
    for name, kept in sorted(memory.directions.items()):
        numbers += [float(memory.rows[name]), *map(float, kept.ranks), kept.used, float(kept.outputs.norm())]
        probe = np.random.default_rng(0).standard_normal(kept.shape[2])
        numbers += [float(np.linalg.norm(root.factor @ probe)) for root in memory.roots[name]]
    for tensors in (memory.frozen, memory.table_rows, memory.table_values, memory.scales):
        for _, tensor in sorted(tensors.items()):
            values = tensor.double().flatten()
            places = torch.arange(1, len(values) + 1, dtype=torch.float64, device="cpu")
            numbers += [float(len(values)), float(values.norm()), float((values * places).norm())]
    return numbers
