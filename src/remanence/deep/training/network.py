"""Adapter of a torch module for training: task data as tensors, losses, and predictions by task."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from remanence.arrays import Array
from remanence.deep.guards.checks.batches import Forward
from remanence.deep.nn.eval_mode import eval_mode
from remanence.deep.training.targets import Loss, OutputLabels
from remanence.errors import InputError
from remanence.streams.task import Task

PREDICTED_AT_ONCE = 512  # rows per forward pass


@dataclass(frozen=True)
class TaskData:
    """Rows to train on, on the model's device: inputs, targets and, if it matters, the task of each row."""

    parts: tuple[Tensor, ...]  # inputs (n, …), targets (n,) or (n, c), and for several tasks the task (n,)
    loss: Callable[..., Tensor]  # of the same parts of a batch

    def __len__(self) -> int:
        return len(self.parts[0])

    def rows(self, places: Tensor) -> tuple[Tensor, ...]:
        """Return the rows at these indices, part by part."""
        return tuple(part[places] for part in self.parts)

    def divided(self, places: Tensor) -> "tuple[TaskData, TaskData]":
        """Return the rows at these indices, and the others."""
        others = torch.ones(len(self), dtype=torch.bool)
        others[places] = False
        return TaskData(self.rows(places), self.loss), TaskData(self.rows(others.nonzero()[:, 0]), self.loss)


class TaskNetwork:
    """A model with the meaning of its outputs and the loss it is trained with."""

    def __init__(
        self, model: nn.Module, tasks: Sequence[Task], loss: Loss, labels: OutputLabels | None, heads: bool
    ) -> None:
        self.model, self.tasks, self.loss, self.labels = model, tasks, loss, labels
        self.heads = heads  # whether the model takes the task as an argument
        like = first_float_parameter(model)
        self.device, self.dtype = like.device, like.dtype

    def forward(self, task: int) -> Forward:
        """Return how to call the model for rows of a task: it returns the outputs that compete there."""
        columns = None if self.labels is None else self.labels.columns[task]

        def call(model: nn.Module, x: Tensor) -> Any:
            out = model(x, task) if self.heads else model(x)
            return out if columns is None else out[:, columns]

        return call

    def inputs(self, X: Array) -> Tensor:
        return _tensor(X).to(self.device, self.dtype)

    def task_data(self, tasks: Sequence[int]) -> TaskData:
        """Return the rows of one task, or of several tasks together."""
        own_outputs = self.heads or (self.labels is not None and self.labels.by_task)
        mixed = len(tasks) > 1 and own_outputs
        x = _joined([self.inputs(self.tasks[i].X) for i in tasks])
        y = _joined([self._targets(i, mixed) for i in tasks]).to(self.device)
        if not mixed:
            return TaskData((x, y), self._loss_of(tasks[0]))
        task = _joined([torch.full((len(self.tasks[i].X),), i) for i in tasks]).to(self.device)
        return TaskData((x, y, task), self._loss_of_mixed())

    def predict(self, task: int, places: Array) -> Array:
        """Predict test rows of a task: labels (n,) or numbers (n, c)."""
        X, forward, parts = self.tasks[task].X_test, self.forward(task), []
        with eval_mode(self.model):
            for i in range(0, len(places), PREDICTED_AT_ONCE):
                out = forward(self.model, self.inputs(X[places[i : i + PREDICTED_AT_ONCE]]))
                if self.labels is None:
                    parts.append(out.double().reshape(len(out), -1).cpu().numpy())
                else:
                    parts.append(self.labels.labels[task][out.argmax(dim=1).cpu().numpy()])
        return np.concatenate(parts)

    def mean_loss(self, data: TaskData) -> float:
        """Return the mean loss over the data in eval mode."""
        total = 0.0
        with eval_mode(self.model):
            for places in torch.split(torch.arange(len(data)), PREDICTED_AT_ONCE):
                total += float(data.loss(*data.rows(places))) * len(places)
        return total / len(data)

    def _targets(self, task: int, mixed: bool) -> Tensor:
        Y = self.tasks[task].Y
        if self.labels is not None:
            return self.labels.codes(task, Y, mixed)
        return _tensor(Y.astype(float)).to(self.dtype).reshape(len(Y), -1)

    def _loss_of(self, task: int) -> Callable[..., Tensor]:
        loss, forward, model = self.loss, self.forward(task), self.model
        if self.labels is None:
            return lambda x, y: loss(forward(model, x).reshape(y.shape), y)
        return lambda x, y: loss(forward(model, x), y)

    def _loss_of_mixed(self) -> Callable[..., Tensor]:
        """Return the loss for batches with rows of several tasks, each judged by the outputs of its own task."""
        loss, model = self.loss, self.model
        if self.labels is None:

            def of_numbers(x: Tensor, y: Tensor, task: Tensor) -> Tensor:
                out = model(x).reshape(len(y), -1, y.shape[1])  # (n, T, c)
                return loss(out[torch.arange(len(y), device=y.device), task], y)

            return of_numbers
        forbidden = ~self.labels.allowed().to(self.device)  # (T, outputs)
        return lambda x, y, task: loss(model(x).masked_fill(forbidden[task], -torch.inf), y)


def first_float_parameter(model: nn.Module) -> Tensor:
    """Return a parameter that shows the device and dtype of the model's inputs."""
    for parameter in model.parameters():
        if parameter.is_floating_point():
            return parameter
    raise InputError("expected a model with floating-point parameters, got one without any")


def count_outputs(model: nn.Module, X: Array, labels: bool) -> int:
    """Return the number of outputs of the model, found by a forward pass of two rows; labels need a 2-D output."""
    like = first_float_parameter(model)
    x = _tensor(X[:2]).to(like.device, like.dtype)
    try:
        with eval_mode(model):
            out = model(x)
    except Exception as problem:
        raise InputError(
            f"expected a model that takes batches of shape (n, {', '.join(map(str, X.shape[1:]))}), "
            f"got {type(problem).__name__}: {problem}; put nn.Flatten() or nn.Unflatten(1, …) before it"
        ) from problem
    if not isinstance(out, Tensor) or len(out) != len(x) or (labels and out.dim() != 2):
        raise InputError(
            f"expected the model to return a tensor ({len(x)}, outputs) for {len(x)} rows, got {_describe(out)}"
        )
    return out.numel() // len(out)


def _describe(out: Any) -> str:
    return f"one of shape {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__


def _tensor(array: Array) -> Tensor:
    """Convert an array to a tensor, without a copy if torch can share its memory."""
    array = np.ascontiguousarray(array)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
