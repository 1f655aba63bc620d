"""Ten classes arriving in ten tasks, in batches, with predictions wanted after each task."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import remanence as rm
from benchmarks.rows import Benchmark, Effort, Goal, Limit, NotTheSame, Row, agree
from benchmarks.timing import Measured, measure
from remanence.arrays import Array

TASKS, CLASSES = 10, 10


def _features(n: int, d: int) -> tuple[Array, Array]:
    """Rows like those of a frozen network: non-negative, correlated; labels in class order, one class a task."""
    rng = np.random.default_rng(0)
    y = np.sort(np.arange(n) % CLASSES)
    X = np.maximum(rng.standard_normal((n, d)) + rng.standard_normal((CLASSES, d))[y] * 0.5, 0)
    return X, y


def _ours(X: Array, y: Array, batch: int) -> Array:
    model = rm.ContinualClassifier(rm.RLS(ridge=1.0), calibrate=False)
    step = len(X) // TASKS
    for task in range(TASKS):
        for i in range(task * step, (task + 1) * step, batch):
            model.partial_fit(X[i : i + batch], y[i : i + batch])
        answers = model.predict(X[:batch])
    return answers


def _syrk(X: Array, batch: int) -> Array:
    """What any method with a d × d memory must spend at least: the sum of XᵀX."""
    from scipy.linalg.blas import dsyrk

    G = np.zeros((X.shape[1],) * 2, order="F")
    for i in range(0, len(X), batch):
        G = dsyrk(1.0, X[i : i + batch].T, beta=1.0, c=G, overwrite_c=1)
    return G


def _retrained(X: Array, y: Array, batch: int) -> Array:
    from sklearn.linear_model import RidgeClassifier

    step = len(X) // TASKS
    answers = np.full(batch, y[0])
    for task in range(1, TASKS):  # one class is no problem to solve for it
        answers = RidgeClassifier(alpha=1.0).fit(X[: (task + 1) * step], y[: (task + 1) * step]).predict(X[:batch])
    return answers


def _explicit_inverse(X: Array, y: Array, batch: int) -> Array:
    """The usual recursion: P = (XᵀX + λI)⁻¹ by the Woodbury identity, an intercept as one more feature."""
    Z = np.column_stack([np.ones(len(X)), X])
    T = np.eye(CLASSES)[y]
    P, W = np.eye(Z.shape[1]), np.zeros((Z.shape[1], CLASSES))
    for i in range(0, len(Z), batch):
        z, t = Z[i : i + batch], T[i : i + batch]
        Pz = P @ z.T
        K = np.linalg.solve(np.eye(len(z)) + z @ Pz, Pz.T).T
        W, P = W + K @ (t - z @ W), P - K @ Pz.T
    return (Z[:batch] @ W).argmax(axis=1)


def classifier(effort: Effort) -> tuple[Row, ...]:
    """60 000 rows of 1 280 features in batches of 1 000."""
    d, n = effort.features(1280), effort.rows(60_000, 1000)
    n -= n % TASKS
    batch = min(1000, n // TASKS)
    X, y = _features(n, d)
    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: _ours(X, y, batch),
        "syrk": lambda: _syrk(X, batch),
        "ridge": lambda: _retrained(X, y, batch),
        "inverse": lambda: _explicit_inverse(X, y, batch),
    }
    found = measure(calls, effort)
    agree(found.results["ours"] == found.results["ridge"], np.ones(batch), 0.1, "answers of RidgeClassifier")
    ours = found.best("ours", n)
    what = (
        f"ContinualClassifier(RLS(), calibrate=False), d = {d}, {CLASSES} classes in {TASKS} tasks, batches of {batch}"
    )
    limit = Limit("bare dsyrk of the same rows", found.best("syrk", n))
    most = found.best("ridge", n) / (2 * limit.value)

    def row(name: str, peer: str, title: str, goal: Goal) -> Row:
        pairs = found.pairs("ours", peer, n, n)
        return Row(name, what, ours, title, found.best(peer, n), goal, limit, rounds=pairs)

    return (
        row("classifier-syrk", "syrk", "bare dsyrk of the same rows", Goal("at most", 4)),
        replace(
            row("classifier-ridge", "ridge", "RidgeClassifier retrained at each task", Goal("at least", 5)),
            accuracy={"ratio if reflections cost no more than their arithmetic, 2 dsyrk": most},
        ),
        row("classifier-inverse", "inverse", "explicit inverse by the Woodbury identity", Goal("at least", 1)),
    )


def two_threads(effort: Effort) -> tuple[Row, ...]:
    """The same rows and tasks on two threads, in seconds on the wall; both cores should be free."""
    from threadpoolctl import threadpool_limits

    d, n = effort.features(1280), effort.rows(60_000, 1000)
    n -= n % TASKS
    batch = min(1000, n // TASKS)
    X, y = _features(n, d)

    def ours(count: int) -> Array:
        with rm.threads(count):
            return _ours(X, y, batch)

    calls: dict[str, Callable[[], Any]] = {"one": lambda: ours(1), "two": lambda: ours(2)}
    effort = replace(effort, seconds=5 * effort.seconds)  # seconds on the wall need more rounds to find quiet ones
    with threadpool_limits(2):
        found = measure(calls, effort, on_the_wall=True)
        retrained = measure({"two": calls["two"], "ridge": lambda: _retrained(X, y, batch)}, effort, on_the_wall=True)
    if not (found.results["one"] == found.results["two"]).all():
        raise NotTheSame("expected the same answers from one thread and from two")
    what = f"ContinualClassifier(RLS(), calibrate=False), d = {d}, {CLASSES} classes, batches of {batch}, two threads"

    def row(name: str, times: Measured, peer: str, title: str, goal: Goal) -> Row:
        pairs = times.pairs("two", peer, n, n)
        return Row(name, what, times.best("two", n), title, times.best(peer, n), goal, rounds=pairs)

    title = "RidgeClassifier retrained, two threads"
    return (
        row("classifier-threads", found, "one", "the same on one thread", Goal("at least", 1.7)),
        row("classifier-threads-ridge", retrained, "ridge", title, Goal("at least", 4)),
    )


BENCHMARKS: dict[str, Benchmark] = {"classifier": classifier, "classifier-threads": two_threads}
