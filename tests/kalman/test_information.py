"""Smoothing by the information of later observations equals the joint Gaussian, and falls back where it would not."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.conftest import through_a_file

import remanence as rm
from remanence import kalman
from remanence.kalman import information, smoother


def wide(seed, d=26, m=3, T=5, drift=0.3, noise=0.5, scale=0.0):
    """A model that changes from step to step, its features scaled by up to 10^±scale; some of Y is missing."""
    rng = np.random.default_rng(seed)
    S = 10.0 ** rng.uniform(-scale, scale, d)
    roots = rng.standard_normal((T, d, d)) / np.sqrt(d)
    A = 0.9 * np.linalg.qr(rng.standard_normal((T, d, d)))[0] * S[:, None] / S
    Q = drift * (roots @ roots.transpose(0, 2, 1) + np.eye(d)) * S[:, None] * S
    X = rng.standard_normal((T, m, d)) / S
    model = kalman.LinearGaussian(A, Q, X, noise * np.eye(m), rng.standard_normal(d) * S, np.diag(S**2))
    Y = kalman.sample(model, T, seed=seed)[1]
    Y[1, 0], Y[2] = np.nan, np.nan
    return model, Y


@pytest.mark.parametrize("form", ["covariance", "root"])
@pytest.mark.parametrize("seed", range(3))
def test_it_conditions_the_joint_gaussian(joint, form, seed):
    model, Y = wide(seed)
    f = kalman.filter(model, Y, form=form)
    assert f.whitened is not None
    s = kalman.smooth(model, f)
    mean, cov, _ = joint(model, len(Y)).given(Y, len(Y))
    np.testing.assert_allclose(s.mean, mean, atol=1e-10, rtol=0)
    np.testing.assert_allclose(s.cov, cov, atol=1e-10, rtol=0)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6), d=st.integers(24, 40), m=st.integers(1, 12), T=st.integers(3, 12),
    drift=st.sampled_from([1e-8, 1e-4, 1e-2, 1.0, 1e3]), noise=st.sampled_from([0.0, 1e-9, 1e-3, 1.0, 1e6]),
    scale=st.sampled_from([0.0, 6.0]),
)  # fmt: skip
def test_it_equals_the_backward_gains(seed, d, m, T, drift, noise, scale):
    model, Y = wide(seed, d, m, T, drift, noise, scale)
    f = kalman.filter(model, Y)
    s = kalman.smooth(model, f)
    gains = f.gains[0]
    cov, L = smoother._covariances(model, f.cov, f.predicted_cov, gains)
    mean = smoother._means(L, f.mean[None], f.predicted_mean[None])[0]
    sizes = np.sqrt(np.diagonal(f.predicted_cov, axis1=1, axis2=2))
    worst = 1e5 * np.finfo(float).eps  # AMPLIFIED times 100 roundings, of the predicted variances
    assert (np.abs(s.cov - cov) <= worst * sizes[:, :, None] * sizes[:, None]).all()
    assert (np.abs(s.mean - mean) <= worst * (sizes + np.abs(f.mean).max(axis=0))).all()
    assert np.diagonal(s.cov, axis1=1, axis2=2).min() >= 0


def used(monkeypatch, model, Y):
    """Whether the form is used."""
    found = []

    def spy(*given):
        found.append(information.smooth_by_information(*given))
        return found[-1]

    monkeypatch.setattr(smoother, "smooth_by_information", spy)
    kalman.smooth(model, kalman.filter(model, Y))
    return bool(found) and found[0] is not None


def test_it_is_used_where_it_is_accurate_and_pays(monkeypatch):
    assert used(monkeypatch, *wide(0))
    assert not used(monkeypatch, *wide(0, drift=1e-9))  # rounding could make the difference (I1) indefinite
    model, Y = wide(0)
    A, Q, X, R = np.repeat(0.9 * np.eye(26)[None], 5, axis=0), 3e-5 * np.eye(26), np.eye(26)[:3], 1e-9 * np.eye(3)
    sharp = kalman.LinearGaussian(A, Q, X, R, model.mean, model.cov)
    assert not used(monkeypatch, sharp, Y)  # an observation takes nearly all of B away
    assert not used(monkeypatch, *wide(0, d=10))
    assert not used(monkeypatch, *wide(0, m=14))


def test_gains_are_computed_when_they_are_asked_for(monkeypatch):
    model, Y = wide(4)
    f = kalman.filter(model, Y)
    calls = []
    compute = smoother.backward_gains
    monkeypatch.setattr(smoother, "backward_gains", lambda *given: calls.append(0) or compute(*given))
    s = kalman.smooth(model, f)
    assert repr(s) and not calls
    L = compute(model, f.cov, f.predicted_cov)
    assert s.gain.shape == (4, 26, 26) and (s.gain == L).all() and s.gain is s.gain
    assert len(calls) == 1
    with pytest.raises(AttributeError, match="no attribute 'gains'"):
        s.gains  # noqa: B018
    with pytest.raises(AttributeError):
        s.gain = L


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v)), through_a_file])
def test_copies_and_files_have_the_gains(copied):
    model, Y = wide(5)
    f = kalman.filter(model, Y)
    again = copied(kalman.smooth(model, f))
    once = kalman.smooth(model, f)
    for name in ("mean", "cov", "gain"):
        assert getattr(again, name).tobytes() == getattr(once, name).tobytes()
    twice = kalman.smooth(model, copied(f))
    assert twice.cov.tobytes() == once.cov.tobytes() and twice.mean.tobytes() == once.mean.tobytes()


def test_one_series_of_many_is_that_series():
    model, Y = wide(6)
    one, first = (kalman.smooth(model, kalman.filter(model, y)) for y in (Y, Y[None]))
    assert (first.mean[0] == one.mean).all() and (first.cov[0] == one.cov).all()
    assert (first.gain[0] == one.gain).all()


def test_a_damaged_result_is_not_written():
    model, Y = wide(7)
    f = kalman.filter(model, Y)
    for damaged in (f.whitened[:-1], f.whitened * np.nan, f.whitened.astype(np.float32)):
        with pytest.raises(rm.InputError, match="whitened innovations"):
            through_a_file(replace(f, whitened=damaged))
