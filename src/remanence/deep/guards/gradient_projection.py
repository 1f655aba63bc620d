"""Gradient projection: a layer may move in any direction that old inputs do not see.

    U ← [U, leading directions of (I − UUᵀ) X]     (P1)   X: the layer's inputs at the weights after the task
    Δ ← Δ (I − UUᵀ)                                (P2)   of the optimizer's own step, whatever made it

Then every layer gives old inputs the old answers, so the next layer gets the old inputs, and so on to the end.
Energy 1 keeps all directions and the old answers to rounding; less keeps the strong ones and says how far the rest let
the answers drift.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from remanence.deep.guards.layer_guard import ByLayer, LayerGuard
from remanence.deep.guards.projection.protected_directions import ProtectedDirections, protect_directions
from remanence.memory.root import Root
from remanence.memory.subspace import Subspace


class GradientProjection(LayerGuard):
    """Guards any torch optimizer so that a network's old answers do not move.

    Parameters
    ----------
    model : torch.nn.Module
        Made of Linear, Conv1d/2d/3d, Embedding, MultiheadAttention and norm modules, nested in any way. The scale,
        shift and running statistics of norm layers are held after the first task, and batch norms then answer with
        their running statistics during training too; buffers of other modules are held once an answer has read them.
        A weight must act through calls of its own module: `absorb` refuses one that is used elsewhere (trial.py).
        A layer with d inputs takes d² numbers of memory.
    energy : float, or dict of layer name to float (1 for layers it does not name)
        1 protects every direction old inputs use: old answers stay to rounding. Below 1 it protects the fewest
        directions that hold this share of each layer's input energy; `report()` says how far answers drifted.
    frozen, free : names or check_patterns of parameters
        `frozen` ones are held after the first task; `free` ones are left to the optimizer, unprotected.

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

    def __init__(
        self,
        model: nn.Module,
        energy: ByLayer = 1.0,
        *,
        frozen: Iterable[str] = (),
        free: Iterable[str] = (),
    ) -> None:
        super().__init__(model, frozen, free)
        self.energy = energy
        self._energies()

    @property
    def settings(self) -> dict[str, Any]:
        energy = dict(self.energy) if isinstance(self.energy, Mapping) else self.energy
        return {"energy": energy, "frozen": self._frozen, "free": self._free}

    def _energies(self) -> dict[str, float]:
        return self._for_layers(self.energy, "energy", 1.0, high=np.nextafter(1.0, 2.0), hint="1 keeps every direction")

    def _directions_to_protect(self, name: str, roots: list[Root]) -> ProtectedDirections:
        matrix, energy = self._roles.matrices[name], self._energies()[name]
        old = self._memory.directions.get(name)
        # inputs of a float32 network repeat only to its own rounding: finer directions are noise
        tolerance = 16 * float(torch.finfo(matrix.weight.dtype).eps)
        bases = []
        for g, root in enumerate(roots):
            known = np.zeros((matrix.shape[2], 0)) if old is None else old.basis[g, :, : old.ranks[g]].numpy()
            basis = Subspace(known).extended_to(root.factor.T, energy, tolerance).basis  # (P1)
            bases.append(torch.from_numpy(np.ascontiguousarray(basis)))
        return protect_directions(matrix, bases)

    @property
    def _is_exact(self) -> bool:
        return all(e == 1.0 for e in self._energies().values())
