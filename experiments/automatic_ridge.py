"""`python -m experiments.automatic_ridge`: RLS(ridge="auto") beside RidgeCV on generated problems.

RidgeCV chooses among 73 ridges over 18 powers of ten by leave-one-out errors, for which it keeps all rows; "auto" knows
only the factor. The figures are ratios of the mean squared errors on test rows.
"""

import sys
import warnings
from collections.abc import Iterator

import numpy as np

import remanence as rm
from remanence.arrays import Array

KINDS = ("plain", "collinear", "graded", "rare", "outliers", "broken")
TEST = 1000


def problem(seed: int) -> tuple[dict[str, object], Array, Array, Array, Array]:
    """What it is, rows and targets to learn, and rows and targets to predict."""
    rng = np.random.default_rng([seed, 2])
    kind = KINDS[seed % len(KINDS)]
    n, d = int(rng.choice([60, 150, 400, 1000])), int(rng.choice([3, 10, 30, 80, 150]))
    noise, standardized = float(rng.choice([1e-6, 1e-3, 0.1, 0.5, 2.0, 20.0])), bool(rng.integers(2))
    X = rng.standard_normal((n + TEST, d))
    if kind in ("collinear", "broken"):  # a third as many directions as columns, and little beside them
        r = max(1, d // 3)
        low = rng.standard_normal((n + TEST, r)) @ rng.standard_normal((r, d)) / np.sqrt(r)
        X = low + 10.0 ** rng.uniform(-5, -1) * X
    if kind == "graded":
        X = (X * np.logspace(0, -rng.uniform(1, 5), d)) @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    if kind == "rare":  # half of the columns are almost always zero
        few = max(1, d // 2)
        X[:, :few] = (rng.random((n + TEST, few)) < rng.choice([4 / n, 0.02, 0.1])) * rng.choice([1.0, 50.0])
    if not standardized:
        X = X * 10.0 ** rng.uniform(-2, 2, d) + rng.standard_normal(d)
    deviations = np.where(X.std(axis=0) > 0, X.std(axis=0), 1)
    w = rng.standard_normal(d) / deviations * (rng.random(d) < rng.choice([0.2, 1.0]))
    past, new = slice(0, n), slice(n, None)
    size = (X[past] @ w).std() or 1.0
    if kind == "outliers":  # some test rows are far out
        far = n + np.flatnonzero(rng.random(TEST) < 0.02)
        X[far] = X[past].mean(axis=0) + 10 * (X[far] - X[past].mean(axis=0))
    if kind == "broken":  # in some test rows one column leaves the others
        far = n + np.flatnonzero(rng.random(TEST) < 0.02)
        column = rng.integers(d, size=len(far))
        X[far, column] += 3 * deviations[column]
    y = X @ w + noise * size * rng.standard_normal(n + TEST)
    if standardized:
        spread = X[past].std(axis=0)
        X = (X - X[past].mean(axis=0)) / np.where(spread > 0, spread, 1)
    about = {"kind": kind, "rows": n, "features": d, "noise": noise, "standardized": standardized}
    return about, X[past], y[past], X[new], y[new]


def ratio(seed: int) -> float:
    """The test error with ridge="auto" relative to that of RidgeCV."""
    return ratios(seed)[0]


def ratios(seed: int) -> tuple[float, float]:
    """Of ridge="auto", and of RidgeCV on a grid twice as fine, relative to RidgeCV."""
    from sklearn.linear_model import RidgeCV

    _, X, y, X_test, y_test = problem(seed)
    top = float(np.linalg.norm(X - X.mean(axis=0), 2)) ** 2
    ours = rm.ContinualRegressor(rm.RLS("auto")).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        finer, theirs = (RidgeCV(top * np.logspace(-14, 4, points)).fit(X, y) for points in (145, 73))
    errors = [float(np.mean((model.predict(X_test) - y_test) ** 2)) for model in (ours, finer, theirs)]
    return errors[0] / errors[2], errors[1] / errors[2]


def main(problems: int = 200, first: int = 0) -> Iterator[str]:
    found, finer = np.array([ratios(seed) for seed in range(first, first + problems)]).T
    yield f"test error of ridge='auto' relative to RidgeCV (leave-one-out), {problems} problems from {first} on"
    yield _summary(found)
    yield "the same of RidgeCV itself on a grid twice as fine"
    yield _summary(finer)
    worse = first + np.flatnonzero(found > 1.05)
    for seed in worse if first == 0 else ():
        yield f"  {found[seed]:.3g} at problem {seed}: {problem(int(seed))[0]}"


def _summary(found: Array) -> str:
    mean, worse, better = np.exp(np.log(found).mean()), (found > 1.05).sum(), (found < 1 / 1.05).sum()
    spread = f"median {np.median(found):.4f}, geometric mean {mean:.4f}, worst {found.max():.4g}"
    return f"{spread}; worse than 1.05: {worse}, better than 1/1.05: {better}"


if __name__ == "__main__":
    for line in main(*map(int, sys.argv[1:3])):
        print(line)
