"""Steps with many rows are compressed to d rows: the same posterior, likelihood and smoothed states as without."""

import importlib

import numpy as np
import pytest

import remanence as rm
from remanence import kalman
from remanence.kalman import compression

filters = importlib.import_module("remanence.kalman.filter")  # the function of the package hides the module
NAMES = ("mean", "cov", "predicted_mean", "predicted_cov", "logliks")


def build(case, d=3, m=25, T=40, seed=0):
    rng = np.random.default_rng(seed)
    shape = (T,) if case in ("varying", "varying and missing") else ()
    A = 0.95 * np.linalg.qr(rng.standard_normal((d, d)))[0]
    mixing = rng.standard_normal((*shape, m, m)) / m
    R = 0.2 * np.eye(m) + (0 if case == "independent" else mixing @ np.swapaxes(mixing, -1, -2))
    X = rng.standard_normal((*shape, m, d))
    if case == "dependent rows":
        X[:, -1] = X[:, 0] - X[:, 1]
    Y = rng.standard_normal((T, m))
    if case == "steps missing":
        Y[3], Y[20:25] = np.nan, np.nan
    if case in ("entries missing", "varying and missing"):
        Y[rng.random(Y.shape) < 0.3], Y[7], Y[9, 2:] = np.nan, np.nan, np.nan  # all, and all but two
    if case == "ragged":
        rows = rng.integers(0, m + 1, T)
        X, R, Y = [X[:k] for k in rows], [R[:k, :k] for k in rows], [y[:k] for y, k in zip(Y, rows, strict=True)]
    return kalman.LinearGaussian(A, 0.1 * np.eye(d), X, R, np.ones(d), np.eye(d)), Y


CASES = (
    "plain", "independent", "varying", "dependent rows", "steps missing", "entries missing", "varying and missing",
    "ragged",
)  # fmt: skip


def without(monkeypatch, compute):
    """What `compute` gives if nothing is compressed."""
    with monkeypatch.context() as patch:
        patch.setattr(compression, "FEWEST", 10**9)
        return compute()


@pytest.mark.parametrize("form", ["covariance", "root"])
@pytest.mark.parametrize("case", CASES)
def test_the_same_results_to_rounding(monkeypatch, case, form):
    model, Y = build(case)
    found = kalman.filter(model, Y, form)
    right = without(monkeypatch, lambda: kalman.filter(model, Y, form))
    assert found.gains[0].X is not None and right.gains[0].X is None
    for name in NAMES:
        np.testing.assert_allclose(getattr(found, name), getattr(right, name), rtol=1e-11, atol=1e-11, err_msg=name)
    monkeypatch.setattr(filters, "PART", 3000)  # a few steps at a time
    last = kalman.filter(model, Y, form, keep="last")
    for name in ("mean", "logliks"):
        np.testing.assert_allclose(getattr(last, name), getattr(right, name), rtol=1e-11, atol=1e-11)
    smoothed, wanted = kalman.smooth(model, found), kalman.smooth(model, right)
    np.testing.assert_allclose(smoothed.cov, wanted.cov, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(smoothed.mean, wanted.mean, rtol=1e-10, atol=1e-11)
    errors, right_errors = (kalman.innovations(model, f, Y) for f in (found, right))
    np.testing.assert_allclose(errors.errors, right_errors.errors, rtol=1e-11, atol=1e-11)  # of every row
    np.testing.assert_allclose(errors.squares, right_errors.squares, rtol=1e-10)


@pytest.mark.parametrize("series", [2, 30])
def test_several_series(monkeypatch, series):
    model, _ = build("plain")
    Y = np.random.default_rng(3).standard_normal((series, 20, 25))
    Y[0, 4, :9], Y[1, 6] = np.nan, np.nan
    found, right = kalman.filter(model, Y), without(monkeypatch, lambda: kalman.filter(model, Y))
    for name in NAMES:
        np.testing.assert_allclose(getattr(found, name), getattr(right, name), rtol=1e-11, atol=1e-11, err_msg=name)


def test_the_smoother_uses_the_compressed_rows_where_gains_amplify_rounding(monkeypatch):
    """(RTS4) of the smoother reads the rows behind the gains."""
    rng = np.random.default_rng(0)
    X, Q = rng.standard_normal((20, 2)), np.diag([1e-13, 1.0])
    model = kalman.LinearGaussian(np.diag([1e-5, 0.9]), Q, X, np.eye(20), np.zeros(2), np.eye(2))
    Y = rng.standard_normal((30, 20))
    found, right = kalman.filter(model, Y), without(monkeypatch, lambda: kalman.filter(model, Y))
    smoother = kalman.smooth.__globals__
    monkeypatch.setitem(smoother, "AMPLIFIED", 0.0)
    wanted = kalman.smooth(model, right)
    np.testing.assert_allclose(kalman.smooth(model, found).cov, wanted.cov, rtol=1e-9, atol=1e-14)


def test_exact_observations_are_not_whitened():
    model, Y = build("plain")
    R = model.R.copy()
    R[0], R[:, 0] = 0, 0
    exact = kalman.LinearGaussian(model.A, model.Q, model.X, R, model.mean, model.cov)
    assert kalman.filter(exact, Y).gains[0].X is None


def test_a_compressed_result_is_saved_and_loaded(tmp_path):
    model, Y = build("entries missing")
    found = kalman.filter(model, Y)
    rm.save(found, tmp_path / "found.rmn")
    loaded = rm.load(tmp_path / "found.rmn")
    np.testing.assert_array_equal(loaded.gains[0].X, found.gains[0].X)
    np.testing.assert_array_equal(kalman.smooth(model, loaded).cov, kalman.smooth(model, found).cov)
