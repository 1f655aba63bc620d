"""Scaled gradient projection: directions are protected by how important they were for the tasks so far.

    σᵢ = ‖X uᵢ‖,   λᵢ = (α + 1) σᵢ / (α σᵢ + σ_max)        (S1)   importance for one task, 0 to 1
    ω ← min(1, ω + λ)                                       (S2)   accumulated over the tasks
    U ← [U, leading directions of (I − UUᵀ) X]              (S3)   as gradient projection does
    Δ ← Δ (I − U ω Uᵀ)                                      (S4)   Δ: the optimizer's step

As α goes to infinity every direction counts fully, and this becomes gradient projection; at α = 0 importance is
proportional to σ.
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


class ScaledProjection(LayerGuard):
    """Guard that restricts each direction by its importance for earlier tasks, for any torch optimizer (SGP).

    Parameters
    ----------
    model : torch.nn.Module
        As for `GradientProjection`.
    alpha : float, or dict of layer name to float (10 for layers it does not name)
        α: how quickly importance approaches 1 as a direction carries more of the inputs; larger protects more.
    energy : float, or dict of layer name to float (1 for layers it does not name)
        Share of each layer's input energy that the directions cover; the rest is unrestricted.
    memory : "full" or "lowrank"
        "full" keeps every direction of the inputs of a layer, which needs d² numbers for d inputs; "lowrank" keeps the
        `rank` strongest, for wide layers. The report names the share of the energy that is kept.
    rank : int or float, optional
        Bound of a "lowrank" memory in each layer (default 256 directions), or, below 1, the share of the energy of a
        task's inputs to keep, in at most 256 directions.
    max_bytes : int, optional
        Instead of `rank`: keep as many directions as fit, in bytes that one task may add to the memory.
    frozen, free : names or patterns of parameters
        As for `GradientProjection`.

    References
    ----------
    Saha and Roy (2023), "Continual learning with scaled gradient projection", AAAI.

    Examples
    --------
    >>> import torch, remanence as rm
    >>> net = torch.nn.Linear(8, 2).double()
    >>> guard = rm.deep.ScaledProjection(net, alpha=10)
    >>> report = guard.absorb([torch.randn(5, 8, dtype=torch.float64)])
    >>> 0 < guard.capacity()["linear"] < 1
    True
    """

    tuned: ClassVar = ("alpha", (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0))

    def __init__(
        self,
        model: nn.Module,
        alpha: ByLayer = 10.0,
        energy: ByLayer = 1.0,
        *,
        memory: str = "full",
        rank: float | None = None,
        max_bytes: int | None = None,
        frozen: Iterable[str] = (),
        free: Iterable[str] = (),
    ) -> None:
        super().__init__(model, frozen, free, memory, rank, max_bytes)
        self.alpha, self.energy = alpha, energy
        self._alphas()
        self._energies()

    @property
    def settings(self) -> dict[str, Any]:
        alpha, energy = (dict(v) if isinstance(v, Mapping) else v for v in (self.alpha, self.energy))
        return {
            "alpha": alpha,
            "energy": energy,
            **self._memory_settings,
            "frozen": self._frozen,
            "free": self._free,
        }

    def _alphas(self) -> dict[str, float]:
        return self._for_layers(self.alpha, "alpha", 10.0, closed=True, hint="0 protects by size, 1000 nearly all")

    def _energies(self) -> dict[str, float]:
        hint = "1 covers every direction that inputs use"
        return self._for_layers(self.energy, "energy", 1.0, high=np.nextafter(1.0, 2.0), hint=hint)

    def _directions_to_protect(self, name: str, roots: list[LayerRoot]) -> ProtectedDirections:
        matrix, alpha, energy = self._roles.matrices[name], self._alphas()[name], self._energies()[name]
        old = self._memory.directions.get(name)
        tolerance = rounding_share(matrix.weight.dtype, matrix.shape[2])
        bases, strengths = [], []
        for g, root in enumerate(roots):
            rank = 0 if old is None else old.ranks[g]
            known = np.zeros((matrix.shape[2], 0)) if old is None else old.basis[g, :, :rank].numpy()
            decomposed = isinstance(root, LowRankRoot)
            basis = Subspace(known).extended_to(root.factor.T, energy, tolerance, decomposed).basis  # (S3)
            sigma = np.linalg.norm(root.factor @ basis, axis=0)
            largest = np.linalg.norm(root.factor, 2)
            importance = (alpha + 1) * sigma / np.maximum(alpha * sigma + largest, np.finfo(float).tiny)  # (S1)
            before = np.zeros(basis.shape[1])
            if old is not None:
                before[:rank] = 1.0 if old.strength is None else old.strength[g, 0, :rank].numpy()
            bases.append(torch.from_numpy(np.ascontiguousarray(basis)))
            strengths.append(torch.from_numpy(np.minimum(1.0, before + importance)))  # (S2)
        return protect_directions(matrix, bases, strengths)

    def _full_message(self, full: list[str]) -> str:
        return (
            f"every direction of {', '.join(full)} is fully important to earlier tasks: it cannot learn any more; make "
            "it wider, absorb fewer inputs, or lower alpha"
        )
