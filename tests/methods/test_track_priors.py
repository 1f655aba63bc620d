"""RLS whose prior is another one at every row (floor, ridge="auto"): `track` gives the errors of fits row by row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import remanence as rm
from remanence.memory.tracking import NARROW


def defined(X, Y, ridge, forget, floor, start):
    """The errors by solving the problem anew before every row."""
    errors = np.empty(Y.shape)
    for t in range(len(X)):
        roots = np.sqrt(forget ** np.arange(t - 1.0, -1.0, -1.0))[:, None]
        prior = np.sqrt(max(ridge * forget**t, floor))
        A, B = np.vstack([roots * X[:t], prior * np.eye(X.shape[1])]), np.vstack([roots * Y[:t], prior * start])
        errors[t] = Y[t] - X[t] @ np.linalg.lstsq(A, B, rcond=None)[0]
    return errors


def one_by_one(method, state, X, Y):
    """The errors of weights that are asked for before every update."""
    errors = []
    for x, y in zip(X, Y, strict=True):
        errors.append(y - x @ method.weights(state))
        state = method.update(state, x[None], y[None])
    return state, np.array(errors)


@pytest.mark.parametrize("d", [1, 2, 5, 16, NARROW + 1])
@pytest.mark.parametrize("floor", [1e-6, 0.05, 10.0])
def test_errors_beside_a_floor_are_those_of_the_problem(d, floor):
    rng = np.random.default_rng(d)
    X, Y, start = rng.standard_normal((40, d)), rng.standard_normal((40, 2)), rng.standard_normal((d, 2))
    X[:, d // 2] = 1.0
    method = rm.RLS(0.3, 0.9, floor=floor)
    state, errors = method.track(method.init(d, 2, start=start), X, Y)
    wanted = defined(X, Y, 0.3, 0.9, floor, start)
    np.testing.assert_allclose(errors, wanted, rtol=1e-7, atol=1e-8)
    learned = method.update(method.init(d, 2, start=start), X, Y)
    np.testing.assert_allclose(method.weights(state), method.weights(learned), rtol=1e-9, atol=1e-10)
    assert state.count == 40


SETTINGS = [rm.RLS(0.3, 0.9, floor=0.01), rm.RLS("auto"), rm.RLS("auto", 0.95), rm.RLS("auto", 1.02)]


@settings(max_examples=25, deadline=None)
@given(
    method=st.sampled_from(SETTINGS), d=st.integers(1, 9), n=st.integers(1, 25), before=st.integers(0, 30),
    free=st.booleans(), seed=st.integers(0, 10**6), scale=st.sampled_from([0.0, 3.0]),
)  # fmt: skip
def test_tracking_equals_asking_before_every_update(method, d, n, before, free, seed, scale):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((before + n, d)) * 10.0 ** rng.uniform(-scale, scale, d)
    if free:
        X[:, 0] = 1
    Y = X @ rng.standard_normal((d, 2)) + rng.standard_normal((before + n, 2))
    begin = method.init(d, 2, free=int(free))
    begin = method.update(begin, X[:before], Y[:before]) if before else begin
    state, errors = method.track(begin, X[before:], Y[before:])
    slow, wanted = one_by_one(method, begin, X[before:], Y[before:])
    size = 1 + np.abs(Y).max() + np.abs(wanted).max()
    np.testing.assert_allclose(errors, wanted, rtol=1e-6, atol=1e-7 * size)
    assert method.ridge_of(state) == pytest.approx(method.ridge_of(slow), rel=1e-6)


@pytest.mark.parametrize("method", SETTINGS)
def test_the_state_given_is_not_changed_and_float32_stays(method):
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((30, 4)).astype(np.float32), rng.standard_normal((30, 1)).astype(np.float32)
    begin = method.update(method.init(4, 1, dtype=np.float32), X[:10], Y[:10])
    before = method.weights(begin).copy()
    state, errors = method.track(begin, X[10:], Y[10:])
    assert errors.dtype == np.float32 and method.weights(state).dtype == np.float32
    assert (method.weights(begin) == before).all()
    np.testing.assert_allclose(errors, one_by_one(method, begin, X[10:], Y[10:])[1], rtol=1e-3, atol=1e-3)
    donated, same = method.track(
        method.update(method.init(4, 1, dtype=np.float32), X[:10], Y[:10]), X[10:], Y[10:], True
    )
    assert (same == errors).all() and (method.weights(donated) == method.weights(state)).all()


def test_features_that_faded_long_ago_keep_the_floor():
    """3 000 rows without feature 1: its information decays below what a number can be."""
    method = rm.RLS(1.0, 0.5, floor=0.1)
    X, Y = np.ones((3000, 2)), np.full((3000, 1), 2.0)
    X[20:, 1] = 0
    state, errors = method.track(method.init(2, 1), X, Y)
    assert np.isfinite(errors).all() and abs(errors[-1, 0]) == pytest.approx(2 * 0.1 / 2.1, rel=1e-9)
    assert abs(method.weights(state)[1, 0]) < 1e-12
