"""Live use: a row comes, is predicted, and then learned; nothing may wait for a batch."""

from collections.abc import Callable
from typing import Any

import numpy as np

import remanence as rm
from benchmarks.data import linear_rows
from benchmarks.peers import peer
from benchmarks.rows import Benchmark, Effort, Goal, Limit, Row, agree
from benchmarks.timing import measure
from remanence.arrays import Array


def _lived(method: Any, state: Any, X: Array, Y: Array) -> tuple[Array, Any]:
    """The predictions, each made before its row was learned, and the state after all."""
    answers = np.empty_like(Y)
    for i in range(len(X)):
        x, y = X[i : i + 1], Y[i : i + 1]
        answers[i] = method.predict(state, x)[0]
        state = method.update(state, x, y)
    return answers, state


def _limit(d: int, X: Array) -> Callable[[], None]:
    """The least a row of RLS can cost from Python: a dot product, and one pass over a triangle of d² / 2 numbers."""
    from scipy.linalg.blas import ddot, dtrmv

    R, w = np.triu(np.ones((d, d))).copy(order="F"), np.ones(d)

    def bare() -> None:
        for x in X:
            ddot(x, w)
            dtrmv(R, x)

    return bare


def _warmed(method: Any, d: int, rows: int) -> tuple[Any, Array, Array]:
    """A state that has seen 2d rows, and rows to go on with."""
    X, Y = linear_rows(2 * d + rows, d)
    state = method.update(method.init(d, 1), X[: 2 * d], Y[: 2 * d])
    return state, X[2 * d :], Y[2 * d :]


def scaling(effort: Effort) -> tuple[Row, ...]:
    """A row costs d²: twice the features, four times the cost, and a little for leaving the caches."""
    wide, narrow, n = effort.features(1024), effort.features(1024) // 2, effort.rows(512)
    method = rm.RLS()
    state, X, Y = _warmed(method, wide, n)
    other, V, T = _warmed(method, narrow, n)
    found = measure(
        {
            "wide": lambda: _lived(method, state, X, Y),
            "narrow": lambda: _lived(method, other, V, T),
            "limit": _limit(wide, X),
        },
        effort,
    )
    together = method.track(state, X, Y)[1]
    return (
        Row(
            "live-scaling",
            f"RLS(), predict and update each row, d = {wide}, {n} rows",
            found.best("wide", n),
            f"the same at d = {narrow}",
            found.best("narrow", n),
            Goal("at most", 6),
            Limit("a dot and a dtrmv a row", found.best("limit", n)),
            accuracy={"errors from track": agree(Y - found.results["wide"][0], together, 1e-9, "live and track")},
            rounds=found.pairs("wide", "narrow", n, n),
        ),
    )


def live(effort: Effort) -> tuple[Row, ...]:
    """RLS beside SGDRegressor used the same way: not the same method (d² a row, and exact), the same job.

    LMS without normalising is the same method, and is held to the same predictions.
    """
    from sklearn.linear_model import SGDRegressor

    d, n, m = effort.features(64), effort.rows(4_000), effort.rows(1_000)
    exact, fading, step = rm.RLS(), rm.RLS(forget=0.99), 0.5 / d
    lms = rm.LMS(step=step, normalized=False)
    X, Y = linear_rows(n, d)

    def sgd() -> Array:
        settings = {"loss": "squared_error", "penalty": None, "alpha": 0.0, "learning_rate": "constant"}
        model = SGDRegressor(**settings, eta0=step, fit_intercept=False, shuffle=False)
        model.partial_fit(X[:1], [0.0])  # (it cannot predict before it has learned; this row teaches nothing)
        answers = np.empty(m)
        for i in range(m):
            answers[i] = model.predict(X[i : i + 1])[0]
            model.partial_fit(X[i : i + 1], Y[i])
        return answers

    found = measure(
        {
            "exact": lambda: _lived(exact, exact.init(d, 1), X, Y),
            "sgd": sgd,
            "fading": lambda: _lived(fading, fading.init(d, 1), X, Y),
            "lms": lambda: _lived(lms, lms.init(d, 1), X, Y),
            "limit": _limit(d, X),
        },
        effort,
    )
    answers, theirs = found.results["exact"][0], found.best("sgd", m)
    late = slice(m // 2, m)

    def squared(given: Array) -> float:
        return float(np.mean((np.ravel(given)[late] - Y[late, 0]) ** 2))

    limit = Limit("a dot and a dtrmv a row", found.best("limit", n))
    name, job = "scikit-learn SGDRegressor, predict and partial_fit", f"predict and update each row, d = {d}, {n} rows"
    together = exact.track(exact.init(d, 1), X, Y)[1]
    return (
        Row(
            "live-rls",
            f"RLS(), {job}",
            found.best("exact", n),
            name,
            theirs,
            Goal("at least", 8),
            limit,
            accuracy={
                "errors from track": agree(Y - answers, together, 1e-9, "live and track"),
                "our squared error": squared(answers),
                "their squared error": squared(found.results["sgd"]),
            },
            note="exact least squares beside a gradient step",
            rounds=found.pairs("exact", "sgd", n, m),
        ),
        Row(
            "live-rls-fading",
            f"RLS(forget=0.99), {job}",
            found.best("fading", n),
            name,
            theirs,
            Goal("at least"),
            limit,
            rounds=found.pairs("fading", "sgd", n, m),
        ),
        Row(
            "live-lms",
            f"LMS(normalized=False), {job}",
            found.best("lms", n),
            name,
            theirs,
            Goal("at least"),
            accuracy={
                "predictions apart": agree(
                    found.results["lms"][0][:m], found.results["sgd"], 1e-9, "LMS and SGDRegressor"
                )
            },
            rounds=found.pairs("lms", "sgd", n, m),
        ),
    )


def river(effort: Effort) -> tuple[Row, ...]:
    """river's LinearRegression by plain SGD is raw LMS with step 2·lr (its squared loss has no ½); rows are dicts."""
    linear_model, optim = peer("river.linear_model"), peer("river.optim")
    d, n = effort.features(64), effort.rows(2_000)
    X, Y = linear_rows(n, d)
    step = 0.5 / d
    method, exact = rm.LMS(step=step, normalized=False), rm.RLS()
    rows = [dict(enumerate(x)) for x in X.tolist()]  # made beforehand: a user of river has them
    aims = Y[:, 0].tolist()

    def lived() -> Array:
        model = linear_model.LinearRegression(optimizer=optim.SGD(step / 2), intercept_lr=0.0)
        answers = np.empty(n)
        for i in range(n):
            answers[i] = model.predict_one(rows[i])
            model.learn_one(rows[i], aims[i])
        return answers

    found = measure(
        {
            "ours": lambda: _lived(method, method.init(d, 1), X, Y),
            "river": lived,
            "exact": lambda: _lived(exact, exact.init(d, 1), X, Y),
        },
        effort,
    )
    name, job = "river LinearRegression, predict_one and learn_one", f"predict and update each row, d = {d}, {n} rows"
    same = agree(found.results["ours"][0], found.results["river"], 1e-9, "LMS and river")
    return (
        Row(
            "live-river",
            f"LMS(normalized=False), {job}",
            found.best("ours", n),
            name,
            found.best("river", n),
            Goal("at least"),
            accuracy={"predictions apart": same},
            rounds=found.pairs("ours", "river", n, n),
        ),
        Row(
            "live-river-rls",
            f"RLS(), {job}",
            found.best("exact", n),
            name,
            found.best("river", n),
            Goal("at least"),
            note="exact least squares beside a gradient step",
            rounds=found.pairs("exact", "river", n, n),
        ),
    )


BENCHMARKS: dict[str, Benchmark] = {"live-scaling": scaling, "live": live, "live-river": river}
