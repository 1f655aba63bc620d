"""A layer whose weights are edited, as a matrix (inputs, outputs): torch's Linear, or Conv1D of transformers."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from remanence.arrays import Array
from remanence.errors import InputError


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
            raise InputError(f"expected a Linear layer, or Conv1D of transformers, got {type(self.module).__name__}")
        if nn.utils.parametrize.is_parametrized(self.module):
            raise InputError(f"expected a plain weight, got the parametrized one of {name!r}; remove that first")
        if self.parameter.is_meta:
            raise InputError(f"expected weights in memory, got {name!r} on the meta device; load the model first")

    @property
    def parameter(self) -> Tensor:
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
        """Set the weights, rounded to the precision of the layer."""
        with torch.no_grad():
            self.parameter.copy_(torch.from_numpy(np.ascontiguousarray(W.T if self.transposed else W)))


def to_float64(tensor: Tensor) -> Array:
    """A tensor's numbers as a float64 array of their own."""
    return np.array(tensor.detach().to("cpu", torch.float64).numpy())


def _is_conv1d(module: nn.Module) -> bool:
    """Whether this is transformers' Conv1D, a Linear with its weight transposed."""
    return type(module).__name__ == "Conv1D" and type(module).__module__.startswith("transformers.")
