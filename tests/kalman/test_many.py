"""Many series at once equal one at a time, share what they can, and forecasts, samples and innovations follow."""

import numpy as np
import pytest
from scipy import stats

from remanence import kalman


def setting(N=7, T=20, d=3, m=2, seed=0):
    rng = np.random.default_rng(seed)
    A = 0.9 * np.linalg.qr(rng.standard_normal((d, d)))[0]
    model = kalman.LinearGaussian(
        A, 0.1 * np.eye(d), rng.standard_normal((T, m, d)), 0.5 * np.eye(m), rng.standard_normal(d), np.eye(d)
    )
    return model, rng.standard_normal((N, T, m)), rng


@pytest.mark.parametrize("N", [1, 2, 40])
@pytest.mark.parametrize("holes", ["none", "shared", "own"])
@pytest.mark.parametrize("form", ["covariance", "root"])
def test_a_batch_equals_the_loop_over_its_series(N, holes, form):
    model, Y, rng = setting(N)
    if holes == "shared":
        Y[:, 4], Y[:, 7, 0] = np.nan, np.nan
    if holes == "own":
        Y[rng.random(Y.shape) < 0.2] = np.nan
        Y[N // 2 :] = np.where(np.isnan(Y[0]), np.nan, rng.standard_normal(Y[N // 2 :].shape))  # some patterns recur
    f = kalman.filter(model, Y, form=form)
    s = kalman.smooth(model, f)
    found = kalman.innovations(model, f, Y)
    assert f.mean.shape == (N, 20, 3) and f.cov.shape == s.cov.shape == (N, 20, 3, 3) and f.loglik.shape == (N,)
    for n in range(N):
        g = kalman.filter(model, Y[n], form=form)
        r, one = kalman.smooth(model, g), kalman.innovations(model, g, Y[n])
        for a, b in (
            (f.mean[n], g.mean), (f.cov[n], g.cov), (f.predicted_mean[n], g.predicted_mean), (s.mean[n], r.mean),
            (f.predicted_cov[n], g.predicted_cov), (s.cov[n], r.cov), (f.logliks[n], g.logliks), (s.gain[n], r.gain),
            (found.errors[n], one.errors), (found.squares[n], one.squares), (found.pvalues[n], one.pvalues),
        ):  # fmt: skip
            np.testing.assert_allclose(a, b, atol=1e-12, rtol=0)
    if holes != "own":
        assert f.cov.strides[0] == s.cov.strides[0] == 0  # one copy for all series


@pytest.mark.parametrize("many", [False, True])
def test_a_forecast_is_filtering_steps_without_answers(many):
    rng = np.random.default_rng(2)
    d, T, steps = 3, 10, 5
    model = kalman.LinearGaussian(
        0.8 * np.eye(d), 0.1 * np.eye(d), rng.standard_normal((2, d)), np.eye(2), np.ones(d), np.eye(d)
    )
    Y = rng.standard_normal((4, T, 2) if many else (T, 2))
    ahead = kalman.forecast(model, kalman.filter(model, Y), steps)
    padded = np.concatenate([Y, np.full((*Y.shape[:-2], steps, 2), np.nan)], axis=-2)
    f = kalman.filter(model, padded)
    np.testing.assert_allclose(ahead.mean, f.mean[..., T:, :], atol=1e-12)
    np.testing.assert_allclose(ahead.cov, f.cov[..., T:, :, :], atol=1e-12)


def test_a_forecast_with_own_transitions_needs_them_that_far():
    model, Y, rng = setting(1)
    A = rng.standard_normal((23, 3, 3)) / 2
    X = np.concatenate([model.X, np.zeros((3, 2, 3))])
    longer = kalman.LinearGaussian(A, model.Q, X, model.R, model.mean, model.cov)
    short = kalman.LinearGaussian(A[:20], model.Q, X[:20], model.R, model.mean, model.cov)
    f = kalman.filter(short, Y[0])
    ahead = kalman.forecast(longer, f, 3)
    np.testing.assert_allclose(ahead.mean[2], A[22] @ A[21] @ A[20] @ f.mean[-1])
    with pytest.raises(ValueError, match="NaN"):
        kalman.forecast(short, f, 1)


def test_samples_have_the_moments_of_the_model(joint):
    rng = np.random.default_rng(1)
    d, T = 2, 3
    Q = np.array([[0.5, 0.5], [0.5, 0.5]])  # singular
    X = [rng.standard_normal((n, d)) for n in (2, 0, 1)]
    R = [0.3 * np.eye(len(x)) for x in X]
    model = kalman.LinearGaussian(0.7 * np.eye(d), Q, X, R, np.array([1.0, -1.0]), np.eye(d))
    draws = [kalman.sample(model, T, np.random.default_rng([2, n])) for n in range(20000)]
    theta = np.array([t for t, _ in draws]).reshape(-1, T * d)
    Y = np.array([np.concatenate(y) for _, y in draws])
    oracle = joint(model, T)
    C = oracle.cov.reshape(T * d, -1)
    np.testing.assert_allclose(theta.mean(axis=0), oracle.mean.ravel(), atol=0.05)
    np.testing.assert_allclose(np.cov(theta.T), C, atol=0.05)
    np.testing.assert_allclose(np.cov(Y.T), oracle.H @ C @ oracle.H.T + oracle.R, atol=0.15)
    first, again = kalman.sample(model, T, 7), kalman.sample(model, T, 7)
    np.testing.assert_array_equal(first[0], again[0])


def test_innovations_are_normalised_and_a_task_from_elsewhere_is_unlikely():
    model, _, _ = setting(T=20)
    constant = kalman.LinearGaussian(model.A, model.Q, model.X[0], model.R, model.mean, model.cov)
    _, Y = kalman.sample(constant, 4000, 3)
    Y[5, 0] = np.nan
    Y[6] = np.nan
    f = kalman.filter(constant, Y)
    found = kalman.innovations(constant, f, Y)
    assert found.degrees[5] == 1 and found.degrees[6] == 0 and found.pvalues[6] == 1 and np.isnan(found.errors[5, 0])
    full = found.degrees == 2
    assert stats.kstest(found.squares[full], stats.chi2(2).cdf).pvalue > 1e-3
    np.testing.assert_allclose(found.pvalues[full], stats.chi2(2).sf(found.squares[full]), rtol=1e-10)
    t = 100
    S = constant.X @ f.predicted_cov[t] @ constant.X.T + constant.R
    e = Y[t] - constant.X @ f.predicted_mean[t]
    np.testing.assert_allclose(found.errors[t], e)
    assert found.squares[t] == pytest.approx(e @ np.linalg.solve(S, e))
    Y[50] += 20.0
    assert kalman.innovations(constant, kalman.filter(constant, Y), Y).pvalues[50] < 1e-12


@pytest.mark.parametrize("constant", [False, True])
def test_innovations_are_those_of_each_step_alone(constant, monkeypatch):
    monkeypatch.setitem(kalman.innovations.__globals__, "PART", 4)
    model, Y, rng = setting(N=3, T=30, m=3)
    if constant:
        model = kalman.LinearGaussian(model.A, model.Q, model.X[0], model.R, model.mean, model.cov)
    Y[:, rng.random(Y.shape[1:]) < 0.3] = np.nan
    Y[:, 4], Y[2, 9] = np.nan, np.nan
    f = kalman.filter(model, Y)
    found = kalman.innovations(model, f, Y)
    for n in range(3):
        for t in range(30):
            o = np.flatnonzero(~np.isnan(Y[n, t]))
            X = (model.X if constant else model.X[t])[o]
            e = Y[n, t, o] - X @ f.predicted_mean[n, t]
            S = X @ f.predicted_cov[n, t] @ X.T + model.R[np.ix_(o, o)]
            assert found.degrees[n, t] == len(o)
            assert found.squares[n, t] == pytest.approx(e @ np.linalg.solve(S, e), rel=1e-9, abs=1e-12)
