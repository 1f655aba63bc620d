"""Base class of the guards: after each optimizer step, keep only the allowed part of the parameter change.

    θ ← projection of θ' after the step          (G1)   momentum, decay, scaling and line searches are part of θ' − θ

A guard is attached to the optimizers by hooks inside a `with` block and detached at its end, also after an exception;
the parameters are then projected once more, whatever the optimizer had done.
"""

import atexit
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
from remanence.deep.nn.sharding.shards import check_shards, check_whole, is_shard, is_sharded, reshard
from remanence.deep.nn.wrappers import wrapper_chain
from remanence.errors import InputError
from remanence.validation import check_count

FORMAT = 2  # of a guard's state_dict; 1 had no list of entries


class Guard(ABC):
    """Base class: train a model with any torch optimizer while its outputs on earlier inputs are protected.

    Use `GradientProjection`, `OWM`, `OGD`, `GEM` or `Constrained`.

    Parameters
    ----------
    model : torch.nn.Module
        The model to protect; `torch.compile` and data-parallel wrappers are looked through. Guards by layer take
        models that `fully_shard` has split over processes.

    Examples
    --------
    >>> import torch, remanence as rm
    >>> net = torch.nn.Linear(4, 2)
    >>> guard = rm.deep.GradientProjection(net)
    >>> isinstance(guard, rm.deep.Guard)
    True
    >>> guard.capacity()
    {'linear': 0.0}
    """

    linear = False  # (no linear model of rows: `rm.list_methods` says that of everything)
    takes_targets = False  # whether `absorb` needs batches of (inputs, targets)
    takes_shards = False  # whether the parameters may be split over processes
    sums_steps = True  # whether several steps may be projected together

    def __init__(self, model: nn.Module) -> None:
        if not isinstance(model, nn.Module):
            raise InputError(f"expected a torch.nn.Module, got {type(model).__name__}")
        chain = wrapper_chain(model)
        self.model = chain[-1]
        self._check_shards()
        self._distributed = any(isinstance(module, nn.parallel.DistributedDataParallel) for module in chain)
        self._free: tuple[str, ...]  # patterns of parameters that are not protected
        self._memory: Any  # an immutable value; every absorb replaces it
        self._checked_memory: Any = None  # the memory at the last search for averaged copies
        self._blocks: list[tuple[list[StepProjector], ExitStack, tuple[torch.optim.Optimizer, ...]]] = []
        self._steps: list[GuardedSteps] = []  # of the open blocks

    @contextmanager
    def protect(self, *optimizers: torch.optim.Optimizer, gradients: bool = False, every: int = 1) -> Iterator[None]:
        """Project every step of the optimizers inside this block.

        An optimizer may be used for several tasks. LBFGS is the exception: it stores curvature along directions that
        may since have become protected, so make a new one for each task, with line_search_fn="strong_wolfe".

        Every step of the given optimizers is projected, also steps during the backward pass. Changes made in between
        (by another optimizer, clamping after the step, the first half of a sharpness-aware step) are projected at the
        next guarded step or at the end of the block, which then warns. Frozen buffers are restored after every step. A
        parameter that does not require gradients and is written to anyway (a teacher, a codebook) is not restored, but
        named in a warning when the block ends.

        Not covered: tensors that are neither parameters nor buffers, and weights outside the model. An averaged copy
        (`AveragedModel` or similar) is protected only if it is created after `absorb` and updated inside the block;
        copies that include older weights, and `update_bn` on a copy, are not. A schedule-free optimizer writes other
        weights into the model in its eval(): call that inside the block. The guard warns about these cases where it can
        detect them.

        Parameters
        ----------
        *optimizers : torch.optim.Optimizer
            The optimizers that update the model's parameters; Accelerate's and Lightning's wrappers are looked through.
        gradients : bool
            Project the gradients before each step too. Optimizers such as Adam scale a step by the size of past
            gradients; where most of a gradient is protected, little of such a step is left in the free directions
            unless the gradients are projected first. What is protected is the same, and each step costs more.
        every : int
            Project every so many steps together, and what is left at the end of the block or before `absorb`. A small
            network with small batches spends half of its time on projections otherwise. In between, outputs on earlier
            inputs have moved by as much as these few steps moved them; so save weights after the block.
        """
        optimizers, every = tuple(map(unwrap_optimizer, optimizers)), check_count(every, "every")
        if every > 1 and not self.sums_steps:
            raise InputError(f"expected every=1 with {type(self).__name__}, which acts on every step, got {every}")
        self._check_shards()
        self._check_optimizers(optimizers)
        with ExitStack() as hooks:
            # a block that is still open at exit (of a trainer that raised) cannot be closed once torch is torn down
            atexit.register(hooks.close)
            hooks.callback(atexit.unregister, hooks.close)
            projectors = self._attach(hooks, optimizers)
            untrained = UntrainedParameters(self._untrained_parameters())
            # the eval() of a schedule-free optimizer changes the parameters, so changes are no cause for a warning
            steps = GuardedSteps(projectors, warns=not any(map(is_schedule_free, optimizers)), every=every)
            self._warn_at_start(optimizers)
            # a step that fails half-way (a closure that raises) changes parameters without a post-step hook
            hooks.callback(steps.close)
            self._blocks.append((projectors, hooks, optimizers))
            hooks.callback(self._blocks.pop)
            self._steps.append(steps)
            hooks.callback(self._steps.pop)
            for optimizer in optimizers:
                hooks.callback(optimizer.register_step_pre_hook(steps.before).remove)
                hooks.callback(optimizer.register_step_post_hook(steps.after).remove)
                if gradients or isinstance(optimizer, torch.optim.LBFGS):
                    project = _with_projected_gradients(projectors, gradients)
                    hooks.callback(optimizer.register_step_pre_hook(project).remove)
            yield
            reshard(self.model)
            steps.finish()
            untrained.finish()
            if self._memory.tasks:
                warn_about_train_mode(optimizers)

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The settings by name, as plain values."""

    @abstractmethod
    def absorb(self, batches: Iterable[Any], forward: Forward = call_model) -> Any:
        """Protect the outputs on the inputs of the task just learned, at the current weights.

        Parameters
        ----------
        batches : iterable
            Batches of inputs.
        forward : callable, optional
            How to call the model: forward(model, batch).

        Returns
        -------
        GuardReport or GradientReport
            What is protected now.
        """

    @abstractmethod
    def capacity(self) -> dict[str, float]:
        """Return the share of the space that is used, 0 to 1, by name; at 1 nothing more can be learned."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return the guard's memory as tensors and plain values."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a memory returned by `state_dict`; load the model's own weights separately."""

    @abstractmethod
    def _attach(self, hooks: ExitStack, optimizers: tuple[torch.optim.Optimizer, ...]) -> "list[StepProjector]":
        """Return the projectors to apply after each step; hooks that must be undone go on the stack."""

    @abstractmethod
    def _can_learn(self, parameters: set[int]) -> bool:
        """Return whether any of the parameters with these ids can still change."""

    def _check_shards(self) -> None:
        """Raise InputError if the parameters are split over processes in a way that this guard cannot use."""
        if self.takes_shards:
            reshard(self.model)
            check_shards(self.model)
        else:
            check_whole(self.model, type(self).__name__)

    def _untrained_parameters(self) -> dict[str, nn.Parameter]:
        """Parameters that are neither frozen nor free; none before the first absorb."""
        named = self.model.named_parameters() if self._memory.tasks else ()
        return {n: p for n, p in named if n not in self._memory.frozen and not matches(n, self._free)}

    def _warn_at_start(self, optimizers: tuple[torch.optim.Optimizer, ...]) -> None:
        """Warn about conditions that defeat the protection and can be detected when the block begins."""
        if not self._memory.tasks:
            return
        warn_about_hidden_modes(optimizers)
        if self._checked_memory is not self._memory:
            self._checked_memory = self._memory
            warn_about_averages(self.model)
        if not self._can_learn(_ids(optimizers)):
            warnings.warn(
                "none of the optimizers' parameters can change: every direction is protected or frozen, so this block "
                "will learn nothing; make the model wider, absorb fewer inputs, or protect less (energy below 1, a "
                "larger damping, a smaller rank)",
                UserWarning,
                stacklevel=4,
            )

    def _project_pending(self) -> None:
        """Project steps that open blocks have left for later; call this before outputs are to be protected."""
        for steps in self._steps:
            steps.project_pending()

    def _reattach(self) -> None:
        """Rebuild the projectors of open blocks; call this whenever the memory has changed."""
        for projectors, hooks, optimizers in self._blocks:
            projectors[:] = self._attach(hooks, optimizers)

    def _check_optimizers(self, optimizers: tuple[torch.optim.Optimizer, ...]) -> None:
        if not optimizers or not all(isinstance(o, torch.optim.Optimizer) for o in optimizers):
            names = [type(o).__name__ for o in optimizers]
            raise InputError(
                f"expected one or more torch.optim optimizers to guard, got {names}; if a trainer wraps the optimizer, "
                "pass the inner one"
            )
        guarded = _ids(optimizers)
        self._check_sharded_optimizers(optimizers)
        if not any(id(p) in guarded for p in self.model.parameters()):
            raise InputError(
                "expected an optimizer of the guarded model's parameters, got one that has none of them; was it "
                "created for another model, or before a layer was replaced? Create a new one from model.parameters()"
            )
        self._check_replaced(guarded, optimizers)

    def _check_sharded_optimizers(self, optimizers: tuple[torch.optim.Optimizer, ...]) -> None:
        """Raise InputError for optimizers that cannot train a model that is sharded over processes."""
        if not is_sharded(self.model):
            return
        if any(isinstance(o, torch.optim.LBFGS) for o in optimizers):
            raise InputError(
                "expected an optimizer that takes parameters sharded over processes, got LBFGS, which joins them to "
                "one vector; use another one, or train with DistributedDataParallel instead"
            )
        given = [p for o in optimizers for group in o.param_groups for p in group["params"]]
        whole, guarded = {p.shape for p in given if not is_shard(p)}, _ids(optimizers)
        if any(is_shard(p) and id(p) not in guarded and p.shape in whole for p in self.model.parameters()):
            raise InputError(
                "expected an optimizer of the sharded parameters, got one of whole ones, which are those from before "
                "fully_shard, or what a module keeps after a forward pass; create it right after fully_shard, or call "
                "reshard() of the model first"
            )

    def _check_replaced(self, guarded: set[int], optimizers: tuple[torch.optim.Optimizer, ...]) -> None:
        """Raise InputError if an optimizer has a weight of a layer that was replaced, and not its new one."""
        named = dict(self.model.named_parameters())
        mine = {id(p) for p in named.values()}
        given = [p for o in optimizers for group in o.param_groups for p in group["params"]]
        replaced = {tuple(p.shape[1:]) for p in given if p.dim() > 1 and id(p) not in mine}
        missing = [n for n, p in named.items() if p.requires_grad and p.dim() > 1 and id(p) not in guarded]
        for name in missing:
            if tuple(named[name].shape[1:]) in replaced:
                raise InputError(
                    f"expected an optimizer of the model's current parameters, but {name} is not among its parameters, "
                    "and a weight like it that the model no longer has is; was a layer replaced or grown after the "
                    "optimizer was created? Create a new one from model.parameters()"
                )


def unwrap_optimizer(optimizer: Any) -> Any:
    """Return the torch optimizer inside the wrappers of Accelerate and Lightning."""
    while isinstance(inner := getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = inner
    return optimizer


def _ids(optimizers: Iterable[torch.optim.Optimizer]) -> set[int]:
    return {id(p) for o in optimizers for group in o.param_groups for p in group["params"]}


def _with_projected_gradients(projectors: list[StepProjector], always: bool) -> Callable[..., Any]:
    """Return a pre-step hook that projects the gradients the optimizer sees: those of its closure, or those at hand.

    LBFGS estimates curvature along its own path, so it must see only gradients along which it can move. (The step
    itself is projected afterwards, which is what protects; this only lets LBFGS make progress.)
    """

    def project() -> None:
        with torch.no_grad():
            call_each(projectors, "project_gradient")

    def pre_hook(_: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if closure is None:
            if always:
                project()
            return None  # without a closure LBFGS raises its own error

        def projected_closure() -> Any:
            loss = closure()
            project()
            return loss

        if len(args) > 1:
            return (args[0], projected_closure, *args[2:]), kwargs
        return args, {**kwargs, "closure": projected_closure}

    return pre_hook


class SavedState(dict[str, Any]):
    """The state_dict of a guard; a missing entry raises InputError."""

    def __missing__(self, name: str) -> Any:
        raise InputError(f"expected {name!r} in the saved state of a guard, got it without; is it damaged?")


def saved_state(guard: str, parts: dict[str, Any]) -> dict[str, Any]:
    """Return the state_dict of a guard with these parts; it lists its entries, so that a missing one is noticed."""
    return {"guard": guard, "format": FORMAT, "entries": list(_entries(parts)), **parts}


def check_saved(state: Any, guard: str) -> dict[str, Any]:
    """Return the saved state of a guard of this class, or raise InputError."""
    if not isinstance(state, dict) or state.get("guard") != guard or state.get("format") not in (1, FORMAT):
        found = state.get("guard") if isinstance(state, dict) else type(state).__name__
        raise InputError(f"expected the state_dict of a {guard} (format 1 to {FORMAT}), got one of {found!r}")
    return SavedState(state)


def check_complete(state: dict[str, Any]) -> None:
    """Raise InputError if a saved state lacks an entry it had when it was made; format 1 does not list them."""
    if state["format"] == 1:
        return
    present, listed = set(_entries(state)), state["entries"]
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise InputError("expected a list of names as entries of the saved state of a guard, got a damaged state")
    missing = [name for name in listed if name not in present]
    if missing:
        raise InputError(f"expected the entry {missing[0]!r} in the saved state of a guard, got a damaged state")


def _entries(parts: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the names of all entries of nested dicts, such as layers/0/basis."""
    for name, value in parts.items():
        yield f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _entries(value, f"{prefix}{name}/")
