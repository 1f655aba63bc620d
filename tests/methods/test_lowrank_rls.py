"""Low-rank RLS: RLS itself at full rank, ridge in the leading singular directions below it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import remanence as rm


def stream(n=120, d=12, c=2, seed=0, decay=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.exp(-decay * np.arange(d))
    return X, X @ rng.standard_normal((d, c)) + 0.1 * rng.standard_normal((n, c)), rng.standard_normal((d, c))


def taught(method, X, Y, cuts=(), **init):
    state = method.init(X.shape[1], Y.shape[1], **init)
    for part in np.split(np.arange(len(X)), sorted(cuts)):
        if len(part):
            state = method.update(state, X[part], Y[part])
    return state


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 99), st.lists(st.integers(1, 119), max_size=6), st.booleans(), st.integers(0, 1))
def test_full_rank_is_rls(seed, cuts, begun, free):
    X, Y, start = stream(seed=seed)
    init = {"start": start if begun else None, "free": free}
    low, full = rm.LowRankRLS(rank=12, ridge=0.3), rm.RLS(ridge=0.3)
    a, b = taught(low, X, Y, cuts, **init), taught(full, X, Y, **init)
    np.testing.assert_allclose(low.weights(a), full.weights(b), atol=1e-11)
    assert low.loss(a) == pytest.approx(full.loss(b), rel=1e-9)
    np.testing.assert_allclose(low.variance(a, X), full.variance(b, X), rtol=1e-9)
    assert low.dropped(a) < 1e-25


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 99), st.lists(st.integers(1, 119), max_size=8))
def test_cuts_leave_no_trace_even_when_directions_are_dropped(seed, cuts):
    X, Y, _ = stream(seed=seed)
    method = rm.LowRankRLS(rank=5)
    np.testing.assert_allclose(
        method.weights(taught(method, X, Y, cuts)), method.weights(taught(method, X, Y)), atol=1e-9
    )


def test_within_one_chunk_it_is_ridge_in_the_leading_directions():
    X, Y, _ = stream(n=14, d=30, c=3, decay=0.2)
    method = rm.LowRankRLS(rank=6, ridge=0.05)
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    oracle = Vt[:6].T @ ((s[:6] / (s[:6] ** 2 + 0.05))[:, None] * (U[:, :6].T @ Y))
    state = taught(method, X, Y)
    np.testing.assert_allclose(method.weights(state), oracle, atol=1e-12)
    assert method.dropped(state) == pytest.approx((s[6:] ** 2).sum() / (s**2).sum())


def test_kept_and_dropped_energy_add_up_over_a_long_stream():
    X, Y, _ = stream(n=3000, d=40, decay=0.1)
    method = rm.LowRankRLS(rank=10)
    state = taught(method, X, Y, range(37, 3000, 37))
    seen = method._spectrum(state)
    assert seen.rank == 10
    assert seen.kept() + seen.dropped == pytest.approx((X**2).sum(), rel=1e-10)
    np.testing.assert_allclose(seen.basis.T @ seen.basis, np.eye(10), atol=1e-12)


def test_merge_ridge_and_outputs():
    X, Y, _ = stream()
    method = rm.LowRankRLS(rank=12, ridge=0.7)
    whole = taught(method, X, Y)
    merged = method.merge(taught(method, X[:50], Y[:50]), taught(method, X[50:], Y[50:]))
    np.testing.assert_allclose(method.weights(merged), method.weights(whole), atol=1e-11)
    other = rm.RLS(ridge=4.0)
    np.testing.assert_allclose(
        method.weights(method.with_ridge(whole, 4.0)), other.weights(taught(other, X, Y)), atol=1e-11
    )
    auto, best = rm.LowRankRLS(rank=12, ridge="auto"), rm.RLS(ridge="auto")
    assert auto.ridge_of(taught(auto, X, Y)) == pytest.approx(best.ridge_of(taught(best, X, Y)), rel=1e-4)
    grown = method.with_outputs(whole, np.array([1, -1, 0]))
    np.testing.assert_allclose(method.weights(grown)[:, [2, 0]], method.weights(whole), atol=1e-12)
    np.testing.assert_allclose(method.weights(grown)[:, 1], 0)
    with pytest.raises(rm.InputError, match="use RLS"):
        method.remove(whole, X[:1], Y[:1])


def test_a_classifier_on_features_too_wide_for_a_square():
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    wide = rm.RandomFeatures(3000, seed=0)
    model = rm.ContinualClassifier(rm.LowRankRLS(rank=120, ridge=1.0), features=wide)
    for part in np.array_split(np.argsort(y, kind="stable"), 6):
        model.partial_fit(X[part] / 16, y[part])
    assert model.score(X / 16, y) > 0.95
    assert 0 < model.method.dropped(model.state_) < 0.2
