"""Linearized recursive least squares: RLS with the derivatives of the network as features.

    f̃ₜ(θ) = f(xₜ; θᵗ⁻¹) + Jₜ (θ − θᵗ⁻¹),    Jₜ = ∂f(xₜ; θᵗ⁻¹)/∂θ                               (N1)
    θᵗ minimises  λ‖θ − θ⁰‖² + Σᵢ ‖yᵢ − f̃ᵢ(θ)‖² / βⁱ                                            (N2)
    θᵗ = θᵗ⁻¹ + Δ,   Δ from the rows Jₜ with the errors yₜ − f(xₜ; θᵗ⁻¹), see information.py    (N3)

Every batch is linearized once, at the weights before it: the extended Kalman filter without drift. For a network that
is linear in its weights this is RLS.
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
    """Recursive least squares over all samples so far, each linearized at the weights before it was learned.

    `step` learns a batch (n, c) as one block, linearized at the weights before it; within the batch sample i is still
    weighted less than sample i + 1 by `forget`. It returns y − f(x) at the weights before the batch.

    Parameters
    ----------
    model : torch.nn.Module
        Maps a batch (n, …) to outputs (n, c). The ridge penalizes the distance from its initial weights θ⁰.
    ridge, forget : float
        As in `RLS`: `forget` below 1 makes old samples decay, above 1 emphasizes them.
    layers : list of str, optional
        Submodules or parameters to train, such as the last layer: the memory is quadratic in the number of their
        weights. By default every parameter that requires gradients.

    References
    ----------
    Singhal and Wu (1989), "Training feed-forward networks with the extended Kalman algorithm", ICASSP.

    Examples
    --------
    >>> import torch, remanence as rm
    >>> net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    >>> learner = rm.deep.LinearizedRLS(net, ridge=1e-3, layers=["2"])  # the last layer: linear, hence exact
    >>> x = torch.randn(5, 3, dtype=torch.float64)
    >>> before = learner.step(x, x.sum(1, keepdim=True))
    >>> after = x.sum(1, keepdim=True) - net(x)
    >>> bool(after.norm() < before.norm())
    True
    """

    def __init__(
        self, model: torch.nn.Module, ridge: float = 1.0, forget: float = 1.0, layers: Iterable[str] | None = None
    ) -> None:
        super().__init__(model, layers)
        self.ridge = check_number(ridge, "ridge", hint="a small positive number")
        self.forget = check_number(
            forget, "forget", hint="1 keeps everything, 0.99 forgets slowly; ORFit has exact constraints"
        )
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
