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


def centred_oracle(X, Y, rank, ridge):
    """Ridge in the leading directions of the centred rows, with a free intercept: weights and intercept."""
    mean, level = X.mean(axis=0), Y.mean(axis=0)
    U, s, Vt = np.linalg.svd(X - mean, full_matrices=False)
    W = Vt[:rank].T @ ((s[:rank] / (s[:rank] ** 2 + ridge))[:, None] * (U[:, :rank].T @ (Y - level)))
    return W, level - mean @ W


@pytest.mark.parametrize("scale", [1.0, 1e-3])  # (a column of ones that is the weakest direction, or the strongest)
def test_the_intercept_is_outside_of_the_truncation(scale):
    X, Y, _ = stream(n=14, d=30, c=3, decay=0.2)
    X, Y = scale * (X + 3.0), Y + 7.0
    model = rm.ContinualRegressor(rm.LowRankRLS(rank=6, ridge=0.05 * scale**2)).fit(X, Y)
    W, level = centred_oracle(X, Y, 6, 0.05 * scale**2)
    np.testing.assert_allclose(model.coef_, W.T, atol=1e-10 / scale)
    np.testing.assert_allclose(model.intercept_, level, atol=1e-9)
    np.testing.assert_allclose(model.predict(X).mean(axis=0), Y.mean(axis=0), atol=1e-10)


def test_means_stay_exact_however_much_is_dropped(tmp_path):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((900, 40)) + np.linspace(0, 50, 900)[:, None]  # means that move
    y = X @ rng.standard_normal(40) + 5
    model, other = (rm.ContinualRegressor(rm.LowRankRLS(rank=8)) for _ in range(2))
    for part in np.split(np.arange(600), [1, 50, 333]):
        model.partial_fit(X[part], y[part])
    other.partial_fit(X[600:], y[600:])
    model.merge(other)
    rm.save(model, tmp_path / "m")
    for found in (model, rm.load(tmp_path / "m")):
        assert found.predict(X).mean() == pytest.approx(y.mean(), rel=1e-9)  # residuals of a free intercept sum to zero
    rm.load(tmp_path / "m").partial_fit(X[:5], y[:5])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), st.lists(st.integers(1, 119), max_size=6))
def test_at_full_rank_an_intercept_is_that_of_rls(seed, cuts):
    X, Y, _ = stream(seed=seed)
    X = X + np.arange(12)
    low = rm.ContinualRegressor(rm.LowRankRLS(rank=12, ridge=0.3))
    full = rm.ContinualRegressor(rm.RLS(ridge=0.3)).fit(X, Y)
    for part in np.split(np.arange(len(X)), sorted(set(cuts))):
        low.partial_fit(X[part], Y[part])
    for found, expected in zip(low.predict(X, return_std=True), full.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


def test_a_state_without_a_border_goes_on_and_merges():
    X, Y, _ = stream(n=60)
    Z = np.column_stack([np.ones(60), X])
    low = rm.LowRankRLS(rank=13, ridge=0.3)
    new = taught(low, Z[30:], Y[30:], free=1)
    old = low.settled(taught(low, Z[:30], Y[:30]))
    old = type(old)(old.spectrum, old.pending, old.start, old.count, old.ridge, 1)  # as in files of earlier versions
    np.testing.assert_allclose(
        low.weights(low.update(old, Z[30:], Y[30:])), low.weights(taught(low, Z, Y, free=1)), atol=1e-9
    )
    for a, b in ((old, new), (new, old)):
        np.testing.assert_allclose(low.weights(low.merge(a, b)), low.weights(taught(low, Z, Y, free=1)), atol=1e-9)


def test_rows_that_overflow_together_are_an_error_in_words():
    """Each number may be squared; a border of such numbers comes from damaged files only."""
    from dataclasses import replace

    X, Y, _ = stream(n=5)
    method = rm.LowRankRLS(rank=4)
    state = taught(method, X, Y, free=1)
    with pytest.raises(rm.NumericalError, match="overflowed"):
        method.weights(replace(state, border=np.full((1, 14), 1e154)))
