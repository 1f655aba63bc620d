"""Features that come, go and move: the state equals one that had them so from the beginning."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import remanence as rm

METHODS = [
    rm.RLS(0.3),
    rm.RLS("auto"),
    rm.RLS(0.3, forget=0.97),
    rm.RLS(0.3, forget="auto"),
    rm.LowRankRLS(40, 0.3),
    rm.LMS(0.5),
]


def rows(n=40, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-3, 4, d)
    return X, rng.standard_normal((n, 2))


def close(method, a, b, X, tolerance=1e-9):
    A, B = method.predict(a, X), method.predict(b, X)
    np.testing.assert_allclose(A, B, atol=tolerance * np.abs(B).max())


@pytest.mark.parametrize("method", METHODS, ids=str)
@settings(max_examples=10, deadline=None)
@given(order=st.permutations(range(6)), known=st.integers(1, 5), cut=st.integers(1, 39))
def test_a_feature_that_comes_later_was_zero_so_far(method, order, known, cut):
    X, Y = rows()
    X[:cut, known:] = 0
    early = method.update(method.init(known, 2), X[:cut, :known], Y[:cut])
    sources = np.where(np.array(order) < known, order, -1)
    grown = method.update(method.with_columns(early, sources), X[cut:, order], Y[cut:])
    whole = method.update(method.update(method.init(6, 2), X[:cut, order], Y[:cut]), X[cut:, order], Y[cut:])
    close(method, grown, whole, X[:, order])


@pytest.mark.parametrize("method", [METHODS[0], METHODS[1], METHODS[2], METHODS[4]], ids=str)
def test_without_features_is_as_if_they_had_been_zero(method):
    X, Y = rows()
    state = method.update(method.init(6, 2, free=1), X, Y)
    kept = [0, 2, 3, 5]
    left = method.with_columns(state, np.array(kept))
    whole = method.update(method.init(4, 2, free=1), X[:, kept], Y)
    close(method, left, whole, X[:, kept])
    np.testing.assert_allclose(method.loss(left), method.loss(whole), rtol=1e-8)
    if isinstance(method, rm.RLS):
        close(method, method.without_features(state, [1, 4]), whole, X[:, kept])
        grown = method.with_features(left, 6)
        assert method.weights(grown).shape == (6, 2) and not method.weights(grown)[4:].any()


def test_rows_can_be_removed_and_states_merged_after_features_came_and_went():
    method, (X, Y) = rm.RLS(0.3), rows()
    X[:20, 4:] = 0
    state = method.with_features(method.update(method.init(4, 2), X[:20, :4], Y[:20]), 6)
    state = method.remove(method.merge(state, method.update(method.init(6, 2), X[20:], Y[20:])), X[5:10], Y[5:10])
    kept = np.r_[0:5, 10:40]
    close(method, state, method.update(method.init(6, 2), X[kept], Y[kept]), X)
    fewer = method.without_features(state, [5])
    assert method.precision_loss(fewer) < 1e-9
    close(method, fewer, method.update(method.init(5, 2), X[kept, :5], Y[kept]), X[:, :5])


@pytest.mark.parametrize("bad", [[0, 0], [7], [-2], [], [[0]], ["a"], [0.5], None])
def test_places_that_are_none_are_refused(bad):
    for method in (rm.RLS(), rm.LowRankRLS(3), rm.LMS()):
        with pytest.raises(rm.InputError, match="place"):
            method.with_columns(method.init(3, 1), bad)


def test_what_cannot_be_moved_is_refused():
    method = rm.RLS()
    with pytest.raises(rm.InputError, match="not penalized"):
        method.without_features(method.init(3, 1, free=1), [0])
    with pytest.raises(rm.InputError, match="features can grow"):
        rm.ICL().with_columns(rm.ICL().init(3, 1), np.array([0, 1, 2, -1]))
