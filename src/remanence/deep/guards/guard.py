"""What every guard shares: after the optimizer's own step, keep the allowed part of the parameter change.

    θ ← θ' projected last          (G1)   momentum, decay, scaling and line searches are inside θ' − θ and cannot leak

A guard is attached by hooks around the step, for the time of a `with` block, and is gone afterwards, also after an
exception; the parameters are then put right once more, whatever the optimizer had done.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from remanence.deep.guards.checks.batches import Forward, call_model
from remanence.deep.guards.checks.second_weights import (
    UntrainedParameters,
    is_schedule_free,
    warn_about_averages,
    warn_about_hidden_modes,
    warn_about_train_mode,
)
from remanence.deep.guards.parameter_roles import matches
from remanence.deep.guards.projection.guarded_steps import GuardedSteps, StepProjector, call_each
from remanence.deep.nn.wrappers import wrapper_chain
from remanence.errors import InputError


class Guard(ABC):
    """Lets a model go on learning with any torch optimizer while what it answered before stays."""

    def __init__(self, model: nn.Module) -> None:
        if not isinstance(model, nn.Module):
            raise InputError(f"expected a torch.nn.Module, got {type(model).__name__}")
        layers = wrapper_chain(model)
        self.model = layers[-1]
        self._distributed = any(isinstance(layer, nn.parallel.DistributedDataParallel) for layer in layers)
        self._free: tuple[str, ...]  # patterns of parameters that are not protected
        self._memory: Any  # a frozen value with the number of its tasks; every absorb makes another
        self._checked_memory: Any = None  # the memory that averaged copies were last looked for with
        self._blocks: list[tuple[list[StepProjector], ExitStack, tuple[torch.optim.Optimizer, ...]]] = []

    @contextmanager
    def protect(self, *optimizers: torch.optim.Optimizer) -> Iterator[None]:
        """Inside this block every step of the optimizers keeps the old answers.

        An optimizer may go on from task to task. LBFGS is the exception: the curvature it remembers was found in
        directions that may since be closed, so give it a new one a task, with line_search_fn="strong_wolfe".

        What the guard sees: every step of the optimizers handed over, whatever made it, also where they step during
        the backward pass. What moves parameters in between (a second optimizer, clamping after the step, the first
        half of a sharpness-aware step) is put right by the next guarded step or at the end of the block, which warns
        if it was so. Held buffers are put back after every step. A parameter that asks for no gradient and is written
        to all the same (a teacher, a codebook) is not put right, but named when the block ends.

        What it cannot see: tensors that are neither parameters nor buffers, and weights that are not in the model. An
        averaged copy (`AveragedModel`, or any other) answers as it likes: begin it after `absorb` and update it inside
        the block only, then it holds as well; a copy with older weights, and `update_bn` on a copy, move. A
        schedule-free optimizer puts other weights into the model by its eval(): call that inside the block. Where the
        guard notices one of these it warns.
        """
        self._check_optimizers(optimizers)
        with ExitStack() as hooks:
            projectors = self._attach(hooks, optimizers)
            others = UntrainedParameters(self._untrained_parameters())
            steps = GuardedSteps(projectors, warns=not any(map(is_schedule_free, optimizers)))  # to switch is to move
            self._warn_at_start(optimizers)
            # a step that dies half-way (a closure that raises) has moved parameters that no hook saw: put them right
            hooks.callback(call_each, projectors, "finalize")
            self._blocks.append((projectors, hooks, optimizers))
            hooks.callback(self._blocks.pop)
            for optimizer in optimizers:
                hooks.callback(optimizer.register_step_pre_hook(steps.before).remove)
                hooks.callback(optimizer.register_step_post_hook(steps.after).remove)
                if isinstance(optimizer, torch.optim.LBFGS):
                    hooks.callback(optimizer.register_step_pre_hook(_with_projected_gradients(projectors)).remove)
            yield
            steps.finish()
            others.finish()
            if self._memory.tasks:
                warn_about_train_mode(optimizers)

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The settings by name, as plain values."""

    @abstractmethod
    def absorb(self, batches: Iterable[Any], forward: Forward = call_model) -> Any:
        """Learn what must not move from now on: the inputs of the task just learned, at the weights of now."""

    @abstractmethod
    def capacity(self) -> dict[str, float]:
        """How much of the space is used, 0 to 1; a full one cannot learn any more."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Everything the guard remembers, as tensors and plain values."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly where `state_dict` was taken; the model's own weights are loaded by the user."""

    @abstractmethod
    def _attach(self, hooks: ExitStack, optimizers: tuple[torch.optim.Optimizer, ...]) -> "list[StepProjector]":
        """What puts parameters right after each step; hooks to undo go on the stack."""

    @abstractmethod
    def _can_learn(self, theirs: set[int]) -> bool:
        """Whether any of the parameters with these ids can still move."""

    def _untrained_parameters(self) -> dict[str, nn.Parameter]:
        """Parameters that are neither held nor free; nothing is held before the first absorb."""
        named = self.model.named_parameters() if self._memory.tasks else ()
        return {n: p for n, p in named if n not in self._memory.frozen and not matches(n, self._free)}

    def _warn_at_start(self, optimizers: tuple[torch.optim.Optimizer, ...]) -> None:
        """Warn of what defeats a block, where it can be noticed when the block begins."""
        if not self._memory.tasks:
            return
        warn_about_hidden_modes(optimizers)
        if self._checked_memory is not self._memory:
            self._checked_memory = self._memory
            warn_about_averages(self.model)
        if not self._can_learn(_ids(optimizers)):
            warnings.warn(
                "nothing that the optimizers hold can move: every direction is protected, held or frozen, so this "
                "block will learn nothing; make the model wider, absorb fewer inputs, or protect less (energy below 1, "
                "a larger damping, a smaller rank)",
                UserWarning,
                stacklevel=4,
            )

    def _reattach(self) -> None:
        """Call this when the memory has changed: a block that is open protects what is in it from now on."""
        for projectors, hooks, optimizers in self._blocks:
            projectors[:] = self._attach(hooks, optimizers)

    def _check_optimizers(self, optimizers: tuple[torch.optim.Optimizer, ...]) -> None:
        if not optimizers or not all(isinstance(o, torch.optim.Optimizer) for o in optimizers):
            kinds = [type(o).__name__ for o in optimizers]
            raise InputError(
                f"expected one or more torch.optim optimizers to guard, got {kinds}; where a trainer wraps it, hand "
                "over the optimizer inside"
            )
        theirs = _ids(optimizers)
        if not any(id(p) in theirs for p in self.model.parameters()):
            raise InputError(
                "expected an optimizer of the guarded model's parameters, got one that holds none of them; was it made "
                "for another model, or before a layer was replaced? Make it anew from model.parameters()"
            )


def _ids(optimizers: Iterable[torch.optim.Optimizer]) -> set[int]:
    return {id(p) for o in optimizers for group in o.param_groups for p in group["params"]}


def _with_projected_gradients(projectors: list[StepProjector]) -> Callable[..., Any]:
    """LBFGS learns the curvature along its own path: it must see only gradients along which it will really move.

    (The step is still projected afterwards, and that alone is what protects; this is what lets LBFGS go downhill.)
    """

    def pre_hook(_: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if closure is None:
            return None  # the optimizer itself says what is missing

        def projected_closure() -> Any:
            loss = closure()
            call_each(projectors, "project_gradient")
            return loss

        if len(args) > 1:
            return (args[0], projected_closure), kwargs
        return args, {**kwargs, "closure": projected_closure}

    return pre_hook


def check_saved(state: Any, kind: str) -> dict[str, Any]:
    """A saved guard of this kind and format, or a clear refusal."""
    if not isinstance(state, dict) or state.get("guard") != kind or state.get("format") != 1:
        found = state.get("guard") if isinstance(state, dict) else type(state).__name__
        raise InputError(f"expected the state_dict of a {kind} (format 1), got one of {found!r}")
    return state
