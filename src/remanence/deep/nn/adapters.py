"""Pairs of low-rank adapters (LoRA) inside a model.

    y = W x + s B A x                                    (A1)   LoRA; rsLoRA differs in s
    y = g (W x + s B A x),  g = m / ‖W + s B A‖          (A2)   DoRA: a magnitude m for each output

A pair is recognized by the names its modules have in common libraries, in a ModuleDict (one per adapter, as in peft) or
directly. It is two ordinary linear or convolutional layers, except that B starts at zero: then A can be moved at will.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

PAIRS = (("lora_A", "lora_B"), ("lora_a", "lora_b"), ("lora_down", "lora_up"), ("A", "B"), ("down", "up"))
LINEAR = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True)
class Magnitude:
    """The magnitude of a DoRA adapter: its parameter, and the scale g of the outputs that follows from it (A2)."""

    name: str
    parameter: nn.Parameter
    module: Any  # computes the norm as peft does
    base: Any
    down: nn.Linear
    up: nn.Linear
    scaling: float

    def norm(self) -> Tensor:
        """‖W + s B A‖ of each output."""
        product = self.up.weight.detach() @ self.down.weight.detach()
        weight = self.base.weight.detach().to(product)
        found: Tensor = self.module.get_weight_norm(weight, product, self.scaling)
        return found.detach()

    def scale(self) -> Tensor:
        """The scale g (A2), in float64 on the CPU."""
        return (self.parameter.detach().double() / self.norm().double()).cpu()


@dataclass(frozen=True)
class AdapterPair:
    """The two layers of a low-rank adapter, by the names their weight matrices have."""

    down: str  # A
    up: str  # B
    up_module: nn.Module
    layer: str  # the module that holds the pair, with a dot at the end unless it is the model
    magnitude: Magnitude | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether B is zero, so that A has no effect yet."""
        return not bool(self.up_module.weight.detach().any())  # type: ignore[operator]


def adapter_pairs(model: nn.Module) -> Iterator[AdapterPair]:
    """Yield the pairs of adapters of a model."""
    for name, module in model.named_modules():
        for first, second in PAIRS:
            downs, ups = (_by_adapter(getattr(module, part, None)) for part in (first, second))
            for key in downs.keys() & ups.keys():
                down, up = downs[key], ups[key]
                if down.bias is None and down.weight.shape[0] == up.weight.shape[1]:
                    paths = [".".join(filter(None, (name, part, key))) for part in (first, second)]
                    yield AdapterPair(
                        paths[0], paths[1], up, f"{name}." if name else "", _magnitude(name, module, key, down, up)
                    )


def _by_adapter(part: Any) -> dict[str, Any]:
    parts = dict(part.items()) if isinstance(part, nn.ModuleDict) else {"": part}
    return {key: layer for key, layer in parts.items() if isinstance(layer, LINEAR)}


def _magnitude(name: str, module: Any, key: str, down: Any, up: Any) -> Magnitude | None:
    """Return the magnitude of a DoRA adapter of a linear layer, as peft names it."""
    scales = getattr(module, "lora_magnitude_vector", None)
    if not isinstance(scales, nn.ModuleDict) or key not in scales or not isinstance(down, nn.Linear):
        return None
    path = ".".join(filter(None, (name, "lora_magnitude_vector", key, "weight")))
    scale: Any = scales[key]
    return Magnitude(path, scale.weight, scale, module.get_base_layer(), down, up, float(module.scaling[key]))


class KeptMagnitude:
    """Restores the scale g of a DoRA adapter's outputs after each step, by its magnitude m (A2)."""

    def __init__(self, magnitude: Magnitude, scale: Tensor) -> None:
        self.name, self.by_layer, self.magnitude, self.value = magnitude.name, True, magnitude, scale
        self.parameters = (magnitude.parameter,)

    @torch.no_grad()
    def project_step(self) -> None:
        """Set m = g ‖W + s B A‖."""
        norm = self.magnitude.norm()
        self.magnitude.parameter.copy_(self.value.to(norm) * norm)

    def project_gradient(self) -> None:
        """Set the gradient of the magnitude to zero."""
        if self.magnitude.parameter.grad is not None:
            self.magnitude.parameter.grad.zero_()

    def finalize(self) -> None:
        """Restore the scale once more; the adapters were projected before."""
        self.project_step()

    def moved(self) -> bool:
        """Return whether the scale has changed by more than rounding."""
        return scale_moved(self.magnitude, self.value)


def scale_moved(magnitude: Magnitude, scale: Tensor) -> bool:
    """Return whether a scale differs from a kept one by more than rounding."""
    eps = torch.finfo(magnitude.parameter.dtype).eps
    return not float((magnitude.scale() - scale).abs().max()) <= eps**0.5 * float(scale.abs().max())
