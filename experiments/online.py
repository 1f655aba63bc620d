"""Rows one after the other: intervals that go on covering, forgetting that finds itself, features as they come.

Every figure is measured on rows before they are learned, or on test rows on which nothing is chosen.
"""

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, make_friedman1

import remanence as rm
from experiments.card import Card, Claim, Table, run
from remanence.arrays import Array
from remanence.methods.banks.rls_bank import BANK
from remanence.progress import track_progress

UCI = ("concrete", "airfoil", "bike", "elevators")
LEVEL, BLOCK = 0.9, 5
FIRST, LATE = 20, 200  # rows before the first interval, and before those that the last column counts
SCALES = tuple(2.0**k for k in range(-3, 4))

Rows = tuple[Array, Array]


def uci(folder: Path, name: str, rows: int) -> Rows:
    """A table of treforevans/uci_datasets (name.csv.gz, the last column is the target), in random order."""
    with gzip.open(folder / "uci" / f"{name}.csv.gz") as file:
        table = np.loadtxt(file, delimiter=",")
    table = table[np.random.default_rng(0).permutation(len(table))][:rows]
    return table[:, :-1] / np.abs(table[:, :-1]).max(axis=0), table[:, -1]


def steady(folder: Path, rows: int) -> Iterator[tuple[str, Rows]]:
    """Streams whose law does not change; the tables only where their files are at hand."""
    for name in UCI:
        if (folder / "uci" / f"{name}.csv.gz").exists():
            yield name, uci(folder, name, rows)
    rng = np.random.default_rng(1)
    X, W = rng.standard_normal((rows, 6)), rng.standard_normal(6)
    yield "normal noise", (X, X @ W + rng.standard_normal(rows))
    yield "heavy tails", (X, X @ W + rng.standard_t(2.5, rows))
    yield "noise that depends on the row", (X, X @ W + rng.standard_normal(rows) * (0.3 + X[:, 0] ** 2))
    yield "Friedman 1 (scikit-learn)", make_friedman1(rows, random_state=0)


def drifting(rows: int) -> Iterator[tuple[str, Rows]]:
    rng = np.random.default_rng(2)
    X, t, noise = rng.standard_normal((rows, 6)), np.arange(rows), rng.standard_normal(rows)
    W, steps = rng.standard_normal((rows // 400 + 1, 6)), rng.standard_normal((rows, 6))
    yield "noise grows tenfold", (X, X @ W[0] + noise * (1 + 9 * t / rows))
    yield "noise in turns 1 and 5", (X, X @ W[0] + noise * np.where(t // 500 % 2, 5, 1))
    yield "weights wander slowly", (X, (X * np.cumsum(0.01 * steps, axis=0)).sum(axis=1) + noise)
    yield "weights wander fast", (X, (X * np.cumsum(0.1 * steps, axis=0)).sum(axis=1) + noise)
    yield "weights change every 400 rows", (X, (X * W[t // 400]).sum(axis=1) + 0.3 * noise)
    wander = np.cumsum(0.1 * steps * (t > rows // 2)[:, None], axis=0)
    yield "still, then wandering fast", (X, (X * (W[0] + wander)).sum(axis=1) + noise)


def coverage(X: Array, y: Array, method: rm.RLS) -> tuple[float, float, float]:
    """The share of rows inside their interval, of the normal form, and of intervals late in the stream."""
    model, inside, normal = rm.ContinualRegressor(method, intervals=True), [], []
    for i in range(0, len(X), BLOCK):
        part = slice(i, i + BLOCK)
        if i >= FIRST:
            _, low, high = model.predict(X[part], interval=LEVEL)
            mean, std = model.predict(X[part], return_std=True)
            inside.extend((low <= y[part]) & (y[part] <= high))
            normal.extend(np.abs(y[part] - mean) <= 1.6448536 * std)
        model.partial_fit(X[part], y[part])
    return float(np.mean(inside)), float(np.mean(normal)), float(np.mean(inside[LATE - FIRST :]))


def intervals(folder: Path, rows: int) -> tuple[Table, list[Claim]]:
    table = Table(
        "Share of rows inside intervals of 90 %",
        ("stream", "rows", "forget", "intervals", "normal form", f"from row {LATE} on"),
    )
    worst = {"steady": 0.0, "drifting": 0.0}
    found = [("steady", name, data, 1.0) for name, data in steady(folder, rows)]
    found += [("drifting", name, data, forget) for name, data in drifting(rows) for forget in (1.0, 0.98)]
    for kind, name, (X, y), forget in track_progress(found, "intervals"):
        inside, normal, late = coverage(X, y, rm.RLS(forget=forget))
        worst[kind] = max(worst[kind], abs(inside - LEVEL))
        shown = name if kind == "steady" else f"{name} (drift)"
        table.rows.append((shown, len(y), f"{forget:g}", f"{inside:.3f}", f"{normal:.3f}", f"{late:.3f}"))
    claims = [
        Claim("coverage on steady streams, furthest from 0.9", worst["steady"], 0.01),
        Claim("coverage on drifting streams, furthest from 0.9", worst["drifting"], 0.02),
    ]
    return table, claims


def forgetting(rows: int) -> tuple[Table, list[Claim]]:
    columns = ("stream", "best single forget", "its error", '"auto"', "ratio")
    table = Table("Mean squared error of each row before it is learned", columns)
    worst = 0.0
    for name, (X, y) in drifting(rows):
        errors = {forget: rm.prequential(rm.RLS(forget=forget), X, y).error for forget in BANK}
        best, auto = min(errors, key=lambda forget: errors[forget]), rm.prequential(rm.RLS(forget="auto"), X, y).error
        worst = max(worst, auto / errors[best])
        table.rows.append((name, f"{best:g}", f"{errors[best]:.4f}", f"{auto:.4f}", f"{auto / errors[best]:.3f}"))
    return table, [Claim('error of forget="auto" over that of the best single factor, at worst', worst, 1.05)]


def scales(width: int) -> tuple[Table, list[Claim]]:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:1000], order[1000:]
    columns = ("activation", "scale 1", "automatic", "best of seven around it")
    table = Table(f"Accuracy on test digits in %, {width} features", columns)
    gap = 0.0
    for activation in ("relu", "cos", "tanh"):
        auto = rm.RandomFeatures(width, activation=activation).fit(X[train]).scale_

        def score(scale: float, activation: str = activation) -> float:
            layers = [rm.RandomFeatures(width, seed, activation, scale) for seed in range(3)]
            models = [rm.ContinualClassifier(features=layer).fit(X[train], y[train]) for layer in layers]
            return 100 * float(np.mean([model.score(X[test], y[test]) for model in models]))

        best = max(score(auto * factor) for factor in SCALES)
        gap = max(gap, best - score(auto))
        table.rows.append((activation, f"{score(1.0):.1f}", f"{score(auto):.1f}", f"{best:.1f}"))
    return table, [Claim("points below the best of seven scales on test digits, at most", gap, 0.5)]


def make(quick: bool, folder: Path) -> Card:
    """Intervals, forgetting and the scale of features, as rows arrive."""
    rows = 1_500 if quick else 6_000
    parts = [intervals(folder, rows), forgetting(rows), scales(100 if quick else 400)]
    return Card(
        name="online",
        title="Rows one after the other: coverage, forgetting, scale",
        what="Regression streams are predicted with intervals before each block of five rows is learned; streams that "
        "drift are learned row by row with single forgetting factors and with an automatic one; random features set "
        "their scale themselves.",
        data="uci_datasets (treforevans): concrete, airfoil, bike, elevators, where their files are in the folder uci; "
        "generated streams with seeds 1 and 2; digits and Friedman 1 of scikit-learn",
        settings={
            "Intervals": f"ContinualRegressor(RLS(), intervals=True), blocks of {BLOCK}, counted from row {FIRST} "
            f"on; a first run counted from row {LATE} on, the last column, where the rows that "
            "were covered too often before are made up for",
            "Forgetting": f"RLS(ridge=1), factors {', '.join(f'{b:g}' for b in BANK)}",
            "How they were chosen": "nothing on test rows",
        },
        reference="Gibbs and Candès (2021) for the intervals; the best single factor, which is known only afterwards",
        tables=[table for table, _ in parts],
        claims=[] if quick else [claim for _, claims in parts for claim in claims],
    )


if __name__ == "__main__":
    sys.exit(run("online", make))
