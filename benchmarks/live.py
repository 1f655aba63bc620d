"""Live use: a row comes, is predicted, and then learned; nothing may wait for a batch."""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
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


def _filtered(live: Any, rows: list[Array], targets: list[float]) -> Array:
    """The predictions of a live filter, each made before its row was learned."""
    answers = np.empty(len(rows))
    for i, (x, y) in enumerate(zip(rows, targets, strict=True)):
        answers[i] = live.predict(x)
        live.learn(x, y)
    return answers


def river(effort: Effort) -> tuple[Row, ...]:
    """river's LinearRegression by plain SGD is raw LMS with step 2·lr (its squared loss has no ½); rows are dicts."""
    linear_model, optim = peer("river.linear_model"), peer("river.optim")
    d, n = effort.features(64), effort.rows(4_000)
    X, Y = linear_rows(n, d)
    step = 0.5 / d
    lms, rls = rm.LMS(step=step, normalized=False), rm.RLS()
    dicts = [dict(enumerate(x)) for x in X.tolist()]  # made beforehand: a user of river has them
    rows, targets = list(X), Y[:, 0].tolist()

    def lived() -> Array:
        model = linear_model.LinearRegression(optimizer=optim.SGD(step / 2), intercept_lr=0.0)
        answers = np.empty(n)
        for i in range(n):
            answers[i] = model.predict_one(dicts[i])
            model.learn_one(dicts[i], targets[i])
        return answers

    found = measure(
        {
            "lms": lambda: _filtered(lms.live(d), rows, targets),
            "river": lived,
            "rls": lambda: _filtered(rls.live(d), rows, targets),
            "adapter": lambda: _adapted(dicts, targets),
        },
        effort,
    )
    name, job = "river LinearRegression, predict_one and learn_one", f"predict and learn each row, d = {d}, {n} rows"
    same = agree(found.results["lms"], found.results["river"], 1e-9, "LMS and river")
    errors = rls.track(rls.init(d, 1), X, Y)[1]
    exact = agree(Y[:, 0] - found.results["rls"], errors, 1e-9, "live and track")
    note = "exact least squares beside a gradient step"
    sides = {
        "lms": ("live-river", "LMS(normalized=False).live", 15, {"predictions apart": same}, ""),
        "rls": ("live-river-rls", "RLS().live", 3, {"errors from track": exact}, note),
        "adapter": ("live-river-adapter", "compat.river.Regressor(RLS()), on dictionaries,", None, {}, note),
    }
    return tuple(
        Row(
            title,
            f"{what} {job}",
            found.best(side, n),
            name,
            found.best("river", n),
            Goal("at least", bound),
            accuracy=accuracy,
            note=remark,
            rounds=found.pairs(side, "river", n, n),
        )
        for side, (title, what, bound, accuracy, remark) in sides.items()
    )


def _adapted(dicts: list[dict[int, float]], targets: list[float]) -> None:
    model = rm.compat.river.Regressor(rm.RLS(), intercept=False)
    for x, y in zip(dicts, targets, strict=True):
        model.predict_one(x)
        model.learn_one(x, y)


def padasip(effort: Effort) -> tuple[Row, ...]:
    """padasip's filters one row at a time, `predict` and `adapt`; NLMS is LMS but for the eps beside ‖x‖²."""
    filters = peer("padasip.filters")
    d, n, m = effort.features(64), effort.rows(4_000), effort.rows(1_000)
    X, Y = linear_rows(n, d)
    rows, targets = list(X), Y[:, 0].tolist()
    rls, lms = rm.RLS(ridge=10.0, forget=0.99), rm.LMS(step=0.5)  # (their R begins as 0.1⁻¹ of the identity)

    def adapted(make: Callable[[], Any], count: int) -> Array:
        model, answers = make(), np.empty(count)
        for i in range(count):
            answers[i] = model.predict(rows[i])
            model.adapt(targets[i], rows[i])
        return answers

    found = measure(
        {
            "rls": lambda: _filtered(rls.live(d), rows, targets),
            "their rls": lambda: adapted(lambda: filters.FilterRLS(d, mu=0.99, eps=0.1, w="zeros"), m),
            "lms": lambda: _filtered(lms.live(d), rows, targets),
            "their lms": lambda: adapted(lambda: filters.FilterNLMS(d, mu=0.5, eps=1e-300, w="zeros"), n),
        },
        effort,
    )
    job = f"predict and learn each row, d = {d}, {n} rows"
    apart = agree(found.results["lms"], found.results["their lms"], 1e-9, "LMS and padasip")
    return (
        Row(
            "live-padasip-rls",
            f"RLS(forget=0.99).live {job}",
            found.best("rls", n),
            f"padasip FilterRLS(mu=0.99), predict and adapt, {m} rows",
            found.best("their rls", m),
            Goal("at least", 15),
            rounds=found.pairs("rls", "their rls", n, m),
        ),
        Row(
            "live-padasip-lms",
            f"LMS(step=0.5).live {job}",
            found.best("lms", n),
            "padasip FilterNLMS, predict and adapt",
            found.best("their lms", n),
            Goal("at least", 10),
            accuracy={"predictions apart": apart},
            rounds=found.pairs("lms", "their lms", n, n),
        ),
    )


def _switches() -> int:
    """How often the system has taken the processor from this thread, to run another; waits of our own do not count."""
    from resource import RUSAGE_THREAD, getrusage

    return getrusage(RUSAGE_THREAD).ru_nivcsw


def _spent(calls: Iterable[Callable[[], object]], n: int) -> tuple[Array, Array]:
    """The processor seconds of each call, and whether it ran without the system taking the processor away."""
    from time import thread_time_ns

    spent, whole, before = np.empty(n), np.empty(n, bool), _switches()
    for i, call in enumerate(calls):
        begin = thread_time_ns()
        call()
        spent[i] = (thread_time_ns() - begin) * 1e-9
        whole[i], before = (after := _switches()) == before, after
    return spent, whole


def _slowest(spent: Array) -> float:
    return float(np.quantile(spent, 0.999))


def latency(effort: Effort) -> tuple[Row, ...]:
    """How evenly the calls of a live filter cost: the slowest of a thousand beside the median, in processor time.

    Calls during which the system ran another program are left out: they pay for caches that it has emptied. Their share
    is reported, and the ratio with them: the goal is missed or met without, by the best round. Calls that wait of their
    own accord, for a lock or a page, stay in. A bare Python loop of the same length is measured beside it: what the
    machine itself adds to one call in a thousand, interrupts and what a host takes from a virtual machine, hits both.
    """
    d, n = effort.features(64), effort.rows(40_000, least=64)
    X, Y = linear_rows(n, d)
    rows, targets = list(X), Y[:, 0].tolist()
    method, rounds, shares, full, bare = rm.RLS(forget=0.99), [], [], [], []

    def learn(live: Any, x: Array, y: float) -> None:
        live.predict(x)
        live.learn(x, y)

    for _ in range(effort.rounds):
        live = method.live(d)
        spent, whole = _spent((partial(learn, live, x, y) for x, y in zip(rows, targets, strict=True)), n)
        own = spent[whole] if whole.any() else spent
        rounds.append((_slowest(own), float(np.median(own))))
        shares.append(float(1 - whole.mean()))
        full.append(_slowest(spent) / float(np.median(spent)))
        turns = range(max(1, int(rounds[-1][1] / 1e-8)))  # about 10 ns for a number that is taken and dropped
        empty, whole = _spent((partial(deque, turns, 0) for _ in range(n)), n)
        bare.append(_slowest(empty[whole]) / float(np.median(empty[whole])) if whole.any() else np.nan)
    slowest, median = min(rounds, key=lambda both: both[0] / both[1])
    return (
        Row(
            "live-latency",
            f"RLS(forget=0.99).live predict and learn each row, d = {d}, {n} rows: the 99.9th percentile of the calls",
            slowest,
            "their median",
            median,
            Goal("at most", 5),
            unit="seconds a call",
            accuracy={
                "share of calls that were interrupted, left out": max(shares),
                "ratio with them": min(full),
                "ratio of a bare Python loop of that length": min(bare),
            },
            rounds=tuple(rounds),
        ),
    )


BENCHMARKS: dict[str, Benchmark] = {
    "live-scaling": scaling,
    "live": live,
    "live-river": river,
    "live-padasip": padasip,
    "live-latency": latency,
}
