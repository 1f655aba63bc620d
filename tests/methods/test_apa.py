"""APA against the minimum-norm correction over the samples it must meet; over all samples it is the batch problem."""

import numpy as np
import pytest

import remanence as rm


def slow(X, Y, W, buffer, steps):
    """θᵗ = θᵗ⁻¹ + γ Z⁺(T − Zθᵗ⁻¹) over the last min(b, t−1)+1 samples; every iterate."""
    path = []
    for t in range(len(X)):
        low = 0 if buffer is None else max(0, t - buffer)
        Z, T = X[low : t + 1], Y[low : t + 1]
        W = W + steps[t] * np.linalg.pinv(Z, rcond=1e-12) @ (T - Z @ W)
        path.append(W)
    return path


def samples(kind, seed, n=25, d=6, c=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    if kind == "repeated":
        X = X[rng.integers(0, 5, n)]
    elif kind == "zero":
        X[rng.random(n) < 0.4] = 0
    elif kind == "dependent":
        X = X[:, :2] @ rng.standard_normal((min(2, d), d))
    elif kind == "nearly dependent":
        X = X[:, :1] @ rng.standard_normal((1, d)) + 1e-4 * X
    Y = X @ rng.standard_normal((d, c))
    return X, Y, rng


@pytest.mark.parametrize("buffer", [0, 1, 3, 5, 8, 40])
@pytest.mark.parametrize("kind", ["plain", "repeated", "zero", "dependent"])
@pytest.mark.parametrize("consistent", [True, False])
def test_each_step_is_the_minimum_norm_correction(buffer, kind, consistent):
    for seed, step in ((0, 1.0), (1, 0.5), (2, 1.6)):
        X, Y, rng = samples(kind, seed, d=12)
        if not consistent:
            Y = Y + rng.standard_normal(Y.shape)
        start = rng.standard_normal((12, 2))
        m = rm.APA(buffer, step)
        state = m.init(12, 2, start=start)
        for t, W in enumerate(slow(X, Y, start, buffer, [step] * len(X))):
            state = m.update(state, X[t : t + 1], Y[t : t + 1])
            assert np.linalg.norm(m.weights(state) - W) <= 1e-9 * np.linalg.norm(W), (seed, t)


def test_nearly_dependent_samples_are_met_exactly_too():
    X, Y, _ = samples("nearly dependent", 0)
    m = rm.APA(2)
    state = m.init(6, 2)
    for t in range(len(X)):
        state = m.update(state, X[t : t + 1], Y[t : t + 1])
        rows = slice(max(0, t - 2), t + 1)
        np.testing.assert_allclose(m.predict(state, X[rows]), Y[rows], atol=1e-9)


def test_the_new_sample_and_the_last_b_are_met():
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((30, 9)), rng.standard_normal((30, 2))
    m = rm.APA(4)
    state = m.init(9, 2)
    for t in range(30):
        state = m.update(state, X[t : t + 1], Y[t : t + 1])
        rows = slice(max(0, t - 4), t + 1)
        np.testing.assert_allclose(m.predict(state, X[rows]), Y[rows], atol=1e-10)


@pytest.mark.parametrize("size", [1e-3, 1e-12, 1e-17, 1e-25])
def test_the_length_of_a_sample_does_not_decide_whether_it_is_met(size):
    """A tiny sample beside dependent ones is a constraint like any other: (APA) knows no lengths."""
    rng = np.random.default_rng(2)
    X, truth = rng.standard_normal((4, 6)), rng.standard_normal((6, 1))
    X[2] = X[1]  # dependent, so that no Gram matrix can be used
    X[3] *= size
    m = rm.APA(3)
    state = m.update(m.init(6, 1), X, X @ truth)
    np.testing.assert_allclose(m.predict(state, X[3:] / size), X[3:] @ truth / size, rtol=1e-8)


@pytest.mark.parametrize("kind", ["plain", "repeated", "zero", "dependent"])
@pytest.mark.parametrize("consistent", [True, False])
@pytest.mark.parametrize(("n", "d"), [(5, 12), (12, 12), (40, 12), (30, 1)])
def test_with_all_samples_it_is_the_least_squares_solution_nearest_the_start(kind, consistent, n, d):
    X, Y, rng = samples(kind, 3, n, d)
    if not consistent:
        Y = Y + rng.standard_normal(Y.shape)
    start = rng.standard_normal((d, 2))
    expected = start + np.linalg.pinv(X, rcond=1e-12) @ (Y - X @ start)
    m = rm.APA(None)
    for cut in (1, n // 2, n):
        state = m.update(m.init(d, 2, start=start), X[:cut], Y[:cut])
        if cut < n:
            state = m.update(state, X[cut:], Y[cut:])
        np.testing.assert_allclose(m.weights(state), expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())
        np.testing.assert_allclose(m.weights(state), rm.min_norm(X, Y, start), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("consistent", [True, False])
def test_with_all_samples_and_half_steps_it_follows_the_slow_recursion(consistent):
    rng = np.random.default_rng(4)
    X, start = rng.standard_normal((20, 7)), rng.standard_normal((7, 2))
    Y = X @ rng.standard_normal((7, 2)) + (0 if consistent else 1) * rng.standard_normal((20, 2))
    steps = rng.uniform(0.2, 1.5, 20)
    m = rm.APA(None, steps)
    state = m.init(7, 2, start=start)
    for t, W in enumerate(slow(X, Y, start, None, steps)):
        state = m.update(state, X[t : t + 1], Y[t : t + 1])
        np.testing.assert_allclose(m.weights(state), W, rtol=1e-9, atol=1e-10)


def test_recurring_tasks_are_solved_as_soon_as_the_buffer_holds_them_all():
    """Two recurring tasks that LMS only approaches are solved by b ≥ p − 1 at t = p."""
    rng = np.random.default_rng(5)
    tasks, truth = rng.standard_normal((4, 9)), rng.standard_normal((9, 1))
    X = np.tile(tasks, (3, 1))
    m = rm.APA(3)
    _, errors = m.track(m.init(9, 1), X, X @ truth)
    assert np.abs(errors[4:]).max() < 1e-12
    assert np.abs(errors[:4]).min() > 1e-3
