"""Linearised recursive least squares: RLS whose features are the derivatives of the network.

    f̃ₜ(θ) = f(xₜ; θᵗ⁻¹) + Jₜ (θ − θᵗ⁻¹),    Jₜ = ∂f(xₜ; θᵗ⁻¹)/∂θ                               (N1)
    θᵗ minimises  λ‖θ − θ⁰‖² + Σᵢ ‖yᵢ − f̃ᵢ(θ)‖² / βⁱ                                            (N2)
    θᵗ = θᵗ⁻¹ + Δ,   Δ from the rows Jₜ with the errors yₜ − f(xₜ; θᵗ⁻¹), see information.py    (N3)

Every batch is linearised once, at the weights before it, and stays as it was linearised then: the extended Kalman
filter without drift. A network that is linear in its weights makes it RLS.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from remanence.arrays import Array
from remanence.deep.nn.saved_parts import SavedParts
from remanence.deep.online.information import Information, information_from_dict, prior_information
from remanence.deep.online.learner import OnlineLearner, add_change, check_targets, check_width, linearized
from remanence.validation import check_number


class LinearizedRLS(OnlineLearner[Information]):
    """Least squares over every sample so far, each seen through the network linearised where it came.

    `step` learns a batch (n, c) as one block, linearised at the weights before it; sample i of the batch still weighs
    less than sample i + 1 by `forget`. It returns y − f(x) at the weights before the batch.

    Parameters
    ----------
    model : torch.nn.Module
        Answers a batch (n, …) with (n, c). Its weights at the beginning are θ⁰, where the ridge pulls to.
    ridge, forget : float
        As in RLS: `forget` below 1 lets old samples fade, above 1 emphasises them.
    layers : list of str, optional
        Submodules or parameters to learn, such as the last layer: the memory is the square of their number of weights.
        By default every parameter that requires gradients.
    """

    def __init__(
        self, model: torch.nn.Module, ridge: float = 1.0, forget: float = 1.0, layers: Iterable[str] | None = None
    ) -> None:
        super().__init__(model, layers)
        self.ridge = check_number(ridge, "ridge", hint="a small positive number")
        self.forget = check_number(forget, "forget", hint="1 keeps everything, 0.99 fades; ORFit has exact constraints")
        check_width(self.flat.size, 'choose layers=["…"], or use EBP or EKF(covariance="lowrank")')
        self.memory = prior_information(self.flat.size, self.ridge)

    @property
    def settings(self) -> dict[str, Any]:
        return {"ridge": self.ridge, "forget": self.forget}

    def _compute_step(self, x: Tensor, y: Any) -> tuple[Tensor, Information, Array]:
        outputs, J = linearized(self.flat, x)  # (N1)
        errors = check_targets(y, outputs.shape) - outputs
        n, c, D = J.shape
        memory, change = self.memory.updated(J.reshape(n * c, D), errors.reshape(-1, 1), self.forget, each=c)
        return add_change(self.flat.vector(), change[:, 0]), memory, errors  # (N3)

    def _memory_to_dict(self) -> dict[str, Any]:
        return self.memory.to_dict()

    def _memory_from_dict(self, parts: SavedParts) -> Information:
        return information_from_dict(parts, self.flat.size)
