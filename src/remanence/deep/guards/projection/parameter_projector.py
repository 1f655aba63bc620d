"""Project the step of many parameters at once, by keeping their values along protected directions.

    K = Uᵀθ                               (V1)   the parameter vector along an orthonormal basis U
    θ ← θ' − U (Uᵀθ' − K)                 (V2)   after the optimizer's step θ → θ'
    U_S = B C,  BᵀB = I                   (V3)   if only parameters S can change: U_SᵀΔ = 0 whenever BᵀΔ = 0

(V2) equals θ + (I − UUᵀ)(θ' − θ), but rounding errors do not accumulate because K itself is stored. Nothing of size
D × D is formed.
"""

from collections.abc import Iterable
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from remanence.arrays import Array
from remanence.memory.subspace import nothing


class ParameterProjector:
    """Applies protected directions to a list of parameters, in their dtype and on their device."""

    def __init__(self, parameters: Iterable[Tensor], basis: Array, anchor: Array) -> None:
        """Take the parameters, the basis (D, r) and the values to keep along it, (r,)."""
        self.name, self.by_layer = "the parameters", False
        self.parameters = list(parameters)
        self.basis = self._parts(torch.from_numpy(basis))
        self.anchor = torch.from_numpy(anchor)
        working = reduce(torch.promote_types, (p.dtype for p in self.parameters))
        dtype = working if working.itemsize >= 4 else torch.float32
        device = self.parameters[0].device
        self.working_basis = [U.to(device, dtype) for U in self.basis]
        self.working_anchor = self.anchor.to(device, dtype)

    def _parts(self, whole: Tensor) -> list[Tensor]:
        return list(torch.split(whole, [p.numel() for p in self.parameters]))

    @torch.no_grad()
    def project_step(self) -> None:
        """Remove the forbidden part of the change of the parameters since the last call (V2)."""
        self._project(self.working_basis, self.working_anchor)

    @torch.no_grad()
    def project_gradient(self) -> None:
        """Remove the forbidden part from the gradients."""
        for p in self.parameters:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        grads = [p.grad for p in self.parameters if p.grad is not None]
        _subtract(grads, self.working_basis, _along(grads, self.working_basis))

    @torch.no_grad()
    def finalize(self) -> None:
        """Project once in float64, which removes what lower precision left, up to the rounding of the parameters."""
        self._project(self.basis, self.anchor)

    @torch.no_grad()
    def moved(self) -> bool:
        """Return whether the parameters have changed along the basis by more than rounding."""
        shift = float((_along(self.parameters, self.basis) - self.anchor).norm())
        size = sum(float(p.detach().double().square().sum()) for p in self.parameters) ** 0.5
        eps = max(float(torch.finfo(p.dtype).eps) for p in self.parameters)
        return not shift <= eps**0.5 * size

    def _project(self, basis: list[Tensor], anchor: Tensor) -> None:
        _subtract(self.parameters, basis, _along(self.parameters, basis) - anchor)


def _along(tensors: list[Tensor], basis: list[Tensor]) -> Tensor:
    """Return the components of the concatenated tensors along the columns of a basis (V1)."""
    shares = [U.T @ t.detach().flatten().to(U) for t, U in zip(tensors, basis, strict=True)]
    return torch.stack(shares).sum(0)


def _subtract(tensors: list[Tensor], basis: list[Tensor], amounts: Tensor) -> None:
    for t, U in zip(tensors, basis, strict=True):
        t.copy_(t.to(U) - (U @ amounts).reshape(t.shape))


def restricted(basis: Array, places: list[slice]) -> Array:
    """Return an orthonormal basis of the protected directions restricted to some slices of the vector (V3)."""
    rows = np.concatenate([basis[place] for place in places])
    return np.asarray(nothing(len(rows), rows).extended_to(rows, energy=1.0).basis)
