"""The optimizer steps of one block: project each of them, and detect changes made in between.

A step of another optimizer, clamping after the step or loading weights changes protected parameters without a guarded
step. The next guarded step, or the end of the block, projects them back; until then outputs on earlier inputs were
wrong, and the end of the block warns. The version counters of the tensors show cheaply whether anything was written;
only then are the values compared.

A projection is linear in the change of the parameters, so the steps since the last one can be projected together. With
`every` above 1 that is done, and nothing is compared as long as a step is not projected yet.
"""

import warnings
from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import Tensor

from remanence.deep.guards.projection.sharded_layers import GatheredProjector
from remanence.deep.nn.eval_mode import AUTOCAST_DEVICES, full_precision
from remanence.deep.nn.sharding.shards import local, version
from remanence.errors import InputError


class StepProjector(Protocol):
    """Something that keeps the allowed part of the change of some parameters."""

    name: str
    by_layer: bool  # False if all parameters have to be projected together

    @property
    def parameters(self) -> Iterable[Tensor]:
        """The parameters that are projected."""

    def project_step(self) -> None:
        """Remove the forbidden part of the change since the last call (G1)."""

    def project_gradient(self) -> None:
        """Remove the forbidden part from the gradients."""

    def finalize(self) -> None:
        """Project once more at the end of a block, as exactly as the parameters' dtype allows."""

    def moved(self) -> bool:
        """Return whether the protected values have changed by more than rounding."""


class GuardedSteps:
    """The hooks that run before and after each step of a block's optimizers."""

    def __init__(self, projectors: list[StepProjector], warns: bool, every: int = 1) -> None:
        self.projectors, self.warns, self.every = projectors, warns, every
        self.pending: dict[int, int] = {}  # by optimizer: its steps that are not projected yet
        self.begun = self.ended = False
        self.names: dict[str, None] = {}
        self.version = self._version()

    def _version(self) -> int:
        return sum(version(p) for projector in self.projectors for p in projector.parameters)

    def before(self, *_: Any) -> None:
        """Check parameters that were written to since the last guarded step."""
        if not torch.compiler.is_compiling() and not self.pending and self._version() != self.version:
            self._check_moved()

    def after(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Project the step that was just made, or leave it for later."""
        if torch.compiler.is_compiling():
            call_each(self.projectors, "project_step")
            return
        steps = self.pending.pop(id(optimizer), 0) + 1
        if steps < self.every:
            self.pending[id(optimizer)] = steps
            return
        call_each(self._projectable(optimizer), "project_step")
        self.version, self.begun = self._version(), True

    def project_pending(self) -> None:
        """Project the steps that were left for later."""
        if self.pending:
            self.pending.clear()
            call_each(self.projectors, "project_step")
            self.version, self.begun = self._version(), True

    def finish(self) -> None:
        """Check once more when the block ends, and warn about what was found."""
        self.ended = True
        self.project_pending()
        if self.begun or self._version() != self.version:  # otherwise it was reported when the block began
            self._check_moved()
        diverged = [name for name in self.names if name in self._not_finite()]
        if diverged:
            warnings.warn(
                f"{', '.join(diverged)} became NaN or infinite: the training diverged, and outputs on earlier inputs "
                "are lost; load the weights from before the block, and train with a smaller learning rate (Adam with "
                "weights in float16: with a larger eps)",
                UserWarning,
                stacklevel=4,
            )
        elif self.names and self.warns:
            warnings.warn(
                f"{', '.join(self.names)} changed inside protect() other than by a step of its optimizers, for example "
                "by another optimizer, by clamping after the step or by loading weights. Outputs on earlier inputs had "
                "changed until the next guarded step; they are restored. Pass every optimizer: protect(first, second)",
                UserWarning,
                stacklevel=4,
            )

    def close(self) -> None:
        """Project once more when the block has ended; if it failed in this process, without waiting for another."""
        if self.ended:
            call_each(self.projectors, "finalize")
        else:
            alone = [p for p in self.projectors if isinstance(p, GatheredProjector)]
            call_each(alone, "roll_back")
            call_each([p for p in self.projectors if p not in alone], "finalize")

    def _not_finite(self) -> set[str]:
        return {p.name for p in self.projectors if not all(bool(local(t).isfinite().all()) for t in p.parameters)}

    def _check_moved(self) -> None:
        with full_precision():
            self.names |= dict.fromkeys(projector.name for projector in self.projectors if projector.moved())

    def _projectable(self, optimizer: torch.optim.Optimizer) -> list[StepProjector]:
        """All projectors; during a backward pass, which still needs the other weights, only the optimizer's own."""
        if torch._C._current_graph_task_id() < 0:
            return self.projectors
        if not all(projector.by_layer for projector in self.projectors):
            raise InputError(
                "an optimizer stepped during the backward pass, and this guard projects all parameters together; step "
                "after backward(), or use GradientProjection or OWM, which work layer by layer"
            )
        own = {id(p) for group in optimizer.param_groups for p in group["params"]}
        return [projector for projector in self.projectors if any(id(p) in own for p in projector.parameters)]


def call_each(projectors: Iterable[StepProjector], what: str) -> None:
    """Call a method of every projector, without autocast."""
    if any(map(torch.is_autocast_enabled, AUTOCAST_DEVICES)):
        with full_precision():
            call_each(projectors, what)
    else:  # the hot path: a context manager would be noticeable for a small network
        for projector in projectors:
            getattr(projector, what)()
