"""Keep the allowed part of the step of many parameters at once, by holding what they are along protected directions.

    K = Uᵀθ                               (V1)   the parameters, end to end, along an orthonormal basis U
    θ ← θ' − U (Uᵀθ' − K)                 (V2)   after the optimizer's step θ → θ'
    U_S = B C,  BᵀB = I                   (V3)   where only some parameters S may move: U_SᵀΔ = 0 as soon as BᵀΔ = 0

(V2) is θ + (I − UUᵀ)(θ' − θ), and rounding never adds up, because K itself is held. Nothing of size D × D is formed.
"""

from collections.abc import Iterable
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from remanence.arrays import Array
from remanence.memory.subspace import nothing


class ParameterProjector:
    """Protected directions at work on the parameters, in their own precision and on their device."""

    def __init__(self, parameters: Iterable[Tensor], basis: Array, anchor: Array) -> None:
        """The parameters, the basis (D, r) and what is held along it, (r,)."""
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
        """Take back the forbidden part of whatever the parameters did since the last call (V2)."""
        self._hold(self.working_basis, self.working_anchor)

    @torch.no_grad()
    def project_gradient(self) -> None:
        """Take the forbidden part out of the gradients."""
        for p in self.parameters:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        grads = [p.grad for p in self.parameters if p.grad is not None]
        _subtract(grads, self.working_basis, _along(grads, self.working_basis))

    @torch.no_grad()
    def finalize(self) -> None:
        """Keep once in float64: what single precision left over goes away up to the rounding of the parameters."""
        self._hold(self.basis, self.anchor)

    @torch.no_grad()
    def moved(self) -> bool:
        """Whether the parameters are not what is held along the basis, beyond rounding."""
        shift = float((_along(self.parameters, self.basis) - self.anchor).norm())
        size = sum(float(p.detach().double().square().sum()) for p in self.parameters) ** 0.5
        eps = max(float(torch.finfo(p.dtype).eps) for p in self.parameters)
        return not shift <= eps**0.5 * size

    def _hold(self, basis: list[Tensor], anchor: Tensor) -> None:
        _subtract(self.parameters, basis, _along(self.parameters, basis) - anchor)


def _along(tensors: list[Tensor], basis: list[Tensor]) -> Tensor:
    """What the tensors, end to end, are along the columns of a basis (V1)."""
    shares = [U.T @ t.detach().flatten().to(U) for t, U in zip(tensors, basis, strict=True)]
    return torch.stack(shares).sum(0)


def _subtract(tensors: list[Tensor], basis: list[Tensor], amounts: Tensor) -> None:
    for t, U in zip(tensors, basis, strict=True):
        t.copy_(t.to(U) - (U @ amounts).reshape(t.shape))


def restricted(basis: Array, places: list[slice]) -> Array:
    """An orthonormal basis of what protected directions are in some of the places of the vector (V3)."""
    rows = np.concatenate([basis[place] for place in places])
    return np.asarray(nothing(len(rows), rows).extended_to(rows, energy=1.0).basis)
