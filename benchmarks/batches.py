"""Learning in batches, the weights wanted after each, many outputs: what keeping a model up to date costs."""

from collections.abc import Callable
from typing import Any

import numpy as np

import remanence as rm
from benchmarks.data import faded_solution, linear_rows
from benchmarks.rows import Benchmark, Effort, Goal, Limit, Row, agree, distance
from benchmarks.timing import measure
from remanence.arrays import Array

Batches = list[tuple[Array, Array]]


def _ours(batches: Batches, donate: bool) -> Array:
    method = rm.RLS(ridge=1.0)
    state = method.init(batches[0][0].shape[1], batches[0][1].shape[1])
    for X, Y in batches:
        state = method.update(state, X, Y, donate=donate)
        W = method.weights(state)
    return W


def _bare(batches: Batches) -> Array:
    """The fastest way to the same weights: sum up XᵀX and XᵀY, one Cholesky a batch. Squares the condition number."""
    from scipy.linalg import cho_factor, cho_solve
    from scipy.linalg.blas import dgemm, dsyrk

    d, c = batches[0][0].shape[1], batches[0][1].shape[1]
    G, B = np.eye(d, order="F"), np.zeros((d, c), order="F")
    for X, Y in batches:
        G = dsyrk(1.0, X.T, beta=1.0, c=G, overwrite_c=1)
        B = dgemm(1.0, X.T, Y.T, beta=1.0, c=B, trans_b=1, overwrite_c=1)
        W = cho_solve(cho_factor(G, check_finite=False), B, check_finite=False)
    return W


def _retrained(X: Array, Y: Array, ends: list[int]) -> Array:
    from sklearn.linear_model import Ridge

    for end in ends:
        model = Ridge(alpha=1.0, fit_intercept=False).fit(X[:end], Y[:end])
    return model.coef_.T


def batches(effort: Effort) -> tuple[Row, ...]:
    """All three compute ridge regression over everything so far, λ = 1, after each of twenty batches."""
    d, c, n, count = effort.features(512), 50, effort.rows(20_000, 400), 20
    X, Y = linear_rows(n, d, c)
    ends = [n * (k + 1) // count for k in range(count)]
    parts = [(X[a:b], Y[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: _ours(parts, donate=False),
        "bare": lambda: _bare(parts),
        "ridge": lambda: _retrained(X, Y, ends),
        "donating": lambda: _ours(parts, donate=True),
    }
    found = measure(calls, effort)
    oracle = faded_solution(X, Y, 1.0, 1.0)
    for name, W in found.results.items():
        agree(W, oracle, 1e-8, name)
    limit = Limit("bare dsyrk + Cholesky loop", found.best("bare", n))
    what = f"RLS().update and weights, d = {d}, {c} outputs, {count} batches of {n // count} rows"
    accuracy = {
        "our weights from a direct solve": distance(found.results["ours"], oracle),
        "their weights from a direct solve": distance(found.results["bare"], oracle),
    }
    retrained = accuracy | {"their weights from a direct solve": distance(found.results["ridge"], oracle)}
    ours, loop = found.best("ours", n), found.best("bare", n)
    return (
        Row(
            "batches-bare",
            what,
            ours,
            "bare dsyrk + Cholesky loop",
            loop,
            Goal("at most", 3.5),
            accuracy=accuracy,
            rounds=found.pairs("ours", "bare", n, n),
        ),
        Row(
            "batches-ridge",
            what,
            ours,
            "scikit-learn Ridge retrained on everything",
            found.best("ridge", n),
            Goal("at least", 3),
            limit,
            accuracy=retrained,
            rounds=found.pairs("ours", "ridge", n, n),
        ),
        Row(
            "batches-donate",
            what.replace("update", "update(donate=True)"),
            found.best("donating", n),
            "bare dsyrk + Cholesky loop",
            loop,
            Goal("at most"),
            rounds=found.pairs("donating", "bare", n, n),
        ),
    )


BENCHMARKS: dict[str, Benchmark] = {"batches": batches}
