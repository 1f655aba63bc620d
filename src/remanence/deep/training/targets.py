"""What the outputs of a network stand for in each task, and the loss.

    single head      all outputs compete, in every task
    head by task     only the outputs of a task's own labels compete, in training and prediction

Labels of any dtype are converted to output indices for training and back to labels in predictions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from remanence.arrays import Array
from remanence.deep.nn.heads import MultiHead
from remanence.errors import InputError
from remanence.labels import are_labels, are_numbers
from remanence.streams.task import Task

Loss = Callable[[Tensor, Tensor], Tensor]
LOSSES: dict[str, Loss] = {"cross_entropy": nn.functional.cross_entropy, "squared": nn.functional.mse_loss}


@dataclass(frozen=True)
class OutputLabels:
    """The labels that compete in each task and the outputs that represent them."""

    labels: tuple[Array, ...]  # per task (c,)
    columns: tuple[slice | Tensor, ...]  # per task, indices into the outputs the model returns for it
    among_all: tuple[Array, ...]  # per task (c,), indices into the outputs of all tasks side by side
    width: int  # number of outputs of all tasks
    by_task: bool  # whether each task has outputs of its own

    def codes(self, task: int, Y: Array, among_all: bool = False) -> Tensor:
        """Return the label of each row as an index among the competing outputs, or among all outputs."""
        order = np.argsort(self.labels[task], kind="stable")
        codes = order[np.searchsorted(self.labels[task], Y, sorter=order)]
        return torch.from_numpy(np.asarray(self.among_all[task][codes] if among_all else codes))

    def allowed(self) -> Tensor:
        """Return which outputs compete in each task, (T, outputs)."""
        mask = torch.zeros(len(self.labels), self.width, dtype=torch.bool)
        for task, columns in enumerate(self.among_all):
            mask[task, torch.from_numpy(columns)] = True
        return mask


def choose_loss(loss: Any, Y: Array) -> tuple[Loss, str, bool]:
    """Return the loss as a function of (outputs, targets), its name, and whether the targets are labels."""
    if loss is None:
        loss = "cross_entropy" if are_labels(Y) else "squared"
    if isinstance(loss, str) and loss in LOSSES:
        if loss == "cross_entropy" and Y.ndim != 1:
            raise InputError(f"expected labels (rows,) for loss 'cross_entropy', got Y {Y.shape}; try Y.argmax(1)")
        if loss == "squared" and not are_numbers(Y):
            raise InputError(f"expected numbers for loss 'squared', got {Y.dtype} labels; try loss='cross_entropy'")
        return LOSSES[loss], loss, loss == "cross_entropy"
    if not callable(loss):
        raise InputError(f"expected loss to be one of {sorted(LOSSES)}, a function or None, got {loss!r}")
    return loss, name_of(loss), are_labels(Y)


def name_of(loss: Any) -> str:
    return loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)


def single_head(tasks: Sequence[Task], outputs: int, grows: bool) -> OutputLabels:
    """Return the labels of one head for the whole stream.

    Integer labels in 0 … outputs − 1 are output indices; other labels are sorted. A head that grows takes them in order
    of appearance.
    """
    every = np.unique(np.concatenate([task.Y for task in tasks]))
    if grows:
        known = every[:0]
        for task in tasks:
            known = np.concatenate([known, np.setdiff1d(task.Y, known)])
    elif every.dtype.kind in "iu" and every[0] >= 0 and every[-1] < outputs:
        known = np.arange(outputs, dtype=every.dtype)
    else:
        known = every
    if len(known) > outputs and not grows:
        raise InputError(
            f"expected an output for each of the {len(known)} labels of the stream, the model has {outputs}; "
            "widen its last layer, or let it grow: grow='the name of a Linear layer'"
        )
    count, places = len(tasks), np.arange(len(known))
    return OutputLabels((known,) * count, (slice(0, len(known)),) * count, (places,) * count, len(known), False)


def heads_by_task(tasks: Sequence[Task], outputs: int, model: nn.Module) -> OutputLabels:
    """Return labels that compete only within their task: in its own head, or in its part of a shared head."""
    own = [np.unique(task.Y) for task in tasks]
    if isinstance(model, MultiHead):
        check_heads(model, tasks)
        for task, labels, width in zip(tasks, own, model.widths, strict=False):
            if len(labels) > width:
                raise InputError(
                    f"expected a head with an output for each of the {len(labels)} labels of task {task.name!r}, "
                    f"got one of {width}"
                )
        starts = np.cumsum([0, *model.widths])
        among_all = [start + np.arange(len(labels)) for start, labels in zip(starts, own, strict=False)]
        columns: list[slice | Tensor] = [slice(0, len(labels)) for labels in own]
        return OutputLabels(tuple(own), tuple(columns), tuple(among_all), int(starts[-1]), True)
    whole = single_head(tasks, outputs, False)
    among_all = [whole.codes(0, labels).numpy() for labels in own]
    return OutputLabels(tuple(own), tuple(_as_slice(c) for c in among_all), tuple(among_all), outputs, True)


def check_heads(model: MultiHead, tasks: Sequence[Task]) -> None:
    if len(model.heads) < len(tasks):
        raise InputError(f"expected a head for each of the {len(tasks)} tasks, the model has {len(model.heads)}")


def _as_slice(columns: Array) -> slice | Tensor:
    """Return adjacent outputs as a slice, which needs no copy."""
    if np.array_equal(columns, np.arange(columns[0], columns[0] + len(columns))):
        return slice(int(columns[0]), int(columns[-1]) + 1)
    return torch.from_numpy(columns)
