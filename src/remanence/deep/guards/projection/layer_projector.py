"""Project each optimizer step onto the allowed directions of a layer, in the parameters' dtype and on their device.

    D = [W b] U − K,    [W b] ← [W b] − D C             (K2, K3 of protected_directions.py, two thin products)
    [W b] ← K Uᵀ + [W b] V Vᵀ                           (J1)   the same, thinner if U has more columns than V
    Δ = [W b] − last,    [W b] ← [W b] − Δ (U C)        (J2)   soft: one product instead of two if U is wide

A parameter that cannot change (it does not require gradients and has none) is left as it is, and the correction is
applied to the rest.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from remanence.deep.guards.projection.protected_directions import ProtectedDirections
from remanence.deep.nn.layers import WeightMatrix
from remanence.deep.nn.sharding.shards import local
from remanence.deep.nn.thin_products import subtract_product, times


@dataclass(frozen=True)
class Correction:
    """The correction C of (K3) in the parameters' dtype, for the parts of [W b] that can change."""

    whole: Tensor  # (g, r, in + 1) in float64
    weight: Tensor | None  # (r, in)
    bias: Tensor | None  # (r, 1)
    left: Tensor | None  # (1, r) or (r, r): the share of D that K takes if ω < 1
    square: tuple[Tensor, Tensor] | None = None  # U C (in + 1, in) and (in + 1, 1), where one product is cheaper


class LayerProjector:
    """Applies protected directions to a layer's parameters, in their dtype and on their device.

    A matrix with one group is used without a group axis, as the shapes here say: plain products are the fastest.
    """

    def __init__(self, matrix: WeightMatrix, directions: ProtectedDirections) -> None:
        self.matrix, self.directions, self.name = matrix, directions, matrix.name
        self.parameters, self.by_layer = matrix.parameters, True
        self.weight, self.bias = matrix.weight_parameter, matrix.bias_parameter
        self.originals = matrix.weight_parameters  # one, unless the weight is parametrized
        self.inputs, dtype = matrix.weight.shape[2], matrix.weight.dtype
        self.dtype = dtype if dtype.itemsize >= 4 else torch.float32
        self.basis = self._working(directions.basis[:, : self.inputs]).contiguous()  # (in, r)
        self.on_one = self._working(directions.basis[:, self.inputs :])  # (1, r), of the constant input
        # a soft projector shortens steps from the current weights; only a hard one keeps the recorded outputs
        soft = directions.strength is not None
        self.outputs = self._working(matrix.values() @ directions.basis if soft else directions.outputs.clone())
        r = directions.basis.shape[2]
        wide = matrix.groups == 1 and 2 * r > directions.basis.shape[1]
        self.by_complement, self.by_square = wide and not soft, wide and soft
        if self.by_complement:
            V = directions.complement
            fixed = (directions.outputs @ directions.basis.mT)[0]
            parts = (V[: self.inputs], V[self.inputs :], fixed[:, : self.inputs], fixed[:, self.inputs :])
            self.free, self.free_on_one, self.fixed, self.fixed_bias = (
                part.to(local(self.weight).device, self.dtype).contiguous() for part in parts
            )
        if self.by_square:
            W, b = self._parts(matrix)
            self.last = (W.clone(), torch.empty(0) if b is None else b.clone())
        self.corrections: dict[tuple[bool, bool], Correction] = {}
        self.addresses: tuple[int, int] | None = None
        self.views: tuple[Tensor, Tensor | None] | None = None

    def _working(self, tensor: Tensor) -> Tensor:
        tensor = tensor.to(local(self.weight).device, self.dtype)
        return tensor[0] if self.matrix.groups == 1 else tensor

    def _correction(self) -> Correction | None:
        """Return the correction for what can change now: a parameter may be frozen or unfrozen at any time."""
        moving = (any(map(_can_move, self.originals)), self.bias is not None and _can_move(self.bias))
        if moving not in self.corrections and any(moving):
            places = slice(0 if moving[0] else self.inputs, None if moving[1] or self.bias is None else self.inputs)
            C, left = self.directions.correction(places)
            # C = Uᵀ if all of [W b] can change and every direction is hard: then U is stored once
            same = self.directions.strength is None and moving[0] and (moving[1] or self.bias is None)
            self.corrections[moving] = Correction(
                C,
                (self.basis.mT if same else self._working(C[:, :, : self.inputs])) if moving[0] else None,
                self._working(C[:, :, self.inputs :]) if moving[1] else None,
                None if left is None else self._working(left),
                self._square(C) if self.by_square else None,
            )
        return self.corrections.get(moving)

    def _square(self, C: Tensor) -> tuple[Tensor, Tensor]:
        """Return U C, what a step of one group loses, as the columns of W and of b."""
        square = (self.directions.basis @ C)[0].to(local(self.weight).device, self.dtype)
        return square[:, : self.inputs].contiguous(), square[:, self.inputs :].contiguous()

    def _parts(self, matrix: WeightMatrix) -> tuple[Tensor, Tensor | None]:
        """Return W (out, in) and b (out, 1): views, or copies if dtype or memory layout require them."""
        bias = matrix.bias
        return self._working(matrix.weight), None if bias is None else self._working(bias[:, :, None])

    def _cached_parts(self) -> tuple[tuple[Tensor, Tensor | None], bool]:
        """Return the parts and whether they are views; views are reused while the parameters keep their addresses."""
        weight, bias = local(self.weight), None if self.bias is None else local(self.bias)
        addresses = (weight.data_ptr(), 0 if bias is None else bias.data_ptr())
        if self.views is None or addresses != self.addresses:
            parts = self._parts(self.matrix)
            if not all(p is None or _shared(p, q) for p, q in zip(parts, (weight, bias), strict=True)):
                return parts, False
            self.addresses, self.views = addresses, parts
        return self.views, True

    def _write(self, matrix: WeightMatrix, correction: Correction, W: Tensor, b: Tensor | None) -> None:
        """Copy the changed parts into the parameters that can change."""
        if correction.weight is not None:
            matrix.write(W)
        if correction.bias is not None and b is not None and matrix.bias is not None:
            matrix.bias.copy_(b.reshape(matrix.bias.shape))

    def project_step(self) -> None:
        """Remove the forbidden part of the change of the parameters since the last call."""
        correction = self._correction()
        if correction is None:
            return
        (W, b), direct = self._cached_parts()
        if self.by_complement and correction.weight is not None and (b is None or correction.bias is not None):
            self._project_by_complement(W, b)
        elif correction.square is not None:
            self._project_by_square(W, b, correction)
        else:
            self._project_by_directions(W, b, correction)
        if not direct:
            self._write(self.matrix, correction, W, b)

    def _project_by_directions(self, W: Tensor, b: Tensor | None, correction: Correction) -> None:
        D = times(W, self.basis).sub_(self.outputs)  # (K2)
        if b is not None:
            D.addcmul_(b, self.on_one)
        if correction.left is not None:
            self.outputs += D * correction.left if correction.left.shape[-2] == 1 else D @ correction.left
        if correction.weight is not None:
            subtract_product(W, D, correction.weight)  # (K3)
        if correction.bias is not None and b is not None:
            subtract_product(b, D, correction.bias)

    def _project_by_complement(self, W: Tensor, b: Tensor | None) -> None:
        """Keep only what the step changed in free directions, starting from the fixed part (J1)."""
        E = times(W, self.free)
        if b is not None:
            E.addcmul_(b, self.free_on_one)
            b.copy_(torch.addmm(self.fixed_bias, E, self.free_on_one.mT))
        W.copy_(times(E, self.free.mT).add_(self.fixed) if E.shape[1] else self.fixed)

    def _project_by_square(self, W: Tensor, b: Tensor | None, correction: Correction) -> None:
        """Shorten the change since the last call along soft directions (J2)."""
        last_W, last_b = self.last
        dW, db = W - last_W, None if b is None else b - last_b
        for part, last, amount in zip((W, b), self.last, self._lost(dW, db, correction), strict=True):
            if part is not None and amount is not None:
                last.copy_(part.sub_(amount))

    @staticmethod
    def _lost(dW: Tensor, db: Tensor | None, correction: Correction) -> tuple[Tensor | None, Tensor | None]:
        """Return what a change of W and b loses, for the parts that can change."""
        assert correction.square is not None
        lost: list[Tensor | None] = []
        for moves, M in zip((correction.weight, correction.bias), correction.square, strict=True):
            part = None if moves is None else times(dW, M[: dW.shape[1]])
            lost.append(part if part is None or db is None else part.addmm_(db, M[dW.shape[1] :]))
        return lost[0], lost[1]

    def project_gradient(self) -> None:
        """Remove the forbidden part from the gradients; those of a parametrization are left as they are."""
        correction = self._correction()
        if correction is None or self.matrix.parametrized:
            return
        slopes = replace(self.matrix, gradient=True)
        G, b = self._parts(slopes)
        if correction.square is not None:
            lost_W, lost_b = self._lost(G, b, correction)
            self._write(
                slopes,
                correction,
                G if lost_W is None else G - lost_W,
                b if b is None or lost_b is None else b - lost_b,
            )
            return
        D = times(G, self.basis)
        if b is not None:
            D.addcmul_(b, self.on_one)
        G = G if correction.weight is None else G - times(D, correction.weight)
        self._write(slopes, correction, G, b if correction.bias is None or b is None else b - D @ correction.bias)

    def finalize(self) -> None:
        """Project once in float64, which removes what lower precision left, up to the rounding of the weights."""
        self.project_step()
        correction = self._correction()
        if correction is None or correction.left is not None:
            return
        values, kept = self.matrix.values(), self.directions
        right = values - (values @ kept.basis - kept.outputs) @ correction.whole
        self._write(self.matrix, correction, right[:, :, : self.inputs], right[:, :, self.inputs :])

    def moved(self) -> bool:
        """Return whether the protected outputs have changed; a soft projector protects none exactly."""
        return self.directions.moved(self.matrix) and self._correction() is not None


def _shared(part: Tensor, parameter: Tensor | None) -> bool:
    return parameter is not None and part.untyped_storage().data_ptr() == parameter.untyped_storage().data_ptr()


def _can_move(parameter: nn.Parameter) -> bool:
    """Return whether an optimizer may change the parameter: it requires gradients, or still has one."""
    return parameter.requires_grad or parameter.grad is not None
