"""Orthogonal weight modification: the softer a direction was used by old inputs, the more of a step it lets through.

    P = α (α I + Σ x xᵀ)⁻¹ = I − U ω Uᵀ,     ω = s² / (s² + α),     R = · diag(s) Uᵀ        (W1)
    Δ ← Δ P                                                                                  (W2)

R is the triangular square root of all old inputs of the layer, kept by rotations: P is taken from it anew after each
task, so no rank-one recursion can drift. As the damping α goes to zero, ω goes to one and this is gradient projection.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from remanence.deep.guards.layer_guard import ByLayer, LayerGuard
from remanence.deep.guards.projection.protected_directions import ProtectedDirections, protect_directions
from remanence.memory.root import Root


class OWM(LayerGuard):
    """Guards any torch optimizer with a soft projector in each layer.

    Parameters
    ----------
    model : torch.nn.Module
        As for `GradientProjection`.
    damping : float, or dict of layer name to float (1 for layers it does not name)
        α: directions whose summed squared inputs are well below it move freely, those well above hardly. It is in the
        units of those sums, so it grows with the rows absorbed; choose it on rows kept aside.
    frozen, free : names or check_patterns of parameters
        As for `GradientProjection`.
    """

    def __init__(
        self, model: nn.Module, damping: ByLayer = 1.0, *, frozen: Iterable[str] = (), free: Iterable[str] = ()
    ) -> None:
        super().__init__(model, frozen, free)
        self.damping = damping
        self._dampings()

    @property
    def settings(self) -> dict[str, Any]:
        damping = dict(self.damping) if isinstance(self.damping, Mapping) else self.damping
        return {"damping": damping, "frozen": self._frozen, "free": self._free}

    def _dampings(self) -> dict[str, float]:
        return self._for_layers(self.damping, "damping", 1.0, hint="a small one is close to GradientProjection")

    def _directions_to_protect(self, name: str, roots: list[Root]) -> ProtectedDirections:
        matrix, damping = self._roles.matrices[name], self._dampings()[name]
        old = self._memory.roots.get(name)
        bases, strengths = [], []
        for g, root in enumerate(roots):
            whole = root if old is None else old[g].merged(root)
            _, s, Vt = np.linalg.svd(whole.factor)
            omega = s**2 / (s**2 + damping)  # (W1)
            # below rounding a direction is noise of the factorisation, and letting it move costs nothing
            kept = s > 64 * np.finfo(float).eps * s[0]
            bases.append(torch.from_numpy(np.ascontiguousarray(Vt[kept].T)))
            strengths.append(torch.from_numpy(omega[kept]))
        return protect_directions(matrix, bases, strengths)

    def _full_message(self, full: list[str]) -> str:
        return (
            f"old inputs use every direction of {', '.join(full)}: it learns only by what the damping lets through; "
            "make it wider, absorb fewer inputs, or raise the damping"
        )
