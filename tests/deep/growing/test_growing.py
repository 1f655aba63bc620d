"""Networks that grow: Boolean problems near the minimal size, output weights equal to a refit, states."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import remanence as rm
from remanence.memory import root as roots
from remanence.memory.growing.new_columns import error_reductions, with_column

torch = pytest.importorskip("torch")


def bits(n):
    return np.array(list(itertools.product([-1.0, 1.0], repeat=n)))


def parity(n):
    X = bits(n)
    return X, X.prod(axis=1, keepdims=True)


def multiplexer():
    X = bits(6)  # two bits of address, four of data
    place = ((X[:, :2] > 0) @ [2, 1]).astype(int)
    return X, X[np.arange(64), 2 + place][:, None]


def decoder(n=3):
    X = bits(n)
    return X, 2 * np.eye(len(X)) - 1


def exact(net, X, Y):
    """Ridge regression on the columns of the network, solved anew by QR of the rows and the prior."""
    H = net._columns(X)
    A = np.vstack([H, np.sqrt(net.ridge) * np.eye(H.shape[1])])
    W = np.linalg.lstsq(A, np.vstack([Y, np.zeros((H.shape[1], Y.shape[1]))]), rcond=None)[0]
    return H @ W


@pytest.mark.parametrize(
    ("problem", "most"),
    [(parity(2), 1), (parity(3), 2), (parity(4), 3), (multiplexer(), 6), (decoder(), 8)],
    ids=["xor", "parity 3", "parity 4", "multiplexer", "decoder"],
)
def test_boolean_problems_are_solved_near_the_minimal_size(problem, most):
    X, Y = problem
    net = rm.deep.Growing(X.shape[1], Y.shape[1], tolerance=0.1)
    steps = net.fit(X, Y)
    assert len(steps) == sum(net.sizes) <= most, net.sizes
    predicted = net.predict(X)
    right = predicted.argmax(1) == Y.argmax(1) if Y.shape[1] > 1 else (predicted > 0) == (Y > 0)
    assert right.all()
    np.testing.assert_allclose(predicted, exact(net, X, Y), atol=1e-9)
    error = np.sum((Y - predicted) ** 2) / np.sum((Y - Y.mean(axis=0)) ** 2)
    if steps:
        assert steps[-1].error == pytest.approx(error, abs=1e-6)
        assert all(b.error < a.error for a, b in itertools.pairwise(steps))


def test_the_error_after_growth_equals_a_refit_and_learning_goes_on():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (300, 2))
    Y = np.column_stack([np.sin(2 * X[:, 0]) * X[:, 1], np.cos(X[:, 1])])
    net = rm.deep.Growing(2, 2, units=12, candidates=8, tolerance=0.0, ridge=1e-6)
    steps = net.fit(X[:200], Y[:200])
    assert len(steps) == 12 and steps[-1].error < 0.2
    found, refit = (np.sum((Y[:200] - p) ** 2) for p in (net.predict(X[:200]), exact(net, X[:200], Y[:200])))
    assert found == pytest.approx(refit, rel=1e-10)
    net.learn(X[200:], Y[200:])
    np.testing.assert_allclose(net.predict(X), exact(net, X, Y), atol=1e-9)
    outputs = net(torch.from_numpy(X))
    np.testing.assert_allclose(outputs.numpy(), net.predict(X), atol=1e-12)
    last = len(steps) - 1
    net.without_unit(last)
    np.testing.assert_allclose(net.predict(X), exact(net, X, Y), atol=1e-9)
    assert sum(net.sizes) == 11


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1e-8, 1e-2, 1.0]))
def test_a_column_added_is_a_column_from_the_beginning(seed, ridge):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 30)), int(rng.integers(1, 6))
    X, Y, H = rng.standard_normal((n, d)), rng.standard_normal((n, 2)), rng.standard_normal((n, 3))
    root = roots.prior(ridge, np.zeros((d, 2))).folded(X, Y)
    gains = error_reductions(root, X, Y, H, ridge)
    for j in range(3):
        whole = roots.prior(ridge, np.zeros((d + 1, 2))).folded(np.column_stack([X, H[:, j]]), Y)
        assert gains[j] == pytest.approx((root.rest - whole.rest).sum(), abs=1e-9 * np.square(Y).sum())
        grown = with_column(root, X, Y, H[:, j], ridge)
        np.testing.assert_allclose(grown.factor.T @ grown.factor, whole.factor.T @ whole.factor, atol=1e-9 * n)
        np.testing.assert_allclose(grown.rest, whole.rest, atol=1e-9 * np.square(Y).sum())


@pytest.mark.parametrize(("unit", "offset"), [(1e6, 0.0), (1e-3, 0.0), (1.0, 2000.0)])
def test_units_and_offsets_of_the_inputs_do_not_matter(unit, offset):
    X, Y = parity(3)
    net = rm.deep.Growing(3, 1, tolerance=0.1)
    assert len(net.fit(unit * X + offset, Y)) <= 2
    np.testing.assert_array_equal(net.predict(unit * X + offset) > 0, Y > 0)


def test_states(tmp_path):
    X, Y = parity(3)
    net = rm.deep.Growing(3, 1)
    net.fit(X, Y)
    twin = rm.deep.Growing(3, 1)
    twin.load_state_dict(net.state_dict())
    np.testing.assert_array_equal(twin.predict(X), net.predict(X))
    assert twin.sizes == net.sizes and net.settings["inputs"] == 3
    rm.save(net, tmp_path / "net")
    np.testing.assert_array_equal(rm.load(tmp_path / "net").predict(X), net.predict(X))
    other = rm.deep.Growing(2, 1)
    with pytest.raises(rm.InputError, match="another"):
        other.set_extra_state(net.get_extra_state())
    with pytest.raises(rm.InputError, match="damaged"):
        twin.set_extra_state({"incoming": 3})
    np.testing.assert_array_equal(twin.predict(X), net.predict(X))


def test_hard_data_and_bad_input():
    net = rm.deep.Growing(2, 1, units=3, candidates=4)
    assert net.fit(np.ones((1, 2)), np.ones((1, 1))) == []
    assert net.fit(np.zeros((5, 2)), np.zeros((5, 1))) == []
    before = net.predict(np.ones((1, 2)))
    for X, Y in ((np.ones((2, 3)), np.ones((2, 1))), (np.full((2, 2), np.nan), np.ones((2, 1))), (np.ones((2, 2)), [])):
        for call in (net.fit, net.learn):
            with pytest.raises(rm.InputError):
                call(X, Y)
    np.testing.assert_array_equal(net.predict(np.ones((1, 2))), before)
    for bad in ({"units": -1}, {"stall": 2.0}, {"candidates": 0}, {"ridge": 0}, {"tolerance": -1}):
        with pytest.raises(rm.InputError, match=next(iter(bad))):
            rm.deep.Growing(2, 1, **bad)
    with pytest.raises(rm.InputError, match="last layer"):
        net.without_unit(0)
