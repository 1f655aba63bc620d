"""Orthogonal weight modification: the less a direction was used by earlier inputs, the more of a step passes.

    P = α (α I + Σ x xᵀ)⁻¹ = I − U ω Uᵀ,     ω = s² / (s² + α),     R = · diag(s) Uᵀ        (W1)
    Δ ← Δ P                                                                                  (W2)

R is the triangular square root of Σ x xᵀ over all earlier inputs of the layer, updated by rotations. P is computed
from it after each task, so there is no rank-one recursion whose rounding errors could accumulate. As the damping α
goes to zero, ω goes to one and this becomes gradient projection.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from remanence.deep.guards.layer_guard import ByLayer, LayerGuard
from remanence.deep.guards.projection.protected_directions import ProtectedDirections, protect_directions
from remanence.deep.nn.lowrank.lowrank_root import LayerRoot


class OWM(LayerGuard):
    """Guard with a soft projector in each layer (orthogonal weight modification), for any torch optimizer.

    Parameters
    ----------
    model : torch.nn.Module
        As for `GradientProjection`.
    damping : float, or dict of layer name to float (1 for layers it does not name)
        α: directions whose summed squared inputs are well below α are nearly unrestricted, those well above nearly
        fixed. It has the units of those sums, which grow with the rows absorbed; tune it on validation data.
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
    Zeng, Chen, Cui and Yu (2019), "Continual learning of context-dependent processing in neural networks", Nature
    Machine Intelligence.

    Examples
    --------
    >>> import torch, remanence as rm
    >>> net = torch.nn.Linear(8, 2).double()
    >>> guard = rm.deep.OWM(net, damping=1e-3)
    >>> first, second = torch.randn(2, 5, 8, dtype=torch.float64)
    >>> report = guard.absorb([first])
    >>> before, optimizer = net(first), torch.optim.SGD(net.parameters(), lr=0.1)
    >>> with guard.protect(optimizer):
    ...     net(second).square().mean().backward()
    ...     optimizer.step()
    >>> bool((net(first) - before).abs().max() < 1e-2)  # a smaller damping moves them less
    True
    """

    tuned: ClassVar = ("damping", (1e4, 1e3, 1e2, 10.0, 1.0, 0.1, 1e-2))

    def __init__(
        self,
        model: nn.Module,
        damping: ByLayer = 1.0,
        *,
        memory: str = "full",
        rank: float | None = None,
        max_bytes: int | None = None,
        frozen: Iterable[str] = (),
        free: Iterable[str] = (),
    ) -> None:
        super().__init__(model, frozen, free, memory, rank, max_bytes)
        self.damping = damping
        self._dampings()

    @property
    def settings(self) -> dict[str, Any]:
        damping = dict(self.damping) if isinstance(self.damping, Mapping) else self.damping
        return {"damping": damping, **self._memory_settings, "frozen": self._frozen, "free": self._free}

    def _dampings(self) -> dict[str, float]:
        return self._for_layers(self.damping, "damping", 1.0, hint="a small one is close to GradientProjection")

    def _directions_to_protect(self, name: str, roots: list[LayerRoot]) -> ProtectedDirections:
        matrix, damping = self._roles.matrices[name], self._dampings()[name]
        old = self._memory.roots.get(name)
        bases, strengths = [], []
        for g, root in enumerate(roots):
            whole = root if old is None else old[g].merged(root)
            _, s, Vt = np.linalg.svd(whole.factor, full_matrices=False)
            omega = s**2 / (s**2 + damping)  # (W1)
            # weaker directions are rounding errors of the factorization and need no protection
            kept = s > 64 * np.finfo(float).eps * s[0]
            bases.append(torch.from_numpy(np.ascontiguousarray(Vt[kept].T)))
            strengths.append(torch.from_numpy(omega[kept]))
        return protect_directions(matrix, bases, strengths)

    def _full_message(self, full: list[str]) -> str:
        return (
            f"earlier inputs use every direction of {', '.join(full)}: it learns only through the damping; "
            "make it wider, absorb fewer inputs, or raise the damping"
        )
