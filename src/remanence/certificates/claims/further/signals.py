"""Claims about what signals need: complex numbers, sliding windows, transforms, irregular times, nonlinear sensors."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference, likely, rounding
from remanence.certificates.instances.data import Generator, Instance
from remanence.certificates.instances.runs import worst_of
from remanence.kalman import LinearGaussian, constant_velocity, filter, sample, unscented
from remanence.methods import LMS, RLS, BlockLMS, WindowRLS
from remanence.streams import delay_line

RIDGE, STEP, WINDOW = 0.1, 0.5, 9
TAPS, BLOCK, GAIN = 6, 4, 0.01


def complex_rows(rng: Generator) -> Iterator[Instance]:
    """Complex rows and targets, in one to five features."""
    while True:
        n, d = int(rng.integers(1, 30)), int(rng.integers(1, 6))
        X, Y = (rng.standard_normal((n, k)) + 1j * rng.standard_normal((n, k)) for k in (d, 2))
        yield {"X": X, "Y": Y}


@claim(
    "RLS on complex rows is the complex ridge solution, and its errors are those before each row",
    source="completes Section RLS: complex numbers",
    instances=complex_rows,
    conditions=(f"ridge {RIDGE}",),
)
def complex_rls_is_complex_least_squares(X: Array, Y: Array, method: Any = None) -> Evidence:
    """Weights against (XᴴX + λI)⁻¹XᴴY, and the error of the last row against the solution before it."""
    method, d = method or RLS(RIDGE), X.shape[1]

    def solution(A: Array, B: Array) -> Array:
        return np.asarray(np.linalg.solve(A.conj().T @ A + RIDGE * np.eye(d), A.conj().T @ B))

    state, errors = method.track(method.init(d, Y.shape[1], dtype=np.complex128), X, Y)
    worst = difference(method.weights(state), solution(X, Y))
    worst = worst_of(worst, difference(errors[-1:], Y[-1:] - X[-1:] @ solution(X[:-1], Y[:-1])))
    kappa = float(np.linalg.cond(X.conj().T @ X + RIDGE * np.eye(d)))
    return Evidence(worst, rounding(kappa, 100 * X.size), (f"cond {kappa:.0e}",))


@claim(
    "LMS on complex rows moves along the conjugate of each row",
    source="Widrow, McCool and Ball (1975), the complex LMS algorithm",
    instances=complex_rows,
    conditions=(f"γ = {STEP}",),
)
def complex_lms_takes_conjugates(X: Array, Y: Array, method: Any = None) -> Evidence:
    """Weights against w + γ x̄ e / ‖x‖², row by row."""
    method, W = method or LMS(STEP), np.zeros((X.shape[1], Y.shape[1]), complex)
    for x, y in zip(X, Y, strict=True):
        W = W + STEP * np.outer(x.conj(), y - x @ W) / np.vdot(x, x).real
    state = method.update(method.init(*W.shape, dtype=np.complex128), X, Y)
    return Evidence(difference(method.weights(state), W), rounding(1.0, 100 * X.size))


def long_streams(rng: Generator) -> Iterator[Instance]:
    """Real rows, more than fit into the window, some narrower than it, one of them far larger than the others."""
    while True:
        n, d = int(rng.integers(10, 60)), int(rng.integers(1, 2 * WINDOW))
        X = 10 ** rng.uniform(0, 6) * rng.standard_normal((n, d))
        X[int(rng.integers(0, n - WINDOW))] *= float(10 ** rng.uniform(0, 6))
        yield {"X": X, "Y": rng.standard_normal((n, 1))}


@claim(
    "RLS over a window is least squares over the last rows, whatever has left it",
    source="completes Section RLS: sliding windows",
    instances=long_streams,
    conditions=(f"window {WINDOW}", f"ridge {RIDGE}", "units up to 1e6", "a row up to 1e6 times larger has left"),
)
def window_rls_is_least_squares_over_the_window(X: Array, Y: Array, method: Any = None) -> Evidence:
    """The errors of rows before they were learned, and the answers after all, against lstsq over each window."""
    method = method or WindowRLS(WINDOW, RIDGE)
    state, errors = method.track(method.init(X.shape[1], 1), X, Y)
    found, oracle, kappas = [errors[WINDOW:], X @ method.weights(state)], [], []
    for t in range(WINDOW, len(X) + 1):
        rows = np.concatenate([X[t - WINDOW : t], np.sqrt(RIDGE) * np.eye(X.shape[1])])
        W = np.linalg.lstsq(rows, np.concatenate([Y[t - WINDOW : t], np.zeros((X.shape[1], 1))]), rcond=None)[0]
        kappas.append(float(np.linalg.cond(rows)))
        oracle.append(Y[t : t + 1] - X[t : t + 1] @ W if t < len(X) else X @ W)
    allowed = 1e-10 + rounding(max(kappas), likely(100 * X.size))
    return Evidence(difference(np.concatenate(found), np.concatenate(oracle)), allowed)


def signals(rng: Generator) -> Iterator[Instance]:
    """A signal and what is to be predicted from it, complex and real in turn."""
    while True:
        for parts in (np.array([1.0, 1j]), np.array([1.0])):
            yield {"signal": rng.standard_normal((40, len(parts))) @ parts, "Y": rng.standard_normal((40, 1))}


@claim(
    "Block LMS by transforms is block LMS in the time domain",
    source="Shynk (1992), overlap-save",
    instances=signals,
    conditions=(f"{TAPS} taps", f"blocks of {BLOCK}"),
)
def block_lms_is_that_of_the_time_domain(signal: Array, Y: Array, method: Any = None) -> Evidence:
    """Taps against the sum of the gradients of each block."""
    method = method or BlockLMS(TAPS, GAIN, BLOCK, normalized=False)
    rows, W = delay_line(signal, TAPS), np.zeros((TAPS, 1), signal.dtype)
    for i in range(0, len(rows), BLOCK):
        part = slice(i, i + BLOCK)
        W = W + GAIN * rows[part].conj().T @ (Y[part] - rows[part] @ W)
    state = method.update(method.init(1, 1, dtype=signal.dtype), signal[:, None], Y)
    return Evidence(difference(method.weights(state), W), rounding(1.0, 100 * rows.size))


def observed_times(rng: Generator) -> Iterator[Instance]:
    """Some of the times of a grid, and positions that were seen then."""
    while True:
        grid = np.arange(30) * 0.1
        seen = np.append(0, np.sort(rng.choice(np.arange(1, 30), 8, replace=False)))
        yield {"grid": grid, "seen": seen, "times": grid[seen], "Y": rng.standard_normal((9, 1))}


@claim(
    "A filter on irregular times is one on a fine grid on which the other times are missing",
    source="Van Loan (1978); completes Section KF",
    instances=observed_times,
    conditions=("constant velocity",),
)
def irregular_times_are_a_grid_with_gaps(grid: Array, seen: Array, times: Array, Y: Array) -> Evidence:
    """Means at the times that were observed."""
    F, L, X = constant_velocity(1)
    times = np.append(times[:1] * 0, times[1:])
    rest = {"X": X, "R": 0.1 * np.eye(1), "mean": np.zeros(2), "cov": np.eye(2)}
    full = np.full((len(grid), 1), np.nan)
    full[seen] = Y
    sparse = filter(LinearGaussian.from_continuous(F, L, 1.0, times, **rest), Y)
    dense = filter(LinearGaussian.from_continuous(F, L, 1.0, grid, **rest), full)
    return Evidence(difference(sparse.mean, dense.mean[seen]), rounding(1e3, 100 * len(grid)))


def linear_models(rng: Generator) -> Iterator[Instance]:
    """Models of one to four unknowns, and a series of each."""
    while True:
        d = int(rng.integers(1, 5))
        A, X = np.linalg.qr(rng.standard_normal((d, d)))[0], rng.standard_normal((2, d))
        model = LinearGaussian(A, 0.1 * np.eye(d), X, 0.5 * np.eye(2), rng.standard_normal(d), np.eye(d))
        yield {"model": model, "Y": sample(model, 12, rng)[1]}


@claim(
    "The unscented filter is the Kalman filter on linear functions",
    source="Julier and Uhlmann (2004)",
    instances=linear_models,
)
def unscented_is_the_kalman_filter_on_linear_functions(model: LinearGaussian, Y: Array, bend: float = 0.0) -> Evidence:
    """Means and covariances of both; `bend` adds a square to the observations."""
    known = {"Q": model.Q, "R": model.R, "mean": model.mean, "cov": model.cov}
    found = unscented(lambda v: model.A @ v, lambda v: model.X @ v + bend * (model.X @ v) ** 2, Y, **known)
    exact = filter(model, Y, form="root")
    off = worst_of(difference(found.mean, exact.mean), difference(found.cov, exact.cov))
    return Evidence(off, rounding(1e2, 1000 * Y.size))
