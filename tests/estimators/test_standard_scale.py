"""scale="standard" is the Pipeline of a StandardScaler and the same ridge, fitted on everything learned so far."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

import remanence as rm


def rows(seed, n=80, d=5, low=-3, high=3):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) + 2 * rng.standard_normal(d)) * np.logspace(low, high, d)
    y = (X / np.logspace(low, high, d)) @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n)
    return X, y


def pipeline(X, y, ridge, weights=None):
    scaler = StandardScaler().fit(X, sample_weight=weights)
    model = Ridge(alpha=ridge, solver="cholesky").fit(scaler.transform(X), y, sample_weight=weights)
    return lambda new: model.predict(scaler.transform(new))


def model_of(ridge, **more):
    return rm.ContinualRegressor(rm.RLS(ridge), scale="standard", **more)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.lists(st.integers(1, 79), max_size=4), st.sampled_from([1e-6, 1.0, 100.0]))
def test_any_cuts_give_the_pipeline_on_all_rows(seed, cuts, ridge):
    X, y = rows(seed)
    model = model_of(ridge)
    for part in np.split(np.arange(80), sorted(set(cuts))):
        model.partial_fit(X[part], y[part])
        if len(part) % 2:
            model.predict(X)  # asking changes nothing
    expected = pipeline(X, y, ridge)(X)
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_allclose(X @ model.coef_ + model.intercept_, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("seed", range(6))
def test_rows_can_go_one_by_one_after_the_last_of_a_category(seed):
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 4, 40)
    kinds[:3] = 4  # a column that is constant once these are gone
    X, y = np.column_stack([np.eye(5)[kinds], rng.standard_normal((40, 2))]), rng.standard_normal(40)
    model = model_of(1.0).fit(X, y).unlearn(X[:3], y[:3])
    for i in range(3, 30):
        model.unlearn(X[i : i + 1], y[i : i + 1])
        np.testing.assert_allclose(
            model.predict(X[i + 1 :]), pipeline(X[i + 1 :], y[i + 1 :], 1.0)(X[i + 1 :]), atol=1e-8
        )


def test_what_many_removals_left_of_a_column_of_zeros_is_no_deviation():
    rng = np.random.default_rng(63)
    kinds = rng.integers(0, 4, int(rng.choice([20, 60, 200])))
    kinds[:3] = 4
    X, n = np.column_stack([np.eye(5)[kinds], rng.standard_normal((len(kinds), 3))]), len(kinds)
    y = rng.standard_normal(n)
    model = model_of(1.0).fit(X, y).unlearn(X[:3], y[:3])
    for i in range(3, n - 10):  # had been refused, as a loss of digits, with 26 rows left
        model.unlearn(X[i : i + 1], y[i : i + 1])
    np.testing.assert_allclose(
        model.predict(X[n - 10 :]), pipeline(X[n - 10 :], y[n - 10 :], 1.0)(X[n - 10 :]), atol=1e-8
    )


def test_row_by_row_unlearning_merging_and_files(tmp_path):
    X, y = rows(1, n=150)
    model, other = model_of(2.0), model_of(2.0)
    for i in range(60):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    other.partial_fit(X[60:], y[60:])
    model.merge(other).unlearn(X[40:70], y[40:70])
    kept = np.r_[0:40, 70:150]
    expected = pipeline(X[kept], y[kept], 2.0)(X)
    rm.save(model, tmp_path / "m")
    for found in (model, rm.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
        assert found.scale == "standard" and found.state_.scaled
        np.testing.assert_allclose(found.predict(X), expected, atol=1e-9 * np.abs(expected).max())
    loaded = rm.load(tmp_path / "m").partial_fit(X[40:70], y[40:70])
    expected = pipeline(X, y, 2.0)(X)
    np.testing.assert_allclose(loaded.predict(X), expected, atol=1e-9 * np.abs(expected).max())


def test_wide_features_and_weighted_rows():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((700, 520)) * np.logspace(-2, 2, 520), rng.standard_normal(700)
    found = model_of(3.0).fit(X, y).predict(X)  # (more than 512 features are solved without a second factor)
    np.testing.assert_allclose(found, pipeline(X, y, 3.0)(X), atol=1e-9)
    X, y = rows(3)
    weights = rng.uniform(0.1, 5, len(X))
    found = model_of(2.0).fit(X, y, sample_weight=weights).predict(X)
    np.testing.assert_allclose(found, pipeline(X, y, 2.0, weights)(X), atol=1e-9 * np.abs(y).max())


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9 / 7])
def test_constant_columns_count_for_nothing_until_they_vary(value, tmp_path):
    X, y = rows(4, n=60)
    X[:, 2] = value
    model = model_of(1.0)
    for part in np.array_split(np.arange(60), 7):
        model.partial_fit(X[part], y[part])
    rm.save(model, tmp_path / "m")  # (moves the offset)
    for found in (model, rm.load(tmp_path / "m")):
        np.testing.assert_allclose(found.predict(X), pipeline(X, y, 1.0)(X), atol=1e-9)
        moved = X + np.array([0, 0, 1.0, 0, 0])
        np.testing.assert_allclose(found.predict(moved), pipeline(X, y, 1.0)(moved), atol=1e-6)
    X[-1, 2] += 3
    changed = model_of(1.0).partial_fit(X[:-1], y[:-1]).partial_fit(X[-1:], y[-1:])
    if value < 1e3:  # a rare column
        np.testing.assert_allclose(changed.predict(X), pipeline(X, y, 1.0)(X), atol=1e-9)
    changed.unlearn(X[-1:], y[-1:], accept_loss=True)
    np.testing.assert_allclose(changed.predict(X[:-1]), pipeline(X[:-1], y[:-1], 1.0)(X[:-1]), atol=1e-6)


def test_the_automatic_ridge_is_that_of_standardized_columns():
    X, y = rows(5, n=200)
    scaled = StandardScaler().fit_transform(X)
    plain = rm.ContinualRegressor(rm.RLS("auto")).fit(scaled, y)
    model = model_of("auto").fit(X, y)
    assert model.ridge_ == pytest.approx(plain.ridge_, rel=1e-6)
    np.testing.assert_allclose(model.predict(X), plain.predict(scaled), atol=1e-8)
    mine, theirs = model.predict(X, return_std=True)[1], plain.predict(scaled, return_std=True)[1]
    np.testing.assert_allclose(mine, theirs, rtol=1e-7)


def test_the_evidence_and_the_loss_are_those_of_standardized_columns():
    X, y = rows(6)
    scaled = StandardScaler().fit_transform(X)
    a, b = model_of(2.0).fit(X, y), rm.ContinualRegressor(rm.RLS(2.0)).fit(scaled, y)
    assert a.method_.loss(a.state_) == pytest.approx(b.method_.loss(b.state_), rel=1e-9)
    assert a.method_.evidence(a.state_) == pytest.approx(b.method_.evidence(b.state_), rel=1e-9)


def test_scale_can_be_changed_after_learning():
    X, y = rows(7)
    model = rm.ContinualRegressor(rm.RLS(2.0)).fit(X, y)
    plain = model.predict(X)
    model.set_params(scale="standard")
    np.testing.assert_allclose(model.predict(X), pipeline(X, y, 2.0)(X), atol=1e-9)
    np.testing.assert_allclose(model.set_params(scale=None).predict(X), plain, atol=1e-9)


def test_classes_and_discriminants_see_standardized_columns():
    rng = np.random.default_rng(8)
    y = np.array(["a", "b", "c"])[rng.integers(0, 3, 300)]
    X = rng.standard_normal((300, 4)) + np.array([ord(label) for label in y])[:, None] * [1, 0.5, 0, -1]
    X = X * np.logspace(-3, 3, 4)
    scaled = StandardScaler().fit_transform(X)
    for readout in ("ridge", "discriminant"):
        model = rm.ContinualClassifier(rm.RLS(5.0), readout=readout, scale="standard")
        for label in "abc":
            model.partial_fit(X[y == label], y[y == label])
        plain = rm.ContinualClassifier(rm.RLS(5.0), readout=readout).fit(scaled, y)
        np.testing.assert_allclose(model.class_scores(X), plain.class_scores(scaled), atol=1e-8)
    sure = rm.ContinualClassifier(rm.RLS(1e-9), readout="discriminant", scale="standard").fit(X, y)
    assert np.mean(sure.predict(X) == LinearDiscriminantAnalysis().fit(X, y).predict(X)) > 0.99


def test_forgetting_weighs_the_variances_as_the_rows():
    X, y = rows(9)
    weights = 0.95 ** np.arange(len(X) - 1.0, -1.0, -1.0)
    model = rm.ContinualRegressor(rm.RLS(2.0, forget=0.95, floor=2.0), scale="standard")
    for part in np.array_split(np.arange(len(X)), 9):
        model.partial_fit(X[part], y[part])
    np.testing.assert_allclose(model.predict(X), pipeline(X, y, 2.0, weights)(X), atol=1e-8 * np.abs(y).max())


@pytest.mark.parametrize(
    "settings",
    [
        {"scale": "robust"},
        {"scale": True},
        {"scale": "standard", "fit_intercept": False},
        {"scale": "standard", "method": rm.LMS()},
        {"scale": "standard", "method": rm.LowRankRLS(3)},
        {"scale": "standard", "method": rm.RLS(forget=0)},
    ],
    ids=str,
)
def test_settings_that_cannot_be_met_are_refused(settings):
    X, y = rows(10)
    with pytest.raises(rm.InputError, match="scale"):
        rm.ContinualRegressor(**settings).fit(X, y)
    with pytest.raises(rm.InputError, match="scale"):
        rm.ContinualClassifier(**settings).fit(X, y > 0)


def test_one_row_one_column_and_single_precision():
    model = model_of(1.0).fit([[3.0]], [2.0])
    assert model.predict([[3.0]]) == pytest.approx(2.0)
    X, y = rows(11, low=-1, high=1)
    found = model_of(1.0, dtype="float32").fit(X, y).predict(X)
    np.testing.assert_allclose(found, pipeline(X, y, 1.0)(X), atol=1e-4)
