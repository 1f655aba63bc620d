"""Train a network over a stream of tasks.

    for each task:   epochs of guarded training → guard.absorb → evaluate every task                 (F1)

The task loop is `rm.evaluate`, which fills the error matrix; this module gives it a learner made of a torch module.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import nn

from remanence.deep.guards.guard import Guard
from remanence.deep.nn.wrappers import unwrap
from remanence.deep.training.config import MakeOptimizer, MakeScheduler, TrainingConfig
from remanence.deep.training.result import StreamFit
from remanence.deep.training.run import describe_guard, run
from remanence.deep.training.targets import Loss
from remanence.deep.training.validate import TrainingRun
from remanence.errors import InputError
from remanence.evaluation.loop import check_stream
from remanence.streams.task import Task


def fit_stream(
    model: nn.Module,
    stream: Iterable[Task],
    *,
    optimizer: MakeOptimizer,
    guard: Guard | None = None,
    epochs: int = 1,
    batch_size: int = 64,
    loss: str | Loss | None = None,
    error: Any = None,
    heads: str = "single",
    grow: str | None = None,
    scheduler: MakeScheduler | None = None,
    scheduler_step: str = "epoch",
    validation: float = 0.0,
    patience: int | None = None,
    min_lr: float = 0.0,
    keep_optimizer: bool = False,
    absorb_samples: int | None = None,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
) -> StreamFit:
    """Train a model, in place, on the tasks of a stream one after the other, and evaluate every task after each.

    Parameters
    ----------
    model : torch.nn.Module
        Accepts batches of rows in its own dtype, on its own device.
    stream : list of Task
        See `remanence.streams`.
    optimizer : callable
        Creates an optimizer for a list of parameters: ``lambda p: torch.optim.SGD(p, lr=0.01)``.
    guard : Guard, optional
        A guard of this model, which absorbs each task after training. Without one this is plain fine-tuning.
    epochs, batch_size : int
        Passes over the rows of each task, and rows per step.
    loss : "cross_entropy", "squared" or callable, optional
        A callable gets (outputs, targets), where targets are the index of the right output of each row, or real
        targets. By default cross entropy for labels and squared error for real targets.
    error : optional
        The error in the error matrix, as the loss of `rm.evaluate`: by default 0/1 for labels, squared for real
        targets.
    heads : "single" or "task"
        "single": all labels compete. "task": the task of a row is known, and only the labels of its task compete, in
        training and prediction; a `MultiHead` uses the head of the task.
    grow : str, optional
        Name of a Linear layer that gets more outputs when new labels appear.
    scheduler : callable, optional
        Creates a scheduler for an optimizer. ReduceLROnPlateau gets the validation loss of each epoch, or the training
        loss if there are no validation rows.
    scheduler_step : "epoch" or "batch"
        Step the scheduler after every epoch, or after every optimizer step (OneCycleLR, warm-up).
    validation : float
        Share of each task's training rows used for validation. A task then ends with the weights of the lowest
        validation loss.
    patience : int, optional
        End a task after this many epochs without a lower validation loss.
    min_lr : float
        End a task when the scheduler has reduced every learning rate below this.
    keep_optimizer : bool
        Use one optimizer (and scheduler) for all tasks instead of a new one per task.
    absorb_samples : int, optional
        Number of a task's training rows that the guard absorbs, chosen at random; None means all.
    seed : int
        Determines the order of rows, validation rows, absorbed rows and dropout; the global seed is not touched.
    checkpoint : path, optional
        A file that is written during the run. A run that finds the file continues from it and ends with bitwise
        identical results; a finished run is returned at once.
    progress : bool, optional
        Whether to show a progress bar; by default only on a terminal and if the work takes more than two seconds.

    Returns
    -------
    StreamFit
        `.matrix`, `.losses`, `.validation_losses`, `.reports`, `.seconds`, `.labels`; printing it gives a table.

    Examples
    --------
    >>> import torch, remanence as rm
    >>> net = torch.nn.Sequential(torch.nn.Linear(64, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10))
    >>> guard = rm.deep.GradientProjection(net, energy=0.95)
    >>> sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.1)
    >>> fit = rm.deep.fit_stream(
    ...     net, rm.streams.digits(5), optimizer=sgd, guard=guard, absorb_samples=100, epochs=3, batch_size=10,
    ...     heads="task",
    ... )
    >>> bool(fit.matrix.values[:, -1].mean() < 0.1)  # the error on all tasks after the last one
    True
    """
    tasks = check_stream(stream)
    if guard is not None and (not isinstance(guard, Guard) or guard.model is not unwrap(model)):
        raise InputError(f"expected a guard of this model or None, got {guard!r}; try GradientProjection(model)")
    config = TrainingConfig(
        optimizer=optimizer,
        scheduler=scheduler,
        scheduler_step=scheduler_step,
        epochs=epochs,
        batch_size=batch_size,
        validation=validation,
        patience=patience,
        min_lr=min_lr,
        keep_optimizer=keep_optimizer,
        absorb_samples=absorb_samples,
        grow=grow,
        seed=seed,
    )
    plan = [[i] for i in range(len(tasks))]
    name = "finetuning" if guard is None else describe_guard(guard)
    return run(TrainingRun(model, tasks, config, guard, plan, name, loss, error, heads), checkpoint, progress)


def joint(
    model: nn.Module,
    stream: Iterable[Task],
    *,
    optimizer: MakeOptimizer,
    epochs: int = 1,
    batch_size: int = 64,
    loss: str | Loss | None = None,
    error: Any = None,
    heads: str = "single",
    grow: str | None = None,
    scheduler: MakeScheduler | None = None,
    scheduler_step: str = "epoch",
    validation: float = 0.0,
    patience: int | None = None,
    min_lr: float = 0.0,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
) -> StreamFit:
    """Train a model, in place, on the rows of all tasks at once: the reference without forgetting.

    All rows are learned at the first step of the stream, so every column of the error matrix except column 0 is that of
    the model trained on everything.

    Parameters
    ----------
    model, stream, optimizer, epochs, batch_size, loss, error, heads, grow, scheduler, scheduler_step, validation, \
    patience, min_lr, seed, checkpoint, progress
        As for `fit_stream`.

    Returns
    -------
    StreamFit
        As for `fit_stream`, with all losses in the first task.

    Examples
    --------
    >>> import torch, remanence as rm
    >>> net = torch.nn.Linear(64, 10)
    >>> sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.1)
    >>> fit = rm.deep.joint(net, rm.streams.digits(5), optimizer=sgd, epochs=5, batch_size=10)
    >>> bool(fit.matrix.values[:, -1].mean() < 0.15)
    True
    """
    tasks = check_stream(stream)
    config = TrainingConfig(
        optimizer=optimizer,
        scheduler=scheduler,
        scheduler_step=scheduler_step,
        epochs=epochs,
        batch_size=batch_size,
        validation=validation,
        patience=patience,
        min_lr=min_lr,
        grow=grow,
        seed=seed,
    )
    plan = [list(range(len(tasks))), *([] for _ in tasks[1:])]
    return run(
        TrainingRun(model, tasks, config, None, plan, "joint training", loss, error, heads), checkpoint, progress
    )
