"""Filter, smoother and likelihood equal conditioning the full joint Gaussian, for every kind of model."""

import numpy as np
import pytest

from remanence import kalman
from remanence.kalman import gains
from remanence.kalman import smoother as smoothing
from remanence.kalman.gains import compute


@pytest.mark.parametrize("form", ["covariance", "root"])
@pytest.mark.parametrize("T", [1, 9])
@pytest.mark.parametrize("seed", range(3))
def test_filter_and_smoother_condition_the_joint_gaussian(joint, make, kind, form, T, seed):
    model, Y = make(kind, seed, T=9)
    Y = Y[:T]
    if model.length is not None:
        cut = lambda v: v[:T] if isinstance(v, tuple) or v.ndim == 3 else v
        model = kalman.LinearGaussian(*(cut(getattr(model, n)) for n in "AQXR"), model.mean, model.cov)
        Y = [y[: x.shape[0]] for y, x in zip(Y, model.X, strict=True)] if kind == "ragged" and T > 1 else np.array(Y)
    f = kalman.filter(model, Y, form=form)
    s = kalman.smooth(model, f)
    oracle = joint(model, T)
    for t in range(T):
        for steps, mean, cov in ((t + 1, f.mean, f.cov), (t, f.predicted_mean, f.predicted_cov), (T, s.mean, s.cov)):
            true_mean, true_cov, _ = oracle.given(Y, steps)
            np.testing.assert_allclose(mean[t], true_mean[t], atol=1e-9, rtol=0)
            np.testing.assert_allclose(cov[t], true_cov[t], atol=1e-9, rtol=0)
        np.testing.assert_array_equal(f.cov[t], f.cov[t].T)
        np.testing.assert_array_equal(s.cov[t], s.cov[t].T)
    assert f.loglik == pytest.approx(oracle.given(Y, T)[2], rel=1e-9)
    assert f.logliks.sum() == f.loglik


def test_every_task_given_any_number_of_tasks(joint, make, kind):
    model, Y = make(kind, 7)
    T = len(Y)
    if model.length is None:  # the model of fewer steps is the same model
        oracle = joint(model, T)
        for t in range(1, T + 1):
            s = kalman.smooth(model, kalman.filter(model, Y[:t]))
            mean, cov, _ = oracle.given(Y, t)
            np.testing.assert_allclose(s.mean, mean[:t], atol=1e-9, rtol=0)
            np.testing.assert_allclose(s.cov, cov[:t], atol=1e-9, rtol=0)


def test_the_smoother_gain_gives_the_covariance_of_neighbours(joint, make, kind):
    model, Y = make(kind, 1)
    T, d = len(Y), model.features
    s = kalman.smooth(model, kalman.filter(model, Y))
    oracle = joint(model, T)
    there = ~np.isnan(np.concatenate([np.ravel(y) for y in Y]))
    C = oracle.cov.reshape(T * d, -1)
    H = oracle.H[there]
    S = H @ C @ H.T + oracle.R[np.ix_(there, there)]
    after = (C - C @ H.T @ np.linalg.solve(S, H @ C)).reshape(T, d, T, d)
    for t in range(T - 1):
        np.testing.assert_allclose(s.cov[t + 1] @ s.gain[t].T, after[t + 1, :, t], atol=1e-9, rtol=0)


def test_theorem_7_backward_transfer_is_the_trace_of_the_joint_gaussian_and_never_grows(joint, make, kind):
    model, Y = make(kind, 2)
    T = len(Y)
    found = kalman.backward_transfer(model, T)
    oracle = joint(model, T)
    full = [np.zeros_like(y) for y in Y]
    covs = np.array([oracle.given(full, t + 1)[1] for t in range(T)])  # [t, i]
    for i in range(T):
        assert np.isnan(found[i, :i]).all()
        np.testing.assert_allclose(found[i, i:], np.trace(covs[i:, i], axis1=1, axis2=2), atol=1e-9, rtol=0)
        for s in range(i, T - 1):
            assert np.linalg.eigvalsh(covs[s, i] - covs[s + 1, i]).min() > -1e-9
        assert (np.diff(found[i, i:]) <= 1e-12).all()


@pytest.mark.parametrize("form", ["covariance", "root"])
def test_lapack_and_compiled_loops_agree(make, kind, form, monkeypatch):
    model, Y = make(kind, 3)
    f = kalman.filter(model, Y, form=form)
    s = kalman.smooth(model, f)
    monkeypatch.setattr(gains, "SMALL", 0)
    monkeypatch.setattr(smoothing, "SMALL", 0)
    g = kalman.filter(model, Y)
    r = kalman.smooth(model, g)
    for a, b in ((f.mean, g.mean), (f.cov, g.cov), (s.mean, r.mean), (s.cov, r.cov), (f.logliks, g.logliks)):
        np.testing.assert_allclose(a, b, atol=1e-11, rtol=0)


@pytest.mark.parametrize("small", [100, 0])
@pytest.mark.parametrize("d, m", [(3, 1), (8, 2), (20, 3)])
def test_standing_still_loses_nothing(d, m, small, monkeypatch):
    monkeypatch.setattr(gains, "SMALL", small)
    monkeypatch.setattr(smoothing, "SMALL", small)
    rng = np.random.default_rng(d)
    T = 1500
    A = 0.98 * np.linalg.qr(rng.standard_normal((d, d)))[0]
    X, Q, R = rng.standard_normal((m, d)), 0.1 * np.eye(d), 0.5 * np.eye(m)
    model = kalman.LinearGaussian(A, Q, X, R, np.zeros(d), np.eye(d))
    moving = kalman.LinearGaussian(np.tile(A, (T, 1, 1)), Q, X, R, np.zeros(d), np.eye(d))  # never stops
    Y = rng.standard_normal((T, m))
    Y[700, 0] = np.nan  # wakes it up
    there = ~np.isnan(Y)
    assert compute(model, there[:700], "covariance").settled < 700
    assert compute(moving, there[:700], "covariance").settled == 700
    f, g = kalman.filter(model, Y), kalman.filter(moving, Y)
    s, r = kalman.smooth(model, f), kalman.smooth(moving, g)
    for a, b in ((f.mean, g.mean), (f.cov, g.cov), (s.mean, r.mean), (s.cov, r.cov)):
        np.testing.assert_allclose(a, b, atol=1e-14 * d, rtol=0)
    assert f.loglik == pytest.approx(g.loglik, rel=1e-13)


def test_slow_convergence_is_not_taken_for_standing_still():
    model = kalman.LinearGaussian(np.eye(1), 1e-12 * np.eye(1), np.eye(1), np.eye(1), np.zeros(1), np.eye(1))
    found = compute(model, np.ones((20000, 1), bool), "covariance")
    assert found.settled == 20000
    P = 1.0
    for t in range(20000):
        P = P + 1e-12 if t else P
        P = P / (P + 1)
        assert abs(found.filtered[t, 0, 0] - P) < 1e-12 * P + 1e-16


EPS = float(np.finfo(float).eps)


@pytest.mark.parametrize("small", [100, 0])
@pytest.mark.parametrize("roundings", [1, 3])
@pytest.mark.parametrize("d", [1, 3])
def test_a_drift_of_a_rounding_a_step_is_not_taken_for_standing_still(d, roundings, small, monkeypatch):
    """Answers that tell nothing: Σ grows by Q, a rounding or three, at every step, and never stops."""
    monkeypatch.setattr(gains, "SMALL", small)
    T, Q = 3000, roundings * EPS * np.eye(d)
    model = kalman.LinearGaussian(np.eye(d), Q, np.zeros((1, d)), [[1.0]], np.zeros(d), np.eye(d))
    found = compute(model, np.ones((T, 1), bool), "covariance")
    assert found.settled == T
    np.testing.assert_array_equal(found.filtered[-1], np.eye(d) + (T - 1) * Q)


@pytest.mark.parametrize("small", [100, 0])
def test_a_smoothed_drift_of_roundings_is_not_taken_for_standing_still(small, monkeypatch):
    """The filter stands still and the smoothed variance falls by three roundings a step, from 1 towards ½."""
    monkeypatch.setattr(gains, "SMALL", small)
    monkeypatch.setattr(smoothing, "SMALL", small)
    T, q = 3000, 3 * EPS
    model = kalman.LinearGaussian([[1.0]], [[q]], [[1.0]], [[1 / q]], [0.0], [[1 + q]])
    f = kalman.filter(model, np.zeros((T, 1)))
    np.testing.assert_array_equal(f.cov, 1.0)
    assert (np.diff(kalman.smooth(model, f).cov[:, 0, 0]) > 0).all()


@pytest.mark.parametrize("small", [100, 0])
def test_a_covariance_that_repeats_bit_by_bit_is_kept_at_once(small, monkeypatch):
    monkeypatch.setattr(gains, "SMALL", small)
    model = kalman.LinearGaussian(np.zeros((2, 2)), np.eye(2), np.eye(2), np.eye(2), np.zeros(2), 3 * np.eye(2))
    assert compute(model, np.ones((9, 2), bool), "covariance").settled == 2  # steps 1 and 2 are the same
    assert compute(model, np.ones((9, 2), bool), "covariance", steady=False).settled == 9
    there = np.ones((9, 2), bool)
    there[7, 0] = False  # an answer that is missing: what was settled before it is not any more
    assert compute(model, there, "covariance").settled == 9


@pytest.mark.parametrize("small", [100, 0])
@pytest.mark.parametrize("seed", [9, 61, 109])
def test_gains_of_a_thousand_do_not_amplify_rounding(joint, make, seed, small, monkeypatch):
    """Σ_{j|j−1} is nearly singular here: L Σ Lᵀ alone would be off by 3e-10."""
    monkeypatch.setattr(gains, "SMALL", small)
    monkeypatch.setattr(smoothing, "SMALL", small)
    model, Y = make("singular prior", seed, T=6)
    s = kalman.smooth(model, kalman.filter(model, Y))
    assert np.abs(s.gain).max() > 100
    mean, cov, _ = joint(model, 6).given(Y, 6)
    np.testing.assert_allclose(s.cov, cov, atol=1e-12, rtol=0)
    np.testing.assert_allclose(s.mean, mean, atol=1e-11, rtol=0)
