"""The weight matrices of a module and the inputs that each of them multiplies.

    y = W x + b = [W b] [x; 1]                     (L1)   a bias is a weight on a constant input of one
    conv(x)_p = W · patch_p(x) + b                 (L2)   a convolution is a matrix applied to patches, one per group
    W = parametrization(originals)                 (L3)   read by calling it, written through its right inverse

The output of a layer for an input changes only by (change of [W b]) · input, so the inputs are all that a memory of
the layer has to store. The rules for the modules of each library are in `layer_rules.py`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from remanence.deep.nn.sharding.shards import is_shard

InputRows = dict[str, Tensor]  # by matrix name: its inputs (groups, n, inputs), without the constant one


@dataclass(frozen=True)
class WeightMatrix:
    """A weight parameter viewed as one matrix per group, (groups, outputs, inputs), together with its bias."""

    name: str
    module: nn.Module
    groups: int = 1
    weight_name: str = "weight"
    bias_name: str = "bias"  # empty if there is no bias, or if another rule protects it
    weight_part: slice = field(default_factory=lambda: slice(None))  # rows, if several matrices share a parameter
    bias_part: slice = field(default_factory=lambda: slice(None))
    transposed: bool = False  # the parameter is stored as (groups × inputs, outputs)
    gradient: bool = False  # view the gradients instead of the values

    @property
    def weight(self) -> Tensor:
        """The matrix of each group, (g, out, in): a view of the parameter wherever its memory layout allows one."""
        weight = self._own_weight()
        matrix = weight.reshape(self.groups, len(weight) // self.groups, -1)
        return matrix.mT if self.transposed else matrix

    @property
    def bias(self) -> Tensor | None:
        """The bias of each group, (g, out)."""
        if self.bias_parameter is None:
            return None
        return self._tensor(self.bias_parameter)[self.bias_part].reshape(self.groups, -1)

    def write(self, weight: Tensor) -> None:
        """Copy a weight into the parameter, unless it is already a view of it."""
        own = self._own_weight()
        if own.data_ptr() != weight.data_ptr():
            stored = weight.mT if self.transposed else weight
            if self.parametrized and not self.gradient:
                setattr(self.module, self.weight_name, stored.reshape(own.shape).to(own))  # (L3)
            else:
                own.copy_(stored.reshape(own.shape))

    def _own_weight(self) -> Tensor:
        if self.parametrized and not self.gradient:
            with torch.no_grad():
                return getattr(self.module, self.weight_name).detach()[self.weight_part]  # type: ignore[no-any-return]
        return self._tensor(self.weight_parameter)[self.weight_part]

    def _tensor(self, parameter: nn.Parameter) -> Tensor:
        assert not is_shard(parameter), "expected whole parameters, or the LocalRows of shards"
        if not self.gradient:
            return parameter.detach()
        return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad

    @property
    def parametrized(self) -> bool:
        """Whether the weight is computed from other parameters (torch.nn.utils.parametrize)."""
        return parametrize.is_parametrized(self.module, self.weight_name)

    @property
    def weight_parameters(self) -> list[nn.Parameter]:
        """The parameter of the weight, or the originals it is computed from."""
        if not self.parametrized:
            return [getattr(self.module, self.weight_name)]
        return list(self.module.parametrizations[self.weight_name].parameters())  # type: ignore[index, union-attr]

    @property
    def weight_parameter(self) -> nn.Parameter:
        return self.weight_parameters[0]

    @property
    def bias_parameter(self) -> nn.Parameter | None:
        return getattr(self.module, self.bias_name) if self.bias_name else None

    @property
    def parameters(self) -> list[nn.Parameter]:
        bias = self.bias_parameter
        return self.weight_parameters if bias is None else [*self.weight_parameters, bias]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(groups, outputs, inputs including the constant one); of shards, those of the whole matrix."""
        if self.parametrized and not self.gradient:
            groups, outputs, inputs = self.weight.shape
            return groups, outputs, inputs + (self.bias_parameter is not None)
        rows, *rest = self.weight_parameter.shape
        mine, each = len(range(rows)[self.weight_part]) // self.groups, math.prod(rest)
        outputs, inputs = (each, mine) if self.transposed else (mine, each)
        return self.groups, outputs, inputs + (self.bias_parameter is not None)

    def values(self) -> Tensor:
        """[W b] of each group in float64 on the CPU, (g, out, in + 1) (L1)."""
        bias = self.bias
        whole = self.weight if bias is None else torch.cat([self.weight, bias[:, :, None]], dim=2)
        return whole.to("cpu", torch.float64, copy=True)

    def completed(self, rows: Tensor, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float64) -> Tensor:
        """Inputs on a device, with a constant one appended if there is a bias (L1)."""
        device = "cpu" if torch.device(device).type == "mps" else device  # which has no float64
        rows = rows.detach().to(device, dtype)
        return rows if self.bias is None else nn.functional.pad(rows, (0, 1), value=1.0)


@dataclass(frozen=True)
class RecordedModule:
    """A module whose calls reveal the inputs of its weight matrices."""

    module: nn.Module
    matrices: tuple[WeightMatrix, ...]
    rows: Callable[..., InputRows]  # computes the inputs from a call's arguments
    by_position: bool = False  # one row for each position of the first argument, in its order
