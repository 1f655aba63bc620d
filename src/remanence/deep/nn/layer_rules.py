"""Rules for the layers of torch and of other libraries: which matrices a module has, and what they multiply.

    Linear, Conv1D of transformers              the rows of the input
    Conv1d/2d/3d                                its patches (L2)
    ConvTranspose1d/2d/3d                       the positions of the input; the bias is another rule's
    MultiheadAttention                          query, key, value, and what the output projection gets
    DoRA adapters of peft                       the input of the pair A, B (adapters.py)
    RNN, LSTM, GRU and their cells              inputs and previous hidden states, over the time steps (recurrent.py)

A rule applies to a class by its name, so no library is imported for it; subclasses with a forward of their own are not
covered.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from remanence.deep.nn.adapters import AdapterPair, Magnitude, adapter_pairs
from remanence.deep.nn.layers import InputRows, RecordedModule, WeightMatrix
from remanence.deep.nn.recurrent import cell, recurrent
from remanence.errors import InputError


def linear(name: str, module: nn.Linear) -> RecordedModule:
    matrix = WeightMatrix(name, module)
    return RecordedModule(
        module, (matrix,), lambda input: {name: input.reshape(1, -1, input.shape[-1])}, by_position=True
    )


def convolution(name: str, module: nn.Module) -> RecordedModule:
    matrix = WeightMatrix(name, module, groups=int(module.groups))  # type: ignore[arg-type]
    return RecordedModule(module, (matrix,), lambda input: {name: patches(input, module)})


def patches(x: Tensor, conv: Any) -> Tensor:
    """The input patches of a convolution, (groups, images × positions, inputs per group) (L2)."""
    spatial = len(conv.kernel_size)
    if x.dim() == spatial + 1:  # a single image without a batch axis
        x = x[None]
    if x.dim() != spatial + 2:  # torch says so too, but after the recording hook
        raise InputError(
            f"expected inputs of {spatial + 2} axes for a {type(conv).__name__} (batch, channels, positions), got one "
            f"of shape {tuple(x.shape)}"
        )
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


def transposed_linear(name: str, module: nn.Module) -> RecordedModule:
    """Conv1D of transformers: a linear layer whose weight is stored as (inputs, outputs)."""
    matrix = WeightMatrix(name, module, transposed=True)
    return RecordedModule(module, (matrix,), lambda x: {name: x.reshape(1, -1, x.shape[-1])}, by_position=True)


def transposed_convolution(name: str, module: Any) -> RecordedModule:
    """Every position of the input is multiplied by the kernel; the products overlap, and the bias is added once."""
    groups = int(module.groups)
    matrix = WeightMatrix(name, module, groups=groups, bias_name="", transposed=True)

    def rows(input: Tensor, *_: Any, **__: Any) -> InputRows:
        batch = input if input.dim() == len(module.kernel_size) + 2 else input[None]
        by_group = batch.reshape(len(batch), groups, batch.shape[1] // groups, -1)  # (n, g, in/g, places)
        return {name: by_group.permute(1, 0, 3, 2).flatten(1, 2)}

    return RecordedModule(module, (matrix,), rows)


def scaled_adapter(pair: AdapterPair, magnitude: Magnitude) -> RecordedModule:
    """A DoRA adapter of peft. Its module calls A and B on an identity matrix too, which are not inputs of the model."""
    A, B = (WeightMatrix(n, m) for n, m in ((pair.down, magnitude.down), (pair.up, magnitude.up)))

    def rows(x: Tensor, **_: Any) -> InputRows:
        flat = x.reshape(1, -1, x.shape[-1])
        return {A.name: flat, B.name: flat @ magnitude.down.weight.mT.to(flat)}

    return RecordedModule(magnitude.module, (A, B), rows, by_position=True)


Rule = Callable[[str, Any], RecordedModule]
RULES: dict[str, Rule] = {
    "torch.nn.modules.linear.Linear": linear,
    "torch.nn.modules.conv.Conv1d": convolution,
    "torch.nn.modules.conv.Conv2d": convolution,
    "torch.nn.modules.conv.Conv3d": convolution,
    "torch.nn.modules.conv.ConvTranspose1d": transposed_convolution,
    "torch.nn.modules.conv.ConvTranspose2d": transposed_convolution,
    "torch.nn.modules.conv.ConvTranspose3d": transposed_convolution,
    "torch.nn.modules.activation.MultiheadAttention": attention,
    "torch.nn.modules.rnn.RNN": recurrent,
    "torch.nn.modules.rnn.GRU": recurrent,
    "torch.nn.modules.rnn.LSTM": recurrent,
    "torch.nn.modules.rnn.RNNCell": cell,
    "torch.nn.modules.rnn.GRUCell": cell,
    "torch.nn.modules.rnn.LSTMCell": cell,
    "transformers.pytorch_utils.Conv1D": transposed_linear,
}


def recorded_modules(model: nn.Module) -> Iterator[RecordedModule]:
    """Yield every module with a rule for its class, unless it overrides that class's forward."""
    inside: set[nn.Module] = set()
    for pair in adapter_pairs(model):
        if pair.magnitude is not None:
            inside |= {pair.magnitude.down, pair.magnitude.up}
            yield scaled_adapter(pair, pair.magnitude)
    for name, module in model.named_modules():
        kind: Any = next((kind for kind in type(module).__mro__ if _path(kind) in RULES), None)
        if kind is None or not _computes_as(kind, module) or module in inside:
            continue
        if isinstance(module, nn.MultiheadAttention):
            inside.add(module.out_proj)
        if _has_plain_weights(module):
            yield RULES[_path(kind)](name or kind.__name__.lower(), module)


def _computes_as(kind: Any, module: nn.Module) -> bool:
    """Return whether the class of a module computes what this class does: convolutions do it in two methods."""
    methods = [name for name in ("forward", "_conv_forward") if hasattr(kind, name)]
    return all(getattr(type(module), name) is getattr(kind, name) for name in methods)


def _path(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _has_plain_weights(module: nn.Module) -> bool:
    """Return whether the weights are parameters, or computed by a parametrization that can be written to."""
    if isinstance(module, nn.RNNBase):
        return not (module.proj_size or parametrize.is_parametrized(module))  # a projection hides its inputs
    if isinstance(module, nn.MultiheadAttention | nn.RNNCellBase):
        return not parametrize.is_parametrized(module)
    if parametrize.is_parametrized(module, "weight"):
        return invertible(module, "weight") and not parametrize.is_parametrized(module, "bias")
    return isinstance(getattr(module, "weight", None), nn.Parameter) and not parametrize.is_parametrized(module)


def invertible(module: Any, name: str) -> bool:
    """Return whether a parametrized tensor takes any value that is assigned to it; spectral norms do not."""
    parts = module.parametrizations[name]
    with torch.no_grad():
        value = getattr(module, name).detach()
        noise = torch.Generator("cpu").manual_seed(0)
        wanted = value + 0.1 * value.std() * torch.randn(value.shape, generator=noise, device="cpu").to(value)
        originals = [p.detach().clone() for p in (*parts.parameters(), *parts.buffers())]
        try:
            setattr(module, name, wanted)
            found = getattr(module, name)
            return bool((found - wanted).abs().max() <= torch.finfo(value.dtype).eps ** 0.5 * wanted.abs().max())
        except (NotImplementedError, RuntimeError, ValueError):
            return False
        finally:
            for p, original in zip((*parts.parameters(), *parts.buffers()), originals, strict=True):
                p.copy_(original)
