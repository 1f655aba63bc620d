"""Predictions for many rows, beside the bare product of rows and weights."""

import numpy as np

import remanence as rm
from benchmarks.rows import Benchmark, Effort, Goal, Row, agree
from benchmarks.timing import measure


def predict(effort: Effort) -> tuple[Row, ...]:
    """10 000 rows of 2 000 features: ten classes, and one target."""
    n, d = effort.rows(10_000, 100), effort.features(2000)
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((n, d)) + 0.5, rng.standard_normal((d, 10))
    single, half = X.astype(np.float32), slice(0, n // 2)
    labels = (X @ W).argmax(axis=1)
    classifier = rm.ContinualClassifier().fit(X[half], labels[half])
    regressor = rm.ContinualRegressor().fit(X[half], X[half, 0])
    many, one = classifier.coef_.T.copy(), regressor.coef_[:, None].copy()
    calls = {
        "classes": lambda: classifier.class_scores(X),
        "classes-float32": lambda: classifier.class_scores(single),
        "classes-bare": lambda: X @ many,
        "target": lambda: regressor.predict(X),
        "target-float32": lambda: regressor.predict(single),
        "target-bare": lambda: X @ one,
    }
    found = measure(calls, effort)
    agree(found.results["classes"], found.results["classes-bare"] + classifier.intercept_, 1e-9, "X @ coef_.T")
    agree(found.results["target"], found.results["target-bare"][:, 0] + regressor.intercept_, 1e-9, "X @ coef_")

    def row(name: str, bare: str, what: str, bound: float) -> Row:
        pairs = found.pairs(name, bare, n, n)
        title, ours, theirs = "the bare product X @ W in float64", found.best(name, n), found.best(bare, n)
        return Row(f"predict-{name}", f"{what}, {n} × {d}", ours, title, theirs, Goal("at most", bound), rounds=pairs)

    return (
        row("classes", "classes-bare", "ContinualClassifier, 10 classes", 2),
        row("classes-float32", "classes-bare", "float32 rows, 10 classes", 3),
        row("target", "target-bare", "ContinualRegressor, one target", 2),
        row("target-float32", "target-bare", "float32 rows, one target", 3),
    )


BENCHMARKS: dict[str, Benchmark] = {"predict": predict}
