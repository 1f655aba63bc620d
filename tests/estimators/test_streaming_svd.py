"""Streaming SVD: equal to a full SVD, merged, forgetting, with gaps; a transformer of scikit-learn."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import IncrementalPCA
from sklearn.utils.estimator_checks import parametrize_with_checks

import remanence as rm

rng = np.random.default_rng(0)
X = rng.standard_normal((90, 12)) * np.logspace(-3, 3, 12) + 5


@parametrize_with_checks([rm.StreamingSVD(), rm.StreamingSVD(rank=2, center=False)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@given(cuts=st.lists(st.integers(1, 89), max_size=6), center=st.booleans())
def test_at_full_rank_it_is_the_svd_of_all_rows(cuts, center):
    svd = rm.StreamingSVD(center=center)
    for part in np.split(X, sorted(set(cuts))):
        svd.partial_fit(part)
    rows = X - X.mean(axis=0) if center else X
    _, s, V = np.linalg.svd(rows, full_matrices=False)
    assert np.abs(svd.singular_values_ - s).max() < 1e-12 * s[0]
    projected = (V.T * s**2) @ V
    moment = (svd.components_.T * svd.singular_values_**2) @ svd.components_
    assert np.abs(moment - projected).max() < 1e-12 * s[0] ** 2
    np.testing.assert_allclose(svd.inverse_transform(svd.transform(X)), X, atol=1e-9)
    assert svd.explained_variance_ratio_.sum() == pytest.approx(1.0)


def test_in_blocks_of_equal_size_it_is_incremental_pca():
    rows = rng.standard_normal((200, 30)) @ rng.standard_normal((30, 30))
    ours, theirs = rm.StreamingSVD(rank=5), IncrementalPCA(5)
    for part in np.split(rows, 10):
        ours.partial_fit(part)
        theirs.partial_fit(part)
    np.testing.assert_allclose(ours.singular_values_, theirs.singular_values_, rtol=1e-10)
    np.testing.assert_allclose(np.abs(ours.components_), np.abs(theirs.components_), atol=1e-9)
    np.testing.assert_allclose(ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=1e-8)
    shown = [model.inverse_transform(model.transform(rows)) for model in (ours, theirs)]
    np.testing.assert_allclose(*shown, atol=1e-9)


def test_merging_is_learning_both():
    whole, parts = rm.StreamingSVD().fit(X), rm.StreamingSVD().fit(X[:40]).merge(rm.StreamingSVD().fit(X[40:]))
    np.testing.assert_allclose(parts.singular_values_, whole.singular_values_, rtol=1e-9)
    np.testing.assert_allclose(parts.mean_, whole.mean_, rtol=1e-12)
    assert parts.n_seen_ == whole.n_seen_ == 90


def test_forgetting_weighs_rows_by_their_age():
    svd = rm.StreamingSVD(forget=0.9)
    for part in np.split(X, [7, 30, 31]):
        svd.partial_fit(part)
    weights = 0.9 ** np.arange(89, -1, -1.0)
    mean = weights @ X / weights.sum()
    s = np.linalg.svd(np.sqrt(weights)[:, None] * (X - mean), compute_uv=False)
    np.testing.assert_allclose(svd.mean_, mean, rtol=1e-10)
    np.testing.assert_allclose(svd.singular_values_, s, rtol=1e-7)


@pytest.mark.parametrize("missing", [0.1, 0.3])
def test_gaps_are_filled_from_the_directions_that_were_learned(missing):
    whole = rng.standard_normal((400, 3)) @ rng.standard_normal((3, 25)) + 2
    gaps = whole.copy()
    gaps[rng.random(whole.shape) < missing] = np.nan
    svd = rm.StreamingSVD(rank=3)
    for part in np.split(gaps, 8):
        svd.partial_fit(part)
    found = svd.inverse_transform(svd.transform(gaps))
    by_means = np.where(np.isnan(gaps), np.nanmean(gaps, axis=0), gaps)
    assert np.linalg.norm(found - whole) < 0.02 * np.linalg.norm(by_means - whole)


def test_it_is_saved_and_loaded(tmp_path):
    svd = rm.StreamingSVD(rank=4).fit(X)
    rm.save(svd, tmp_path / "svd.safetensors")
    for again in (rm.load(tmp_path / "svd.safetensors"), pickle.loads(pickle.dumps(svd))):
        np.testing.assert_array_equal(again.transform(X), svd.transform(X))
        again.partial_fit(X[:5])
    assert svd.n_seen_ == 90


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: rm.StreamingSVD(rank=0).fit(X), "rank"),
        (lambda: rm.StreamingSVD(forget=2).fit(X), "forget"),
        (lambda: rm.StreamingSVD(center=1).fit(X), "center"),
        (lambda: rm.StreamingSVD().fit(np.full((3, 2), np.nan)), "NaN alone"),
        (lambda: rm.StreamingSVD().fit(X).partial_fit(X[:, :3]), "3 features"),
        (lambda: rm.StreamingSVD().fit(X).merge(rm.StreamingSVD(rank=2).fit(X)), "settings"),
        (lambda: rm.StreamingSVD().fit(X).merge(rm.StreamingSVD().fit(X[:, :3])), "columns"),
        (lambda: rm.StreamingSVD().fit(X).inverse_transform(X[:, :3]), "shape"),
        (lambda: rm.ContinualRegressor(rm.StreamingSVD()).fit(X, X[:, 0]), "method"),
    ],
)
def test_bad_input_is_refused(call, word):
    with pytest.raises(rm.InputError, match=word):
        call()


def test_what_is_refused_changes_nothing():
    svd = rm.StreamingSVD().fit(X)
    before = svd.singular_values_.copy()
    with pytest.raises(rm.InputError):
        svd.partial_fit(np.full((2, 12), np.inf))
    with pytest.raises(rm.InputError, match="rescale"):  # their squares overflow, and with them the variances
        svd.partial_fit(1e200 * X)
    np.testing.assert_array_equal(svd.singular_values_, before)
