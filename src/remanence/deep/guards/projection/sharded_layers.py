"""Layers whose parameters are split over processes: what each process projects, and what for that is gathered.

    ΔW ← ΔW (I − U ω Uᵀ)                            (X1)   row by row of W, that is, output by output

If a process holds some outputs of a layer, weights and bias, it projects those, with its rows of K = W U, and nothing
is communicated. If the parameter's rows are inputs (a transposed weight), or outputs of several groups, every process
gathers the layer after a step, projects it, and keeps its own rows.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from remanence.deep.guards.projection.layer_projector import LayerProjector
from remanence.deep.guards.projection.protected_directions import ProtectedDirections
from remanence.deep.nn.layers import WeightMatrix
from remanence.deep.nn.sharding.shards import gathered, is_shard, local, own_rows


@dataclass(frozen=True)
class LocalRows(WeightMatrix):
    """The outputs of a matrix that this process holds, as a matrix of its own."""

    shards: tuple[nn.Parameter, ...] = ()  # weight, bias: a module shows others while it is called

    @property
    def weight_parameters(self) -> list[nn.Parameter]:
        return [self.shards[0]]

    @property
    def bias_parameter(self) -> nn.Parameter | None:
        return self.shards[1] if len(self.shards) > 1 else None

    @property
    def shape(self) -> tuple[int, int, int]:
        return 1, *self.weight.shape[1:2], self.weight.shape[2] + len(self.shards) - 1

    def _tensor(self, parameter: nn.Parameter) -> Tensor:
        if not self.gradient:
            return local(parameter).detach()
        return torch.zeros_like(local(parameter)) if parameter.grad is None else local(parameter.grad)


def projector_of(matrix: WeightMatrix, directions: ProtectedDirections) -> "LayerProjector | GatheredProjector | None":
    """Return what projects a layer in this process, or None if the process holds none of its outputs."""
    if not any(map(is_shard, matrix.parameters)):
        return LayerProjector(matrix, directions)
    outputs = own_outputs(matrix)
    if outputs is None:
        return GatheredProjector(matrix, directions)
    return LayerProjector(*at_hand(matrix, directions, outputs)) if outputs else None


def moved_here(matrix: WeightMatrix, directions: ProtectedDirections) -> bool:
    """Return whether the protected outputs have changed by more than rounding, of those that this process holds."""
    if any(map(is_shard, matrix.parameters)):
        outputs = own_outputs(matrix)
        if outputs is None:
            return directions.moved(_with_whole_parameters(matrix))
        if not outputs:
            return False
        matrix, directions = at_hand(matrix, directions, outputs)
    return directions.moved(matrix)


def own_outputs(matrix: WeightMatrix) -> range | None:
    """Return which outputs of a layer this process holds; None if its rows are not whole outputs."""
    if matrix.groups > 1 or matrix.transposed:
        return None
    held = {rows for rows, _ in _parts_at_hand(matrix)}
    return held.pop() if len(held) == 1 else None


def at_hand(
    matrix: WeightMatrix, directions: ProtectedDirections, outputs: range
) -> tuple[LocalRows, ProtectedDirections]:
    """Return the outputs of a matrix that this process holds, and what is protected of them."""
    (_, weight_part), *rest = _parts_at_hand(matrix)
    bias_part = rest[0][1] if rest else slice(None)
    mine = LocalRows(
        matrix.name,
        matrix.module,
        weight_name=matrix.weight_name,
        bias_name=matrix.bias_name,
        weight_part=weight_part,
        bias_part=bias_part,
        shards=tuple(matrix.parameters),
    )
    return mine, replace(directions, outputs=directions.outputs[:, outputs.start : outputs.stop])


def _parts_at_hand(matrix: WeightMatrix) -> list[tuple[range, slice]]:
    """Return for the weight, and the bias if there is one, which rows of the matrix are here, and where."""
    parts = (matrix.weight_part, matrix.bias_part)
    found = []
    for parameter, part in zip(matrix.parameters, parts, strict=False):
        own, wanted = own_rows(parameter), range(len(parameter))[part]
        start = min(max(own.start, wanted.start), wanted.stop)
        stop = max(start, min(own.stop, wanted.stop))
        here = slice(start - own.start, stop - own.start) if stop > start else slice(0, 0)
        found.append((range(start - wanted.start, stop - wanted.start), here))
    return found


def _with_whole_parameters(matrix: WeightMatrix) -> WeightMatrix:
    """Return a copy of a matrix with gathered parameters; all processes have to call this together."""
    module = nn.Module()
    names = (matrix.weight_name, matrix.bias_name)
    for name, parameter in zip(names, matrix.parameters, strict=False):
        module.register_parameter(name, nn.Parameter(gathered(parameter), parameter.requires_grad))
    return replace(matrix, module=module)


class GatheredProjector:
    """Projects a layer whose outputs are not whole in any process: gathers it, projects it, keeps the own rows."""

    def __init__(self, matrix: WeightMatrix, directions: ProtectedDirections) -> None:
        self.name, self.by_layer = matrix.name, True
        self.parameters = matrix.parameters
        self.parts = _parts_at_hand(matrix)
        self.whole = _with_whole_parameters(matrix)
        self.inner = LayerProjector(self.whole, directions)
        with torch.no_grad():
            self.inner.project_step()
        self.last = [part.clone() for part in self._own(self.whole.parameters)]
        self._release()

    def project_step(self) -> None:
        """Remove the forbidden part of the change since the last call, in all processes together."""
        self._gather()
        self.inner.project_step()
        self._keep()

    def finalize(self) -> None:
        """Project once more at the end of a block, in all processes together."""
        self._gather()
        self.inner.finalize()
        self._keep()

    @torch.no_grad()
    def roll_back(self) -> None:
        """Take back what was not projected, without communication: other processes may have failed or gone on."""
        for here, last in zip(self._at_hand(), self.last, strict=True):
            here.copy_(last)

    @torch.no_grad()
    def project_gradient(self) -> None:
        """Remove the forbidden part from the gradients, in all processes together."""
        self._gather()
        for own, shard in zip(self.whole.parameters, self.parameters, strict=True):
            own.grad = torch.zeros_like(own) if shard.grad is None else gathered(shard.grad)
        self.inner.project_gradient()
        slopes = self._own([own.grad for own in self.whole.parameters])
        for shard, (_, here), slope in zip(self.parameters, self.parts, slopes, strict=True):
            if shard.grad is not None:
                local(shard.grad)[here].copy_(slope)
        self._release()

    def moved(self) -> bool:
        """Return whether the rows in this process are others than after the last projection."""
        if self.inner.directions.strength is not None:
            return False
        for here, last in zip(self._at_hand(), self.last, strict=True):
            shift = (here - last).abs()
            if here.numel() and not float(shift.max()) <= torch.finfo(here.dtype).eps ** 0.5 * float(last.abs().max()):
                return True
        return False

    def _at_hand(self) -> list[Tensor]:
        return [local(shard)[here] for shard, (_, here) in zip(self.parameters, self.parts, strict=True)]

    def _own(self, tensors: Any) -> list[Tensor]:
        """Return the own rows of whole parameters."""
        parts = (self.whole.weight_part, self.whole.bias_part)
        return [
            t.detach()[part][rows.start : rows.stop].to(local(shard).device)
            for t, part, (rows, _), shard in zip(tensors, parts, self.parts, self.parameters, strict=False)
        ]

    def _gather(self) -> None:
        for own, shard in zip(self.whole.parameters, self.parameters, strict=True):
            own.data = gathered(shard)
            own.requires_grad_(shard.requires_grad or shard.grad is not None)

    @torch.no_grad()
    def _keep(self) -> None:
        self.last = [part.clone() for part in self._own(self.whole.parameters)]
        self.roll_back()
        self._release()

    def _release(self) -> None:
        """Free the whole parameters."""
        self.inner.views = None
        for own in self.whole.parameters:
            own.grad = None
            own.data = own.data.new_empty(0)
