"""Enhanced back-propagation: recursive least squares layer by layer.

    Θ ← Θ + γ Φ Σᵢ wᵢ aᵢgᵢᵀ         (E1)   a: the layer's input, g: what back-propagation asks of Θᵀa, see signals.py
    Φ⁻¹ = λβᵗI + Σᵢ wᵢ aᵢaᵢᵀ        (E2)   over the layer's inputs so far, wᵢ = βᵗ⁻ⁱ

Φ is never formed: each layer keeps the square root of Φ⁻¹, one matrix as wide as its input, see information.py. A
network that is one linear layer has g = y − f(x) and is RLS. In a deeper one g is a direction rather than a known error
of Θᵀa, and all layers move at once; γ says how far.
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

LayerMemories = dict[str, tuple[Information, ...]]  # of each layer: one a group


class EBP(OnlineLearner[LayerMemories]):
    """Back-propagation whose step in every layer is weighed by all the inputs the layer has seen.

    `step` learns a batch as one block, the errors being those at the weights before it; sample i of the batch still
    weighs less than sample i + 1 by `forget`. It returns y − f(x) at the weights before the batch.

    Parameters
    ----------
    model : torch.nn.Module
        Answers a batch (n, …) with (n, c); what may move in it are linear and convolution layers. A convolution's
        patches are its inputs, each a row of the sample it is cut from. A layer that a batch does not pass stays.
    ridge, forget : float
        As in RLS, in every layer alike.
    step : float
        γ: 1 is RLS for a single layer; less where a deep network overshoots.
    """

    def __init__(self, model: torch.nn.Module, ridge: float = 1.0, forget: float = 1.0, step: float = 1.0) -> None:
        super().__init__(model)
        self.ridge = check_number(ridge, "ridge", hint="a small positive number")
        self.forget = check_number(forget, "forget", hint="1 keeps everything, 0.99 fades")
        self._length = check_number(step, "step", hint="1 is RLS for a single layer; less where a network overshoots")
        self._layers = layers_of(self.flat)
        for layer in self._layers:
            check_width(layer.width, f"freeze {layer.name}, or put a narrower layer before it")
        self.memory = {
            layer.name: tuple(prior_information(layer.width, self.ridge) for _ in range(layer.matrix.groups))
            for layer in self._layers
        }

    @property
    def settings(self) -> dict[str, Any]:
        return {"ridge": self.ridge, "forget": self.forget, "step": self._length}

    def _compute_step(self, x: Tensor, y: Any) -> tuple[Tensor, LayerMemories, Array]:
        seen = signals(self.flat, self._layers, x, lambda shape: check_targets(y, shape))
        check_outputs_finite(seen.errors, *seen.inputs.values(), *seen.asked.values())
        memory, change = dict(self.memory), np.zeros(self.flat.size)
        for layer in self._layers:
            if layer.name not in seen.inputs:
                continue
            A, G = seen.inputs[layer.name], seen.asked[layer.name]
            each, odd = divmod(A.shape[1], len(x))
            if odd:
                raise InputError(
                    f"expected {layer.name} to be given as many rows for every sample, got {A.shape[1]} for {len(x)}"
                )
            steps = []
            for g, old in enumerate(memory[layer.name]):
                steps.append(old.updated(A[g], G[g], self.forget, each))
            memory[layer.name] = tuple(information for information, _ in steps)
            for name, part in layer.parts(np.array([delta.T for _, delta in steps])).items():
                change[self.flat.places[name]] = self._length * part  # (E1)
        return add_change(self.flat.vector(), change), memory, seen.errors

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
