"""`python -m experiments.scaling [FOLDER]`: what scale="standard" changes, as the columns come.

Scores on test rows (R² or accuracy, mean of five random halves) with ridge 1 and with ridge="auto". The tables are
those of scikit-learn and, in FOLDER, CSV files without a header whose last column is the target: the UCI sets airfoil,
bike, concrete and elevators (https://archive.ics.uci.edu), gzipped or not.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import remanence as rm
from remanence.arrays import Array

SPLITS = 5


def tables(folder: Path | None) -> Iterator[tuple[str, Array, Array, bool]]:
    """Name, rows, targets, and whether these are classes."""
    from sklearn import datasets

    yield "diabetes (raw)", *datasets.load_diabetes(return_X_y=True, scaled=False), False
    for path in sorted(folder.glob("*.csv*")) if folder is not None else ():
        table = np.genfromtxt(path, delimiter=",")
        table = table[np.isfinite(table).all(axis=1)]
        yield path.name.split(".")[0], table[:, :-1], table[:, -1], False
    for name in ("iris", "wine", "breast_cancer", "digits"):
        yield name, *getattr(datasets, f"load_{name}")(return_X_y=True), True


def score(X: Array, y: Array, classes: bool, ridge: float | str, scale: str | None) -> float:
    kind = rm.ContinualClassifier if classes else rm.ContinualRegressor
    found = []
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(X))
        past, new = order[: len(X) // 2], order[len(X) // 2 :]
        model = kind(rm.RLS(ridge), scale=scale).fit(X[past], y[past])  # type: ignore[arg-type]
        found.append(model.score(X[new], y[new]))
    return float(np.mean(found))


def main(folder: Path | None) -> Iterator[str]:
    yield f"{'table':16}{'ridge 1':>10}{'scaled':>10}{'auto':>10}{'scaled':>10}"
    for name, X, y, classes in tables(folder):
        found = [score(X, y, classes, ridge, scale) for ridge in (1.0, "auto") for scale in (None, "standard")]
        yield f"{name:16}" + "".join(f"{value:10.4f}" for value in found)


if __name__ == "__main__":
    for line in main(Path(sys.argv[1]) if len(sys.argv) > 1 else None):
        print(line)
