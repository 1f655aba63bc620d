"""The door of a training run: the model, the stream and the settings must fit each other before anything moves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from remanence.arrays import Array
from remanence.deep.guards.guard import Guard
from remanence.deep.guards.layer_guard import LayerGuard
from remanence.deep.guards.parameter_roles import unwrapped
from remanence.deep.nn.heads import MultiHead
from remanence.deep.training.config import Recipe
from remanence.deep.training.epoch import trainable
from remanence.deep.training.network import Network, width_of
from remanence.deep.training.targets import Labels, Loss, check_heads, choose_loss, heads_by_task, single_head
from remanence.errors import InputError
from remanence.streams.task import Task


@dataclass(frozen=True)
class Run:
    """A model, the tasks, and how it is to be trained on them."""

    model: nn.Module
    tasks: list[Task]
    recipe: Recipe
    guard: Guard | None
    plan: Sequence[Sequence[int]]  # the tasks whose rows come at each step
    name: str
    loss: str | Loss | None
    error: Any
    heads: str


def network_of(this: Run) -> tuple[Network, str]:
    """The model with the meaning of its outputs, or a refusal."""
    if not isinstance(this.model, nn.Module):
        raise InputError(f"expected a torch.nn.Module, got {type(this.model).__name__}")
    if this.heads not in ("single", "task"):
        raise InputError(f"expected heads to be 'single' or 'task', got {this.heads!r}")
    model, tasks, by_task = unwrapped(this.model), this.tasks, this.heads == "task"
    loss, loss_name, counted = choose_loss(this.loss, tasks[0].Y)
    if isinstance(model, MultiHead):
        if not by_task:
            raise InputError("expected a model with one head for heads='single', got a MultiHead; try heads='task'")
        check_heads(model, tasks)
    if not trainable(model):
        raise InputError(
            "expected a model with parameters to train, got one without any, or with all frozen (requires_grad)"
        )
    outputs = width_of(this.model, tasks[0].X, counted)
    _check_grow(this, model, counted)
    labels: Labels | None = None
    if counted:
        labels = (
            heads_by_task(tasks, outputs, model)
            if by_task
            else single_head(tasks, outputs, this.recipe.grow is not None)
        )
    else:
        _check_numbers(tasks[0].Y, outputs, model, by_task)
    _check_rows(this, model)
    return Network(this.model, tasks, loss, labels, isinstance(model, MultiHead)), loss_name


def _check_grow(this: Run, model: nn.Module, counted: bool) -> None:
    name = this.recipe.grow
    if name is None:
        return
    named = dict(model.named_modules())
    if not isinstance(named.get(name), nn.Linear):
        linear = [n for n, m in named.items() if isinstance(m, nn.Linear)]
        raise InputError(f"expected grow to name a Linear layer, got {name!r}; there are {linear}")
    if not counted or this.heads != "single":
        raise InputError("a layer grows with the labels of a single head: expected labels and heads='single' with grow")
    if this.guard is not None and not isinstance(this.guard, LayerGuard):
        raise InputError(f"{type(this.guard).__name__} cannot grow a layer; give the model all outputs at the start")


def _check_numbers(Y: Array, outputs: int, model: nn.Module, by_task: bool) -> None:
    width = 1 if Y.ndim == 1 else Y.shape[1]
    if isinstance(model, MultiHead):
        wrong = set(model.widths) - {width}
        if wrong:
            raise InputError(f"expected heads of {width} outputs, as Y has, got some of {sorted(wrong)}")
    elif by_task:
        raise InputError("expected a MultiHead for numbers with heads='task': rm.deep.MultiHead(trunk, features, …)")
    elif outputs != width:
        raise InputError(f"expected a model of {width} outputs, as Y has, got {outputs}")


def _check_rows(this: Run, model: nn.Module) -> None:
    """Every step of the stream has rows to train on, rows to keep aside where that is asked, and batches that work."""
    size, share = this.recipe.batch_size, this.recipe.validation
    normalised = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules())
    for step in filter(None, this.plan):
        rows = sum(len(this.tasks[i].X) for i in step)
        trained = this.recipe.trained_rows(rows)
        if not trained or (share and trained == rows):
            raise InputError(
                f"expected rows to train on and rows to keep aside in every task, got {trained} and {rows - trained} "
                f"in task {this.tasks[step[0]].name!r}; change validation={share}"
            )
        if normalised and (size == 1 or trained % size == 1):
            raise InputError(
                f"{trained} rows in batches of {size} leave a batch of one row, which batch norm cannot normalise; "
                f"try batch_size={size + 1}"
            )
