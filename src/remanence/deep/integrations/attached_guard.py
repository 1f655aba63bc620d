"""A guard that is attached to a trainer's optimizers between two callbacks, and absorbs when training ends.

train begins:   guard.protect(optimizers) is entered        (also when a run is resumed, with the guard's saved memory)
train ends:     the block is left, then the batches are absorbed
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from remanence.deep.guards.guard import Guard
from remanence.deep.nn.wrappers import unwrap
from remanence.errors import InputError

LABELS = ("labels", "label", "label_ids")

Batches = Iterable[Any]
Source = Batches | Callable[[], Batches] | None  # batches to absorb, or a function that returns them


class AttachedGuard:
    """What the callbacks of all trainers share."""

    def __init__(self, guard: Guard, absorb: Source, forward: Callable[..., Any] | None) -> None:
        if not isinstance(guard, Guard):
            raise InputError(f"expected a guard such as rm.deep.GradientProjection(model), got {type(guard).__name__}")
        self.guard, self.source = guard, absorb
        self.forward = inputs_only if forward is None else forward
        self.block = ExitStack()

    def begin(self, model: nn.Module, optimizers: Iterable[Any]) -> None:
        """Attach the guard to the optimizers of a model that contains the guarded one."""
        self.abandon(RuntimeError("the run before was interrupted"))
        if not any(self.guard.model is module for module in unwrap(model).modules()):
            raise InputError(
                "expected a guard of the model that is trained, got one of another model; create the guard from the "
                "model that is given to the trainer (not from a copy, and not through model_init)"
            )
        self.guard._distributed = self.guard._distributed or _several_processes()
        self.block = ExitStack()
        self.block.enter_context(self.guard.protect(*optimizers))

    def abandon(self, error: BaseException) -> None:
        """Detach the guard after an exception, which may be one of this process alone."""
        block, self.block = self.block, ExitStack()
        block.__exit__(type(error), error, error.__traceback__)

    def end(self) -> None:
        """Detach the guard, and absorb the given batches."""
        self.block.close()
        batches = self.source() if callable(self.source) else self.source
        if batches is not None:
            self.absorb(batches)

    def absorb(self, batches: Batches) -> Any:
        """Absorb batches as the trainer's loaders return them, with labels and on any device."""
        return self.guard.absorb(batches, forward=self.forward)


def inputs_only(model: nn.Module, batch: Any) -> Any:
    """Call a model on a batch on the model's device, without its labels; a tuple's last element is the labels."""
    device = next(model.parameters()).device
    batch = dict(batch) if isinstance(batch, Mapping) else batch  # tree_map does not look into a BatchEncoding
    batch = tree_map(lambda t: t.to(device) if isinstance(t, Tensor) else t, batch)
    if isinstance(batch, Mapping):
        decodes = bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))
        needed = decodes and "decoder_input_ids" not in batch  # the labels are the decoder's inputs
        return model(**{name: value for name, value in batch.items() if needed or name not in LABELS})
    if isinstance(batch, tuple | list):
        return model(*(batch[:-1] if len(batch) > 1 else batch))
    return model(batch)


def _several_processes() -> bool:
    return bool(
        torch.distributed.is_available()
        and torch.distributed.is_initialized()
        and torch.distributed.get_world_size() > 1
    )
