"""Whole streams at once, one output: every row's error before it was learned, as adaptive filters are used.

Peers: padasip (pure NumPy, a loop over rows; the same recursions) and scikit-learn's SGDRegressor (compiled).
"""

from functools import partial
from typing import Any

import numpy as np

import remanence as rm
from benchmarks.data import faded_solution, linear_rows
from benchmarks.peers import peer
from benchmarks.rows import Benchmark, Effort, Goal, Limit, Row, agree, distance
from benchmarks.timing import measure
from remanence.arrays import Array

PASS = "one pass X @ w over the rows"


def _tracked(method: Any, X: Array, Y: Array) -> tuple[Array, Array]:
    """The errors and the weights at the end; padasip's `run` returns both as well."""
    state, errors = method.track(method.init(X.shape[1], Y.shape[1]), X, Y)
    return errors, method.weights(state)


def _run(kind: str, X: Array, Y: Array, **settings: Any) -> tuple[Array, Array]:
    """A fresh filter of padasip over the rows: errors and last weights."""
    filters = peer("padasip").filters
    adaptive = getattr(filters, kind)(X.shape[1], w="zeros", **settings)
    _, errors, _ = adaptive.run(Y[:, 0], X)
    return errors, adaptive.w


def _rls(
    effort: Effort, features: int, rows: int, peer_rows: int, bound: float | None, suffix: str = ""
) -> tuple[Row, ...]:
    """padasip's FilterRLS: the same recursion with eps for the ridge, on Φ itself, at d³ a row."""
    from scipy.linalg.blas import dsyrk

    peer("padasip")
    d, n, m = effort.features(features), effort.rows(rows), effort.rows(peer_rows)
    X, Y = linear_rows(n, d)
    method = rm.RLS(ridge=1.0, forget=0.99)
    found = measure(
        {
            "ours": lambda: _tracked(method, X, Y),
            "padasip": lambda: _run("FilterRLS", X[:m], Y[:m], mu=0.99, eps=1.0),
            "limit": lambda: dsyrk(1.0, X.T),
        },
        effort,
    )
    errors, weights = found.results["ours"]
    theirs, last = found.results["padasip"]
    early = _tracked(method, X[:m], Y[:m])[1] if m < n else weights
    oracle = faded_solution(X[:m], Y[:m], 1.0, 0.99)
    accuracy = {
        "errors apart": agree(errors[:m], theirs, 1e-6, "RLS and FilterRLS"),
        "our weights from a direct solve": distance(early, oracle),
        "their weights from a direct solve": distance(last, oracle),
    }
    return (
        Row(
            f"rls-{features}{suffix}",
            f"RLS(forget=0.99).track, d = {d}, {n} rows",
            found.best("ours", n),
            f"padasip FilterRLS(mu=0.99), {m} rows",
            found.best("padasip", m),
            Goal("at least", bound),
            Limit("bare dsyrk of the same rows", found.best("limit", n)),
            accuracy=accuracy,
            rounds=found.pairs("ours", "padasip", n, m),
        ),
    )


def _lms(effort: Effort, normalized: bool) -> tuple[Row, ...]:
    """FilterNLMS adds eps to ‖x‖² (0 here, so it is the same recursion); FilterLMS is `normalized=False`."""
    peer("padasip")
    d, n = effort.features(64), effort.rows(20_000)
    X, Y = linear_rows(n, d)
    step = 0.5 if normalized else 0.5 / d
    kind, more = ("FilterNLMS", {"eps": 0.0}) if normalized else ("FilterLMS", {})
    method, w = rm.LMS(step=step, normalized=normalized), np.ones(d)
    found = measure(
        {
            "ours": lambda: _tracked(method, X, Y),
            "padasip": lambda: _run(kind, X, Y, mu=step, **more),
            "limit": lambda: X @ w,
        },
        effort,
    )
    errors, theirs = found.results["ours"][0], found.results["padasip"][0]
    return (
        Row(
            "lms-normalized" if normalized else "lms-raw",
            f"LMS({'' if normalized else 'normalized=False'}).track, d = {d}, {n} rows",
            found.best("ours", n),
            f"padasip {kind}",
            found.best("padasip", n),
            Goal("at least", 60),
            Limit(PASS, found.best("limit", n)),
            accuracy={"errors apart": agree(errors, theirs, 1e-9, f"LMS and {kind}")},
            rounds=found.pairs("ours", "padasip", n, n),
        ),
    )


def lms_sgd(effort: Effort) -> tuple[Row, ...]:
    """SGDRegressor's constant rate without penalty is raw LMS; it hands back the weights, no errors.

    Normalised LMS stands beside it for information: it has no counterpart there, and measures ‖x‖² on top.
    """
    from sklearn.linear_model import SGDRegressor

    d, n = effort.features(64), effort.rows(20_000)
    X, Y = linear_rows(n, d)
    step, w, y = 0.5 / d, np.ones(d), Y[:, 0].copy()
    raw, normalized = rm.LMS(step=step, normalized=False), rm.LMS(step=0.5)

    def sgd() -> Any:
        settings = {"loss": "squared_error", "penalty": None, "alpha": 0.0, "learning_rate": "constant"}
        return SGDRegressor(**settings, eta0=step, fit_intercept=False, shuffle=False).partial_fit(X, y)

    found = measure(
        {
            "raw": lambda: _tracked(raw, X, Y),
            "sgd": sgd,
            "normalized": lambda: _tracked(normalized, X, Y),
            "limit": lambda: X @ w,
        },
        effort,
    )
    limit = Limit(PASS, found.best("limit", n))
    same = agree(found.results["raw"][1], found.results["sgd"].coef_, 1e-9, "LMS and SGDRegressor")
    theirs = "scikit-learn SGDRegressor.partial_fit, whole array"
    return (
        Row(
            "lms-sgd",
            f"LMS(normalized=False).track, d = {d}, {n} rows",
            found.best("raw", n),
            theirs,
            found.best("sgd", n),
            Goal("at least", 3),
            limit,
            accuracy={"weights apart": same},
            rounds=found.pairs("raw", "sgd", n, n),
        ),
        Row(
            "lms-sgd-normalized",
            f"LMS().track, d = {d}, {n} rows",
            found.best("normalized", n),
            theirs,
            found.best("sgd", n),
            Goal("at least"),
            limit,
            note="not the same step: ours divides by ‖x‖² as well",
            rounds=found.pairs("normalized", "sgd", n, n),
        ),
    )


def apa(effort: Effort) -> tuple[Row, ...]:
    """FilterAP of order 9 meets the new sample and the 8 before it, as buffer=8 does.

    Not quite the same: it adds ifc to the Gram matrix (1e-9 here), and its window begins with eight samples of
    zeros where ours begins with fewer constraints; with ifc → 0 those add nothing.
    """
    peer("padasip")
    d, n = effort.features(64), effort.rows(20_000)
    X, Y = linear_rows(n, d)
    method, w = rm.APA(buffer=8, step=0.5), np.ones(d)
    found = measure(
        {
            "ours": lambda: _tracked(method, X, Y),
            "padasip": lambda: _run("FilterAP", X, Y, mu=0.5, order=9, ifc=1e-9),
            "limit": lambda: X @ w,
        },
        effort,
    )
    errors, theirs = found.results["ours"][0], found.results["padasip"][0]
    return (
        Row(
            "apa-8",
            f"APA(buffer=8).track, d = {d}, {n} rows",
            found.best("ours", n),
            "padasip FilterAP(order=9)",
            found.best("padasip", n),
            Goal("at least", 10),
            Limit(PASS, found.best("limit", n)),
            accuracy={"errors apart": agree(errors, theirs, 1e-6, "APA and FilterAP")},
            note="order 9 = the new sample and the 8 before it",
            rounds=found.pairs("ours", "padasip", n, n),
        ),
    )


def recursive_ls(effort: Effort) -> tuple[Row, ...]:
    """statsmodels' RecursiveLS is a Kalman filter with a diffuse prior: RLS without forgetting, ridge towards 0.

    It also keeps every covariance on the way, which we do not; `filter` alone is timed, without its smoother.
    """
    recursive = peer("statsmodels.regression.recursive_ls")
    d, n, m = effort.features(16), effort.rows(20_000), effort.rows(1_000, 200)
    X, Y = linear_rows(max(n, m), d)
    method = rm.RLS(ridge=1e-6)
    found = measure(
        {
            "ours": lambda: _tracked(method, X, Y),
            "statsmodels": lambda: recursive.RecursiveLS(Y[:m, 0], X[:m]).filter(return_ssm=True),
        },
        effort,
    )
    early, last = _tracked(method, X[:m], Y[:m])[1], found.results["statsmodels"].filtered_state[:, -1]
    return (
        Row(
            "rls-statsmodels",
            f"RLS().track, d = {d}, {len(X)} rows",
            found.best("ours", len(X)),
            f"statsmodels RecursiveLS.filter, {m} rows",
            found.best("statsmodels", m),
            Goal("at least"),
            accuracy={"weights apart": agree(early, last, 1e-3, "RLS and RecursiveLS")},
            note="it also keeps the covariance of every step",
            rounds=found.pairs("ours", "statsmodels", len(X), m),
        ),
    )


BENCHMARKS: dict[str, Benchmark] = {
    "rls-16": partial(_rls, features=16, rows=20_000, peer_rows=20_000, bound=35),
    "rls-64": partial(_rls, features=64, rows=20_000, peer_rows=20_000, bound=20),
    "rls-256": partial(_rls, features=256, rows=20_000, peer_rows=400, bound=100),
    "rls-1024": partial(_rls, features=1024, rows=2_000, peer_rows=12, bound=400),
    # 2000 rows leave the prior in sight, so its factor and that of the data are both kept; a long stream needs one
    "rls-1024-long": partial(_rls, features=1024, rows=10_000, peer_rows=12, bound=None, suffix="-long"),
    "lms-normalized": partial(_lms, normalized=True),
    "lms-raw": partial(_lms, normalized=False),
    "lms-sgd": lms_sgd,
    "apa-8": apa,
    "rls-statsmodels": recursive_ls,
}
