"""Samples kept of every task, with the loss that is allowed on them, and their conversion to a state that is saved."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from remanence.deep.guards.checks.batches import Forward, call_explained, call_model, check_batches, first_line
from remanence.deep.nn.eval_mode import eval_mode
from remanence.errors import InputError

LossFunction = Callable[[Any, Tensor], Tensor]  # outputs, targets → a scalar, the mean over the rows


@dataclass(frozen=True)
class ReplayedTask:
    """Samples of one task."""

    inputs: Any  # tensors (n, …), alone or in tuples and dicts
    targets: Tensor  # (n, …)
    bound: float  # the largest loss allowed
    forward: Forward = call_model  # (not saved)


@dataclass(frozen=True)
class ReplayMemory:
    """What a guard with a replay memory remembers of the tasks so far."""

    entries: tuple[ReplayedTask, ...] = ()
    frozen: dict[str, Tensor] = field(default_factory=dict)  # none; guards of other kinds freeze parameters

    @property
    def tasks(self) -> int:
        return len(self.entries)


def default_loss(outputs: Any, targets: Tensor) -> Tensor:
    """Cross-entropy for integer labels (n,), the mean of ‖y − f‖² for targets of the outputs' shape."""
    if not isinstance(outputs, Tensor):
        raise InputError(f"expected the model to return a tensor, got {type(outputs).__name__}; pass loss=")
    if not targets.is_floating_point() and targets.dtype != torch.bool and targets.shape == outputs.shape[:1]:
        return nn.functional.cross_entropy(outputs, targets.long())
    if targets.is_floating_point() and targets.shape == outputs.shape:
        return (outputs - targets.to(outputs.dtype)).square().flatten(1).sum(1).mean()
    raise InputError(
        f"expected integer labels (n,) or targets of the shape of the outputs, {tuple(outputs.shape)}, got "
        f"{tuple(targets.shape)} of {targets.dtype}; pass loss= for another loss"
    )


def pick_rows(batches: Iterable[Any], count: int, seed: int) -> tuple[Any, Tensor]:
    """Inputs and targets of `count` rows that were drawn at random from all batches, or of all if there are fewer."""
    generator = torch.Generator().manual_seed(seed)
    kept: tuple[Any, Tensor, Tensor] | None = None
    for batch in check_batches(batches):
        inputs, targets = _pair(batch)
        keys = torch.rand(len(targets), generator=generator)
        if kept is not None:
            try:
                inputs = tree_map(lambda a, b: torch.cat([a, b]), kept[0], inputs)
                targets, keys = torch.cat([kept[1], targets]), torch.cat([kept[2], keys])
            except (IndexError, RuntimeError, TypeError, ValueError) as error:
                raise InputError(
                    f"expected batches that differ in their rows alone, got another kind after the first: "
                    f"{first_line(error)}; pad or crop samples to one shape"
                ) from error
        if len(keys) > count:
            places = keys.topk(count, largest=False).indices.sort().values
            inputs = tree_map(lambda t, p=places: t[p], inputs)
            targets, keys = targets[places], keys[places]
        kept = inputs, targets, keys
    if kept is None or not len(kept[1]):
        raise InputError("expected at least one batch of samples to absorb, got none; was a generator used up?")
    return kept[0], kept[1]


def _pair(batch: Any) -> tuple[Any, Tensor]:
    """Copies of the inputs and targets of a batch."""
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise InputError(
            f"expected batches of (inputs, targets), as a DataLoader gives them, got {type(batch).__name__}; this "
            "guard keeps samples with their targets"
        )
    inputs, given = batch
    try:
        targets = torch.as_tensor(given).detach().cpu().clone()
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"expected targets as a tensor or an array, got {type(given).__name__}") from None
    leaves = tree_leaves(inputs)
    if not leaves or any(not isinstance(t, Tensor) or not t.dim() or len(t) != len(targets) for t in leaves):
        raise InputError(f"expected tensors of inputs with one row for each of the {len(targets)} targets")
    for values in (*leaves, targets):
        if values.is_floating_point() and not torch.isfinite(values).all():
            raise InputError("a batch contains NaN or infinity; drop or impute those samples before absorbing")
    return tree_map(lambda t: t.detach().cpu().clone(), inputs), targets


def evaluate_task(
    model: nn.Module, task: ReplayedTask, loss: LossFunction, parameters: list[nn.Parameter]
) -> tuple[float, list[Tensor]]:
    """The loss on the samples of a task, in eval mode, and its gradients by the parameters (none if there are none)."""
    device = next(model.parameters()).device
    inputs = tree_map(lambda t: t.to(device), task.inputs)
    with eval_mode(model), torch.set_grad_enabled(bool(parameters)):
        outputs = call_explained(model, inputs, task.forward)
        try:
            value = loss(outputs, task.targets.to(device))
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"expected targets that the loss takes, but it raised: {first_line(error)}") from error
        if not isinstance(value, Tensor) or value.dim():
            raise InputError(f"expected loss to return one number for a batch, got {_shape(value)}")
        grads = torch.autograd.grad(value, parameters, materialize_grads=True) if parameters else ()
    if not torch.isfinite(value):
        raise InputError("the loss on the samples of a task is not finite; check the weights (nothing was changed)")
    return float(value.detach()), list(grads)


def _shape(value: Any) -> str:
    return f"a tensor {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


def memory_to_state(memory: ReplayMemory) -> dict[str, Any]:
    """Return the memory as tensors and plain values."""
    tasks = [{"inputs": e.inputs, "targets": e.targets.clone(), "bound": e.bound} for e in memory.entries]
    return {"tasks": tasks}


def memory_from_state(state: dict[str, Any]) -> ReplayMemory:
    """Return the memory that `memory_to_state` converted."""
    entries = []
    for task in state["tasks"]:
        good = isinstance(task, dict) and {"inputs", "targets", "bound"} <= task.keys()
        if not good or not isinstance(task["targets"], Tensor) or not isinstance(task["bound"], float):
            raise InputError("expected inputs, targets and a bound for every task, got a damaged state")
        entries.append(ReplayedTask(*_pair((task["inputs"], task["targets"])), task["bound"]))
    return ReplayMemory(tuple(entries))
