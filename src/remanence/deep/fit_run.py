"""The door of a training run, and the run itself: what raises leaves the model and the guard as they were."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from remanence.checks import Array
from remanence.deep.cover import unwrapped
from remanence.deep.descent import trainable
from remanence.deep.fit_result import StreamFit
from remanence.deep.guard import Guard
from remanence.deep.heads import MultiHead
from remanence.deep.layer_guard import LayerGuard
from remanence.deep.network import Network, width_of
from remanence.deep.recipe import Recipe
from remanence.deep.targets import Labels, Loss, check_heads, choose_loss, heads_by_task, single_head
from remanence.deep.trainer import Trainer
from remanence.deep.trainer_state import Checkpoints
from remanence.errors import InputError
from remanence.evaluation.loop import evaluate
from remanence.files import make_folder
from remanence.progress import progress_bar
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


def run(this: Run, checkpoint: str | Path | None, progress: bool | None) -> StreamFit:
    """Look at everything, then train; on any error the model and the guard are put back."""
    network, loss_name = _network(this)
    error = this.error if this.error is not None else ("squared" if network.labels is None else "zero_one")
    words = {"name": this.name, "loss": loss_name, "heads": this.heads, **this.recipe.words(trainable(this.model))}
    trainer = Trainer(network, this.guard, this.recipe, this.plan, this.name)
    stream = [_by_reference(i, task) for i, task in enumerate(this.tasks)]
    with _unchanged_if_it_raises(this), progress_bar("Training", trainer.steps(), progress) as advance:
        if checkpoint is not None:
            words |= {"model": _shapes(this.model), "stream": fingerprint(this.tasks)}
            path = make_folder(Path(checkpoint).parent) / Path(checkpoint).name
            Checkpoints(trainer, path, words).begin()
            advance(trainer.steps(done=True))
        trainer.advance = advance
        matrix = evaluate(trainer, stream, error, progress=False, record=trainer.record)
    return StreamFit(
        replace(matrix, seconds=trainer.seconds),
        tuple(map(tuple, trainer.losses)),
        tuple(map(tuple, trainer.validation_losses)),
        tuple(trainer.reports),
        trainer.seconds,
        () if network.labels is None else network.labels.labels,
    )


def _network(this: Run) -> tuple[Network, str]:
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
    outputs = width_of(this.model, tasks[0].X)
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
    _check_last_batches(this, model)
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


def _check_last_batches(this: Run, model: nn.Module) -> None:
    size = this.recipe.batch_size
    if not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules()):
        return
    for step in this.plan:
        rows = this.recipe.trained_rows(sum(len(this.tasks[i].X) for i in step))
        if rows and (rows % size == 1 or size == 1):
            raise InputError(
                f"{rows} rows in batches of {size} leave a batch of one row, which batch norm cannot normalise; "
                f"try batch_size={size + 1}"
            )


@contextmanager
def _unchanged_if_it_raises(this: Run) -> Iterator[None]:
    model, guard = unwrapped(this.model), this.guard
    modes = {module: module.training for module in model.modules()}
    values = {name: value.detach().clone() for name, value in model.state_dict().items()}
    head = model.get_submodule(this.recipe.grow) if this.recipe.grow else None
    own = {} if head is None else dict(head.named_parameters(recurse=False))
    memory = None if guard is None else guard.state_dict()
    try:
        yield
    except BaseException:
        if isinstance(head, nn.Linear):
            for name, parameter in own.items():
                setattr(head, name, parameter)
            head.out_features = len(own["weight"])
        model.load_state_dict(values)
        if guard is not None and memory is not None:
            guard.load_state_dict(memory)
        raise
    finally:
        model.zero_grad()
        for module, mode in modes.items():
            module.training = mode


def _by_reference(index: int, task: Task) -> Task:
    """The same task with rows that only say where they are: (task, place)."""
    rows = [np.column_stack([np.full(len(Y), index), np.arange(len(Y))]) for Y in (task.Y, task.Y_test)]
    return Task(task.name, rows[0], task.Y, rows[1], task.Y_test)


def settings_of(guard: Guard) -> str:
    """The guard and its settings on one line."""
    settings = {k: v for k, v in vars(guard).items() if not k.startswith("_") and k != "model"}
    return f"{type(guard).__name__}({', '.join(f'{k}={v!r}' for k, v in settings.items())})"


def fingerprint(tasks: Sequence[Task]) -> str:
    """What tells this stream from another: a hash of all its rows."""
    digest = hashlib.sha256()
    for task in tasks:
        for array in (task.X, task.Y, task.X_test, task.Y_test):
            digest.update(f"{task.name}:{array.shape}:{array.dtype}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


def _shapes(model: nn.Module) -> str:
    text = str([(name, tuple(t.shape), str(t.dtype)) for name, t in model.state_dict().items()])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
