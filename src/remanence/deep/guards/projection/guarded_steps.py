"""The steps of one block: each keeps its allowed part, and what moved parameters in between is noticed.

A step of another optimizer, a clamp after the step or weights that were loaded move what is protected without any
hook of ours. The next guarded step, or the end of the block, puts it right; until then old answers had moved, and the
end of the block warns so. Whether a tensor was written to is told by its version counter, which costs nothing; only
then is looked at what it is.
"""

import warnings
from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import Tensor

from remanence.deep.nn.eval_mode import AUTOCAST_DEVICES, full_precision
from remanence.errors import InputError


class StepProjector(Protocol):
    """Something that keeps the allowed part of some parameters' change."""

    name: str
    by_layer: bool  # False: all parameters must have their gradients before any is put right

    @property
    def parameters(self) -> Iterable[Tensor]:
        """What is put right."""

    def project_step(self) -> None:
        """Take back the forbidden part of the change since the last call (G1)."""

    def project_gradient(self) -> None:
        """Take the forbidden part out of the gradients."""

    def finalize(self) -> None:
        """Once more, at the end, as exactly as the parameters allow."""

    def moved(self) -> bool:
        """Whether what is held is not what it was, by more than rounding."""


class GuardedSteps:
    """Called before and after each step of the optimizers of a block."""

    def __init__(self, projectors: list[StepProjector], warns: bool) -> None:
        self.projectors, self.warns = projectors, warns
        self.begun = False
        self.names: dict[str, None] = {}
        self.version = self._version()

    def _version(self) -> int:
        return sum(p._version for projector in self.projectors for p in projector.parameters)

    def before(self, *_: Any) -> None:
        """Look at what was written to since the last guarded step."""
        if not torch.compiler.is_compiling() and self._version() != self.version:
            self._check_moved()

    def after(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Keep the allowed part of what the parameters did."""
        if torch.compiler.is_compiling():
            call_each(self.projectors, "project_step")
            return
        call_each(self._projectable(optimizer), "project_step")
        self.version, self.begun = self._version(), True

    def finish(self) -> None:
        """Look once more when the block ends, and say what was found."""
        if self.begun or self._version() != self.version:  # else what differs was said when the block began
            self._check_moved()
        if self.names and self.warns:
            warnings.warn(
                f"{', '.join(self.names)} moved inside protect() other than by a step of the optimizers it was given: "
                "by another optimizer, by clamping after the step, or by loaded weights, say. Old answers had moved "
                "until the next guarded step; they are put right. Hand over every optimizer, as protect(first, second)",
                UserWarning,
                stacklevel=4,
            )

    def _check_moved(self) -> None:
        with full_precision():
            self.names |= dict.fromkeys(projector.name for projector in self.projectors if projector.moved())

    def _projectable(self, optimizer: torch.optim.Optimizer) -> list[StepProjector]:
        """All of them, but during a backward pass, which still needs the others' weights, the optimizer's own."""
        if torch._C._current_graph_task_id() < 0:
            return self.projectors
        if not all(projector.by_layer for projector in self.projectors):
            raise InputError(
                "an optimizer stepped during the backward pass, and this guard works on all parameters together; step "
                "after backward(), or use GradientProjection or OWM, which work layer by layer"
            )
        own = {id(p) for group in optimizer.param_groups for p in group["params"]}
        return [projector for projector in self.projectors if any(id(p) in own for p in projector.parameters)]


def call_each(projectors: Iterable[StepProjector], what: str) -> None:
    """Call a method of every projector, in the parameters' own precision."""
    if any(map(torch.is_autocast_enabled, AUTOCAST_DEVICES)):
        with full_precision():
            call_each(projectors, what)
    else:  # the hot path: between two steps of a small network a context manager is felt
        for projector in projectors:
            getattr(projector, what)()
