"""Kalman filters through a file: models, results, and the filter as a streaming method."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import remanence as rm

from .conftest import content_of, through_a_file

DRIFTS = {
    "number": 0.05,
    "none": 0.0,
    "feature": [0.1, 0.0, 0.2],
    "matrix": np.array([[0.2, 0.1, 0.0], [0.1, 0.2, 0.0], [0.0, 0.0, 0.1]]),
    "auto": "auto",
}


@given(seed=st.integers(0, 10**6), lag=st.integers(0, 3), tasks=st.integers(0, 5))
@pytest.mark.parametrize("drift", DRIFTS)
def test_a_streaming_filter_goes_on_as_if_it_had_never_been_saved(drift, seed, lag, tasks):
    rng = np.random.default_rng(seed)
    method = rm.Kalman(DRIFTS[drift], noise=0.5, lag=lag)
    state = method.init(3, 2, rng.standard_normal((3, 2)))
    for _ in range(tasks):
        state = method.update(state, rng.standard_normal((4, 3)), rng.standard_normal((4, 2)))
    other, loaded = through_a_file((method, state))
    assert other == method and content_of((other, loaded)) == content_of((method, state))
    for _ in range(3):
        X, Y = rng.standard_normal((2, 3)), rng.standard_normal((2, 2))
        (state, errors), (loaded, again) = method.track(state, X, Y), other.track(loaded, X, Y)
        assert errors.tobytes() == again.tobytes()
    for ask in (method.weights, method.evidence):
        assert np.asarray(ask(state)).tobytes() == np.asarray(ask(loaded)).tobytes()
    for a, b in zip(method.smoothed(state), method.smoothed(loaded), strict=True):
        assert a.mean.tobytes() == b.mean.tobytes() and a.cov.tobytes() == b.cov.tobytes()


def models():
    rng = np.random.default_rng(1)
    A, Q, mean, cov = 0.9 * np.eye(2), 0.1 * np.eye(2), np.zeros(2), np.eye(2)
    ragged = [rng.standard_normal((m, 2)) for m in (1, 3, 2, 2)]
    return {
        "constant": rm.kalman.LinearGaussian(A, Q, np.ones((1, 2)), np.eye(1), mean, cov),
        "stepwise": rm.kalman.LinearGaussian(A, Q, rng.standard_normal((4, 3, 2)), np.eye(3), mean, cov),
        "ragged": rm.kalman.LinearGaussian(A, Q, ragged, [np.eye(len(x)) for x in ragged], mean, cov),
        "singular": rm.kalman.LinearGaussian(A, 0 * Q, np.ones((1, 2)), np.zeros((1, 1)), mean, cov),
    }


@pytest.mark.parametrize("name", models())
def test_a_model_and_what_it_filtered_come_back(name):
    model = models()[name]
    copy = through_a_file(model)
    theta, Y = rm.kalman.sample(model, 4, seed=2)
    again = rm.kalman.sample(copy, 4, seed=2)
    assert theta.tobytes() == again[0].tobytes()
    filtered = rm.kalman.filter(model, Y)
    loaded = through_a_file(filtered)
    for field in ("mean", "cov", "predicted_mean", "predicted_cov", "logliks"):
        assert getattr(loaded, field).tobytes() == getattr(filtered, field).tobytes()
    for value, other in (
        (rm.kalman.smooth(model, filtered), rm.kalman.smooth(loaded.model, loaded)),
        (rm.kalman.smooth(model, filtered), through_a_file(rm.kalman.smooth(model, filtered))),
    ):
        assert value.mean.tobytes() == other.mean.tobytes() and value.gain.tobytes() == other.gain.tobytes()
    squares = [rm.kalman.innovations(f.model, f, Y).squares.tobytes() for f in (filtered, loaded)]
    assert squares[0] == squares[1]


def test_many_series_that_share_their_covariances_are_written_once():
    model = models()["constant"]
    Y = np.random.default_rng(3).standard_normal((500, 20, 1))
    filtered = rm.kalman.filter(model, Y)
    content = content_of(filtered)
    assert len(content) < 1.2 * (2 * filtered.mean.nbytes + filtered.logliks.nbytes)
    loaded = through_a_file(filtered)
    assert loaded.cov.shape == (500, 20, 2, 2) and (loaded.cov == filtered.cov).all()
    ahead = [rm.kalman.forecast(model, f, 3) for f in (filtered, loaded)]
    assert ahead[0].mean.tobytes() == ahead[1].mean.tobytes()
    assert through_a_file(ahead[0]).cov.tobytes() == ahead[0].cov.tobytes()


def test_series_that_miss_different_answers_come_back_in_their_groups():
    model = models()["constant"]
    Y = np.random.default_rng(4).standard_normal((6, 9, 1))
    Y[2:4, 3] = np.nan
    filtered = rm.kalman.filter(model, Y)
    loaded = through_a_file(filtered)
    assert [g.tolist() for g in loaded.groups] == [g.tolist() for g in filtered.groups]
    assert rm.kalman.smooth(model, loaded).cov.tobytes() == rm.kalman.smooth(model, filtered).cov.tobytes()


def test_what_the_extended_filter_returned_comes_back():
    Y = np.random.default_rng(5).standard_normal((6, 1))
    filtered = rm.kalman.extended(
        lambda v: np.sin(v), lambda v: v[:1] ** 3, Y, Q=np.eye(2), R=np.eye(1), mean=np.ones(2), cov=np.eye(2)
    )
    loaded = through_a_file(filtered)
    assert loaded.expected.tobytes() == filtered.expected.tobytes() and loaded.gains is None
    a, b = (rm.kalman.smooth_extended(f).mean.tobytes() for f in (filtered, loaded))
    assert a == b
