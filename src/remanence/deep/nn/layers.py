"""The weight matrices of a module and the inputs that each of them multiplies.

    y = W x + b = [W b] [x; 1]                     (L1)   a bias is a weight on a constant input of one
    conv(x)_p = W · patch_p(x) + b                 (L2)   a convolution is a matrix applied to patches, one per group

The output of a layer for an input changes only by (change of [W b]) · input, so the inputs are all that a memory of
the layer has to store.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

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
    gradient: bool = False  # view the gradients instead of the values

    @property
    def weight(self) -> Tensor:
        """The matrix of each group, (g, out, in): a view of the parameter wherever its memory layout allows one."""
        weight = self._own_weight()
        return weight.reshape(self.groups, len(weight) // self.groups, -1)

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
            own.copy_(weight.reshape(own.shape))

    def _own_weight(self) -> Tensor:
        return self._tensor(self.weight_parameter)[self.weight_part]

    def _tensor(self, parameter: nn.Parameter) -> Tensor:
        if not self.gradient:
            return parameter.detach()
        return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad

    @property
    def weight_parameter(self) -> nn.Parameter:
        return getattr(self.module, self.weight_name)  # type: ignore[no-any-return]

    @property
    def bias_parameter(self) -> nn.Parameter | None:
        return getattr(self.module, self.bias_name) if self.bias_name else None

    @property
    def parameters(self) -> list[nn.Parameter]:
        bias = self.bias_parameter
        return [self.weight_parameter] if bias is None else [self.weight_parameter, bias]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(groups, outputs, inputs including the constant one)."""
        groups, outputs, inputs = self.weight.shape
        return groups, outputs, inputs + (self.bias is not None)

    def values(self) -> Tensor:
        """[W b] of each group in float64 on the CPU, (g, out, in + 1) (L1)."""
        bias = self.bias
        whole = self.weight if bias is None else torch.cat([self.weight, bias[:, :, None]], dim=2)
        return whole.to("cpu", torch.float64, copy=True)

    def completed(self, rows: Tensor) -> Tensor:
        """Inputs in float64 on the CPU, with a constant one appended if there is a bias (L1)."""
        rows = rows.detach().to("cpu", torch.float64)
        return rows if self.bias is None else nn.functional.pad(rows, (0, 1), value=1.0)


@dataclass(frozen=True)
class RecordedModule:
    """A module whose calls reveal the inputs of its weight matrices."""

    module: nn.Module
    matrices: tuple[WeightMatrix, ...]
    rows: Callable[..., InputRows]  # computes the inputs from a call's arguments


def linear(name: str, module: nn.Linear) -> RecordedModule:
    return RecordedModule(
        module, (WeightMatrix(name, module),), lambda input: {name: input.reshape(1, -1, input.shape[-1])}
    )


def convolution(name: str, module: nn.Module) -> RecordedModule:
    matrix = WeightMatrix(name, module, groups=int(module.groups))  # type: ignore[arg-type]
    return RecordedModule(module, (matrix,), lambda input: {name: patches(input, module)})


def patches(x: Tensor, conv: Any) -> Tensor:
    """The input patches of a convolution, (groups, images × positions, inputs per group) (L2)."""
    spatial = len(conv.kernel_size)
    if x.dim() == spatial + 1:  # a single image without a batch axis
        x = x[None]
    if conv.padding_mode == "zeros":
        x = nn.functional.pad(x, conv._reversed_padding_repeated_twice)
    else:
        x = nn.functional.pad(x, conv._reversed_padding_repeated_twice, mode=conv.padding_mode)
    x = x.contiguous()
    places = [
        (size - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel, stride, dilation in zip(
            x.shape[2:], conv.kernel_size, conv.stride, conv.dilation, strict=True
        )
    ]
    steps = x.stride()[2:]
    view = x.as_strided(
        (len(x), x.shape[1], *places, *conv.kernel_size),
        (
            *x.stride()[:2],
            *(s * step for s, step in zip(conv.stride, steps, strict=True)),
            *(d * step for d, step in zip(conv.dilation, steps, strict=True)),
        ),
    )
    view = view.reshape(len(x), conv.groups, -1, *view.shape[2:])  # (n, g, in/g, *places, *kernel)
    order = (1, 0, *range(3, 3 + spatial), 2, *range(3 + spatial, 3 + 2 * spatial))
    rows = view.permute(order)  # (g, n, *places, in/g, *kernel)
    return rows.reshape(conv.groups, len(x) * count_places(places), -1)


def count_places(sizes: list[int]) -> int:
    return int(torch.Size(sizes).numel())


def attention(name: str, module: nn.MultiheadAttention) -> RecordedModule:
    """The four projections of torch's attention, which does not call submodules for its inner products."""
    width = module.embed_dim
    parts: list[WeightMatrix] = []
    for i, letter in enumerate("qkv"):
        mine = slice(i * width, (i + 1) * width)
        if module._qkv_same_embed_dim:
            shared = WeightMatrix(f"{name}.{letter}", module, 1, "in_proj_weight", "in_proj_bias", mine, mine)
            parts.append(shared)
        else:
            weight = f"{letter}_proj_weight"
            parts.append(WeightMatrix(f"{name}.{letter}", module, 1, weight, "in_proj_bias", bias_part=mine))
    out = WeightMatrix(f"{name}.out_proj", module.out_proj)

    def rows(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> InputRows:
        like = module.out_proj.weight
        plain = {"out_proj.weight": torch.eye(width, dtype=like.dtype, device=like.device)}
        if module.out_proj.bias is not None:
            plain["out_proj.bias"] = torch.zeros_like(module.out_proj.bias)
        mixed = torch.func.functional_call(module, plain, (query, key, value, *args), kwargs)[0]
        seen = (query, key, value, mixed)
        return {m.name: x.reshape(1, -1, x.shape[-1]) for m, x in zip((*parts, out), seen, strict=True)}

    return RecordedModule(module, (*parts, out), rows)


Rule = Callable[[str, Any], RecordedModule]
RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: linear,
    nn.Conv1d: convolution,
    nn.Conv2d: convolution,
    nn.Conv3d: convolution,
    nn.MultiheadAttention: attention,
}


def recorded_modules(model: nn.Module) -> Iterator[RecordedModule]:
    """Yield every module with a rule for its class, unless it overrides that class's forward."""
    inside: set[nn.Module] = set()
    for name, module in model.named_modules():
        for kind, rule in RULES.items():
            if isinstance(module, kind) and type(module).forward is kind.forward and module not in inside:
                if isinstance(module, nn.MultiheadAttention):
                    inside.add(module.out_proj)
                if isinstance(getattr(module, "weight", None), nn.Parameter) or kind is nn.MultiheadAttention:
                    yield rule(name or kind.__name__.lower(), module)
