"""Base class of the guards that keep samples: absorb, report and save; what a step may do is up to each guard.

Mₖ: some samples of task k          ℓₖ(θ) ≤ boundₖ = ℓₖ(θ when absorbed) + slack                       (B1)
"""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from remanence.arrays import Array
from remanence.deep.guards.checks.batches import Forward, call_model
from remanence.deep.guards.guard import Guard, check_complete, check_saved, saved_state
from remanence.deep.guards.replay.constraint_report import ConstraintReport
from remanence.deep.guards.replay.replay_memory import (
    LossFunction,
    ReplayedTask,
    ReplayMemory,
    default_loss,
    evaluate_task,
    memory_from_state,
    memory_to_state,
    pick_rows,
)
from remanence.errors import InputError
from remanence.validation import check_count, check_number


class ReplayGuard(Guard):
    """Base class: keeps `memory` samples of every task and bounds the loss on them; use `GEM` or `Constrained`."""

    takes_targets = True
    sums_steps = False

    def __init__(
        self,
        model: nn.Module,
        memory: int = 200,
        loss: LossFunction | None = None,
        slack: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        self.memory = check_count(memory, "memory", hint="samples kept of every task")
        if loss is not None and not callable(loss):
            raise InputError(f"expected loss to be a function of outputs and targets, or None, got {loss!r:.60}")
        self.loss = loss
        self.slack = check_number(slack, "slack", closed=True, hint="by how much a loss on an old task may rise")
        self.seed = check_count(seed, "seed", low=0)
        self._free, self._memory = (), ReplayMemory()
        self._multipliers: list[float] = []
        if not any(p.requires_grad for p in self.model.parameters()):
            raise InputError("expected a model with parameters that require gradients, got none; unfreeze some")

    @property
    def settings(self) -> dict[str, Any]:
        return {"memory": self.memory, "loss": self.loss, "slack": self.slack, "seed": self.seed}

    def absorb(self, batches: Iterable[Any], forward: Forward = call_model) -> ConstraintReport:
        """Keep samples of the task just learned, and bound the loss on them by its value now plus `slack`.

        Parameters
        ----------
        batches : iterable
            Pairs (inputs, targets), as a DataLoader gives them. `memory` rows of them are kept, drawn at random.
        forward : callable, optional
            Called as forward(model, inputs) if the model needs another call than model(inputs); it is not saved.

        Returns
        -------
        ConstraintReport
            Losses, bounds and multipliers of the tasks so far.
        """
        self._check_shards()
        if self._distributed:
            raise InputError(
                "expected a model of one process, got DistributedDataParallel; its samples differ by process"
            )
        inputs, targets = pick_rows(batches, self.memory, self.seed + self._memory.tasks)
        task = ReplayedTask(inputs, targets, 0.0, forward)
        bound = evaluate_task(self.model, task, self._loss, [])[0] + self.slack  # (B1)
        self._memory = replace(self._memory, entries=(*self._memory.entries, replace(task, bound=bound)))
        self._multipliers = [*self._multipliers, 0.0]
        self._reattach()
        return self.report()

    def report(self) -> ConstraintReport:
        """Return the loss on every old task now, its bound, and its multiplier: which task costs most."""
        entries = self._memory.entries
        losses = tuple(evaluate_task(self.model, task, self._loss, [])[0] for task in entries)
        bounds, rows = tuple(task.bound for task in entries), tuple(len(task.targets) for task in entries)
        return ConstraintReport(type(self).__name__, rows, losses, bounds, tuple(self._multipliers))

    def capacity(self) -> dict[str, float]:
        """Return the number of constraints beside that of the parameters, at most 1."""
        size = sum(p.numel() for p in self.model.parameters() if p.requires_grad)
        return {"parameters": min(1.0, self._memory.tasks / size)}

    def state_dict(self) -> dict[str, Any]:
        """Return the samples, bounds and multipliers as tensors and plain values."""
        parts = memory_to_state(self._memory) | {"multipliers": list(self._multipliers)}
        return saved_state(type(self).__name__, parts)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a memory returned by `state_dict`; load the model's own weights separately."""
        saved = check_saved(state, type(self).__name__)
        memory, multipliers = memory_from_state(saved), saved["multipliers"]
        check_complete(saved)
        good = isinstance(multipliers, list) and all(
            isinstance(v, float) and 0 <= v < float("inf") for v in multipliers
        )
        if not good or len(multipliers) != memory.tasks:
            raise InputError(f"expected {memory.tasks} multipliers of at least 0, got a damaged state")
        self._memory, self._multipliers = memory, list(multipliers)
        self._reattach()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._memory.tasks} tasks, at most {self.memory} samples each>"

    # For the guards

    @property
    def _loss(self) -> LossFunction:
        return default_loss if self.loss is None else self.loss

    def _can_learn(self, parameters: set[int]) -> bool:
        return True

    def _moving(self, optimizers: tuple[torch.optim.Optimizer, ...]) -> list[nn.Parameter]:
        """The parameters that the optimizers change."""
        guarded = {id(p) for o in optimizers for group in o.param_groups for p in group["params"]}
        return [p for p in self.model.parameters() if p.requires_grad and id(p) in guarded]

    def _before_each_step(
        self, hooks: ExitStack, optimizers: tuple[torch.optim.Optimizer, ...], projector: Any
    ) -> None:
        """Call projector.begin before every step, as long as the projector is the one in use."""

        def begin(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> Any:
            if any(projector in projectors for projectors, _, _ in self._blocks):
                return projector.begin(optimizer, args, kwargs)
            return None

        for optimizer in optimizers:
            hooks.callback(optimizer.register_step_pre_hook(begin).remove)

    def _losses_and_gradients(self, parameters: list[nn.Parameter]) -> tuple[Array, list[list[torch.Tensor]]]:
        """ℓₖ − boundₖ (K,), and the gradients of every ℓₖ."""
        found = [(evaluate_task(self.model, task, self._loss, parameters), task.bound) for task in self._memory.entries]
        excess = torch.tensor([value - bound for (value, _), bound in found], dtype=torch.float64)
        return excess.numpy(), [grads for (_, grads), _ in found]
