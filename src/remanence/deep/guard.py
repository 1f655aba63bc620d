"""What every guard shares: after the optimizer's own step, keep the allowed part of the parameter change.

    θ ← θ' projected last          (G1)   momentum, decay, scaling and line searches are inside θ' − θ and cannot leak

A guard is attached by one hook after the step, for the time of a `with` block, and is gone afterwards, also after an
exception; the parameters are then put right once more, whatever the optimizer had done.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import MethodType
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from remanence.deep.cover import wrappings
from remanence.errors import InputError

Forward = Callable[[nn.Module, Any], Any]
DEVICES = ("cpu", "cuda", "mps", "xpu")


def call_model(model: nn.Module, batch: Any) -> Any:
    """A tensor is the input, a tuple or list the positional inputs, a dict the named ones."""
    if isinstance(batch, Tensor):
        return model(batch)
    if isinstance(batch, dict):
        return model(**batch)
    if isinstance(batch, tuple | list):
        return model(*batch)
    raise InputError(
        f"expected batches of tensors, tuples or dicts of inputs, got {type(batch).__name__}; "
        "for anything else pass forward=lambda model, batch: …"
    )


class Keeper(Protocol):
    """Something that keeps the allowed part of some parameters' change."""

    def keep(self) -> None:
        """Take back the forbidden part of the change since the last call (G1)."""

    def lean(self) -> None:
        """Take the forbidden part out of the gradients."""

    def settle(self) -> None:
        """Once more, at the end, as exactly as the parameters allow."""


class Guard(ABC):
    """Lets a model go on learning with any torch optimizer while what it answered before stays."""

    def __init__(self, model: nn.Module) -> None:
        if not isinstance(model, nn.Module):
            raise InputError(f"expected a torch.nn.Module, got {type(model).__name__}")
        layers = wrappings(model)
        self.model = layers[-1]
        self._distributed = any(isinstance(layer, nn.parallel.DistributedDataParallel) for layer in layers)
        self._blocks: list[tuple[list[Keeper], ExitStack, tuple[torch.optim.Optimizer, ...]]] = []

    @contextmanager
    def protect(self, *optimizers: torch.optim.Optimizer) -> Iterator[None]:
        """Inside this block every step of the optimizers keeps the old answers.

        An optimizer may go on from task to task. LBFGS is the exception: the curvature it remembers was found in
        directions that may since be closed, so give it a new one a task, with line_search_fn="strong_wolfe".
        """
        self._check_optimizers(optimizers)
        with ExitStack() as hooks:
            keepers = self._attach(hooks, optimizers)
            # a step that dies half-way (a closure that raises) has moved parameters that no hook saw: put them right
            hooks.callback(_each, keepers, "settle")
            self._blocks.append((keepers, hooks, optimizers))
            hooks.callback(self._blocks.pop)
            for optimizer in optimizers:
                hooks.callback(optimizer.register_step_post_hook(lambda *_: _each(keepers, "keep")).remove)
                if isinstance(optimizer, torch.optim.LBFGS):
                    hooks.callback(optimizer.register_step_pre_hook(_leaning(keepers)).remove)
            yield

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
    def _attach(self, hooks: ExitStack, optimizers: tuple[torch.optim.Optimizer, ...]) -> "list[Keeper]":
        """What puts parameters right after each step; hooks to undo go on the stack."""

    def _renew(self) -> None:
        """Call this when the memory has changed: a block that is open protects what is in it from now on."""
        for keepers, hooks, optimizers in self._blocks:
            keepers[:] = self._attach(hooks, optimizers)

    def _check_optimizers(self, optimizers: tuple[torch.optim.Optimizer, ...]) -> None:
        if not optimizers or not all(isinstance(o, torch.optim.Optimizer) for o in optimizers):
            kinds = [type(o).__name__ for o in optimizers]
            raise InputError(
                f"expected one or more torch.optim optimizers to guard, got {kinds}; where a trainer wraps it, hand "
                "over the optimizer inside"
            )
        theirs = {id(p) for o in optimizers for group in o.param_groups for p in group["params"]}
        if not any(id(p) in theirs for p in self.model.parameters()):
            raise InputError(
                "expected an optimizer of the guarded model's parameters, got one that holds none of them; was it made "
                "for another model, or before a layer was replaced? Make it anew from model.parameters()"
            )


def _each(keepers: Iterable[Keeper], what: str) -> None:
    if any(map(torch.is_autocast_enabled, DEVICES)):
        with full_precision():
            _each(keepers, what)
    else:  # the hot path: between two steps of a small network a context manager is felt
        for keeper in keepers:
            getattr(keeper, what)()


@contextmanager
def full_precision() -> Iterator[None]:
    """No autocast: what is held would be rounded to it."""
    with ExitStack() as off:
        for kind in filter(torch.is_autocast_enabled, DEVICES):
            off.enter_context(torch.autocast(kind, enabled=False))
        yield


def _leaning(keepers: list[Keeper]) -> Callable[..., Any]:
    """LBFGS learns the curvature along its own path: it must see only gradients along which it will really move.

    (The step is still projected afterwards, and that alone is what protects; this is what lets LBFGS go downhill.)
    """

    def lean(_: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if closure is None:
            return None  # the optimizer itself says what is missing

        def leaning() -> Any:
            loss = closure()
            _each(keepers, "lean")
            return loss

        if len(args) > 1:
            return (args[0], leaning), kwargs
        return args, {**kwargs, "closure": leaning}

    return lean


@contextmanager
def answering(model: nn.Module) -> Iterator[None]:
    """The model as it answers: eval mode, no gradients, its own precision; every module's own mode comes back.

    Hooks must see every call, so compiled parts run as they are written and transformers take no short cut.
    """
    modes = {module: module.training for module in model.modules()}
    short_cuts = torch.backends.mha.get_fastpath_enabled()
    try:
        for module in modes:  # not model.eval(): a module may do more than that there
            module.training = False
        torch.backends.mha.set_fastpath_enabled(False)
        with torch.no_grad(), full_precision(), _uncompiled():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(short_cuts)
        for module, mode in modes.items():
            module.training = mode


def _uncompiled() -> AbstractContextManager[Any]:
    """Compiled parts run as they are written; without the compiler, seconds to import, there are none."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


def steadied(norms: Iterable[nn.Module], hooks: ExitStack) -> None:
    """Norms answer with their running statistics until the stack is left, whatever train() and eval() are called.

    Then each gets the mode that was asked of it last. (A hook would not be seen by a model compiled before.)
    """
    asked = {norm: norm.training for norm in norms}

    def train(norm: nn.Module, mode: bool = True) -> nn.Module:
        asked[norm] = mode
        return norm

    def leave(norm: nn.Module) -> None:
        del vars(norm)["train"]
        norm.training = asked[norm]

    for norm in asked:
        if "train" in vars(norm):  # held by a block around this one
            continue
        norm.training = False
        vars(norm)["train"] = MethodType(train, norm)
        hooks.callback(leave, norm)


def check_saved(state: Any, kind: str) -> dict[str, Any]:
    """A saved guard of this kind and format, or a clear refusal."""
    if not isinstance(state, dict) or state.get("guard") != kind or state.get("format") != 1:
        found = state.get("guard") if isinstance(state, dict) else type(state).__name__
        raise InputError(f"expected the state_dict of a {kind} (format 1), got one of {found!r}")
    return state
