"""Filter and smoother of a linear Gaussian model: one series, a wide one, and many at once.

Peers: statsmodels (compiled; tolerance=0, so that it never stops updating its covariance early), filterpy and pykalman
(a NumPy loop over steps), simdkalman (NumPy over the series), and the textbook loop below. All see the same model.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import remanence as rm
from benchmarks.peers import peer
from benchmarks.rows import Benchmark, Effort, Goal, PeerMissing, Row, agree
from benchmarks.timing import measure
from remanence.arrays import Array

Answer = tuple[Array, Array]  # means (T, d) and covariances (T, d, d)
STORAGE = "keeps three matrices a step (four with a constant A), the peer two: the time to clear fresh pages counts"
GOALS = {"statsmodels": 8.0, "filterpy": 20.0, "pykalman": None, "NumPy loop": None}


def _model(d: int, m: int, seed: int = 0) -> rm.kalman.LinearGaussian:
    """A stable model with nothing special about it."""
    rng = np.random.default_rng(seed)
    A = 0.95 * np.linalg.qr(rng.standard_normal((d, d)))[0]
    root = rng.standard_normal((d, d)) / np.sqrt(d)
    X = rng.standard_normal((m, d))
    return rm.kalman.LinearGaussian(
        A, 0.1 * np.eye(d) + 0.1 * root @ root.T, X, 0.5 * np.eye(m), np.zeros(d), np.eye(d)
    )


# What every side computes: the filter, or filter and smoother; (T, m) in, means and covariances out


def _ours(model: Any, Y: Array, smoothing: bool) -> Answer:
    found: Any = rm.kalman.filter(model, Y)
    if smoothing:
        found = rm.kalman.smooth(model, found)
    return found.mean, found.cov


def _statsmodels(model: Any, Y: Array, smoothing: bool) -> Answer:
    tools = peer("statsmodels.tsa.statespace.kalman_smoother")
    sides = tools.KalmanSmoother(k_endog=Y.shape[1], k_states=model.features, tolerance=0)
    sides.bind(Y.T.copy(order="F"))
    sides["design"], sides["obs_cov"], sides["transition"] = model.X, model.R, model.A
    sides["selection"], sides["state_cov"] = np.eye(model.features), model.Q
    sides.initialize_known(model.mean, model.cov)
    if not smoothing:
        found = sides.filter()
        return found.filtered_state.T, found.filtered_state_cov.transpose(2, 0, 1)
    found = sides.smooth(smoother_output=tools.SMOOTHER_STATE | tools.SMOOTHER_STATE_COV)
    return found.smoothed_state.T, found.smoothed_state_cov.transpose(2, 0, 1)


def _filterpy(model: Any, Y: Array, smoothing: bool) -> Answer:
    """update_first: the prior is that of the first step, as in the others."""
    kalman = peer("filterpy.kalman").KalmanFilter(dim_x=model.features, dim_z=Y.shape[1])
    kalman.x, kalman.P = model.mean.copy(), model.cov.copy()
    kalman.F, kalman.Q, kalman.H, kalman.R = model.A, model.Q, model.X, model.R
    mean, cov, _, _ = kalman.batch_filter(Y, update_first=True)
    if smoothing:
        mean, cov, _, _ = kalman.rts_smoother(mean, cov)
    return mean, cov


def _pykalman(model: Any, Y: Array, smoothing: bool) -> Answer:
    kalman = peer("pykalman").KalmanFilter(model.A, model.X, model.Q, model.R, None, None, model.mean, model.cov)
    mean, cov = kalman.smooth(Y) if smoothing else kalman.filter(Y)
    return np.asarray(mean), np.asarray(cov)


def _loop(model: Any, Y: Array, smoothing: bool) -> Answer:
    """The textbook, as one would write it."""
    A, Q, X, R = model.A, model.Q, model.X, model.R
    T, d = len(Y), model.features
    mean, cov, before, spread = np.empty((T, d)), np.empty((T, d, d)), np.empty((T, d)), np.empty((T, d, d))
    for t in range(T):
        before[t], spread[t] = (A @ mean[t - 1], A @ cov[t - 1] @ A.T + Q) if t else (model.mean, model.cov)
        K = np.linalg.solve(X @ spread[t] @ X.T + R, X @ spread[t]).T
        mean[t] = before[t] + K @ (Y[t] - X @ before[t])
        cov[t] = spread[t] - K @ X @ spread[t]
    if smoothing:
        for t in range(T - 2, -1, -1):
            L = np.linalg.solve(spread[t + 1], A @ cov[t]).T
            mean[t] = mean[t] + L @ (mean[t + 1] - before[t + 1])
            cov[t] = cov[t] + L @ (cov[t + 1] - spread[t + 1]) @ L.T
    return mean, cov


PEERS: dict[str, tuple[str, Callable[[Any, Array, bool], Answer]]] = {
    "statsmodels": ("statsmodels.tsa.statespace.kalman_smoother", _statsmodels),
    "filterpy": ("filterpy.kalman", _filterpy),
    "pykalman": ("pykalman", _pykalman),
    "NumPy loop": ("numpy", _loop),
}


def _one_series(effort: Effort, smoothing: bool, d: int, m: int, steps: int, fastest: bool) -> tuple[Row, ...]:
    """A row a peer; for wide models one more, against the fastest of them."""
    d, T = effort.features(d), effort.rows(steps, 20)
    m = min(m, d)
    if fastest:
        effort = replace(effort, seconds=3 * effort.seconds)  # a round of the slow peers takes seconds
    model = _model(d, m)
    _, Y = rm.kalman.sample(model, T, seed=1)
    there = {name: compute for name, (module, compute) in PEERS.items() if _installed(module)}
    calls: dict[str, Callable[[], Any]] = {"ours": lambda: _ours(model, Y, smoothing)}
    calls |= {name: partial(compute, model, Y, smoothing) for name, compute in there.items()}
    stepwise = rm.kalman.LinearGaussian(
        np.repeat(model.A[None], T, axis=0), model.Q, model.X, model.R, model.mean, model.cov
    )
    calls["varying"] = lambda: _ours(stepwise, Y, smoothing)
    found = measure(calls, effort)
    name = "smooth" if smoothing else "filter"
    what = f"kalman.filter{' and smooth' if smoothing else ''}, d = {d}, m = {m}, T = {T}"
    apart: dict[tuple[str, str], dict[str, float]] = {}
    for mine, side in ((mine, side) for mine in ("ours", "varying") for side in there):
        both = zip(("means", "covariances"), found.results[mine], found.results[side], strict=True)
        apart[mine, side] = {
            f"{part} apart": agree(a, b, 1e-8, f"{name}, {mine}, {side}: {part}") for part, a, b in both
        }
    quickest = min(there, key=found.best)
    label = f"kalman-{name}{'-wide' if fastest else ''}"
    rows = [("ours", side, f"{label}-{side.split()[0].lower()}", GOALS[side]) for side in there]
    if fastest:
        rows = [("ours", quickest, label, 2.0)]
    rows.append(("varying", quickest, f"{label}-varying", 2.0 if fastest else None))
    return tuple(
        Row(
            full,
            what + (", A given step by step: no steady state" if mine == "varying" else ""),
            found.best(mine, T),
            f"{side}{f', the fastest of {len(there)}' if side == quickest else ''}",
            found.best(side, T),
            Goal("at least", bound),
            unit="seconds a step",
            accuracy=apart[mine, side],
            note=STORAGE if fastest and smoothing else "",
            rounds=found.pairs(mine, side, T, T),
        )
        for mine, side, full, bound in rows
    )


def _installed(module: str) -> bool:
    try:
        peer(module)
    except PeerMissing:
        return False
    return True


def _many(effort: Effort, smoothing: bool) -> tuple[Row, ...]:
    """simdkalman works out the covariances of every series, though they are equal; we do so once and hand out views."""
    simd = peer("simdkalman")
    d, m, T, N = 4, 1, 200, effort.rows(1000, 20)
    model = _model(d, m)
    Y = np.random.default_rng(1).standard_normal((N, T, m))
    theirs = simd.KalmanFilter(model.A, model.Q, model.X, model.R)

    def compute_theirs() -> Answer:
        given = {"initial_value": model.mean, "initial_covariance": model.cov, "observations": False}
        found = theirs.compute(Y[..., 0], 0, smoothed=smoothing, filtered=not smoothing, **given)
        states = (found.smoothed if smoothing else found.filtered).states
        return states.mean, states.cov

    found = measure({"ours": lambda: _ours(model, Y, smoothing), "simdkalman": compute_theirs}, effort)
    name = "smooth" if smoothing else "filter"
    both = zip(("means", "covariances"), found.results["ours"], found.results["simdkalman"], strict=True)
    accuracy = {f"{part} apart": agree(a, b, 1e-8, f"{name}, {N} series: {part}") for part, a, b in both}
    return (
        Row(
            f"kalman-{name}-many",
            f"kalman.filter{' and smooth' if smoothing else ''}, {N} series, d = {d}, m = {m}, T = {T}",
            found.best("ours", N * T),
            "simdkalman",
            found.best("simdkalman", N * T),
            Goal("at least", 1.0),
            unit="seconds a step of a series",
            accuracy=accuracy,
            rounds=found.pairs("ours", "simdkalman", N * T, N * T),
        ),
    )


BENCHMARKS: dict[str, Benchmark] = {
    "kalman-filter": lambda effort: _one_series(effort, False, 8, 2, 2000, False),
    "kalman-smooth": lambda effort: _one_series(effort, True, 8, 2, 2000, False),
    "kalman-filter-wide": lambda effort: _one_series(effort, False, 100, 20, 500, True),
    "kalman-smooth-wide": lambda effort: _one_series(effort, True, 100, 20, 500, True),
    "kalman-filter-many": lambda effort: _many(effort, False),
    "kalman-smooth-many": lambda effort: _many(effort, True),
}
