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

from remanence.deep.cover import outputs_of
from remanence.deep.guard import Forward, answering
from remanence.deep.layer_guard import ByLayer, LayerGuard
from remanence.deep.remembered import Memory
from remanence.deep.restraint import Restraint, restraint
from remanence.errors import InputError
from remanence.memory.root import Root
from remanence.memory.subspace import Subspace


class GradientProjection(LayerGuard):
    """Guards any torch optimizer so that a network's old answers do not move.

    Parameters
    ----------
    model : torch.nn.Module
        Made of Linear, Conv1d/2d/3d, Embedding, MultiheadAttention and norm modules, nested in any way. The scale,
        shift and running statistics of norm layers are held after the first task, and batch norms then answer with
        their running statistics during training too. A layer with d inputs takes d² numbers of memory.
    energy : float, or dict of layer name to float (1 for layers it does not name)
        1 protects every direction old inputs use: old answers stay to rounding. Below 1 it protects the fewest
        directions that hold this share of each layer's input energy; `report()` says how far answers drifted.
    frozen, free : names or patterns of parameters
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

    def _restrain(self, name: str, roots: list[Root]) -> Restraint:
        matrix, energy = self._cover.matrices[name], self._energies()[name]
        old = self._memory.restraints.get(name)
        # inputs of a float32 network repeat only to its own rounding: finer directions are noise
        tolerance = 16 * float(torch.finfo(matrix.weight.dtype).eps)
        bases = []
        for g, root in enumerate(roots):
            known = np.zeros((matrix.shape[2], 0)) if old is None else old.basis[g, :, : old.ranks[g]].numpy()
            basis = Subspace(known).extended_to(root.factor.T, energy, tolerance).basis  # (P1)
            bases.append(torch.from_numpy(np.ascontiguousarray(basis)))
        return restraint(matrix, bases)

    @torch.no_grad()
    def _check(self, memory: Memory, batch: Any, forward: Forward) -> None:
        """Move every parameter at random, keep the allowed part, and see that the answers stay.

        This finds what no rule can see: a weight used outside its module's own call, say.
        """
        if any(e < 1.0 for e in self._energies().values()):
            return
        before_it = {p: p.detach().clone() for p in self._cover.kept}
        noise = torch.Generator("cpu").manual_seed(0)
        with answering(self.model):
            before, again = outputs_of(forward(self.model, batch)), outputs_of(forward(self.model, batch))
            try:
                for parameter in self._cover.kept:
                    if parameter.requires_grad:
                        size = 0.1 * float(parameter.double().square().mean().sqrt()) or 0.01
                        step = torch.randn(parameter.shape, generator=noise, dtype=torch.float64, device="cpu") * size
                        parameter.add_(step.to(parameter))
                for keeper in self._keepers(memory):
                    keeper.keep()
                after = outputs_of(forward(self.model, batch))
            finally:
                for parameter, value in before_it.items():
                    parameter.copy_(value)
        coarsest = max((float(torch.finfo(t.dtype).eps) for t in (*self._cover.kept, *before)), default=0.0)
        for a, b, c in zip(before, again, after, strict=True):
            if not a.numel():
                continue
            allowed = coarsest**0.5 * max(float(a.abs().max()), 1e-30) + 10 * float((a - b).abs().max())
            moved = float((c - a).abs().max())
            if not moved <= allowed:
                raise InputError(
                    f"a trial step that no memory forbids moved the model's answers by {moved:.1e} "
                    f"(allowed {allowed:.1e}), so they cannot be protected: some weight is used in a way its module's "
                    "own forward does not show (a functional call, random numbers in eval mode), or the inputs differ "
                    "in size by more than this precision can tell; name such parameters in frozen=(…) or free=(…), or "
                    "use double(). Nothing was absorbed"
                )
