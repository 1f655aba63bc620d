"""Train a network over a stream of tasks: the one training loop of the deep room, inside the one task loop.

    for each task:   epochs of guarded descent → guard.absorb → ask every task                       (F1)

The outer loop is `rm.evaluate`, which fills the error matrix; this file gives it a learner made of a torch module.
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
    """Train `model`, in place, on the tasks of a stream one after the other, and ask every task after each of them.

    Parameters
    ----------
    model : torch.nn.Module
        Takes batches of rows in its own precision, on its own device.
    stream : list of Task
        See `remanence.streams`.
    optimizer : callable
        Makes an optimizer of a list of parameters: ``lambda p: torch.optim.SGD(p, lr=0.01)``.
    guard : Guard, optional
        A guard of this model; it absorbs each task at the weights reached. Without one this is plain fine-tuning.
    epochs, batch_size : int
        Passes over the rows of each task, and rows a step.
    loss : "cross_entropy", "squared" or callable, optional
        A callable gets (outputs, targets), targets being the number of the right output of each row, or the numbers
        to answer. By default cross entropy for labels and squared error for numbers.
    error : optional
        What the error matrix counts, as the loss of `rm.evaluate`: by default 0/1 for labels, squared for numbers.
    heads : "single" or "task"
        "single": all labels compete. "task": a row's task is known, and only the labels of its task compete, in
        training and in eval_mode; in the head of the task if the model is a `MultiHead`.
    grow : str, optional
        The name of a Linear layer that gets outputs as new labels come.
    scheduler : callable, optional
        Makes a scheduler of an optimizer. ReduceLROnPlateau is told the validation loss of each epoch, or the training
        loss where there are no validation rows.
    scheduler_step : "epoch" or "batch"
        When the scheduler is stepped: after every epoch, or after every step of the optimizer (OneCycleLR, warm-ups).
    validation : float
        Share of each task's training rows to keep aside. A task then ends with the weights that had the lowest loss
        on them.
    patience : int, optional
        End a task after this many epochs without a lower validation loss.
    min_lr : float
        End a task when the scheduler has taken every learning rate below training.
    keep_optimizer : bool
        Keep one optimizer (and scheduler) for all tasks instead of a fresh one for each.
    absorb_samples : int, optional
        How many of a task's training rows the guard absorbs, drawn at random; None means all.
    seed : int
        Decides the order of rows, validation rows, absorbed rows and dropout; no global seed is touched.
    checkpoint : path, optional
        A file that is written as the run goes on. A run that finds the file goes on where it was stopped and ends with
        the same numbers to the bit; a finished one is returned at once.
    progress : bool, optional
        Whether to show a progress bar; by default on a terminal when the work lasts over two seconds.

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
        raise InputError(f"expected a guard of this model or None, got {guard!r}; make it: GradientProjection(model)")
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
    """Train `model`, in place, on the rows of all tasks in one heap: what forgetting has to be compared with.

    The settings are those of `fit_stream`. All rows come at the first step of the stream, so every column of the
    matrix but column 0 is that of the model trained on everything.
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
