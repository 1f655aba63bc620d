"""A layer whose weights are edited, as a matrix (inputs, outputs): torch's Linear, or Conv1D of transformers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from remanence.arrays import Array
from remanence.deep.nn.sharding.shards import check_whole
from remanence.errors import InputError

WRAPPED = ("base_layer", "_orig_mod")  # where adapters and compiled modules keep the layer


class EditedLayer:
    """A linear layer inside a model, found by its name."""

    def __init__(self, model: nn.Module, name: str) -> None:
        modules = dict(model.named_modules()) if isinstance(model, nn.Module) else None
        if modules is None:
            raise InputError(f"expected a torch module as model, got {type(model).__name__}")
        if name not in modules:
            linear = [n for n, m in modules.items() if n and (isinstance(m, nn.Linear) or _is_conv1d(m))]
            raise InputError(f"expected the name of a layer of the model, one of {linear[:10]}, got {name!r:.80}")
        self.name, self.module = name, modules[name]
        self.transposed = not _is_conv1d(self.module)
        if not (isinstance(self.module, nn.Linear) or _is_conv1d(self.module)):
            kind = f"{type(self.module).__module__}.{type(self.module).__name__}"
            inside = [f"{name}.{part}" for part in WRAPPED if f"{name}.{part}" in modules]
            raise InputError(
                f"expected a Linear layer, or Conv1D of transformers, got {kind}"
                + "".join(f"; it wraps one: name {part!r}" for part in inside)
                + (", or merge the adapter first" if inside and inside[0].endswith("base_layer") else "")
            )
        if nn.utils.parametrize.is_parametrized(self.module) or "weight" not in dict(self.module.named_parameters()):
            raise InputError(
                f"expected a plain weight, got that of {name!r}, which is computed from others (a parametrization or "
                f"weight norm); remove that first"
            )
        if isinstance(self.parameter, nn.UninitializedParameter):
            raise InputError(f"expected weights, got none yet in {name!r}; run the model once first")
        if self.parameter.is_meta:
            raise InputError(f"expected weights in memory, got {name!r} on the meta device; load the model first")
        if not self.parameter.is_floating_point():
            raise InputError(f"expected weights of real numbers, got {self.parameter.dtype} in {name!r}")
        if not all(np.isfinite(numbers).all() for numbers in self.present()):
            raise InputError(f"the weights or the bias of layer {name!r} contain NaN or infinity; load sound weights")
        if tied := _other_uses(model, self.module, self.parameter):
            raise InputError(
                f"expected a weight of the layer's own, got that of {name!r}, which is also {tied[0]!r}: an edit would "
                f"change both; edit another layer, or give this one a copy first"
            )

    @property
    def parameter(self) -> Tensor:
        check_whole(self.module, "an Editor")
        weight: Tensor = self.module.weight
        return weight

    def weights(self) -> Array:
        """W (inputs, outputs), so that answers are x @ W + bias."""
        found = to_float64(self.parameter)
        return found.T if self.transposed else found

    def bias(self) -> Array:
        """(outputs,)"""
        bias: Any = self.module.bias
        return np.zeros(self.weights().shape[1]) if bias is None else to_float64(bias)

    def write(self, W: Array) -> None:
        """Set the weights, rounded to the precision of the layer; refused where they overflow in it."""
        rounded = torch.from_numpy(np.ascontiguousarray(W.T if self.transposed else W)).to(self.parameter.dtype)
        if not torch.isfinite(rounded).all():
            raise InputError(
                f"these edits overflow in {self.parameter.dtype}; use smaller values, or absorb more keys like theirs"
            )
        with torch.inference_mode() if self.parameter.is_inference() else torch.no_grad():
            self.parameter.copy_(rounded)

    def present(self) -> tuple[Array, Array]:
        """Weights as they are stored, and the bias."""
        return to_float64(self.parameter), self.bias()

    def check_present(self, model: nn.Module, known: tuple[Array, Array]) -> None:
        """Refuse a layer that is no longer the model's, or whose numbers are not these, in its precision of now."""
        if all(module is not self.module for module in model.modules()):
            raise InputError(
                f"the model has another module in place of layer {self.name!r} since the editor was made; make a new "
                f"Editor, which begins from the present weights"
            )
        for now, numbers, what in zip(self.present(), known, ("weights", "bias"), strict=True):
            if not np.array_equal(now, to_float64(torch.from_numpy(numbers).to(self.parameter.dtype))):
                raise InputError(
                    f"the {what} of layer {self.name!r} were changed from outside since the last edit; put them "
                    f"back, or make a new Editor, which begins from the present weights"
                )


def to_float64(tensor: Tensor) -> Array:
    """A tensor's numbers as a float64 array of their own."""
    return np.array(tensor.detach().to("cpu", torch.float64).numpy())


def _other_uses(model: nn.Module, layer: nn.Module, weight: Tensor) -> list[str]:
    """The names of other parameters that share memory with this weight, as tied embeddings do."""
    first, last = _memory(weight)
    return [
        f"{prefix}.{name}"
        for prefix, module in model.named_modules()
        if module is not layer
        for name, parameter in module.named_parameters(recurse=False)
        if parameter is weight
        or (parameter.device == weight.device and max(first, _memory(parameter)[0]) < min(last, _memory(parameter)[1]))
    ]


def _memory(tensor: Tensor) -> tuple[int, int]:
    """The first address of a tensor's numbers, and the end of the last."""
    if tensor.is_meta or not tensor.numel():
        return 0, 0
    steps = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (steps + 1) * tensor.element_size()


def check_called_once(name: str, calls: int) -> None:
    """Refuse a layer of which one call cannot be meant, because there are several, or none."""
    if not calls:
        raise InputError(f"the model did not call layer {name!r} on these inputs")
    if calls > 1:
        raise InputError(
            f"expected a layer that the model calls once, got {name!r}, called {calls} times on these inputs: an edit "
            f"would act on every call; choose a layer that is not shared"
        )


def layer_input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """What a linear layer was called with, by place or by name."""
    found: Tensor = args[0] if args else next(iter(kwargs.values()))
    return found


def by_position(rows: Tensor, inputs: Any) -> Tensor:
    """Rows of a layer, (batch, length, width) where the model joined its first two axes, as OPT does."""
    given = inputs.values() if isinstance(inputs, Mapping) else inputs if isinstance(inputs, tuple | list) else [inputs]
    shape = next((tuple(part.shape[:2]) for part in given if isinstance(part, Tensor)), ())
    joined = rows.ndim == 2 and len(shape) == 2 and len(rows) == shape[0] * shape[1]
    return rows.reshape(*shape, -1) if joined else rows


def _is_conv1d(module: nn.Module) -> bool:
    """Whether this is transformers' Conv1D, a Linear with its weight transposed."""
    return type(module).__name__ == "Conv1D" and type(module).__module__.startswith("transformers.")
