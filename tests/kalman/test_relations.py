"""What the filter is a generalisation of: RLS, RLS with forgetting, and a static model that never changes its mind."""

import numpy as np
import pytest

import remanence as rm
from remanence import kalman


def rows(n=40, d=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((n, 1))


@pytest.mark.parametrize("forget", [0.9, 1.0, 1.05])
@pytest.mark.parametrize("ridge", [0.1, 2.0])
def test_lemma_3_corrected_the_filter_of_a_static_model_is_rls(forget, ridge):
    X, Y = rows()
    n, d = X.shape
    R = (forget ** np.arange(1, n + 1))[:, None, None]
    model = kalman.LinearGaussian(np.eye(d), np.zeros((d, d)), X[:, None], R, np.zeros(d), np.eye(d) / ridge)
    f = kalman.filter(model, Y)
    method = rm.RLS(ridge=ridge, forget=forget)
    state = method.init(d, 1)
    for t in range(n):
        state = method.update(state, X[t : t + 1], Y[t : t + 1])
        np.testing.assert_allclose(f.mean[t], method.weights(state)[:, 0], atol=1e-9)
    assert f.loglik == pytest.approx(method.evidence(state), rel=1e-9)


def test_lemma_3_as_printed_counts_the_first_sample_twice():
    X, Y = rows()
    d = X.shape[1]
    ridge = 1.0
    method = rm.RLS(ridge=ridge)
    first = method.update(method.init(d, 1), X[:1], Y[:1])
    phi = np.linalg.inv(ridge * np.eye(d) + X[:1].T @ X[:1])
    printed = kalman.LinearGaussian(np.eye(d), np.zeros((d, d)), X[:, None], [[1.0]], method.weights(first)[:, 0], phi)
    gap = kalman.filter(printed, Y).mean[-1] - method.weights(method.update(first, X[1:], Y[1:]))[:, 0]
    assert np.abs(gap).max() > 1e-3


@pytest.mark.parametrize("forget", [0.7, 0.95, 0.999])
def test_rls_with_forgetting_is_the_filter_whose_drift_is_a_part_of_what_is_unknown(forget):
    X, Y = rows(60)
    n, d = X.shape
    ridge = 0.5
    P = np.eye(d) / (ridge * forget)  # before the first sample: RLS has faded its prior once
    Q = np.zeros((n, d, d))
    for t in range(n):
        if t:
            Q[t] = (1 / forget - 1) * P
            P = P + Q[t]
        x = X[t]
        P = P - np.outer(P @ x, P @ x) / (1 + x @ P @ x)
    model = kalman.LinearGaussian(np.eye(d), Q, X[:, None], [[1.0]], np.zeros(d), np.eye(d) / (ridge * forget))
    f = kalman.filter(model, Y)
    method = rm.RLS(ridge=ridge, forget=forget)
    state = method.init(d, 1)
    for t in range(n):
        state = method.update(state, X[t : t + 1], Y[t : t + 1])
        np.testing.assert_allclose(f.mean[t], method.weights(state)[:, 0], atol=1e-9)


def test_the_smoother_of_a_static_model_is_the_final_model_everywhere():
    X, Y = rows()
    n, d = X.shape
    model = kalman.LinearGaussian(np.eye(d), np.zeros((d, d)), X[:, None], [[0.5]], np.zeros(d), np.eye(d))
    f = kalman.filter(model, Y)
    s = kalman.smooth(model, f)
    np.testing.assert_allclose(s.mean, np.tile(f.mean[-1], (n, 1)), atol=1e-9)
    np.testing.assert_allclose(s.cov, np.tile(f.cov[-1], (n, 1, 1)), atol=1e-9)


def test_the_gain_uses_the_transition_into_the_next_step(joint):
    """The paper prints A_t in the smoother's gain; it is A_j. A model whose A changes tells them apart."""
    rng = np.random.default_rng(0)
    T, d = 5, 2
    A = rng.standard_normal((T, d, d))
    model = kalman.LinearGaussian(A, 0.1 * np.eye(d), np.eye(1, d), [[0.1]], np.zeros(d), np.eye(d))
    Y = rng.standard_normal((T, 1))
    f = kalman.filter(model, Y)
    mean = f.mean.copy()
    for t in range(T - 2, -1, -1):
        L = f.cov[t] @ A[-1].T @ np.linalg.inv(f.predicted_cov[t + 1])  # as printed
        mean[t] = f.mean[t] + L @ (mean[t + 1] - f.predicted_mean[t + 1])
    true = joint(model, T).given(Y, T)[0]
    assert np.abs(mean - true).max() > 1e-2
    np.testing.assert_allclose(kalman.smooth(model, f).mean, true, atol=1e-9)


def test_backward_transfer_is_the_mean_squared_error_under_the_model():
    rng = np.random.default_rng(0)
    d, T = 3, 6
    model = kalman.LinearGaussian(
        0.9 * np.eye(d), 0.2 * np.eye(d), rng.standard_normal((T, 2, d)), 0.5 * np.eye(2), np.zeros(d), np.eye(d)
    )
    draws = [kalman.sample(model, T, np.random.default_rng([1, n])) for n in range(3000)]
    theta, Y = (np.array(v) for v in zip(*draws, strict=True))
    table = kalman.backward_transfer(model, T)
    s = kalman.smooth(model, kalman.filter(model, Y))
    error = ((s.mean - theta) ** 2).sum(axis=2).mean(axis=0)
    np.testing.assert_allclose(error, table[:, -1], rtol=0.1)
