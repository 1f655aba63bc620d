"""The live filter: equal to `kalman.filter` step by step, several sensors, irregular steps, bad input."""

import numpy as np
import pytest

import remanence as rm
from remanence import kalman

rng = np.random.default_rng(0)
T, D = 12, 3


def spd(d):
    L = rng.standard_normal((d, d))
    return L @ L.T + 0.1 * np.eye(d)


def model(per_step=False, inputs=False, ragged=False):
    many = (T,) if per_step else ()
    Q = np.array([spd(D) for _ in range(T)]) if per_step else spd(D)
    X, R = rng.standard_normal((*many, 2, D)), spd(2)
    if ragged:
        X = [rng.standard_normal((1 + t % 2, D)) for t in range(T)]
        R = [np.eye(len(x)) for x in X]
    A = 0.7 * rng.standard_normal((*many, D, D))
    extra = {"B": rng.standard_normal((D, 2)), "u": rng.standard_normal((T, 2))} if inputs else {}
    return kalman.LinearGaussian(A, Q, X, R, rng.standard_normal(D), spd(D), **extra)


@pytest.mark.parametrize("form", ["covariance", "root"])
@pytest.mark.parametrize(
    "settings", [{}, {"per_step": True}, {"inputs": True}, {"per_step": True, "inputs": True}, {"ragged": True}]
)
def test_it_is_the_filter_step_by_step(settings, form):
    m = model(**settings)
    Y = kalman.sample(m, T, seed=1)[1]
    Y = [np.array(y) for y in Y]
    Y[3][0], Y[5][:] = np.nan, np.nan
    found, live = kalman.filter(m, Y, form=form), kalman.LiveFilter(m, form)
    for t, y in enumerate(Y):
        if t:
            np.testing.assert_allclose(live.predict(), found.predicted_mean[t], atol=1e-10)
            np.testing.assert_allclose(live.cov, found.predicted_cov[t], atol=1e-10)
        expected = y - np.atleast_2d(m.X[t] if settings.get("per_step") or settings.get("ragged") else m.X) @ live.mean
        np.testing.assert_allclose(live.update(y), expected, atol=1e-10)
        np.testing.assert_allclose(live.mean, found.mean[t], atol=1e-10)
        np.testing.assert_allclose(live.cov, found.cov[t], atol=1e-10)
        assert live.t == t
    assert live.loglik == pytest.approx(found.loglik)


def test_two_sensors_in_one_step_are_one_with_the_rows_of_both():
    m = model()
    live, both = kalman.LiveFilter(m), kalman.LiveFilter(m)
    X, y, R = rng.standard_normal((3, D)), rng.standard_normal(3), np.diag([0.1, 2.0, 0.5])
    live.update(y[:1], X=X[:1], R=R[:1, :1]), live.update(y[1:], X=X[1:], R=R[1:, 1:])
    both.update(y, X=X, R=R)
    np.testing.assert_allclose(live.mean, both.mean, atol=1e-12)
    np.testing.assert_allclose(live.cov, both.cov, atol=1e-12)
    assert live.loglik == pytest.approx(both.loglik)


def test_irregular_steps_and_inputs_as_they_come():
    F, L, X = kalman.constant_velocity(1)
    times, u = [0.0, 0.3, 1.7], rng.standard_normal((3, 1))
    rest = {"X": X, "R": np.eye(1), "mean": np.zeros(2), "cov": np.eye(2)}
    whole = kalman.LinearGaussian.from_continuous(F, L, 0.5, times, **rest, B=np.array([[0.0], [1.0]]), u=u)
    Y = rng.standard_normal((3, 1))
    found = kalman.filter(whole, Y)
    live = kalman.LiveFilter(
        kalman.LinearGaussian(np.eye(2), np.eye(2), X, np.eye(1), np.zeros(2), np.eye(2), B=whole.B[1], u=u[0])
    )
    live.update(Y[0])
    live.predict(A=whole.A[1], Q=whole.Q[1], u=u[1])
    np.testing.assert_allclose(live.mean, found.predicted_mean[1], atol=1e-12)
    live.update(Y[1])
    np.testing.assert_allclose(live.mean, found.mean[1], atol=1e-12)
    np.testing.assert_allclose(live.cov, found.cov[1], atol=1e-12)


def test_it_goes_on_without_end_and_in_steps_of_filterpy():
    pytest.importorskip("filterpy")
    from filterpy.kalman import KalmanFilter

    m = model()
    peer = KalmanFilter(D, 2)
    peer.x, peer.P, peer.F, peer.Q, peer.H, peer.R = m.mean[:, None], m.cov, m.A, m.Q, m.X, m.R
    live = kalman.LiveFilter(m)
    for y in rng.standard_normal((40, 2)):
        peer.predict(), live.predict()
        peer.update(y), live.update(y)
        np.testing.assert_allclose(live.mean, peer.x[:, 0], atol=1e-8)
        np.testing.assert_allclose(live.cov, peer.P, atol=1e-8)


BAD = {
    "too many": ([1.0, 2.0, 3.0], {}),
    "a block": ([[1.0, 2.0]], {}),
    "a number": (1.0, {}),
    "text": (["a", "b"], {}),
    "complex": ([1j, 2.0], {}),
    "infinite": ([np.inf, 1.0], {}),
    "X of other unknowns": ([1.0], {"X": [[1.0, 2.0]], "R": [[1.0]]}),
    "X alone": ([1.0], {"X": [[1.0, 2.0, 3.0]]}),
    "R below zero": ([1.0, 2.0], {"R": -np.eye(2)}),
    "X of many steps": ([1.0, 2.0], {"X": np.ones((4, 2, D))}),
    "complex X": ([1.0], {"X": [[1j, 0, 0]], "R": [[1.0]]}),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_observations_change_nothing(name):
    live = kalman.LiveFilter(model())
    live.update([1.0, 2.0])
    before = live.mean.copy(), live.cov.copy(), live.t, live.loglik
    y, named = BAD[name]
    with pytest.raises(rm.InputError):
        live.update(y, **named)
    for a, b in zip(before, (live.mean, live.cov, live.t, live.loglik), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("change", [{"A": np.eye(2)}, {"Q": -np.eye(D)}, {"A": np.full((D, D), np.nan)}, {"u": [1.0]}])
def test_bad_steps_change_nothing(change):
    live = kalman.LiveFilter(model())
    before = live.mean.copy()
    with pytest.raises(rm.InputError):
        live.predict(**change)
    np.testing.assert_array_equal(live.mean, before)
    assert live.t == 0


def test_the_end_of_a_model_overflow_and_what_is_no_model():
    live = kalman.LiveFilter(model(per_step=True))
    for _ in range(T - 1):
        live.predict()
    with pytest.raises(rm.InputError, match="longer model"):
        live.predict()
    assert live.t == T - 1
    steep = kalman.LiveFilter(model())
    with pytest.raises(rm.NumericalError):
        for _ in range(10):
            steep.predict(A=1e100 * np.eye(D))
    assert np.isfinite(steep.cov).all()
    with pytest.raises(rm.InputError, match="LinearGaussian"):
        kalman.LiveFilter("model")
    with pytest.raises(rm.InputError, match="form"):
        kalman.LiveFilter(model(), "square")
    m = model()
    with pytest.raises(rm.InputError, match="real numbers"):
        kalman.LiveFilter(kalman.LinearGaussian(m.A * 1j, m.Q, m.X, m.R, m.mean, m.cov))


def test_masked_entries_are_missing_and_what_is_returned_cannot_be_written():
    m = model()
    a, b = kalman.LiveFilter(m), kalman.LiveFilter(m)
    a.update(np.ma.masked_array([1.0, 5.0], [False, True])), b.update([1.0, np.nan])
    np.testing.assert_array_equal(a.mean, b.mean)
    with pytest.raises(ValueError, match="read-only"):
        a.mean[0] = 7.0
