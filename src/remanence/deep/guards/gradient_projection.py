"""Gradient projection: a layer may change in any direction that is orthogonal to its earlier inputs.

    U ← [U, leading directions of (I − UUᵀ) X]     (P1)   X: the layer's inputs at the weights after the task
    Δ ← Δ (I − UUᵀ)                                (P2)   Δ: the optimizer's step, of any optimizer

Every layer then has the same outputs on earlier inputs, so the next layer gets the same inputs, and so on. Energy 1
keeps all directions, and the outputs on earlier inputs to rounding; less keeps only the strong directions, and the
report says how far the outputs drifted.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from remanence.deep.guards.layer_guard import ByLayer, LayerGuard
from remanence.deep.guards.projection.protected_directions import (
    ProtectedDirections,
    protect_directions,
    rounding_share,
)
from remanence.deep.nn.lowrank.lowrank_root import LayerRoot, LowRankRoot
from remanence.memory.subspace import Subspace


class GradientProjection(LayerGuard):
    """Guard that keeps a network's outputs on earlier inputs fixed, for any torch optimizer.

    Parameters
    ----------
    model : torch.nn.Module
        Consists of linear, convolutional, recurrent, embedding, attention and norm modules, nested in any way, and
        low-rank adapters; stock transformers do. Embeddings may be tied to a head. The scale, shift and running
        statistics of norm layers are frozen after the first task, and batch norms then use their running statistics
        during training too; buffers of other modules are frozen once a forward pass has read them. The first `absorb`
        of new adapters (B = 0) moves A away from the inputs, which changes no output and leaves B free to learn.
        A weight must act through calls of its own module: `absorb` raises InputError for one that is used elsewhere.
        A model may be split over processes, by DistributedDataParallel or `fully_shard`.
        A layer with d inputs needs d² numbers of memory.
    energy : float, or dict of layer name to float (1 for layers it does not name)
        1 protects every direction that earlier inputs use: the outputs on them are kept to rounding. Below 1 it
        protects the fewest directions with this share of each layer's input energy; `report()` says how far outputs
        drifted.
    memory : "full" or "lowrank"
        "full" keeps every direction of the inputs of a layer, which needs d² numbers for d inputs; "lowrank" keeps the
        `rank` strongest, for wide layers. The report names the share of the energy that is kept.
    rank : int or float, optional
        Bound of a "lowrank" memory in each layer (default 256 directions), or, below 1, the share of the energy of a
        task's inputs to keep, in at most 256 directions.
    max_bytes : int, optional
        Instead of `rank`: keep as many directions as fit, in bytes that one task may add to the memory.
    frozen, free : names or patterns of parameters
        `frozen` parameters do not change after the first task; `free` ones are left to the optimizer, unprotected.

    References
    ----------
    - Saha, Garg and Roy (2021), "Gradient projection memory for continual learning", ICLR.
    - Wang, Li, Sun and Xu (2021), "Training networks in null space of feature covariance for continual learning",
      CVPR.

    Examples
    --------
    >>> import torch, remanence as rm
    >>> net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)).double()
    >>> optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    >>> guard = rm.deep.GradientProjection(net)
    >>> first, second = torch.randn(2, 5, 8, dtype=torch.float64)
    >>> report = guard.absorb([first])
    >>> before = net(first)
    >>> with guard.protect(optimizer):
    ...     for _ in range(20):
    ...         optimizer.zero_grad()
    ...         net(second).square().mean().backward()
    ...         optimizer.step()
    >>> bool((net(first) - before).abs().max() < 1e-12)
    True
    """

    tuned: ClassVar = ("energy", (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0))

    def __init__(
        self,
        model: nn.Module,
        energy: ByLayer = 1.0,
        *,
        memory: str = "full",
        rank: float | None = None,
        max_bytes: int | None = None,
        frozen: Iterable[str] = (),
        free: Iterable[str] = (),
    ) -> None:
        super().__init__(model, frozen, free, memory, rank, max_bytes)
        self.energy = energy
        self._energies()

    @property
    def settings(self) -> dict[str, Any]:
        energy = dict(self.energy) if isinstance(self.energy, Mapping) else self.energy
        return {"energy": energy, **self._memory_settings, "frozen": self._frozen, "free": self._free}

    def _energies(self) -> dict[str, float]:
        return self._for_layers(self.energy, "energy", 1.0, high=np.nextafter(1.0, 2.0), hint="1 keeps every direction")

    def _directions_to_protect(self, name: str, roots: list[LayerRoot]) -> ProtectedDirections:
        matrix, energy = self._roles.matrices[name], self._energies()[name]
        old = self._memory.directions.get(name)
        tolerance = rounding_share(matrix.weight.dtype, matrix.shape[2])
        bases = []
        for g, root in enumerate(roots):
            known = np.zeros((matrix.shape[2], 0)) if old is None else old.basis[g, :, : old.ranks[g]].numpy()
            decomposed = isinstance(root, LowRankRoot)
            basis = Subspace(known).extended_to(root.factor.T, energy, tolerance, decomposed).basis  # (P1)
            bases.append(torch.from_numpy(np.ascontiguousarray(basis)))
        return protect_directions(matrix, bases)

    @property
    def _is_exact(self) -> bool:
        return self._rank is None and all(e == 1.0 for e in self._energies().values())
