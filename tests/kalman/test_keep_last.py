"""kalman.filter(keep="last"): the same means in little memory, and clear errors where all covariances are needed."""

import importlib
import subprocess
import sys

import numpy as np
import pytest

import remanence as rm
from remanence import kalman
from remanence.kalman import gains

filters = importlib.import_module("remanence.kalman.filter")  # the function of the package hides the module


def model_of(d, m, T=None, seed=0, drift=0.1):
    """A stable model; with T its A, X and R differ from step to step."""
    rng = np.random.default_rng(seed)
    shape = () if T is None else (T,)
    A = 0.9 * np.linalg.qr(rng.standard_normal((*shape, d, d)))[0]
    noise = rng.standard_normal((*shape, m, m)) / m
    R = 0.3 * np.eye(m) + noise @ np.swapaxes(noise, -1, -2)
    return kalman.LinearGaussian(A, drift * np.eye(d), rng.standard_normal((*shape, m, d)), R, np.ones(d), np.eye(d))


def compare(model, Y, form):
    kept, short = (kalman.filter(model, Y, form, keep=keep) for keep in ("all", "last"))
    for name in ("mean", "predicted_mean", "logliks"):
        np.testing.assert_array_equal(getattr(short, name), getattr(kept, name))
    for name in ("cov", "predicted_cov"):
        np.testing.assert_array_equal(getattr(short, name), getattr(kept, name)[..., -1:, :, :])
    return short


@pytest.mark.parametrize("part", [1, 700, 10**6])
@pytest.mark.parametrize("form", ["covariance", "root"])
@pytest.mark.parametrize("varying", [False, True])
def test_the_same_bits_as_keeping_all(monkeypatch, part, form, varying):
    """However many steps are computed at a time; a constant model reaches its steady state within a part or not."""
    monkeypatch.setattr(filters, "PART", part)
    d, m, T = 3, 2, 150
    model = model_of(d, m, T if varying else None)
    Y = np.random.default_rng(1).standard_normal((T, m))
    compare(model, Y, form)
    Y[::7, 0], Y[60:64] = np.nan, np.nan
    compare(model, Y, form)


@pytest.mark.parametrize("form", ["covariance", "root"])
@pytest.mark.parametrize("series", [3, 40])
def test_several_series_with_their_own_missing_entries(monkeypatch, form, series):
    monkeypatch.setattr(filters, "PART", 400)
    model = model_of(3, 2)
    Y = np.random.default_rng(1).standard_normal((series, 60, 2))
    Y[0, 5, 1], Y[1, 8] = np.nan, np.nan
    assert compare(model, Y, form).cov.shape == (series, 1, 3, 3)


@pytest.mark.parametrize("form", ["covariance", "root"])
def test_wide_models_by_lapack(monkeypatch, form):
    monkeypatch.setattr(filters, "PART", 900)
    monkeypatch.setattr(gains, "SMALL", 0)
    Y = np.random.default_rng(1).standard_normal((120, 2))
    Y[3, 0] = np.nan
    compare(model_of(4, 2), Y, form)


def test_forecasts_need_no_more_and_the_rest_says_what_to_do(tmp_path):
    model, Y = model_of(3, 2), np.random.default_rng(1).standard_normal((50, 2))
    kept, short = kalman.filter(model, Y), kalman.filter(model, Y, keep="last")
    np.testing.assert_array_equal(kalman.forecast(model, short, 4).cov, kalman.forecast(model, kept, 4).cov)
    for ask in (lambda: kalman.smooth(model, short), lambda: kalman.innovations(model, short, Y)):
        with pytest.raises(rm.InputError, match='keep="all"'):
            ask()
    with pytest.raises(rm.InputError, match="expected keep 'all' or 'last'"):
        kalman.filter(model, Y, keep="first")
    rm.save(short, tmp_path / "short.rmn")
    loaded = rm.load(tmp_path / "short.rmn")
    np.testing.assert_array_equal(loaded.cov, short.cov)
    np.testing.assert_array_equal(loaded.mean, short.mean)


SCRIPT = """
import sys
import numpy as np
from remanence import kalman
d, m, T = 8, 2, int(sys.argv[1])
rng = np.random.default_rng(0)
A = 0.95 * np.linalg.qr(rng.standard_normal((d, d)))[0]
Y = rng.standard_normal((T, m))
if sys.argv[2] == "missing":
    Y[::50] = np.nan
model = kalman.LinearGaussian(A, 0.1 * np.eye(d), rng.standard_normal((m, d)), np.eye(m), np.zeros(d), np.eye(d))
found = kalman.filter(model, Y, keep="last")
assert found.mean.shape == (T, d) and np.isfinite(found.loglik)
peak = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(int(peak[0].split()[1]) / 1e3)
"""


def peak(T, gaps="full"):
    """Peak memory of a process of its own that filters T steps at d = 8, in MB."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(T), gaps], capture_output=True, text=True, check=True)
    return float(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is read from /proc")
def test_memory_grows_by_the_means_alone():
    steps = 100_000
    grown = peak(steps) - peak(10)
    assert grown < steps * 8 * (2 * 8 + 6 * 2) / 1e6 + 8, (
        grown
    )  # two means, Y and what checks it; the covariances of a part


@pytest.mark.sweep
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is read from /proc")
@pytest.mark.parametrize("gaps", ["full", "missing"])
def test_a_million_steps_in_300_MB(gaps):
    assert peak(1_000_000, gaps) < 300
