"""What the experiments with trained networks share: rows of one table, run one after the other or on two cores."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

import remanence as rm
from experiments.card import Curves, percent
from remanence.arrays import Array
from remanence.hashing import new_digest, short
from remanence.progress import track_progress

COLUMNS = ("method", "accuracy", "backward transfer", "accuracy when learned", "published", "seconds")

Item = TypeVar("Item")
Found = TypeVar("Found")


def seeded(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A network whose first weights depend on the seed alone; the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return make()


def sgd(rate: float, momentum: float = 0.0) -> Callable[[Any], torch.optim.Optimizer]:
    return lambda parameters: torch.optim.SGD(parameters, lr=rate, momentum=momentum)


def line(name: str, matrix: rm.ErrorMatrix, published: str = "", carried: bool = True) -> tuple[str, ...]:
    """A row of figures: means over tasks; nothing is carried from task to task where all were learned at once."""
    learned = float(np.mean([matrix.accuracy[i, i + 1] for i in range(len(matrix.names))]))
    transfer, when = (percent(rm.metrics.backward_transfer(matrix)), percent(learned)) if carried else ("", "")
    return (name, percent(accuracy(matrix)), transfer, when, published, f"{np.nansum(matrix.seconds):.0f}")


def accuracy(matrix: rm.ErrorMatrix, t: int | None = None) -> float:
    """The mean over the first t tasks of the share of right answers after them; all of them at the end by default."""
    return 1 - rm.metrics.average(matrix, t)


def mean_matrix(matrices: list[rm.ErrorMatrix]) -> rm.ErrorMatrix:
    """The mean of error matrices, of several seeds; accuracy and transfer are linear in them."""
    values, seconds = (np.mean([getattr(m, part) for m in matrices], axis=0) for part in ("values", "seconds"))
    return replace(matrices[0], values=values, seconds=seconds)


def curves(alternative: str, found: dict[str, rm.ErrorMatrix], ceiling: str) -> Curves:
    """The mean accuracy on the tasks learned so far, after each; what learned all at once is a level."""
    lines = {
        name: [accuracy(matrix, t) for t in range(1, len(matrix.names) + 1)]
        for name, matrix in found.items()
        if name != ceiling
    }
    return Curves(alternative, lines, {ceiling: accuracy(found[ceiling])})


def right_rows(matrix: rm.ErrorMatrix, stream: Iterable[rm.Task]) -> float:
    """The share of all test rows answered rightly at the end, whatever task they belong to."""
    sizes = np.array([len(task.Y_test) for task in stream])
    return float(matrix.accuracy[:, -1] @ sizes / sizes.sum())


def set_aside(X: Array, y: Array, rows: int, seed: int) -> tuple[Array, Array, Array, Array]:
    """Training rows, and so many of them kept aside to choose settings by: (X, y, X aside, y aside)."""
    order = np.random.default_rng(seed).permutation(len(X))
    aside, rest = np.sort(order[:rows]), np.sort(order[rows:])
    return X[rest], y[rest], X[aside], y[aside]


@contextmanager
def checkpoints(name: str, quick: bool) -> Iterator[Path | None]:
    """A folder for the checkpoints of a full experiment: interrupted, it continues; finished, the folder is removed."""
    folder = None if quick else Path("runs/fits") / name
    yield folder
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def checkpoint_of(folder: Path | None, *settings: Any) -> Path | None:
    """The checkpoint of one row of a table; other settings have another file."""
    return None if folder is None else folder / f"{short(new_digest(repr(settings)))}.checkpoint"


def side_by_side(
    job: Callable[[Item], Found], items: Iterable[Item], label: str, processes: int = 1
) -> dict[Item, Found]:
    """job(item) for each; with two processes each has one core, and the times are those of one core."""
    items = list(items)
    torch.set_num_threads(1)
    if processes == 1:
        return {item: job(item) for item in track_progress(items, label, len(items))}
    with ProcessPoolExecutor(processes, get_context("spawn"), _one_thread) as pool:
        waiting = {item: pool.submit(job, item) for item in items}
        return {item: waiting[item].result() for item in track_progress(items, label, len(items))}


def _one_thread() -> None:
    torch.set_num_threads(1)
