"""Known inputs B u: the textbook recursion, and the model without inputs that the true path of inputs is taken from."""

import numpy as np
import pytest

import remanence as rm
from remanence import kalman


def controlled(per_step=False, seed=0, T=30):
    rng = np.random.default_rng(seed)
    A = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    B = rng.standard_normal((T, 3, 2) if per_step else (3, 2))
    u = rng.standard_normal((T, 2))
    model = kalman.LinearGaussian(
        A, 0.1 * np.eye(3), rng.standard_normal((2, 3)), 0.5 * np.eye(2), rng.standard_normal(3), np.eye(3), B, u
    )
    return model, kalman.sample(model, T, seed)[1]


@pytest.mark.parametrize("form", ["covariance", "root"])
@pytest.mark.parametrize("per_step", [False, True])
def test_filter_is_the_textbook_recursion(form, per_step):
    model, Y = controlled(per_step)
    Y[4], Y[7, 0] = np.nan, np.nan
    m, P, means, covs = model.mean, model.cov, [], []
    for t, y in enumerate(Y):
        if t:
            B = model.B[t] if per_step else model.B
            m, P = model.A @ m + B @ model.u[t], model.A @ P @ model.A.T + model.Q
        seen = ~np.isnan(y)
        X = model.X[seen]
        K = P @ X.T @ np.linalg.inv(X @ P @ X.T + 0.5 * np.eye(len(X)))
        m, P = m + K @ (y[seen] - X @ m), P - K @ X @ P
        means.append(m)
        covs.append(P)
    found = kalman.filter(model, Y, form=form)
    np.testing.assert_allclose(found.mean, means, atol=1e-12)
    np.testing.assert_allclose(found.cov, covs, atol=1e-12)
    last = kalman.filter(model, Y, form=form, keep="last")
    np.testing.assert_allclose(last.mean, means, atol=1e-12)
    assert last.cov.shape == (1, 3, 3)


def test_smoother_forecast_and_innovations_are_those_of_the_shifted_series():
    """θ − o follows the model without inputs, where o is the path of the inputs alone."""
    model, Y = controlled(T=30)
    path = np.zeros((30, 3))
    for t in range(1, 30):
        path[t] = model.A @ path[t - 1] + model.B @ model.u[t]
    plain = kalman.LinearGaussian(model.A, model.Q, model.X, model.R, model.mean, model.cov)
    whole = kalman.filter(plain, Y - path @ model.X.T)
    shorter = kalman.filter(plain, (Y - path @ model.X.T)[:20])
    ours = kalman.filter(model, Y)
    assert ours.loglik == pytest.approx(whole.loglik, rel=1e-12)
    np.testing.assert_allclose(kalman.smooth(model, ours).mean, kalman.smooth(plain, whole).mean + path, atol=1e-11)
    np.testing.assert_allclose(kalman.smooth(model, ours).cov, kalman.smooth(plain, whole).cov, atol=1e-11)
    squares = kalman.innovations(model, ours, Y).squares
    np.testing.assert_allclose(squares, kalman.innovations(plain, whole, Y - path @ model.X.T).squares, atol=1e-9)
    first = kalman.LinearGaussian(model.A, model.Q, model.X, model.R, model.mean, model.cov, model.B, model.u[:20])
    ahead = kalman.forecast(model, kalman.filter(first, Y[:20]), 10)
    np.testing.assert_allclose(ahead.mean, kalman.forecast(plain, shorter, 10).mean + path[20:], atol=1e-11)
    with pytest.raises(rm.InputError, match="expected u constant or of at least 30 steps"):
        kalman.forecast(first, kalman.filter(first, Y[:20]), 10)
    np.testing.assert_array_equal(kalman.backward_transfer(model, 5), kalman.backward_transfer(plain, 5))


def test_many_series_and_constant_inputs():
    model, Y = controlled()
    constant = kalman.LinearGaussian(model.A, model.Q, model.X, model.R, model.mean, model.cov, model.B, [1.0, -1.0])
    assert constant.length is None
    stack = np.stack([Y, Y + 1])
    stack[1, 3] = np.nan
    found = kalman.filter(constant, stack)
    for n in range(2):
        np.testing.assert_allclose(found.mean[n], kalman.filter(constant, stack[n]).mean, atol=1e-12)
    ahead = kalman.forecast(constant, kalman.filter(constant, Y), 1).mean[0]
    np.testing.assert_allclose(ahead, model.A @ kalman.filter(constant, Y).mean[-1] + model.B @ [1.0, -1.0], atol=1e-13)


def test_an_unstable_system_that_inputs_hold_keeps_its_digits():
    """Inputs that balance a growing state: the path of the inputs alone grows to 1e26."""
    T, rng = 200, np.random.default_rng(0)
    theta, u = np.zeros(T), np.zeros((T, 1))
    for t in range(1, T):
        u[t] = -1.35 * theta[t - 1]
        theta[t] = 1.35 * theta[t - 1] + u[t, 0] + 0.1 * rng.standard_normal()
    Y = theta[:, None] + 0.1 * rng.standard_normal((T, 1))
    model = kalman.LinearGaussian([[1.35]], [[0.01]], [[1.0]], [[0.01]], [0.0], [[1.0]], [[1.0]], u)
    m, P, means = 0.0, 1.0, []
    for t in range(T):
        if t:
            m, P = 1.35 * m + u[t, 0], 1.35**2 * P + 0.01
        K = P / (P + 0.01)
        m, P = m + K * (Y[t, 0] - m), (1 - K) * P
        means.append(m)
    np.testing.assert_allclose(kalman.filter(model, Y).mean[:, 0], means, atol=1e-12)


def test_saved_with_its_inputs(tmp_path):
    model, Y = controlled()
    rm.save(model, tmp_path / "model")
    again = rm.load(tmp_path / "model")
    np.testing.assert_array_equal(kalman.filter(again, Y).mean, kalman.filter(model, Y).mean)
    rm.save(kalman.filter(model, Y), tmp_path / "found")
    assert rm.load(tmp_path / "found").loglik == kalman.filter(model, Y).loglik


def test_bad_inputs_are_refused():
    model, Y = controlled()
    parts = (model.A, model.Q, model.X, model.R, model.mean, model.cov)
    bad = [(model.B, None), (None, model.u), (model.B[:2], model.u), (model.B, model.u[:, :1]), (3.0, model.u)]
    bad += [(model.B, np.full((30, 2), np.nan)), (np.ones((4, 3, 2)), model.u), (model.B, "x"), (model.B, 1.0)]
    for B, u in bad:
        with pytest.raises(rm.InputError):
            kalman.LinearGaussian(*parts, B, u)
    with pytest.raises(rm.InputError, match="expected Y of 30 steps"):
        kalman.filter(model, Y[:10])
    with pytest.raises(rm.InputError, match="without inputs"):
        kalman.learn(model, Y)
