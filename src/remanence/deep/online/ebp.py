"""Enhanced back-propagation: recursive least squares in every layer.

    Θ ← Θ + γ Φ Σᵢ wᵢ aᵢgᵢᵀ         (E1)   a: the layer's input, g: back-propagated error of Θᵀa, see backprop.py
    Φ⁻¹ = λβᵗI + Σᵢ wᵢ aᵢaᵢᵀ        (E2)   over the layer's inputs so far, wᵢ = βᵗ⁻ⁱ

Φ is never formed: each layer stores the square root of Φ⁻¹, one matrix as wide as its input, see information.py. For a
network of one linear layer g = y − f(x), and this is RLS. In a deeper one g is a direction rather than the error of
Θᵀa, and all layers change at once; γ is the step size.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from remanence.arrays import Array
from remanence.deep.nn.saved_parts import SavedParts
from remanence.deep.online.backprop import layers_of, signals
from remanence.deep.online.information import Information, information_from_dict, prior_information
from remanence.deep.online.learner import OnlineLearner, add_change, check_outputs_finite, check_targets, check_width
from remanence.errors import InputError
from remanence.validation import check_number

LayerMemories = dict[str, tuple[Information, ...]]  # by layer, one per group


class EBP(OnlineLearner[LayerMemories]):
    """Back-propagation with a recursive least-squares step in every layer (enhanced back-propagation).

    `step` learns a batch as one block, with the errors at the weights before it; within the batch sample i is still
    weighted less than sample i + 1 by `forget`. It returns y − f(x) at the weights before the batch.

    Parameters
    ----------
    model : torch.nn.Module
        Maps a batch (n, …) to outputs (n, c); only Linear and Conv layers may be trained. The patches of a convolution
        are its inputs, with the weight of their sample. A layer that a batch does not pass stays as it is.
    ridge, forget : float
        As in `RLS`, the same in every layer.
    step : float
        γ: 1 is RLS for a single layer; use less if a deep network overshoots.

    References
    ----------
    Shah, Palmieri and Datum (1992), "Optimal filtering algorithms for fast learning in feedforward neural networks",
    Neural Networks.

    Examples
    --------
    >>> import torch, remanence as rm
    >>> net = torch.nn.Linear(3, 1).double()
    >>> learner = rm.deep.EBP(net, ridge=1e-6)
    >>> x = torch.randn(20, 3, dtype=torch.float64)
    >>> before = learner.step(x, x.sum(1, keepdim=True))
    >>> bool((net(x) - x.sum(1, keepdim=True)).abs().max() < 1e-4)
    True
    """

    def __init__(self, model: torch.nn.Module, ridge: float = 1.0, forget: float = 1.0, step: float = 1.0) -> None:
        super().__init__(model)
        self.ridge = check_number(ridge, "ridge", hint="a small positive number")
        self.forget = check_number(forget, "forget", hint="1 keeps everything, 0.99 forgets slowly")
        self._length = check_number(step, "step", hint="1 is RLS for a single layer; use less if a network overshoots")
        self._layers = layers_of(self.flat)
        for layer in self._layers:
            check_width(layer.width, f"freeze {layer.name}, or use a narrower layer before it")
        self.memory = {
            layer.name: tuple(prior_information(layer.width, self.ridge) for _ in range(layer.matrix.groups))
            for layer in self._layers
        }

    @property
    def settings(self) -> dict[str, Any]:
        return {"ridge": self.ridge, "forget": self.forget, "step": self._length}

    def _compute_step(self, x: Tensor, y: Any) -> tuple[Tensor, LayerMemories, Array]:
        batch = signals(self.flat, self._layers, x, lambda shape: check_targets(y, shape))
        check_outputs_finite(batch.errors, *batch.inputs.values(), *batch.backpropagated.values())
        memory, change = dict(self.memory), np.zeros(self.flat.size)
        for layer in self._layers:
            if layer.name not in batch.inputs:
                continue
            A, G = batch.inputs[layer.name], batch.backpropagated[layer.name]
            each, odd = divmod(A.shape[1], len(x))
            if odd:
                raise InputError(
                    f"expected {layer.name} to get equally many rows per sample, got {A.shape[1]} rows for {len(x)} "
                    "samples"
                )
            steps = []
            for g, old in enumerate(memory[layer.name]):
                steps.append(old.updated(A[g], G[g], self.forget, each))
            memory[layer.name] = tuple(information for information, _ in steps)
            for name, part in layer.parts(np.array([delta.T for _, delta in steps])).items():
                change[self.flat.places[name]] = self._length * part  # (E1)
        return add_change(self.flat.vector(), change), memory, batch.errors

    def _memory_to_dict(self) -> dict[str, Any]:
        packed: dict[str, Any] = {}
        for name, groups in self.memory.items():
            for g, information in enumerate(groups):
                packed |= information.to_dict(f"{name}.{g}.")
        return packed

    def _memory_from_dict(self, parts: SavedParts) -> LayerMemories:
        return {
            layer.name: tuple(
                information_from_dict(parts, layer.width, f"{layer.name}.{g}.") for g in range(layer.matrix.groups)
            )
            for layer in self._layers
        }
