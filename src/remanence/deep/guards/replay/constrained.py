"""Constrained learning by primal and dual steps: the new loss is minimised under bounds on the losses of old tasks.

    minimise ℓ(θ)   where   ℓₖ(θ) ≤ boundₖ                                                      (P1)
    ∇ℓ + Σ max(0, λₖ + ρ(ℓₖ − boundₖ)) ∇ℓₖ   is what the optimizer sees as the gradient         (P2)
    λₖ ← max(0, λₖ + η(ℓₖ − boundₖ))         after each of its steps                            (P3)

(P2) is the gradient of the augmented Lagrangian. Where the steps come to rest, θ and λ satisfy the conditions of a
minimum of (P1): the gradients balance, and λₖ > 0 only where a bound is reached. λₖ is the rate at which the new loss
would fall if boundₖ were raised.
"""

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from remanence.deep.guards.projection.guarded_steps import StepProjector
from remanence.deep.guards.replay.replay_guard import ReplayGuard
from remanence.deep.guards.replay.replay_memory import LossFunction
from remanence.errors import InputError
from remanence.validation import check_number


class Constrained(ReplayGuard):
    """Guard that minimises the new task's loss under bounds on the losses of old tasks, by primal and dual steps.

    The bounds are reached as training goes on, not at every step; `report()` gives the losses, and the multipliers,
    which say what each old task costs the new one. For any optimizer that steps along gradients, which LBFGS does not.

    Parameters
    ----------
    model : torch.nn.Module
    memory : int
        Samples kept of every task, drawn at random from what `absorb` is given.
    loss : callable, optional
        loss(outputs, targets) → the mean loss, of the kind that is trained. By default cross-entropy for labels and
        ‖y − f‖² for real targets.
    slack : float
        By how much the loss on an old task may rise above its value when it was absorbed. With 0 and samples that are
        fitted exactly no step is free, and multipliers grow without end: allow a little.
    penalty : float
        ρ: the weight of the excess of a loss over its bound; larger ones damp oscillations.
    step : float
        η: the step of the multipliers.
    seed : int
        Chooses the samples.

    References
    ----------
    Elenter, NaderiAlizadeh, Javidi and Ribeiro (2022), "Primal dual continual learning: stability and plasticity
    through Lagrange multipliers".
    Bertsekas (1982), "Constrained optimization and Lagrange multiplier methods": the augmented Lagrangian.

    Examples
    --------
    >>> import torch, remanence as rm
    >>> net = torch.nn.Linear(2, 1, bias=False).double()
    >>> torch.nn.init.zeros_(net.weight).tolist()
    [[0.0, 0.0]]
    >>> rows = torch.eye(2, dtype=torch.float64)
    >>> guard = rm.deep.Constrained(net, slack=0.5, step=0.5)
    >>> report = guard.absorb([(rows[:1], torch.zeros(1, 1, dtype=torch.float64))])
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    >>> with guard.protect(optimizer):  # the new task wants w₁ = 1, the old one w₁² ≤ 0.5
    ...     for _ in range(500):
    ...         optimizer.zero_grad()
    ...         (net(rows) - 1).square().sum().backward()
    ...         optimizer.step()
    >>> [round(value, 4) for value in (*net.weight[0].tolist(), *guard.report().multipliers)]
    [0.7071, 1.0, 0.4142]
    """

    def __init__(
        self,
        model: nn.Module,
        memory: int = 200,
        loss: LossFunction | None = None,
        slack: float = 0.0,
        penalty: float = 1.0,
        step: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__(model, memory, loss, slack, seed)
        self.penalty = check_number(penalty, "penalty", closed=True)
        self.step = check_number(step, "step", hint="the step of the multipliers, like 0.1")

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"penalty": self.penalty, "step": self.step}

    def _attach(self, hooks: ExitStack, optimizers: tuple[torch.optim.Optimizer, ...]) -> list[StepProjector]:
        if any(isinstance(optimizer, torch.optim.LBFGS) for optimizer in optimizers):
            raise InputError(
                "expected an optimizer that steps along gradients, got LBFGS, whose line search compares losses that "
                "do not contain the bounds; use SGD or Adam, or GEM, which projects steps"
            )
        parameters = self._moving(optimizers)
        if not self._memory.tasks or not parameters:
            return []
        projector = LagrangianGradient(self, parameters)
        self._before_each_step(hooks, optimizers, projector)
        return [projector]


class LagrangianGradient:
    """Adds the gradients of the old losses to the new one's for the time of a step, and moves the multipliers."""

    def __init__(self, guard: Constrained, parameters: list[nn.Parameter]) -> None:
        self.name, self.by_layer = "the parameters", False
        self.guard, self.parameters = guard, parameters
        self.added: list[tuple[nn.Parameter, Tensor | None]] | None = None
        self.excess: list[float] = []

    def begin(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> Any:
        """Before a step: change the gradients, or those that a closure leaves."""
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if closure is None:
            self._add()
            return None

        def with_old_losses() -> Any:
            self._remove()
            value = closure()
            with torch.enable_grad():
                self._add()
            return value

        if len(args) > 1:
            return (args[0], with_old_losses, *args[2:]), kwargs
        return args, {**kwargs, "closure": with_old_losses}

    def _add(self) -> None:
        """(P2)"""
        excess, grads = self.guard._losses_and_gradients(self.parameters)
        self.excess = [float(value) for value in excess]
        self.added = [(p, p.grad) for p in self.parameters]
        for multiplier, value, found in zip(self.guard._multipliers, self.excess, grads, strict=True):
            weight = max(0.0, multiplier + self.guard.penalty * value)
            for p, g in zip(self.parameters, found, strict=True):
                if weight:
                    p.grad = weight * g if p.grad is None else p.grad + weight * g

    def _remove(self) -> None:
        for p, grad in self.added or ():
            p.grad = grad
        self.added = None

    def project_step(self) -> None:
        """After a step: the gradients as they were, and the multipliers moved (P3)."""
        if self.added is None:
            return
        self._remove()
        step, old = self.guard.step, self.guard._multipliers
        self.guard._multipliers = [max(0.0, v + step * c) for v, c in zip(old, self.excess, strict=True)]

    def project_gradient(self) -> None:
        """Gradients are changed before each step."""

    def finalize(self) -> None:
        """Restore the gradients of a step that was not finished (a closure that raised)."""
        self._remove()

    def moved(self) -> bool:
        """No value is fixed, so none can have moved."""
        return False
