"""The extended Kalman filter of a network's weights: every batch is an observation, weights drift in between.

    θ₁ ~ N(θ⁰, I/λ)     θₜ = θₜ₋₁ + N(0, Q)     yₜ = f(xₜ; θₜ) + N(0, R), or a class drawn from softmax f     (K1)
    Σₜ|ₜ₋₁ = Σₜ₋₁ + Q                                                                 (K2)   except before t = 1
    Jₜ = ∂f(xₜ; θₜ₋₁)/∂θ,  innovation yₜ − f(xₜ; θₜ₋₁)                                (K3)   see observation.py
    θₜ = θₜ₋₁ + Σₜ|ₜ₋₁Jₜᵀ(R + JₜΣₜ|ₜ₋₁Jₜᵀ)⁻¹(yₜ − f(xₜ; θₜ₋₁))                         (K4)   see covariance.py

The network's weights are the mean; the memory is the covariance around them. If there are more observations than
weights, the rows are first reduced to an equivalent triangle.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from remanence.arrays import Array
from remanence.deep.nn.flat_parameters import FlatParameters
from remanence.deep.nn.saved_parts import SavedParts
from remanence.deep.online.covariance import BlockCovariance, Covariance, FullCovariance, LowRankInformation
from remanence.deep.online.learner import OnlineLearner, add_change, check_width, linearized
from remanence.deep.online.observation import observation
from remanence.errors import InputError
from remanence.memory.root import empty
from remanence.validation import check_count, check_number, check_numbers


@dataclass(frozen=True, slots=True)
class FilterState:
    """The covariance of the weights after a number of steps."""

    covariance: Covariance
    tasks: int


class EKF(OnlineLearner[FilterState]):
    """Extended Kalman filter of a network's weights.

    A Gaussian over the weights is conditioned on every batch, with the network linearized at the current weights. One
    `step` is one observation: its n·c outputs are used together, and the drift is added before every step but the
    first, so the division into batches matters. `step` returns y − f(x), or y − softmax f(x), at the weights before the
    batch.

    Parameters
    ----------
    model : torch.nn.Module
        Maps a batch (n, …) to outputs (n, c): predictions, or logits if `loss` is "softmax".
    noise : float or one number per output
        R, the variance of an observation. With "softmax" it scales the covariance diag(p) − ppᵀ of a class.
    drift : float or one number per parameter
        Q, the variance by which the weights change between steps, in the order of the network's parameters.
    ridge : float
        1/`ridge` is the prior variance of each weight around its initial value. A network is linear only near its
        weights: too small a ridge makes the first steps overshoot, too large a one shortens all of them.
    covariance : "full", "layers" or "lowrank"
        All pairs of weights (D² numbers), pairs within a layer, or `rank` directions and a diagonal (D·rank).
    rank : int
        Number of directions for "lowrank".
    loss : "squared" or "softmax"
        With "softmax", y holds labels (n,) or one-hot rows (n, c).

    References
    ----------
    - Singhal and Wu (1989), "Training feed-forward networks with the extended Kalman algorithm", ICASSP.
    - Puskorius and Feldkamp (1991), "Decoupled extended Kalman filter training of feedforward layered networks", IJCNN
      (covariance="layers").
    - Chang, Durán-Martín, Shestopaloff, Jones and Murphy (2023), "Low-rank extended Kalman filtering for online
      learning of neural networks from streaming data", CoLLAs (covariance="lowrank").

    Examples
    --------
    >>> import torch, remanence as rm
    >>> net = torch.nn.Linear(3, 1).double()
    >>> learner = rm.deep.EKF(net, noise=1e-6)
    >>> x = torch.randn(20, 3, dtype=torch.float64)
    >>> innovation = learner.step(x, x.sum(1, keepdim=True))
    >>> bool((net(x) - x.sum(1, keepdim=True)).abs().max() < 1e-4)
    True
    """

    def __init__(
        self,
        model: torch.nn.Module,
        noise: float | Sequence[float] = 1.0,
        drift: float | Sequence[float] = 0.0,
        ridge: float = 1.0,
        covariance: Literal["full", "layers", "lowrank"] = "full",
        rank: int = 20,
        loss: Literal["squared", "softmax"] = "squared",
    ) -> None:
        super().__init__(model)
        self.observation, self.noise = observation(loss, noise)
        self.drift = _check_drift(drift, self.flat.size)
        self.ridge = check_number(ridge, "ridge", hint="one over the prior variance of a weight")
        self.covariance, self.loss = covariance, loss
        self.rank = check_count(rank, "rank", hint="about ten directions; more than one per parameter is of no use")
        self.memory = FilterState(_prior(covariance, self.flat, self.ridge, self.rank), 0)

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "noise": self.noise,
            "drift": self.drift,
            "ridge": self.ridge,
            "covariance": self.covariance,
            "rank": self.rank,
            "loss": self.loss,
        }

    def _compute_step(self, x: Tensor, y: Any) -> tuple[Tensor, FilterState, Array]:
        errors, X, w = self.observation.read(*linearized(self.flat, x), y)  # (K3)
        if len(X) > self.flat.size:
            triangle = empty(self.flat.size, 1).folded(X, w[:, None])
            X, w = np.ascontiguousarray(triangle.factor), triangle.target[:, 0]
        cov = self.memory.covariance
        if self.memory.tasks and np.any(self.drift):
            cov = cov.drifted(np.broadcast_to(self.drift, self.flat.size))  # (K2)
        cov, change = cov.conditioned(X, w)  # (K4)
        return add_change(self.flat.vector(), change), FilterState(cov, self.memory.tasks + 1), errors

    def _memory_to_dict(self) -> dict[str, Any]:
        return {**self.memory.covariance.to_dict(), "tasks": self.memory.tasks}

    def _memory_from_dict(self, parts: SavedParts) -> FilterState:
        return FilterState(self.memory.covariance.from_dict(parts), int(parts.number("tasks")))


def _prior(form: str, flat: FlatParameters, ridge: float, rank: int) -> Covariance:
    hint = 'use covariance="layers" or "lowrank", or freeze layers'
    if form == "full":
        check_width(flat.size, hint)
        return FullCovariance(np.eye(flat.size) / ridge)
    if form == "layers":
        places: dict[str, slice] = {}
        for name, place in flat.places.items():
            layer = name.rpartition(".")[0]
            places[layer] = slice(places.get(layer, place).start, place.stop)
        sizes = {layer: place.stop - place.start for layer, place in places.items()}
        check_width(max(sizes.values()), hint)
        return BlockCovariance({layer: np.eye(size) / ridge for layer, size in sizes.items()}, places)
    if form == "lowrank":
        return LowRankInformation(np.full(flat.size, ridge), np.zeros((flat.size, 0)), rank)
    raise InputError(f'expected covariance to be "full", "layers" or "lowrank", got {form!r}')


def _check_drift(drift: Any, features: int) -> float | list[float]:
    hint = "a variance like 1e-4, or one per parameter"
    if np.ndim(drift) == 0:
        return check_number(drift, "drift", closed=True, hint=hint)
    Q = np.array(check_numbers(drift, "drift", np.float64))
    if Q.shape != (features,) or not (np.isfinite(Q) & (Q >= 0)).all():
        raise InputError(f"expected drift as {features} numbers of at least 0, got shape {Q.shape}; {hint}")
    return Q.tolist()  # type: ignore[no-any-return]
