"""The protected directions of a layer, hard or soft, and the outputs to keep along them.

    K = W U                                     (K1)   the outputs on an orthonormal basis U of earlier inputs
    D = W' U − K                                (K2)   how far the optimizer's step W → W' changed them
    W ← W' − D C     K ← K + D (I − C U)        (K3)   C = ω Uᵀ

With ω = 1 this is W + (W' − W)(I − UUᵀ): the step without its component in the span, and rounding errors do not
accumulate because the outputs K are stored. With 0 < ω < 1 the step loses the share ω along each direction: the soft
projector I − U ω Uᵀ. Nothing of size inputs × inputs is formed. If only some columns of W can change (a frozen bias,
for example) and A are their rows of U, C acts on those columns only and must undo what they do:

    A σ = Q s Vᵀ,  σ² = ω / (1 − ω)      C = σ V s/(1 + s²) Qᵀ      (ω = 1: C = A⁺)                     (K4)
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from remanence.deep.nn.layers import WeightMatrix
from remanence.deep.nn.sharding.shards import is_shard, local, own_rows


@dataclass(frozen=True)
class ProtectedDirections:
    """The protected directions of one matrix, by group, and the outputs along them, in float64."""

    basis: Tensor  # (g, in + 1, r) U, columns of zeros where a group has fewer directions
    strength: Tensor | None  # (g, 1, r) ω; None means all ones
    outputs: Tensor  # (g, out, r) K

    @property
    def shape(self) -> tuple[int, int, int]:
        """(groups, outputs, inputs including the constant one)."""
        return (*self.outputs.shape[:2], self.basis.shape[1])

    @property
    def ranks(self) -> list[int]:
        """Number of directions of each group."""
        return [int(n) for n in (self.basis.square().sum(1) > 0.5).sum(1)]

    @cached_property
    def complement(self) -> Tensor:
        """An orthonormal basis V (in + 1, q) of the directions that a matrix of one group may change in."""
        Q: Tensor = torch.linalg.qr(self.basis[0], mode="complete")[0]
        return Q[:, self.basis.shape[2] :]

    @property
    def used(self) -> float:
        """Number of directions used, where a soft direction counts by its strength."""
        return float(sum(self.ranks) if self.strength is None else self.strength.sum())

    def moved(self, matrix: WeightMatrix) -> bool:
        """Return whether the outputs of a matrix have changed by more than rounding; False for soft directions."""
        if self.strength is not None or not self.basis.shape[2]:
            return False
        values = matrix.values()
        shift = float((values @ self.basis - self.outputs).abs().max())
        eps = max(torch.finfo(p.dtype).eps for p in matrix.parameters)
        return not shift <= eps**0.5 * float(values.abs().max())

    def correction(self, moving: slice) -> tuple[Tensor, Tensor | None]:
        """Return C (g, r, in + 1) of (K3) if only some columns can change, and the share of D that K takes if ω < 1."""
        C = torch.zeros_like(self.basis).transpose(1, 2)
        A = self.basis[:, moving]
        if A.shape == self.basis.shape:
            C = self.basis.transpose(1, 2)
            return (C, None) if self.strength is None else (C * self.strength.transpose(1, 2), 1 - self.strength)
        if self.strength is None:
            C[:, :, moving] = torch.linalg.pinv(A, rtol=torch.finfo(A.dtype).eps ** 0.5)  # (K4)
            return C, None
        sigma = (self.strength / (1 - self.strength).clamp(min=torch.finfo(A.dtype).eps)).sqrt()  # (g, 1, r)
        Q, s, Vt = torch.linalg.svd(A * sigma, full_matrices=False)
        share = s / (1 + s.square())
        C[:, :, moving] = sigma.mT * (Vt.mT * share[:, None]) @ Q.mT  # (K4)
        return C, torch.eye(C.shape[1], dtype=C.dtype, device="cpu") - C @ self.basis


def rounding_share(dtype: torch.dtype, inputs: int) -> float:
    """Return the share of the norm of a layer's inputs below which a direction is taken to be rounding.

    A network reproduces its inputs only to rounding. In half precision sums are made in float32 and rounded once, by at
    most ε/2, which spreads over all directions: weaker ones hold at most ε/2 together. In float32 sums round too.
    """
    eps = float(torch.finfo(dtype).eps)
    return eps / 2 / math.sqrt(inputs) if dtype.itemsize < 4 else 16 * eps


def protect_directions(
    matrix: WeightMatrix, bases: list[Tensor], strengths: list[Tensor] | None = None
) -> ProtectedDirections:
    """Protect the current outputs of a matrix on the bases (in + 1, r) of its groups (K1)."""
    groups, _, inputs = matrix.shape
    widest = max(basis.shape[1] for basis in bases)
    U = torch.zeros(groups, inputs, widest, dtype=torch.float64, device="cpu")
    omega = torch.zeros(groups, 1, widest, dtype=torch.float64, device="cpu")
    for g, basis in enumerate(bases):
        U[g, :, : basis.shape[1]] = basis
        if strengths is not None:
            omega[g, 0, : basis.shape[1]] = strengths[g]
    return ProtectedDirections(U, None if strengths is None else omega, matrix.values() @ U)


class FrozenTensor:
    """Restores a tensor, or some of its rows, to their exact values; of a shard, the rows that this process holds."""

    def __init__(self, name: str, tensor: Tensor, value: Tensor, rows: Tensor | None = None) -> None:
        self.name, self.parameters, self.by_layer = name, (tensor,), True
        self.tensor = tensor
        if is_shard(tensor):
            own = own_rows(tensor)
            if rows is None:
                value = value[own.start : own.stop]
            else:
                here = (rows >= own.start) & (rows < own.stop)
                value, rows = value[here], rows[here] - own.start
        device = local(tensor).device
        self.value, self.rows = value.to(device), None if rows is None else rows.to(device)

    @property
    def data(self) -> Tensor:
        return local(self.tensor).detach()

    def project_step(self) -> None:
        """Restore the values."""
        if self.rows is None:
            self.data.copy_(self.value)
        else:
            self.data.index_copy_(0, self.rows, self.value)

    def project_gradient(self) -> None:
        """Set the gradient of the frozen entries to zero."""
        if self.tensor.grad is not None and self.tensor.grad.is_sparse:
            self.tensor.grad = self.tensor.grad.to_dense()
        if self.tensor.grad is not None:
            slope = local(self.tensor.grad)
            if self.rows is None:
                slope.zero_()
            else:
                slope.index_fill_(0, self.rows, 0.0)

    def finalize(self) -> None:
        """Restore the values."""
        self.project_step()

    def moved(self) -> bool:
        """Return whether the values have changed."""
        now = self.data if self.rows is None else self.data.index_select(0, self.rows)
        return not torch.equal(now, self.value.to(now))
