"""Restraints at work: after every step of an optimizer the parameters are put right, in their own precision.

    D = [W b] U − K,    [W b] ← [W b] − D C             (K2, K3 of restraint.py, two thin products a matrix)

Whatever cannot move (it has no gradient and asks for none) is left alone to the bit, and the rest makes up for it.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from remanence.deep.layers import Matrix
from remanence.deep.restraint import Restraint


@dataclass(frozen=True)
class Pull:
    """The correction C of (K3) in the parameters' precision, by the parts of [W b] that can move."""

    whole: Tensor  # (g, r, in + 1) in float64
    weight: Tensor | None  # (g, r, in)
    bias: Tensor | None  # (g, r, 1)
    left: Tensor | None  # (g, 1, r) or (g, r, r): what K takes of D where the restraint is soft


@dataclass(frozen=True)
class Views:
    """The parameters of a matrix as it uses them."""

    place: tuple[int, ...]  # where in memory they are
    weight: Tensor | None  # (g, out, in); None where it takes a copy to see it so
    bias: Tensor | None  # (g, out, 1)


class Grip:
    """A restraint at work on the parameters, in their own precision and on their device."""

    def __init__(self, matrix: Matrix, restraint: Restraint) -> None:
        self.matrix, self.restraint = matrix, restraint
        self.parameters = matrix.parameters
        weight = matrix.weight
        self.device, self.inputs = weight.device, weight.shape[2]
        self.dtype = weight.dtype if weight.dtype.itemsize >= 4 else torch.float32
        basis = self._working(restraint.basis)
        self.basis = basis[:, : self.inputs].contiguous()
        self.on_one = basis[:, self.inputs :].contiguous()  # (g, 1, r), or (g, 0, r) where there is no bias
        # a soft restraint slows steps down from wherever the weights are; only a hard one holds what was once answered
        soft = restraint.strength is not None
        self.answers = self._working(matrix.values() @ restraint.basis if soft else restraint.answers.clone())
        self.pulls: dict[tuple[bool, bool], Pull] = {}
        self.views: Views | None = None

    def _working(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.device, self.dtype)

    def _pull(self) -> Pull | None:
        """How to correct what can move now: a parameter may be frozen or thawed at any time."""
        first, *others = self.parameters
        moving = (_can_move(first), any(_can_move(bias) for bias in others))
        if moving in self.pulls:
            return self.pulls[moving]
        if not any(moving):
            return None
        every = slice(0 if moving[0] else self.inputs, None if moving[1] or not others else self.inputs)
        C, left = self.restraint.pull(every)
        working = self._working(C)
        self.pulls[moving] = Pull(
            C,
            working[:, :, : self.inputs] if moving[0] else None,
            working[:, :, self.inputs :] if moving[1] else None,
            None if left is None else self._working(left),
        )
        return self.pulls[moving]

    def _views(self) -> "Views":
        """[W b] to read and write: the same views from step to step, as long as the parameters stay where they are."""
        place = tuple(p.data_ptr() for p in self.parameters)
        if self.views is None or self.views.place != place:
            W, b = self.matrix.weight, self.matrix.bias
            direct = W.dtype == self.dtype and _storage(W) == _storage(self.parameters[0])
            self.views = Views(place, W if direct else None, None if b is None else b[:, :, None])
        return self.views

    def keep(self) -> None:
        """Take back the forbidden part of whatever the parameters did since the last call."""
        pull = self._pull()
        if pull is None:
            return
        views = self._views()
        W = self.matrix.weight.to(self.dtype) if views.weight is None else views.weight
        if views.bias is None:
            D = torch.baddbmm(self.answers, W, self.basis, beta=-1)  # (K2)
        else:
            D = torch.addcmul(self.answers, views.bias.to(self.dtype), self.on_one, value=-1)
            D.baddbmm_(W, self.basis, beta=-1)
        if pull.left is not None:
            self.answers += D * pull.left if pull.left.shape[1] == 1 else D @ pull.left
        if pull.weight is not None:
            W.baddbmm_(D, pull.weight, alpha=-1)  # (K3)
            if views.weight is None:
                self.matrix.write(W)
        if pull.bias is not None and views.bias is not None:
            views.bias.sub_(D @ pull.bias)

    def lean(self) -> None:
        """Take the forbidden part out of the gradients."""
        pull = self._pull()
        if pull is None:
            return
        slopes = replace(self.matrix, gradient=True)
        G, b = slopes.weight.to(self.dtype), slopes.bias
        D = G @ self.basis
        if b is not None:
            D.addcmul_(b.to(self.dtype)[:, :, None], self.on_one)
        if pull.weight is not None:
            slopes.write(torch.baddbmm(G, D, pull.weight, alpha=-1))
        if pull.bias is not None and b is not None:
            b.sub_((D @ pull.bias)[:, :, 0])

    def settle(self) -> None:
        """Keep once in float64: what single precision left over goes away up to the rounding of the weights."""
        self.keep()
        pull = self._pull()
        if pull is None or pull.left is not None:
            return
        values, kept = self.matrix.values(), self.restraint
        right = values - (values @ kept.basis - kept.answers) @ pull.whole
        if pull.weight is not None:
            self.matrix.write(right[:, :, : self.inputs])
        if pull.bias is not None and self.matrix.bias is not None:
            self.matrix.bias.copy_(right[:, :, -1])


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _can_move(parameter: nn.Parameter) -> bool:
    """An optimizer may move it: it asks for gradients, or has one left from when it did."""
    return parameter.requires_grad or parameter.grad is not None
