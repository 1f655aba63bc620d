"""Check that the model, the stream and the settings of a training run fit each other, before anything changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from remanence.arrays import Array
from remanence.deep.guards.guard import Guard
from remanence.deep.guards.layer_guard import LayerGuard
from remanence.deep.nn.heads import MultiHead
from remanence.deep.nn.sharding.shards import check_whole
from remanence.deep.nn.wrappers import unwrap
from remanence.deep.training.config import TrainingConfig
from remanence.deep.training.epoch import trainable_parameters
from remanence.deep.training.network import TaskNetwork, count_outputs
from remanence.deep.training.targets import Loss, OutputLabels, check_heads, choose_loss, heads_by_task, single_head
from remanence.errors import InputError
from remanence.streams.task import Task


@dataclass(frozen=True)
class TrainingRun:
    """A model, the tasks, and how to train it on them."""

    model: nn.Module
    tasks: list[Task]
    config: TrainingConfig
    guard: Guard | None
    plan: Sequence[Sequence[int]]  # the tasks that are learned at each step
    name: str
    loss: str | Loss | None
    error: Any
    heads: str


def build_network(training: TrainingRun) -> tuple[TaskNetwork, str]:
    """Return the model with the meaning of its outputs, and the name of the loss, or raise InputError."""
    if not isinstance(training.model, nn.Module):
        raise InputError(f"expected a torch.nn.Module, got {type(training.model).__name__}")
    check_whole(training.model, "fit_stream")
    if training.heads not in ("single", "task"):
        raise InputError(f"expected heads to be 'single' or 'task', got {training.heads!r}")
    model, tasks, by_task = unwrap(training.model), training.tasks, training.heads == "task"
    loss, loss_name, counted = choose_loss(training.loss, tasks[0].Y)
    if isinstance(model, MultiHead):
        if not by_task:
            raise InputError("expected a model with one head for heads='single', got a MultiHead; try heads='task'")
        check_heads(model, tasks)
    if not trainable_parameters(model):
        raise InputError(
            "expected a model with parameters to train, got one without any, or with all frozen (requires_grad)"
        )
    outputs = count_outputs(training.model, tasks[0].X, counted)
    _check_grow(training, model, counted)
    labels: OutputLabels | None = None
    if counted:
        labels = (
            heads_by_task(tasks, outputs, model)
            if by_task
            else single_head(tasks, outputs, training.config.grow is not None)
        )
    else:
        _check_numbers(tasks[0].Y, outputs, model, by_task)
    _check_rows(training, model)
    return TaskNetwork(training.model, tasks, loss, labels, isinstance(model, MultiHead)), loss_name


def _check_grow(training: TrainingRun, model: nn.Module, counted: bool) -> None:
    name = training.config.grow
    if name is None:
        return
    named = dict(model.named_modules())
    if not isinstance(named.get(name), nn.Linear):
        linear = [n for n, m in named.items() if isinstance(m, nn.Linear)]
        raise InputError(f"expected grow to name a Linear layer, got {name!r}; there are {linear}")
    if not counted or training.heads != "single":
        raise InputError("grow adds outputs for new labels of a single head: expected labels and heads='single'")
    if training.guard is not None and not isinstance(training.guard, LayerGuard):
        raise InputError(
            f"{type(training.guard).__name__} cannot grow a layer; give the model all outputs at the start"
        )


def _check_numbers(Y: Array, outputs: int, model: nn.Module, by_task: bool) -> None:
    width = 1 if Y.ndim == 1 else Y.shape[1]
    if isinstance(model, MultiHead):
        wrong = set(model.widths) - {width}
        if wrong:
            raise InputError(f"expected heads of {width} outputs, as Y has, got some of {sorted(wrong)}")
    elif by_task:
        raise InputError(
            "expected a MultiHead for real targets with heads='task': rm.deep.MultiHead(trunk, features, …)"
        )
    elif outputs != width:
        raise InputError(f"expected a model of {width} outputs, as Y has, got {outputs}")


def _check_rows(training: TrainingRun, model: nn.Module) -> None:
    """Check that every step has training rows, validation rows if requested, and batches that batch norm accepts."""
    size, share = training.config.batch_size, training.config.validation
    normalised = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules())
    for step in filter(None, training.plan):
        rows = sum(len(training.tasks[i].X) for i in step)
        trained = training.config.trained_rows(rows)
        if not trained or (share and trained == rows):
            raise InputError(
                f"expected training and validation rows in every task, got {trained} and {rows - trained} "
                f"in task {training.tasks[step[0]].name!r}; change validation={share}"
            )
        if normalised and (size == 1 or trained % size == 1):
            raise InputError(
                f"{trained} rows in batches of {size} leave a batch of one row, which batch norm cannot normalize; "
                f"try batch_size={size + 1}"
            )
