"""LMS against its defining problem: the smallest change that leaves 1 − γ of the current sample's error."""

import numpy as np
import pytest

import remanence as rm

EPS = np.finfo(float).eps


def constrained(theta, x, y, step):
    """minimise ‖θ − θᵗ⁻¹‖²  subject to  y − xᵀθ = (1 − γ)(y − xᵀθᵗ⁻¹), by the KKT equations; x = 0 asks for nothing."""
    d = len(x)
    if not x.any():
        return theta
    size = np.abs(x).max()
    a = x / size  # the constraint may be multiplied by anything
    wanted = (x @ theta + step * (y - x @ theta)) / size
    kkt = np.block([[np.eye(d), a[:, None]], [a[None, :], np.zeros((1, 1))]])
    return np.linalg.solve(kkt, np.vstack([theta, wanted[None]]))[:d]


@pytest.mark.parametrize("step", [0.1, 1.0, 1.9])
@pytest.mark.parametrize("seed", range(5))
def test_each_step_solves_the_constrained_problem(step, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 7)) * 10.0 ** rng.uniform(-4, 4, (30, 1))  # any norms
    X[[0, 4, 29]] = 0
    Y, theta = rng.standard_normal((30, 3)), rng.standard_normal((7, 3))
    m = rm.LMS(step)
    state = m.init(7, 3, start=theta)
    for x, y in zip(X, Y, strict=True):
        theta = constrained(theta, x, y, step)
        state = m.update(state, x[None], y[None])
        np.testing.assert_allclose(m.weights(state), theta, rtol=1e-10, atol=1e-10 * np.abs(theta).max())


def test_the_current_sample_is_left_with_the_share_of_its_error_that_the_step_leaves():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20, 5)), rng.standard_normal((20, 2))
    steps = rng.uniform(-1, 3, 20)  # given per sample, any size is allowed
    m = rm.LMS(steps)
    state = m.init(5, 2)
    for x, y, step in zip(X, Y, steps, strict=True):
        before = y - m.predict(state, x[None])[0]
        state = m.update(state, x[None], y[None])
        np.testing.assert_allclose(y - m.predict(state, x[None])[0], (1 - step) * before, atol=1e-12)


def test_unnormalised_lms_is_the_gradient_step():
    rng = np.random.default_rng(1)
    X, Y, W = rng.standard_normal((25, 4)), rng.standard_normal((25, 2)), rng.standard_normal((4, 2))
    m = rm.LMS(0.05, normalized=False)
    state = m.update(m.init(4, 2, start=W), X, Y)
    for x, y in zip(X, Y, strict=True):
        W = W + 0.05 * np.outer(x, y - x @ W)
    np.testing.assert_allclose(m.weights(state), W, rtol=1e-12)


def test_a_rule_a_sequence_and_a_number_that_say_the_same_do_the_same():
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((12, 4)), rng.standard_normal((12, 1))
    results = [
        m.weights(m.update(m.init(4, 1), X, Y)) for m in (rm.LMS(0.7), rm.LMS([0.7] * 12), rm.LMS(lambda t: 0.7))
    ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_a_rule_is_asked_for_every_t_once_and_in_order():
    asked = []
    m = rm.LMS(lambda t: asked.append(t) or 1.0)
    X, Y = np.eye(5), np.ones((5, 1))
    m.update(m.update(m.init(5, 1), X[:2], Y[:2]), X[2:], Y[2:])
    assert asked == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("step", [0.3, 1.0, 1.7])
def test_the_errors_made_account_for_the_distance_gained(step):
    """Σ ε² = (‖θ*‖² − ‖θᵗ − θ*‖²) / (γ(2 − γ)) for unit inputs and consistent data: an identity without stored data."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((500, 8))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    truth = rng.standard_normal((8, 1))
    m = rm.LMS(step)
    state, errors = m.track(m.init(8, 1), X, X @ truth)
    gained = np.sum(truth**2) - np.sum((m.weights(state) - truth) ** 2)
    assert np.sum(errors**2) == pytest.approx(gained / (step * (2 - step)), rel=1e-11)


def test_one_step_of_size_one_is_apa_without_a_buffer():
    rng = np.random.default_rng(4)
    X, Y = rng.standard_normal((40, 6)), rng.standard_normal((40, 2))
    X[7] = 0
    a, b = rm.LMS(0.8), rm.APA(0, 0.8)
    np.testing.assert_allclose(
        a.weights(a.update(a.init(6, 2), X, Y)), b.weights(b.update(b.init(6, 2), X, Y)), rtol=1e-11
    )
