"""A learner for `rm.evaluate` that trains a network on each task, absorbs it and predicts.

task j:    guarded epochs → the best weights on the validation rows → guard.absorb at those weights

The guard is attached anew for every epoch, so an epoch depends only on the weights, the optimizer's state and the
guard's memory at its start. A checkpoint stores these, which is why a resumed run is bitwise identical.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from time import perf_counter
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from remanence.arrays import Array
from remanence.deep.guards.guard import Guard
from remanence.deep.guards.layer_guard import LayerGuard
from remanence.deep.nn.heads import add_outputs
from remanence.deep.nn.wrappers import unwrap
from remanence.deep.training.config import TrainingConfig
from remanence.deep.training.epoch import forked_rng, generator, train_epoch, trainable_parameters
from remanence.deep.training.network import TaskData, TaskNetwork
from remanence.errors import NumericalError
from remanence.evaluation.loop import Record

EPOCH, VALIDATION, ABSORBED = range(3)  # uses of random numbers, part of their seeds
ABSORBED_AT_ONCE = 64  # rows, or a batch if that is larger


class Trainer:
    """The learner that `fit_stream` passes to `rm.evaluate`; rows are referenced by (task, index), not copied."""

    def __init__(
        self,
        network: TaskNetwork,
        guard: Guard | None,
        config: TrainingConfig,
        plan: Sequence[Sequence[int]],  # the tasks whose rows are learned at each step of the stream
        name: str,
    ) -> None:
        self.network, self.guard, self.config, self.plan, self.name = network, guard, config, plan, name
        self.model = unwrap(network.model)
        self.advance: Callable[..., None] = lambda steps, note=None: None  # called with the progress
        self.save: Callable[[bool], None] = lambda task_ends: None  # called after every epoch and every task
        count = len(plan)
        self.record: Record = []
        self.done = 0  # tasks learned and absorbed
        self.losses: list[list[float]] = [[] for _ in range(count)]
        self.validation_losses: list[list[float]] = [[] for _ in range(count)]
        self.reports: list[Any] = []
        self.seconds = np.zeros(count)
        self.optimizer: torch.optim.Optimizer | None = None
        self.scheduler: Any = None
        self.best: dict[str, Tensor] | None = None  # weights at the lowest validation loss of this task

    def __sklearn_clone__(self) -> Self:
        return self  # a trainer belongs to one run

    def __repr__(self) -> str:
        return self.name

    def partial_fit(self, X: Array, y: Array) -> Self:
        """Learn the task that the rows refer to, unless a resumed run already did."""
        task = int(X[0, 0])
        if task == self.done:
            self._learn(task)
        return self

    def predict(self, X: Array) -> Array:
        """Predict test rows given as (task, index)."""
        cuts = np.flatnonzero(np.diff(X[:, 0])) + 1
        parts = [(int(rows[0, 0]), rows[:, 1].astype(int)) for rows in np.split(X, cuts)]
        return np.concatenate([self.network.predict(task, places) for task, places in parts])

    def steps(self, done: bool = False) -> int:
        """Return the maximal number of optimizer steps of the run, or the number already done."""
        epochs = [self.config.epochs if t < self.done or not done else len(run) for t, run in enumerate(self.losses)]
        return sum(count * self._steps(task) for task, count in enumerate(epochs))

    def _steps(self, task: int) -> int:
        return self.config.steps(sum(len(self.network.tasks[i].X) for i in self.plan[task]))

    def _learn(self, task: int) -> None:
        if self.plan[task]:
            start = perf_counter()
            data, validation = self._task_data(task)
            self.seconds[task] += perf_counter() - start
            self._train(task, data, validation)
            start = perf_counter()
            if self.guard is not None:
                self._absorb(self.guard, task, data)
            self.seconds[task] += perf_counter() - start
        self.done, self.best = task + 1, None
        if not self.config.keep_optimizer:
            self.optimizer = self.scheduler = None
        self.save(True)

    def _task_data(self, task: int) -> tuple[TaskData, TaskData | None]:
        data = self.network.task_data(self.plan[task])
        count = len(data) - self.config.trained_rows(len(data))
        if not count:
            return data, None
        order = torch.randperm(len(data), generator=generator(self.config.seed, VALIDATION, task))
        validation, rest = data.divided(order[:count])
        return rest, validation

    def _train(self, task: int, data: TaskData, validation: TaskData | None) -> None:
        config, losses = self.config, self.losses[task]
        if not losses:
            self.grow(task)
        if self.optimizer is None:
            self.make_optimizer()
        while not self._finished(task):
            start = perf_counter()
            loss = _finite(self._epoch(task, len(losses), data), "training", task, len(losses))
            if validation is not None:
                validation_loss = self.network.mean_loss(validation)
                self._record_validation(task, _finite(validation_loss, "validation", task, len(losses)))
            losses.append(loss)
            self._schedule(task)
            self.seconds[task] += perf_counter() - start
            self.advance(0, f"task {task + 1}/{len(self.plan)}, epoch {len(losses)}, loss {loss:.4g}")
            self.save(False)
        self.advance((config.epochs - len(losses)) * self._steps(task))  # steps skipped by an early end
        if self.best is not None:
            self.model.load_state_dict(self.best)

    def _epoch(self, task: int, epoch: int, data: TaskData) -> float:
        assert self.optimizer is not None
        seed = self.config.seed
        order = torch.randperm(len(data), generator=generator(seed, EPOCH, task, epoch))
        protected = nullcontext() if self.guard is None else self.guard.protect(self.optimizer)
        with forked_rng(self.network.device, seed, EPOCH, task, epoch), protected:
            self.network.model.train()
            by_batch = self.scheduler is not None and self.config.scheduler_step == "batch"
            each = self.scheduler.step if by_batch else None
            return train_epoch(self.optimizer, data, self.config.batch_size, order, self.advance, each)

    def _record_validation(self, task: int, loss: float) -> None:
        """Store the validation loss, and the weights if it is the lowest of this task."""
        if loss < min(self.validation_losses[task], default=np.inf):
            self.best = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
        self.validation_losses[task].append(loss)

    def _schedule(self, task: int) -> None:
        if self.config.scheduler_step == "batch":
            return
        if isinstance(self.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            self.scheduler.step((self.validation_losses[task] or self.losses[task])[-1])
        elif self.scheduler is not None:
            self.scheduler.step()

    def _finished(self, task: int) -> bool:
        config, losses = self.config, self.validation_losses[task]
        if len(self.losses[task]) >= config.epochs:
            return True
        if not self.losses[task] or self.optimizer is None:
            return False
        if config.patience is not None and len(losses) - 1 - int(np.argmin(losses)) >= config.patience:
            return True
        return max(float(group["lr"]) for group in self.optimizer.param_groups) < config.min_lr

    def _absorb(self, guard: Guard, task: int, data: TaskData) -> None:
        order = torch.randperm(len(data), generator=generator(self.config.seed, ABSORBED, task))
        places = order[: self.config.absorb_samples]
        batches: Iterator[Any] = map(data.rows, torch.split(places, max(ABSORBED_AT_ONCE, self.config.batch_size)))
        if not guard.takes_targets:
            batches = (inputs for inputs, _ in batches)
        self.reports.append(guard.absorb(batches, forward=self.network.forward(task)))

    def grow(self, task: int) -> None:
        """Widen the head to one output for every label up to this task."""
        name, labels = self.config.grow, self.network.labels
        if name is not None and labels is not None:
            seen = [i for step in self.plan[: task + 1] for i in step]
            self.widen(len(np.unique(np.concatenate([self.network.tasks[i].Y for i in seen]))))

    def widen(self, outputs: int) -> None:
        layer = self.model.get_submodule(str(self.config.grow))
        assert isinstance(layer, nn.Linear)
        if outputs > layer.out_features:
            if isinstance(self.guard, LayerGuard):
                self.guard.grow(str(self.config.grow), outputs)
            else:
                add_outputs(layer, outputs)

    def make_optimizer(self) -> None:
        """Create the optimizer of the current parameters, and its scheduler."""
        self.optimizer = self.config.make_optimizer(trainable_parameters(self.model))
        self.scheduler = self.config.make_scheduler(self.optimizer)


def _finite(loss: float, what: str, task: int, epoch: int) -> float:
    if not np.isfinite(loss):
        raise NumericalError(
            f"the {what} loss became {loss} in task {task + 1}, epoch {epoch + 1}, and the model was restored; "
            "try a smaller learning rate, or look for layers that produce NaN"
        )
    return loss
