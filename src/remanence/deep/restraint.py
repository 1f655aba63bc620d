"""Keep the allowed part of a layer's step, hard or soft, by holding the answers on the protected directions.

    K = W U                               (K1)   the answers on an orthonormal basis U of old inputs
    D = W' U − K                          (K2)   how far the optimizer's step W → W' moved them
    W ← W' − D ω Uᵀ     K ← K + D (1 − ω) (K3)

With ω = 1 this is W + (W' − W)(I − UUᵀ): the step without its part in the span, and rounding never adds up, because
the answers K themselves are held. With 0 < ω < 1 the step loses the share ω along each direction: the soft projector
I − U ω Uᵀ. Nothing of size inputs × inputs is formed.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from remanence.deep.layers import Matrix


@dataclass(frozen=True)
class Restraint:
    """The protected directions of one matrix, by group, and the answers on them, in float64."""

    basis: Tensor  # (g, in + 1, r) U, columns of zeros where a group has fewer directions
    strength: Tensor | None  # (g, 1, r) ω; None means all ones
    answers: Tensor  # (g, out, r) K

    @property
    def ranks(self) -> list[int]:
        """How many directions each group has."""
        return [int(n) for n in (self.basis.square().sum(1) > 0.5).sum(1)]

    @property
    def used(self) -> float:
        """How many directions are taken, a soft one counting by its strength."""
        return float(sum(self.ranks) if self.strength is None else self.strength.sum())


def restraint(matrix: Matrix, bases: list[Tensor], strengths: list[Tensor] | None = None) -> Restraint:
    """Hold the answers of a matrix, as they are now, on the bases (in + 1, r) of its groups (K1)."""
    groups, _, inputs = matrix.shape
    widest = max(basis.shape[1] for basis in bases)
    U = torch.zeros(groups, inputs, widest, dtype=torch.float64)
    omega = torch.zeros(groups, 1, widest, dtype=torch.float64)
    for g, basis in enumerate(bases):
        U[g, :, : basis.shape[1]] = basis
        if strengths is not None:
            omega[g, 0, : basis.shape[1]] = strengths[g]
    return Restraint(U, None if strengths is None else omega, matrix.values() @ U)


class Grip:
    """A restraint at work on the parameters, in their own precision and on their device."""

    def __init__(self, matrix: Matrix, restraint: Restraint) -> None:
        self.matrix, self.restraint = matrix, restraint
        weight = matrix.weight
        dtype = weight.dtype if weight.dtype.itemsize >= 4 else torch.float32
        basis = restraint.basis.to(weight.device, dtype)
        inputs = weight.shape[2]
        self.dtype = dtype
        self.basis = basis[:, :inputs].contiguous()
        self.basis_t = self.basis.transpose(1, 2)
        self.on_one = basis[:, inputs:].transpose(1, 2) if matrix.bias is not None else None  # (g, r, 1)
        # a soft restraint slows steps down from wherever the weights are; only a hard one holds what was once answered
        answers = restraint.answers if restraint.strength is None else matrix.values() @ restraint.basis
        self.answers = answers.to(weight.device, dtype, copy=True)
        self.strength = None if restraint.strength is None else restraint.strength.to(weight.device, dtype)

    @torch.no_grad()
    def keep(self) -> None:
        """Take back the forbidden part of whatever the parameters did since the last call (K2, K3)."""
        weight, bias = self.matrix.weight, self.matrix.bias
        W = weight.to(self.dtype)
        D = torch.baddbmm(self.answers, W, self.basis, beta=-1)  # (K2)
        b = None
        if self.on_one is not None and bias is not None:
            b = bias.to(self.dtype)
            D.baddbmm_(b[:, :, None], self.on_one.transpose(1, 2))
        if self.strength is not None:
            self.answers += D * (1 - self.strength)
            D = D * self.strength
        W.baddbmm_(D, self.basis_t, alpha=-1)  # (K3)
        if W.data_ptr() != weight.data_ptr():
            weight.copy_(W)
        self.matrix.write(weight)
        if self.on_one is not None and b is not None and bias is not None:
            b -= (D @ self.on_one)[:, :, 0]
            if b.data_ptr() != bias.data_ptr():
                bias.copy_(b)

    @torch.no_grad()
    def lean(self) -> None:
        """Take the forbidden part out of the gradients."""
        matrix = replace(self.matrix, gradient=True)
        weight, bias = matrix.weight, matrix.bias
        G = weight.to(self.dtype)
        D = G @ self.basis
        if self.on_one is not None and bias is not None:
            D.baddbmm_(bias.to(self.dtype)[:, :, None], self.on_one.transpose(1, 2))
        if self.strength is not None:
            D = D * self.strength
        G = torch.baddbmm(G, D, self.basis_t, alpha=-1)
        weight.copy_(G)
        matrix.write(weight)
        if self.on_one is not None and bias is not None:
            bias -= (D @ self.on_one)[:, :, 0].to(bias.dtype)

    @torch.no_grad()
    def settle(self) -> None:
        """Keep once in float64: what single precision left over goes away up to the rounding of the weights."""
        self.keep()
        if self.strength is None:
            values = self.matrix.values()
            U, K = self.restraint.basis, self.restraint.answers
            kept = values - (values @ U - K) @ U.transpose(1, 2)
            weight, bias = self.matrix.weight, self.matrix.bias
            weight.copy_(kept[:, :, : weight.shape[2]])
            self.matrix.write(weight)
            if bias is not None:
                bias.copy_(kept[:, :, -1])


class Hold:
    """A tensor, or some of its rows, put back to the bit."""

    def __init__(self, tensor: Tensor, value: Tensor, rows: Tensor | None = None) -> None:
        self.tensor, self.value = tensor, value.to(tensor.device)
        self.rows = None if rows is None else rows.to(tensor.device)

    @torch.no_grad()
    def keep(self) -> None:
        if self.rows is None:
            self.tensor.copy_(self.value)
        else:
            self.tensor.index_copy_(0, self.rows, self.value)

    def lean(self) -> None:
        if self.tensor.grad is not None:
            if self.rows is None:
                self.tensor.grad.zero_()
            else:
                self.tensor.grad.index_fill_(0, self.rows, 0.0)

    def settle(self) -> None:
        self.keep()
