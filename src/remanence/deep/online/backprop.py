"""The inputs and back-propagated errors of every layer of a network on a batch.

z = Θᵀa                              (B1)   output of a layer for its input a, with a constant one if it has a bias
g = −∂ ½‖y − f(x)‖² / ∂z             (B2)   back-propagated error of z, for each call of the layer
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from remanence.arrays import Array
from remanence.deep.nn.eval_mode import eval_mode
from remanence.deep.nn.flat_parameters import FlatParameters
from remanence.deep.nn.layer_rules import recorded_modules
from remanence.deep.nn.layers import RecordedModule, WeightMatrix
from remanence.deep.nn.outputs import as_input_error, check_output
from remanence.deep.online.learner import to_float64
from remanence.errors import InputError

KNOWN = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True)
class TrainableLayer:
    """A Linear or Conv layer, and which columns of [W b] are trained."""

    matrix: WeightMatrix
    recorded: RecordedModule
    weight: str | None  # the parameters' names, None if not trained
    bias: str | None

    @property
    def name(self) -> str:
        return self.matrix.name

    @property
    def width(self) -> int:
        """Number of trained input columns per group, including the constant one."""
        inputs = int(self.matrix.weight.shape[2])
        return (inputs if self.weight else 0) + (1 if self.bias else 0)

    def inputs(self, *args: Any, **kwargs: Any) -> Array:
        """Return the inputs of a call, (groups, rows, width) (B1)."""
        rows = self.matrix.completed(self.recorded.rows(*args, **kwargs)[self.name].clone())
        inputs = int(self.matrix.weight.shape[2])
        return rows[:, :, None if self.weight else inputs : None if self.bias else inputs].numpy()

    def outputs(self, z: Tensor) -> Array:
        """Reshape something shaped like the output of a call to (groups, rows, outputs per group)."""
        if isinstance(self.matrix.module, nn.Linear):
            rows = z.flatten(0, -2)[None]
        else:
            rows = z.reshape(len(z), self.matrix.groups, -1, z[0, 0].numel()).permute(1, 0, 3, 2).flatten(1, 2)
        return to_float64(rows)

    def parts(self, step: Array) -> dict[str, Array]:
        """Split a step of the trained columns, (groups, outputs, width), by parameter name."""
        inputs = int(self.matrix.weight.shape[2]) if self.weight else 0
        found = {self.weight: step[:, :, :inputs], self.bias: step[:, :, inputs:]}
        return {name: part.ravel() for name, part in found.items() if name}


@dataclass
class LayerSignals:
    """The errors on a batch, and for each layer it passed the inputs and the back-propagated errors."""

    errors: Array  # (n, c)
    inputs: dict[str, Array]  # (groups, rows, width)
    backpropagated: dict[str, Array]  # (groups, rows, outputs)


def layers_of(flat: FlatParameters) -> tuple[TrainableLayer, ...]:
    """Return the layers that contain the trained parameters; raise InputError if another module contains one."""
    names = {id(p): name for name, p in flat.parameters().items()}
    layers = []
    for recorded in recorded_modules(flat.module):
        if isinstance(recorded.module, KNOWN):
            (matrix,) = recorded.matrices
            weight, bias = (names.get(id(getattr(recorded.module, part))) for part in ("weight", "bias"))
            if weight or bias:
                layers.append(TrainableLayer(matrix, recorded, weight, bias))
    covered = [name for layer in layers for name in (layer.weight, layer.bias) if name]
    uncovered = [name for name in flat.names if name not in covered]
    if uncovered:
        raise InputError(
            f"expected parameters of Linear and Conv layers only, got {', '.join(uncovered[:8])}; freeze the others by "
            f"requires_grad_(False), or use LinearizedRLS or EKF, which learn any parameter"
        )
    twice = [name for name in flat.names if covered.count(name) > 1]
    if twice:
        raise InputError(f"expected every layer to have weights of its own, got {twice[0]} in several; untie them")
    return tuple(layers)


def signals(
    flat: FlatParameters, layers: tuple[TrainableLayer, ...], x: Tensor, targets: Callable[[tuple[int, ...]], Array]
) -> LayerSignals:
    """Run the network forwards and backwards on a batch; `targets` returns y, given the shape of the outputs."""
    inputs: dict[str, list[Array]] = {layer.name: [] for layer in layers}
    calls: dict[str, list[Tensor]] = {layer.name: [] for layer in layers}

    def recording_hook(layer: TrainableLayer) -> Any:
        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> Tensor:
            inputs[layer.name].append(layer.inputs(*args, **kwargs))
            calls[layer.name].append(output)
            return output.clone()  # the next module may work in place

        return hook

    with ExitStack() as hooks, eval_mode(flat.module), torch.enable_grad():
        for layer in layers:
            hooks.callback(layer.recorded.module.register_forward_hook(recording_hook(layer), with_kwargs=True).remove)
        with as_input_error(x):
            outputs = check_output(flat.module(x), len(x))
        errors = targets(tuple(outputs.shape)) - to_float64(outputs)
        backpropagated = _backwards(flat, layers, calls, outputs, errors)
    passed = [layer for layer in layers if calls[layer.name]]
    return LayerSignals(
        errors,
        {layer.name: np.concatenate(inputs[layer.name], axis=1) for layer in passed},
        {layer.name: np.concatenate(list(map(layer.outputs, backpropagated[layer.name])), axis=1) for layer in passed},
    )


def _backwards(
    flat: FlatParameters,
    layers: tuple[TrainableLayer, ...],
    calls: dict[str, list[Tensor]],
    outputs: Tensor,
    errors: Array,
) -> dict[str, list[Tensor]]:
    """Return g of every call (B2)."""
    points = [z for zs in calls.values() for z in zs]
    idle = [name for layer in layers if not calls[layer.name] for name in (layer.weight, layer.bias) if name]
    if not points or not outputs.requires_grad:
        raise InputError(
            "expected outputs that depend on the trained layers, got none; was part of the network detached?"
        )
    parameters = flat.parameters()
    wanted = (*points, *(parameters[name] for name in idle))
    slopes = torch.autograd.grad(outputs, wanted, torch.from_numpy(errors).to(outputs), allow_unused=True)
    used = [name for name, slope in zip(idle, slopes[len(points) :], strict=True) if slope is not None]
    if used:
        raise InputError(
            f"expected {used[0]} to be used through calls of its layer, but it is used directly; call the layer"
        )
    left = iter(torch.zeros_like(z) if g is None else g for z, g in zip(points, slopes, strict=False))
    return {name: [next(left) for _ in zs] for name, zs in calls.items()}
