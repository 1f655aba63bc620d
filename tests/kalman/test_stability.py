"""Long, nearly unobservable and exact: covariances stay covariances, and answers stay near the square-root form."""

import numpy as np
import pytest

from remanence import kalman
from remanence.kalman import gains


def turning(*angles):
    A = np.zeros((2 * len(angles),) * 2)
    for i, w in enumerate(angles):
        A[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[np.cos(w), -np.sin(w)], [np.sin(w), np.cos(w)]]
    return A


def check_covariances(covs):
    np.testing.assert_array_equal(covs, covs.transpose(0, 2, 1))
    values = np.linalg.eigvalsh(covs)
    assert (values[:, 0] >= 0).all()


@pytest.mark.parametrize("drift", [0.0, 1e-10, 1e-3])
@pytest.mark.parametrize("X", [[1.0, 0, 1, 0], [1.0, 0, 1e-5, 0], [1.0, 0, 0, 0]])
def test_a_hundred_thousand_steps_of_a_nearly_unobservable_model(X, drift):
    T = 100_000
    A = turning(0.3, 0.3001) if X[2] == 1 else turning(0.3, 1.1)  # modulus 1: two frequencies all but the same
    model = kalman.LinearGaussian(A, drift * np.eye(4), [X], [[1e-8]], np.zeros(4), np.eye(4))
    _, Y = kalman.sample(model, T, seed=1)
    f, root = kalman.filter(model, Y), kalman.filter(model, Y, form="root")
    check_covariances(f.cov)
    check_covariances(root.cov)
    size = np.trace(root.cov, axis1=1, axis2=2)
    assert (np.abs(f.cov - root.cov).max(axis=(1, 2)) <= 1e-7 * size).all()  # rounding over R: 1e-16 / 1e-8, and room
    assert (np.abs(f.mean - root.mean).max(axis=1) <= 1e-6 * np.sqrt(size)).all()
    assert f.loglik == pytest.approx(root.loglik, rel=1e-9)
    s = kalman.smooth(model, f)
    assert np.isfinite(s.mean).all()
    values = np.linalg.eigvalsh(s.cov)
    assert (values[:, 0] >= -1e-15 * values[:, -1]).all()


@pytest.mark.parametrize("noise", [1e-8, 1e-14, 1e-20, 0.0])
@pytest.mark.parametrize("form", ["covariance", "root"])
@pytest.mark.parametrize("small", [100, 0])
def test_repeated_exact_answers_do_not_break_a_static_model(noise, form, small, monkeypatch):
    monkeypatch.setattr(gains, "SMALL", small)
    d, T = 3, 400
    rng = np.random.default_rng(0)
    theta, X = rng.standard_normal(d), rng.standard_normal((T, 2, d))
    X[:, 1] = X[0, 1]  # the same question in every task, and a new one beside it
    model = kalman.LinearGaussian(np.eye(d), np.zeros((d, d)), X, noise * np.eye(2), np.zeros(d), 100 * np.eye(d))
    f = kalman.filter(model, X @ theta, form=form)
    np.testing.assert_allclose(f.mean[1:], np.tile(theta, (T - 1, 1)), atol=1e-5)
    values = np.linalg.eigvalsh(f.cov)
    assert (values[:, 0] >= -1e-15 * values[:, -1]).all()
    assert (np.trace(f.cov[1:], axis1=1, axis2=2) <= 1e4 * noise + 1e-10).all()
    assert np.isfinite(f.logliks).all()
    s = kalman.smooth(model, f)
    np.testing.assert_allclose(s.mean, np.tile(theta, (T, 1)), atol=1e-5)


@pytest.mark.parametrize("form", ["covariance", "root"])
@pytest.mark.parametrize("small", [100, 0])
def test_of_contradicting_exact_answers_the_oldest_wins_and_the_likelihood_is_zero(form, small, monkeypatch):
    monkeypatch.setattr(gains, "SMALL", small)
    x = np.array([[1.0, 2.0]])
    model = kalman.LinearGaussian(np.eye(2), np.zeros((2, 2)), x, [[0.0]], np.zeros(2), np.eye(2))
    f = kalman.filter(model, [[5.0], [5.0], [7.0], [5.0]], form=form)
    np.testing.assert_allclose(f.mean, np.tile([1.0, 2.0], (4, 1)), atol=1e-12)
    assert f.logliks[0] == pytest.approx(-0.5 * (np.log(2 * np.pi * 5) + 5))
    np.testing.assert_array_equal(f.logliks[1:], [0.0, -np.inf, 0.0])
    assert f.loglik == -np.inf
    found = kalman.innovations(model, f, [[5.0], [5.0], [7.0], [5.0]])
    np.testing.assert_array_equal(found.pvalues[1:], [1.0, 0.0, 1.0])
    both = kalman.LinearGaussian(
        np.eye(2), np.zeros((2, 2)), np.vstack([x, x]), np.zeros((2, 2)), np.zeros(2), np.eye(2)
    )
    g = kalman.filter(both, [[5.0, 7.0]], form=form)  # within one task: the first row
    np.testing.assert_allclose(g.mean, [[1.0, 2.0]], atol=1e-12)
    assert g.loglik == -np.inf


@pytest.mark.parametrize("form", ["covariance", "root"])
def test_exact_answers_of_a_drifting_model_condition_the_joint_gaussian(joint, form):
    rng = np.random.default_rng(3)
    d, T = 3, 8
    A = np.array([[0.5, 0.3, -0.2], [1, 0, 0], [0, 1, 0]])  # an autoregression, observed without noise
    Q = np.diag([1.0, 0, 0])
    model = kalman.LinearGaussian(A, Q, np.eye(1, d), [[0.0]], np.zeros(d), np.eye(d))
    Y = rng.standard_normal((T, 1))
    f = kalman.filter(model, Y, form=form)
    s = kalman.smooth(model, f)
    oracle = joint(model, T)
    mean, cov, loglik = oracle.given(Y, T)
    np.testing.assert_allclose(s.mean, mean, atol=1e-9)
    np.testing.assert_allclose(s.cov, cov, atol=1e-9)
    np.testing.assert_allclose(f.mean[-1], mean[-1], atol=1e-9)
    assert f.loglik == pytest.approx(loglik, rel=1e-9)


def test_exact_and_noisy_rows_side_by_side(joint):
    rng = np.random.default_rng(5)
    d, T = 4, 7
    v = np.array([1.0, -1.0, 0.5])
    R = np.outer(v, v)  # rank one: two combinations of the answers are exact
    model = kalman.LinearGaussian(
        0.8 * np.eye(d), 0.3 * np.eye(d), rng.standard_normal((3, d)), R, np.ones(d), np.eye(d)
    )
    Y = rng.standard_normal((T, 3))
    mean, cov, loglik = joint(model, T).given(Y, T)
    for form in ("covariance", "root"):
        f = kalman.filter(model, Y, form=form)
        s = kalman.smooth(model, f)
        np.testing.assert_allclose(s.mean, mean, atol=1e-9)
        np.testing.assert_allclose(s.cov, cov, atol=1e-9)
        assert f.loglik == pytest.approx(loglik, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_units_do_not_matter(make, scale):
    model, Y = make("missing", 0)
    f = kalman.filter(model, Y)
    other = kalman.LinearGaussian(
        model.A, model.Q * scale**2, model.X, model.R * scale**2, model.mean * scale, model.cov * scale**2
    )
    g = kalman.filter(other, Y * scale)
    np.testing.assert_allclose(g.mean / scale, f.mean, rtol=1e-12)
    np.testing.assert_allclose(kalman.smooth(other, g).mean / scale, kalman.smooth(model, f).mean, rtol=1e-11)


@pytest.mark.parametrize("form", ["covariance", "root"])
@pytest.mark.parametrize("exact", [False, True])
def test_units_of_each_coordinate_do_not_matter_where_covariances_are_singular(form, exact):
    rng = np.random.default_rng(2)
    d, m, T = 3, 2, 40
    A, push, noise = 0.9 * np.linalg.qr(rng.standard_normal((d, d)))[0], rng.standard_normal(d), rng.standard_normal(m)
    R = np.outer(noise, noise) if exact else np.diag([0.1, 0.2])
    model = kalman.LinearGaussian(A, np.outer(push, push), rng.standard_normal((m, d)), R, np.ones(d), np.eye(d))
    _, Y = kalman.sample(model, T, seed=0)
    D, E = 2.0 ** np.array([-30, 5, 40]), 2.0 ** np.array([20, -20])  # powers of two: nothing is rounded
    other = kalman.LinearGaussian(
        A * np.outer(D, 1 / D),
        model.Q * np.outer(D, D),
        model.X * np.outer(E, 1 / D),
        R * np.outer(E, E),
        D,
        np.diag(D**2),
    )
    f, g = kalman.filter(model, Y, form=form), kalman.filter(other, Y * E, form=form)
    np.testing.assert_allclose(g.mean / D, f.mean, atol=1e-12)
    np.testing.assert_allclose(g.cov / np.outer(D, D), f.cov, atol=1e-12)
    live = kalman.LiveFilter(other, form=form)
    for t in range(T):
        if t:
            live.predict()
        live.update(Y[t] * E)
    np.testing.assert_allclose(live.mean / D, f.mean[-1], atol=1e-12)


@pytest.mark.parametrize("small", [100, 0])
def test_a_mode_that_grows_and_nothing_excites_does_not_carry_rounding_away(small, monkeypatch):
    """Its variance is zero, so the filter would never correct it: rounding of the mean must count as unknown."""
    monkeypatch.setattr(gains, "SMALL", small)
    rng = np.random.default_rng(1)
    V = rng.standard_normal((3, 3))
    A = V @ np.diag([1.1, 0.9, -0.8]) @ np.linalg.inv(V)
    Q, cov = np.outer(V[:, 2], V[:, 2]), np.outer(V[:, 1], V[:, 1])
    model = kalman.LinearGaussian(A, Q, rng.standard_normal((1, 3)), [[0.1]], np.zeros(3), cov)
    Y = rng.standard_normal((3000, 1))
    for form in ("covariance", "root"):
        f = kalman.filter(model, Y, form=form)
        assert np.abs(f.mean).max() < 100
        values = np.linalg.eigvalsh(f.cov)
        assert (values[:, 0] >= -1e-15 * values[:, -1]).all()
