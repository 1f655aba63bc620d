"""A training run: what raises leaves the model and the guard as they were."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import nn

from remanence.deep.guards.guard import Guard
from remanence.deep.guards.parameter_roles import unwrapped
from remanence.deep.training.epoch import trainable
from remanence.deep.training.result import StreamFit
from remanence.deep.training.targets import name_of
from remanence.deep.training.trainer import Trainer
from remanence.deep.training.trainer_state import Checkpoints
from remanence.deep.training.validate import Run, network_of
from remanence.evaluation.loop import evaluate
from remanence.evaluation.memory_size import memory_size
from remanence.files import make_folder
from remanence.progress import progress_bar
from remanence.streams.task import Task


def run(this: Run, checkpoint: str | Path | None, progress: bool | None) -> StreamFit:
    """Look at everything, then train; on any error the model and the guard are put back."""
    network, loss_name = network_of(this)
    error = this.error if this.error is not None else ("squared" if network.labels is None else "zero_one")
    words = {"name": this.name, "loss": loss_name, "error": name_of(error), "heads": this.heads}
    words |= this.recipe.words(trainable(this.model))
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
        replace(matrix, seconds=trainer.seconds, memory=memory_size((this.model, this.guard))),  # not the rows
        tuple(map(tuple, trainer.losses)),
        tuple(map(tuple, trainer.validation_losses)),
        tuple(trainer.reports),
        trainer.seconds,
        () if network.labels is None else network.labels.labels,
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
    words = [f"{k}={name_of(v) if callable(v) else repr(v)}" for k, v in settings.items()]
    return f"{type(guard).__name__}({', '.join(words)})"


def fingerprint(tasks: Sequence[Task]) -> str:
    """What tells this stream from another: a hash of all its rows."""
    digest = hashlib.sha256()
    for task in tasks:
        for array in (task.X, task.Y, task.X_test, task.Y_test):
            digest.update(f"{task.name}:{array.shape}:{array.dtype}".encode())
            digest.update(np.ascontiguousarray(array).data.cast("B"))
    return digest.hexdigest()[:16]


def _shapes(model: nn.Module) -> str:
    text = str([(name, tuple(t.shape), str(t.dtype)) for name, t in model.state_dict().items()])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
