"""Live filters: the numbers of `track`, one row at a time, in place."""

import copy
import pickle
import threading

import numpy as np
import pytest

import remanence as rm
from remanence.errors import InputError

METHODS = {
    "lms": rm.LMS(),
    "lms, small steps": rm.LMS(step=0.3),
    "lms, raw": rm.LMS(step=0.01, normalized=False),
    "lms, steps by rule": rm.LMS(step=lambda t: 1 / t),
    "apa": rm.APA(buffer=2),
    "icl": rm.ICL(),
    "orfit": rm.ORFit(rank=3),
    "rls": rm.RLS(ridge=0.5),
    "rls, forgetting": rm.RLS(forget=0.98),
    "rls, forgetting fast": rm.RLS(forget=0.6),
    "rls, growing weights": rm.RLS(forget=1.02),
    "rls, floor": rm.RLS(forget=0.95, floor=0.1),
    "rls, auto": rm.RLS(ridge="auto"),
    "low rank": rm.LowRankRLS(rank=4),
    "kalman": rm.Kalman(drift=0.1),
}
COMPILED = [
    "lms",
    "lms, small steps",
    "lms, raw",
    "rls",
    "rls, forgetting",
    "rls, forgetting fast",
    "rls, growing weights",
]


def rows(n, d, c, seed=0, scales=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (np.logspace(-4, 4, d) if scales else 1)
    return X, X @ rng.standard_normal((d, c)) + 0.1 * rng.standard_normal((n, c))


def track_rows(method, state, X, Y):
    """`track`, a row per call where a call is a task."""
    if not method.task_per_update:
        return method.track(state, X, Y)
    errors = []
    for x, y in zip(X, Y, strict=True):
        state, error = method.track(state, x[None], y[None])
        errors.append(error)
    return state, np.concatenate(errors)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("name", METHODS)
def test_equals_track(name, outputs):
    method, (X, Y) = METHODS[name], rows(60, 5, outputs)
    state, errors = track_rows(method, method.init(5, outputs), X, Y)
    live = method.live(features=5, outputs=outputs)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        target = float(y[0]) if outputs == 1 else y
        answer = live.predict(x)
        assert np.shape(answer) == (() if outputs == 1 else (outputs,))
        if i % 2:
            np.testing.assert_allclose(live.learn(x, target), errors[i] if outputs > 1 else errors[i, 0], atol=1e-9)
        else:
            again, error = live.step(x, target)
            np.testing.assert_allclose(again, answer, atol=1e-9)
            np.testing.assert_allclose(np.ravel(target) - np.ravel(again), np.ravel(error), atol=1e-12)
    np.testing.assert_allclose(live.weights, method.weights(state), atol=1e-9)
    np.testing.assert_allclose(method.weights(live.state()), method.weights(state), atol=1e-9)
    assert not live.weights.flags.writeable
    assert (live.features, live.outputs) == (5, outputs)


@pytest.mark.parametrize("forget", [1.0, 0.999, 0.99, 0.7, 1.0005])
@pytest.mark.parametrize("scales", [False, True])
def test_rls_over_many_folds(forget, scales):
    """More rows than the buffer holds, priors that decay, columns of very different size, columns that are zero."""
    X, Y = rows(9000, 6, 1, scales=scales)
    X[:, 2] = 0
    X[:6000, 3] = 0  # a direction without data, in which only the prior counts
    method = rm.RLS(ridge=0.1, forget=forget)
    state, errors = method.track(method.init(6, 1), X, Y)
    live = method.live(features=6)
    got = np.array([live.learn(x, y) for x, y in zip(X, Y[:, 0], strict=True)])
    size = np.abs(Y).max()
    np.testing.assert_allclose(got, errors[:, 0], atol=1e-8 * size)
    probe = X[-50:]
    answers = [live.predict(x) for x in probe]
    np.testing.assert_allclose(answers, method.predict(state, probe)[:, 0], atol=1e-8 * size)
    np.testing.assert_allclose(method.predict(live.state(), probe)[:, 0], answers, atol=1e-8 * size)


def test_the_state_is_exact_and_goes_on():
    X, Y = rows(300, 4, 2)
    method = rm.RLS(ridge=1e-3)
    live = method.live_from(method.update(method.init(4, 2), X[:100], Y[:100]))
    for x, y in zip(X[100:], Y[100:], strict=True):
        live.learn(x, y)
    without = method.remove(live.state(), X[50:250], Y[50:250])
    rest = np.r_[0:50, 250:300]
    expected = method.weights(method.update(method.init(4, 2), X[rest], Y[rest]))
    np.testing.assert_allclose(method.weights(without), expected, atol=1e-11)
    assert live.state().count == 300


def test_a_state_does_not_change_when_a_live_filter_goes_on_from_it():
    X, Y = rows(40, 30, 1)
    for name, method in METHODS.items():
        state = method.update(method.init(30, 1), X[:20], Y[:20])
        before = np.array(method.weights(state))
        live = method.live_from(state)
        for x, y in zip(X[20:], Y[20:, 0], strict=True):
            live.learn(x, y)
        np.testing.assert_array_equal(method.weights(state), before, err_msg=name)
        assert np.abs(np.asarray(live.weights) - before).max() > 0


@pytest.mark.parametrize("name", METHODS)
def test_rows_in_any_form(name):
    live = METHODS[name].live(features=2)
    x = np.array([[1.0, 7.0], [2.0, 7.0]])
    for row in ([1, 2], (1.0, 2.0), np.array([1, 2]), np.array([1.0, 2.0], np.float32), x[:, 0]):
        live.learn(row, 3)
    live.learn([1.0, 2.0], np.float32(3)), live.learn([1.0, 2.0], np.array([3.0])), live.learn([1, 2], np.array(3.0))
    assert live.predict([1, 2]) == pytest.approx(3.0, rel=0.9)


@pytest.mark.parametrize("name", METHODS)
def test_bad_input_changes_nothing(name):
    method, (X, Y) = METHODS[name], rows(20, 3, 1)
    live = method.live(features=3)
    for x, y in zip(X, Y[:, 0], strict=True):
        live.learn(x, y)
    before = np.array(live.weights)
    good = np.ones(3)
    for x in (
        [1, 2],
        np.ones((1, 3)),
        [1, np.nan, 2],
        [1, np.inf, 2],
        ["a", "b", "c"],
        None,
        1.0,
        np.ones(3) * 1e200,
        1j * good,
    ):
        with pytest.raises(InputError):
            live.learn(x, 1.0)
        with pytest.raises(InputError):
            live.predict(x)
        with pytest.raises(InputError):
            live.step(x, 1.0)
    for y in (np.nan, np.inf, "1", None, [1.0, 2.0], 1e200, 1j):
        with pytest.raises(InputError):
            live.learn(good, y)
        with pytest.raises(InputError):
            live.step(good, y)
    np.testing.assert_array_equal(live.weights, before)


@pytest.mark.parametrize("name", COMPILED)
def test_tiny_and_large_rows(name):
    method = METHODS[name]
    for scale in (1e-200, 1e-150, 1e-80, 1e60, 1e120):
        if scale > 1e10 and "raw" in name:
            continue
        X, Y = rows(12, 3, 1)
        X = X * scale
        errors = method.track(method.init(3, 1), X, Y)[1]
        live = method.live(features=3)
        got = [live.learn(x, y) for x, y in zip(X, Y[:, 0], strict=True)]
        np.testing.assert_allclose(got, errors[:, 0], rtol=1e-9, atol=1e-9)
        live.learn(np.zeros(3), 1.0)


@pytest.mark.parametrize("name", COMPILED)
def test_copies_are_independent(name):
    X, Y = rows(30, 3, 1)
    live = METHODS[name].live(features=3)
    for x, y in zip(X, Y[:, 0], strict=True):
        live.learn(x, y)
    for twin in (copy.deepcopy(live), pickle.loads(pickle.dumps(live))):
        np.testing.assert_allclose(twin.weights, live.weights, atol=1e-9)
        before = np.array(live.weights)
        twin.learn([1.0, 2.0, 3.0], 50.0)
        np.testing.assert_array_equal(live.weights, before)


def test_reading_while_another_thread_learns():
    """Every prediction is that of some number of rows learned, never of half a row."""
    method, (X, Y) = rm.RLS(forget=0.97), rows(6000, 8, 2)
    possible, state = {}, method.live(features=8, outputs=2)
    probe = np.ones(8)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        possible[state.predict(probe).tobytes()] = i
        state.learn(x, y)
    possible[state.predict(probe).tobytes()] = len(X)
    live, wrong, done = method.live(features=8, outputs=2), [], threading.Event()

    def read():
        last = -1
        while not done.is_set():
            seen = possible.get(live.predict(probe).tobytes())
            if seen is None or seen < last:
                wrong.append(seen)
            last = seen if seen is not None else last
            live.state()

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for x, y in zip(X, Y, strict=True):
        live.learn(x, y)
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong
    assert live.state().count == 6000
