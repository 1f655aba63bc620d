"""Arrays over bytes that begin anywhere, as messages and mapped files have them: learned like all others."""

import pickle

import numpy as np
import pytest

import remanence as rm


def unaligned(array):
    """The same numbers, one byte off."""
    moved = np.ndarray(array.shape, array.dtype, memoryview(bytearray(array.nbytes + 1))[1:])
    moved[...] = array
    assert not moved.flags.aligned
    return moved


def received(value):
    """A copy as a message brings it whose arrays begin one byte off."""
    buffers = []
    message = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(message, buffers=[memoryview(b"." + buffer.raw())[1:] for buffer in buffers])


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6))
    return X, X @ rng.standard_normal((6, 2)) + 0.1 * rng.standard_normal((40, 2))


METHODS = {
    name: found.method()
    for name, found in rm.list_methods().items()
    if name in ("LMS", "APA", "ICL", "OGD", "ORFit", "RLS", "LowRankRLS", "WindowRLS", "BlockLMS")
}


@pytest.mark.parametrize("name", METHODS)
def test_methods(name, data):
    (X, Y), method = data, METHODS[name]
    state = method.update(method.init(6, 2), X[:4], Y[:4])
    for call in (method.update, method.track):
        expected, found = (method.weights(_state(call(state, *rows))) for rows in _both(X[4:6], Y[4:6]))
        np.testing.assert_allclose(found, expected, atol=1e-12)
        np.testing.assert_allclose(method.weights(_state(call(received(state), X[4:6], Y[4:6]))), expected, atol=1e-12)
    np.testing.assert_allclose(method.predict(received(state), unaligned(X)), method.predict(state, X), atol=1e-12)


def _both(X, Y):
    return (X, Y), (unaligned(X), unaligned(Y))


def _state(found):
    return found[0] if type(found) is tuple else found


@pytest.mark.parametrize("intercept", [True, False])
def test_models(intercept, data):
    X, Y = data
    one, two = (rm.ContinualRegressor(fit_intercept=intercept).fit(*rows) for rows in _both(X, Y))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.predict(X), two.predict(unaligned(X)))
    for change in (
        lambda model: model.merge(one),
        lambda model: rm.ContinualRegressor(fit_intercept=intercept).fit(X, Y).merge(model),
        lambda model: model.partial_fit(X[:9], Y[:9]),
        lambda model: model.unlearn(X[:9], Y[:9]),
    ):
        np.testing.assert_array_equal(change(received(one)).coef_, change(pickle.loads(pickle.dumps(one))).coef_)
