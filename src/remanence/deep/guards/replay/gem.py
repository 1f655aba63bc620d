"""Gradient episodic memory: each optimizer step becomes the nearest one after which no old loss exceeds its bound.

    minimise ½‖x − Δ‖²   where   ⟨∇ℓₖ(θ), x⟩ ≤ boundₖ − ℓₖ(θ)  for every old task k             (E1)
    x = Δ − Σ vₖ ∇ℓₖ(θ),  vₖ ≥ 0, from the dual problem (least_distance.py)                     (E2)

Δ is the optimizer's step from θ, so that momentum and scaling cannot lead around the constraints. For SGD it is −γ∇ℓ,
and where the old losses are at their bounds (E1) is the problem of the published method. The bounds hold to first order
in each step; what curvature adds is corrected by the next one, and at the end of a block by steps of their own, Δ = 0.
"""

from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from remanence.arrays import Array
from remanence.deep.guards.projection.guarded_steps import StepProjector
from remanence.deep.guards.replay.least_distance import nearest_step
from remanence.deep.guards.replay.replay_guard import ReplayGuard

CORRECTIONS = 100  # steps at most at the end of a block
NEARLY = 0.01  # of a bound may be exceeded


class GEM(ReplayGuard):
    """Guard that keeps samples of old tasks and changes each step so that the losses on them stay below bounds.

    In each step the bounds hold to first order, at the end of a block they hold but for 1 %, if the samples permit;
    `report()` shows the losses on them. A step costs a backward pass over the kept samples of every old task.

    Parameters
    ----------
    model : torch.nn.Module
    memory : int
        Samples kept of every task, drawn at random from what `absorb` is given.
    loss : callable, optional
        loss(outputs, targets) → the mean loss. By default cross-entropy for labels and ‖y − f‖² for real targets.
    slack : float
        By how much the loss on an old task may rise above its value when it was absorbed.
    seed : int
        Chooses the samples.

    References
    ----------
    Lopez-Paz and Ranzato (2017), "Gradient episodic memory for continual learning", NeurIPS.

    Examples
    --------
    >>> import torch, remanence as rm
    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <torch._C.Generator ...>
    >>> net = torch.nn.Linear(5, 1).double()
    >>> old, new = torch.randn(2, 8, 5, dtype=torch.float64)
    >>> guard = rm.deep.GEM(net)
    >>> report = guard.absorb([(old, net(old).detach() + 1)])
    >>> optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    >>> with guard.protect(optimizer):
    ...     for _ in range(200):
    ...         optimizer.zero_grad()
    ...         (net(new) - 3).square().mean().backward()
    ...         optimizer.step()
    >>> report = guard.report()
    >>> bool(report.losses[0] < 1.02 * report.bounds[0])
    True
    """

    def _attach(self, hooks: ExitStack, optimizers: tuple[torch.optim.Optimizer, ...]) -> list[StepProjector]:
        parameters = self._moving(optimizers)
        if not self._memory.tasks or not parameters:
            return []
        projector = NearestStepProjector(self, parameters)
        self._before_each_step(hooks, optimizers, projector)
        return [projector]


class NearestStepProjector:
    """Replaces each step by the nearest one that the old losses allow (E1)."""

    def __init__(self, guard: ReplayGuard, parameters: list[nn.Parameter]) -> None:
        self.name, self.by_layer = "the parameters", False
        self.guard, self.parameters, self.steps = guard, parameters, 0
        self.begun: tuple[list[Tensor], Array, Array] | None = None  # θ, gradients (K, D), ℓ − bound (K,)
        self.total = np.zeros(guard._memory.tasks)

    def begin(self, *_: Any) -> None:
        """Before a step: remember θ, and the losses and gradients there."""
        self._measured()

    def _measured(self) -> Array:
        """ℓ − bound (K,), remembered."""
        excess, grads = self.guard._losses_and_gradients(self.parameters)
        self.begun = [p.detach().clone() for p in self.parameters], np.stack([_flat(g) for g in grads]), excess
        return excess

    @torch.no_grad()
    def project_step(self) -> None:
        """After a step: keep the allowed part."""
        if self.begun is not None:
            v = self._keep_allowed()
            self.steps, self.total = self.steps + 1, self.total + v
            self.guard._multipliers = [float(value) for value in self.total / self.steps]

    def _keep_allowed(self) -> Array:
        """Replace the step since `begin` by the nearest allowed one, and return its multipliers."""
        assert self.begun is not None
        (before, G, excess), self.begun = self.begun, None
        step = _flat([p.detach() - q for p, q in zip(self.parameters, before, strict=True)])
        allowed, v = nearest_step(G, step, -excess)
        if v.any():
            sizes = [p.numel() for p in self.parameters]
            for p, q, x in zip(self.parameters, before, torch.split(torch.from_numpy(allowed), sizes), strict=True):
                p.copy_(q + x.reshape(q.shape).to(q))  # (E2)
        return v

    def project_gradient(self) -> None:
        """Gradients are left as they are: the whole step is projected."""

    @torch.no_grad()
    def finalize(self) -> None:
        """Step down until every loss is within its bound, but for `NEARLY`."""
        bounds = np.array([task.bound for task in self.guard._memory.entries])
        for _ in range(CORRECTIONS):
            excess = self._measured()
            if (excess <= NEARLY * bounds).all():
                break
            self._keep_allowed()
        self.begun = None

    def moved(self) -> bool:
        """Changes by others are corrected by the next step, and cannot be told from what curvature adds."""
        return False


def _flat(tensors: list[Tensor]) -> Array:
    return torch.cat([t.flatten().to("cpu", torch.float64) for t in tensors]).numpy()
