"""Run a training; an exception leaves the model and the guard as they were."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import nn

from remanence.deep.guards.guard import Guard
from remanence.deep.nn.wrappers import unwrap
from remanence.deep.training.epoch import trainable_parameters
from remanence.deep.training.result import StreamFit
from remanence.deep.training.targets import name_of
from remanence.deep.training.trainer import Trainer
from remanence.deep.training.trainer_state import Checkpoints
from remanence.deep.training.validate import TrainingRun, build_network
from remanence.evaluation.loop import evaluate
from remanence.evaluation.memory_size import memory_size
from remanence.files import make_folder
from remanence.hashing import new_digest, short
from remanence.progress import progress_bar
from remanence.streams.task import Task


def run(training: TrainingRun, checkpoint: str | Path | None, progress: bool | None) -> StreamFit:
    """Validate everything, then train; on any error restore the model and the guard."""
    network, loss_name = build_network(training)
    error = training.error if training.error is not None else ("squared" if network.labels is None else "zero_one")
    settings = {"name": training.name, "loss": loss_name, "error": name_of(error), "heads": training.heads}
    settings |= training.config.run_settings(trainable_parameters(training.model))
    trainer = Trainer(network, training.guard, training.config, training.plan, training.name)
    stream = [_by_reference(i, task) for i, task in enumerate(training.tasks)]
    with _restore_on_error(training), progress_bar("Training", trainer.steps(), progress) as advance:
        if checkpoint is not None:
            settings |= {"model": _shapes(training.model), "stream": fingerprint(training.tasks)}
            path = make_folder(Path(checkpoint).parent) / Path(checkpoint).name
            Checkpoints(trainer, path, settings).begin()
            advance(trainer.steps(done=True))
        trainer.advance = advance
        matrix = evaluate(trainer, stream, error, progress=False, record=trainer.record)
    return StreamFit(
        # the size of model and guard, without the rows
        replace(matrix, seconds=trainer.seconds, memory=memory_size((training.model, training.guard))),
        tuple(map(tuple, trainer.losses)),
        tuple(map(tuple, trainer.validation_losses)),
        tuple(trainer.reports),
        trainer.seconds,
        () if network.labels is None else network.labels.labels,
    )


@contextmanager
def _restore_on_error(training: TrainingRun) -> Iterator[None]:
    """Restore parameters, buffers, guard and modes of the model if the block raises; always restore the modes."""
    model, guard = unwrap(training.model), training.guard
    modes = {module: module.training for module in model.modules()}
    values = {name: value.detach().clone() for name, value in model.state_dict().items()}
    head = model.get_submodule(training.config.grow) if training.config.grow else None
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
    """Return the task with rows replaced by references (task, row index)."""
    rows = [np.column_stack([np.full(len(Y), index), np.arange(len(Y))]) for Y in (task.Y, task.Y_test)]
    return Task(task.name, rows[0], task.Y, rows[1], task.Y_test)


def describe_guard(guard: Guard) -> str:
    """Return the guard and its settings on one line."""
    settings = {k: v for k, v in vars(guard).items() if not k.startswith("_") and k != "model"}
    shown = [f"{k}={name_of(v) if callable(v) else repr(v)}" for k, v in settings.items()]
    return f"{type(guard).__name__}({', '.join(shown)})"


def fingerprint(tasks: Sequence[Task]) -> str:
    """Return a hash of all rows, which identifies the stream."""
    digest = new_digest()
    for task in tasks:
        for array in (task.X, task.Y, task.X_test, task.Y_test):
            digest.update(f"{task.name}:{array.shape}:{array.dtype}".encode())
            digest.update(np.ascontiguousarray(array).data.cast("B"))
    return short(digest)


def _shapes(model: nn.Module) -> str:
    text = str([(name, tuple(t.shape), str(t.dtype)) for name, t in model.state_dict().items()])
    return short(new_digest(text))
