"""The unscented filter: the Kalman filter on linear functions, sigma points by the textbook, and filterpy."""

import numpy as np
import pytest

import remanence as rm
from remanence import kalman


def linear(seed=0, T=25, d=4, m=2, scale=1.0):
    rng = np.random.default_rng(seed)
    A = np.linalg.qr(rng.standard_normal((d, d)))[0]
    root = rng.standard_normal((d, d))
    model = kalman.LinearGaussian(
        A, 0.1 * np.eye(d), scale * rng.standard_normal((m, d)), 0.3 * np.eye(m), rng.standard_normal(d), root @ root.T
    )
    return model, kalman.sample(model, T, seed)[1]


def parts(model):
    return {"Q": model.Q, "R": model.R, "mean": model.mean, "cov": model.cov}


@pytest.mark.parametrize("kappa", [None, 0.0, 2.0])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_on_linear_functions_it_is_the_kalman_filter(kappa, scale):
    model, Y = linear(scale=scale)
    Y[3], Y[8, 1] = np.nan, np.nan
    found = kalman.unscented(lambda v: model.A @ v, lambda v: model.X @ v, Y, **parts(model), kappa=kappa)
    linear_one = kalman.filter(model, Y, form="root")
    np.testing.assert_allclose(found.mean, linear_one.mean, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.cov, linear_one.cov, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.predicted_cov, linear_one.predicted_cov, rtol=1e-10, atol=1e-10)
    assert found.loglik == pytest.approx(linear_one.loglik, rel=1e-10)
    better, oracle = kalman.smooth(found.model, found), kalman.smooth(model, linear_one)
    np.testing.assert_allclose(better.mean, oracle.mean, atol=1e-9)
    np.testing.assert_allclose(better.cov, oracle.cov, atol=1e-9)


def textbook(g, f, Y, Q, R, m, P, kappa):
    """Julier's form with full covariances, and the smoother of Särkkä."""
    d, s2 = len(m), len(m) + kappa
    weights = np.array([kappa / s2] + [1 / (2 * s2)] * (2 * d))

    def points(m, P):
        L = np.sqrt(s2) * np.linalg.cholesky(P)
        return np.vstack([m, m + L.T, m - L.T])

    means, covs, predicted, crosses, loglik = [], [], [], [None], 0.0
    for t, y in enumerate(Y):
        if t:
            chi = points(m, P)
            G = np.array([g(v) for v in chi])
            mean = weights @ G
            crosses.append((chi - m).T @ ((G - mean) * weights[:, None]))
            m, P = mean, (G - mean).T @ ((G - mean) * weights[:, None]) + Q
        predicted.append((m, P))
        chi = points(m, P)
        F = np.array([f(v) for v in chi])
        e, S = y - weights @ F, (F - weights @ F).T @ ((F - weights @ F) * weights[:, None]) + R
        K = (chi - m).T @ ((F - weights @ F) * weights[:, None]) @ np.linalg.inv(S)
        loglik -= 0.5 * (e @ np.linalg.solve(S, e) + np.linalg.slogdet(2 * np.pi * S)[1])
        m, P = m + K @ e, P - K @ S @ K.T
        means.append(m)
        covs.append(P)
    smooth = [(m, P)]
    for t in range(len(Y) - 2, -1, -1):
        ahead, spread = predicted[t + 1]
        D = crosses[t + 1] @ np.linalg.inv(spread)
        m, P = means[t] + D @ (smooth[0][0] - ahead), covs[t] + D @ (smooth[0][1] - spread) @ D.T
        smooth.insert(0, (m, P))
    return np.array(means), np.array(covs), loglik, smooth


def pendulum():
    rng = np.random.default_rng(1)

    def g(v):
        return np.array([v[0] + 0.1 * v[1], v[1] - 0.98 * np.sin(v[0])])

    def f(v):
        return np.array([np.sin(v[0]), v[0] * v[1]])

    theta, Y = np.array([1.0, 0.0]), []
    for _ in range(40):
        theta = g(theta) + 0.05 * rng.standard_normal(2)
        Y.append(f(theta) + 0.2 * rng.standard_normal(2))
    known = {"Q": 0.0025 * np.eye(2), "R": 0.04 * np.eye(2), "mean": np.array([0.8, 0.1]), "cov": 0.3 * np.eye(2)}
    return g, f, np.array(Y), known


@pytest.mark.parametrize("kappa", [0.0, 1.0, 2.5])
def test_on_a_pendulum_it_is_the_textbook_filter_and_smoother(kappa):
    g, f, Y, known = pendulum()
    found = kalman.unscented(g, f, Y, **known, kappa=kappa)
    means, covs, loglik, smooth = textbook(g, f, Y, *known.values(), kappa)
    np.testing.assert_allclose(found.mean, means, atol=1e-10)
    np.testing.assert_allclose(found.cov, covs, atol=1e-10)
    assert found.loglik == pytest.approx(loglik, rel=1e-10)
    better = kalman.smooth(found.model, found)
    np.testing.assert_allclose(better.mean, [m for m, _ in smooth], atol=1e-9)
    np.testing.assert_allclose(better.cov, [P for _, P in smooth], atol=1e-9)
    e = kalman.innovations(found.model, found, Y)
    np.testing.assert_allclose(Y - e.errors, found.expected, atol=1e-12)


def test_filterpy_gives_the_same():
    filters = pytest.importorskip("filterpy.kalman")
    g, f, Y, known = pendulum()
    points = filters.JulierSigmaPoints(2, kappa=1.0)
    peer = filters.UnscentedKalmanFilter(2, 2, dt=1.0, hx=f, fx=lambda v, dt: g(v), points=points)
    peer.x, peer.P, peer.Q, peer.R = known["mean"].copy(), known["cov"].copy(), known["Q"], known["R"]
    peer.sigmas_f = points.sigma_points(peer.x, peer.P)  # its loop predicts first; our prior is that of the first step
    means = []
    for t, y in enumerate(Y):
        if t:
            peer.predict()
            peer.sigmas_f = points.sigma_points(peer.x, peer.P)  # (some versions keep the points from before Q)
        peer.update(y)
        means.append(peer.x.copy())
    np.testing.assert_allclose(kalman.unscented(g, f, Y, **known, kappa=1.0).mean, means, atol=1e-9)


def test_angles_are_compared_by_the_residual():
    step = np.eye(4) + 0.1 * np.eye(4, k=2)

    def observe(v):
        return np.array([np.hypot(v[0], v[1]), np.arctan2(v[1], v[0])])

    def residual(y, predicted):
        distance, angle = y - predicted
        return np.array([distance, (angle + np.pi) % (2 * np.pi) - np.pi])

    rng = np.random.default_rng(0)
    path = [np.array([-5.0, 0.3, 0.1, -0.12])]
    for _ in range(50):
        path.append(step @ path[-1])
    Y = np.array([observe(v) for v in path]) + [0.1, 0.01] * rng.standard_normal((51, 2))
    known = {"Q": 1e-4 * np.eye(4), "R": np.diag([1e-2, 1e-4]), "mean": [-5, 0, 0, 0], "cov": np.eye(4)}
    found = kalman.unscented(lambda v: step @ v, observe, Y, **known, residual=residual)
    assert np.abs(found.mean - path)[:, :2].max() < 0.3
    Y[20, 1], Y[30] = np.nan, np.nan
    assert np.isfinite(kalman.unscented(lambda v: step @ v, observe, Y, **known, residual=residual).mean).all()


def test_a_singular_covariance_and_steps_of_several_sizes():
    known = {"Q": np.zeros((2, 2)), "mean": [1.0, 2.0], "cov": np.diag([1.0, 0.0])}
    X = [np.array([[1.0, 1.0]]), np.eye(2), np.array([[1.0, -1.0]])]
    Y, R = [[3.5], [1.2, 2.1], [-1.0]], [np.eye(1), np.eye(2), np.eye(1)]
    model = kalman.LinearGaussian(np.eye(2), known["Q"], X, R, known["mean"], known["cov"])
    found = kalman.unscented(lambda v: v, [lambda v, x=x: x @ v for x in X], Y, R=R, **known)
    np.testing.assert_allclose(found.mean, kalman.filter(model, Y).mean, atol=1e-12)
    assert (found.mean[:, 1] == 2).all()


def test_bad_input_is_refused():
    g, f, Y, known = pendulum()
    bad = [
        {"kappa": -0.5},
        {"kappa": "a"},
        {"kappa": np.nan},
        {"Q": -np.eye(2)},
        {"R": np.eye(3)},
        {"mean": [np.nan, 0.0]},
        {"cov": np.ones(2)},
        {"residual": 3},
        {"residual": lambda y, p: y[:1]},
    ]
    for change in bad:
        with pytest.raises(rm.InputError):
            kalman.unscented(g, f, Y, **{**known, **change})
    for functions in ((g, lambda v: v[:1]), (lambda v: v[:1], f), (g, lambda v: v * np.nan), (3, f), ([g], f)):
        with pytest.raises(rm.InputError):
            kalman.unscented(*functions, Y, **known)
    for functions in ((None, f), (g, None), (g, [f, None] * (len(Y) // 2) + [f] * (len(Y) % 2))):
        with pytest.raises(rm.InputError, match="a function or a list"):
            kalman.unscented(*functions, Y, **known)
        with pytest.raises(rm.InputError, match="a function or a list"):
            kalman.extended(*functions, Y, **known)
    kalman.unscented([None] + [g] * (len(Y) - 1), f, Y, **known)  # (nothing leads into the first step)
    for observations in (Y[:, 0], Y[:0], "abc", Y + np.inf):
        with pytest.raises(rm.InputError):
            kalman.unscented(g, f, observations, **known)
