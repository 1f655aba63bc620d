"""Least squares over a sliding window, against a solver that is given the last rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import remanence as rm


def oracle(X, Y, ridge, start=None):
    d, c = X.shape[1], Y.shape[1]
    start = np.zeros((d, c)) if start is None else start
    rows = np.concatenate([X, np.sqrt(ridge) * np.eye(d)])
    return np.linalg.lstsq(rows, np.concatenate([Y, np.sqrt(ridge) * start]), rcond=None)[0]


def walked(method, X, Y, start=None):
    """Weights and errors of the slow way."""
    errors = []
    for t in range(len(X)):
        seen = slice(max(0, t - method.window), t)
        errors.append(Y[t] - X[t] @ oracle(X[seen], Y[seen], method.ridge, start))
    return oracle(X[-method.window :], Y[-method.window :], method.ridge, start), np.array(errors)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 6), st.integers(1, 20), st.sampled_from([1e-6, 1.0, 1e6])
)
def test_it_is_least_squares_over_the_last_rows(seed, n, d, window, scale):
    rng = np.random.default_rng(seed)
    X, Y, start = scale * rng.standard_normal((n, d)), rng.standard_normal((n, 2)), rng.standard_normal((d, 2))
    method = rm.WindowRLS(window, ridge=0.1 * scale**2)
    state, errors = method.track(method.init(d, 2, start), X, Y)
    W, expected = walked(method, X, Y, start)
    np.testing.assert_allclose(method.weights(state), W, rtol=1e-9, atol=1e-9 * max(1, 1 / scale))
    np.testing.assert_allclose(errors, expected, rtol=1e-9, atol=1e-9 * max(1, scale))
    once = method.update(method.init(d, 2, start), X, Y)
    np.testing.assert_allclose(method.weights(once), W, rtol=1e-9, atol=1e-9 * max(1, 1 / scale))
    assert state.count == n


def test_a_hundred_thousand_rows():
    ridge = 1e-8
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 8)) @ np.diag(np.logspace(0, -2, 8))
    Y = X @ rng.standard_normal((8, 1)) + 0.1 * rng.standard_normal((100_000, 1))
    method = rm.WindowRLS(64, ridge)
    state, errors = method.track(method.init(8, 1), X, Y)
    for t in (*range(70, 100_000, 9_973), 99_999):
        W = oracle(X[t - 64 : t], Y[t - 64 : t], ridge)
        assert abs(errors[t] - (Y[t] - X[t] @ W)) <= 1e-9
    W = oracle(X[-64:], Y[-64:], ridge)
    assert np.linalg.norm(method.weights(state) - W) <= 1e-9 * np.linalg.norm(W)


@pytest.mark.parametrize("glitch", [1e3, 1e6, 1e9])
def test_a_glitch_that_leaves_the_window_is_forgotten(glitch):
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((200, 5)), rng.standard_normal((200, 1))
    X[60] *= glitch
    X[100, 2] *= glitch
    method = rm.WindowRLS(30, 1e-3)
    for size in (1, 7, 200):
        state, errors = method.init(5, 1), []
        for i in range(0, 200, size):
            state, found = method.track(state, X[i : i + size], Y[i : i + size])
            errors.append(found)
        W, expected = walked(method, X, Y)
        np.testing.assert_allclose(np.concatenate(errors)[140:], expected[140:], atol=1e-9)
        np.testing.assert_allclose(method.weights(state), W, atol=1e-9)


@pytest.mark.parametrize("kind", ["constant", "zero", "dependent", "fewer rows than features"])
def test_windows_that_do_not_determine_the_weights(kind):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((80, 6))
    if kind == "constant":
        X[:] = X[0]
    if kind == "zero":
        X[20:60] = 0
    if kind == "dependent":
        X[:, 3:] = X[:, :3]
    method = rm.WindowRLS(3 if kind.startswith("fewer") else 12, 1e-6)
    Y = rng.standard_normal((80, 1))
    state, errors = method.track(method.init(6, 1), X, Y)
    W, expected = walked(method, X, Y)
    np.testing.assert_allclose(X @ method.weights(state), X @ W, atol=1e-7)
    np.testing.assert_allclose(errors, expected, atol=1e-6)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("d, window", [(8, 5), (20, 10), (40, 38), (12, 14)])
def test_windows_of_few_rows_beside_a_ridge_that_is_small_for_these_units(d, window, single):
    """Samples of 16 bits: every direction that leaves the window is known by 1e12 times the ridge until then."""
    rng = np.random.default_rng(5)
    X = 3e4 * rng.standard_normal((4 * window + 60, d))
    Y = X @ rng.standard_normal((d, 1))
    method = rm.WindowRLS(window, 1e-3)
    state, errors = method.init(d, 1), []
    for part in np.split(X, len(X)) if single else [X]:
        state, found = method.track(state, part, Y[state.count : state.count + len(part)])
        errors.extend(found)
    for t in range(2 * window, len(X)):
        U, S, V = np.linalg.svd(X[t - window : t], full_matrices=False)
        W = V.T @ ((S / (S**2 + 1e-3))[:, None] * (U.T @ Y[t - window : t]))
        assert abs(errors[t] - (Y[t] - X[t] @ W)) <= 1e-8 * np.abs(Y).max()


def test_single_precision():
    rng = np.random.default_rng(3)
    X, Y = rng.standard_normal((500, 4)), rng.standard_normal((500, 1))
    method = rm.WindowRLS(40, 0.1)
    state = method.track(method.init(4, 1, dtype=np.float32), X, Y)[0]
    assert method.weights(state).dtype == np.float32
    np.testing.assert_allclose(method.weights(state), walked(method, X, Y)[0], atol=1e-4)


def test_complex_rows():
    rng = np.random.default_rng(4)
    X, Y = (rng.standard_normal((70, k)) + 1j * rng.standard_normal((70, k)) for k in (3, 1))
    method = rm.WindowRLS(10, 0.1)
    state, errors = method.track(method.init(3, 1, dtype=complex), X, Y)
    for t in range(70):
        A, b = X[max(0, t - 10) : t], Y[max(0, t - 10) : t]
        W = np.linalg.solve(A.conj().T @ A + 0.1 * np.eye(3), A.conj().T @ b)
        np.testing.assert_allclose(errors[t], Y[t] - X[t] @ W, atol=1e-10)
    A, b = X[-10:], Y[-10:]
    W = np.linalg.solve(A.conj().T @ A + 0.1 * np.eye(3), A.conj().T @ b)
    np.testing.assert_allclose(method.weights(state), W, atol=1e-10)
    rm.check_method(method, dtype=complex)


@pytest.mark.parametrize("window", [1, 5, 1000])
def test_laws(window):
    rm.check_method(rm.WindowRLS(window, 0.1))


def test_bad_settings_are_refused():
    for settings_ in (
        {"window": 0},
        {"window": 2.5},
        {"window": None},
        {"window": 3, "ridge": 0},
        {"window": 3, "ridge": "auto"},
    ):
        with pytest.raises(rm.InputError):
            rm.WindowRLS(**settings_)
