"""What the outputs of a network stand for, task by task, and the loss that teaches them.

    single head      every output competes with every other one, in every task
    head by task     only the outputs of a task's own labels compete, in training and in eval_mode

OutputLabels of any kind become the numbers of outputs on the way in, and outputs become labels on the way out.
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
from remanence.streams.task import Task

Loss = Callable[[Tensor, Tensor], Tensor]
LOSSES: dict[str, Loss] = {"cross_entropy": nn.functional.cross_entropy, "squared": nn.functional.mse_loss}


@dataclass(frozen=True)
class OutputLabels:
    """The labels that compete in each task and the outputs that stand for them."""

    labels: tuple[Array, ...]  # of each task (c,)
    columns: tuple[slice | Tensor, ...]  # of each task, among the outputs the model gives for it
    among_all: tuple[Array, ...]  # of each task (c,), among the outputs of all tasks side by side
    width: int  # outputs of all tasks
    by_task: bool  # whether each task has outputs of its own

    def codes(self, task: int, Y: Array, among_all: bool = False) -> Tensor:
        """The label of each row as a number among those that compete, or among all outputs."""
        order = np.argsort(self.labels[task], kind="stable")
        codes = order[np.searchsorted(self.labels[task], Y, sorter=order)]
        return torch.from_numpy(np.asarray(self.among_all[task][codes] if among_all else codes))

    def allowed(self) -> Tensor:
        """Which of all outputs compete in each task, (T, outputs)."""
        mask = torch.zeros(len(self.labels), self.width, dtype=torch.bool)
        for task, columns in enumerate(self.among_all):
            mask[task, torch.from_numpy(columns)] = True
        return mask


def is_labels(Y: Array) -> bool:
    """Labels are counted, numbers are measured: the rule of `rm.evaluate`."""
    return Y.ndim == 1 and Y.dtype.kind != "f"


def choose_loss(loss: Any, Y: Array) -> tuple[Loss, str, bool]:
    """The loss as a function of (outputs, targets), its name, and whether the targets are labels."""
    if loss is None:
        loss = "cross_entropy" if is_labels(Y) else "squared"
    if isinstance(loss, str) and loss in LOSSES:
        if loss == "cross_entropy" and Y.ndim != 1:
            raise InputError(f"expected labels (rows,) for loss 'cross_entropy', got Y {Y.shape}; try Y.argmax(1)")
        if loss == "squared" and Y.dtype.kind not in "fiu":
            raise InputError(f"expected numbers for loss 'squared', got {Y.dtype} labels; try loss='cross_entropy'")
        return LOSSES[loss], loss, loss == "cross_entropy"
    if not callable(loss):
        raise InputError(f"expected loss to be one of {sorted(LOSSES)}, a function or None, got {loss!r}")
    return loss, name_of(loss), is_labels(Y)


def name_of(loss: Any) -> str:
    return loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)


def single_head(tasks: Sequence[Task], outputs: int, grows: bool) -> OutputLabels:
    """One head for all labels of the stream.

    Whole numbers from 0 that are numbers of outputs stand for themselves; other labels come in sorted order. A head
    that grows takes them in the order in which they come.
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
            "widen its last layer, or name that layer to let it grow: grow='the name of a Linear layer'"
        )
    count, places = len(tasks), np.arange(len(known))
    return OutputLabels((known,) * count, (slice(0, len(known)),) * count, (places,) * count, len(known), False)


def heads_by_task(tasks: Sequence[Task], outputs: int, model: nn.Module) -> OutputLabels:
    """The labels of each task compete among themselves: in a head of their own, or in their part of a shared one."""
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
    return OutputLabels(tuple(own), tuple(_run(c) for c in among_all), tuple(among_all), outputs, True)


def check_heads(model: MultiHead, tasks: Sequence[Task]) -> None:
    if len(model.heads) < len(tasks):
        raise InputError(f"expected a head for each of the {len(tasks)} tasks, the model has {len(model.heads)}")


def _run(columns: Array) -> slice | Tensor:
    """Neighbouring outputs as a slice, which costs no copy."""
    if np.array_equal(columns, np.arange(columns[0], columns[0] + len(columns))):
        return slice(int(columns[0]), int(columns[-1]) + 1)
    return torch.from_numpy(columns)
