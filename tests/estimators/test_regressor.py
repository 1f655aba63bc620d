"""The continual regressor against scikit-learn's Ridge and against the Bayesian answer."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import remanence as rm


def samples(n=300, d=6, c=1, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * rng.uniform(0.1, 30, d) + rng.uniform(-50, 50, d)
    return X, X @ rng.standard_normal((d, c)) + 7 + noise * rng.standard_normal((n, c))


@pytest.mark.parametrize("ridge", [1e-6, 1.0, 1e3])
@pytest.mark.parametrize("intercept", [True, False])
def test_equals_ridge_regression_with_an_unpenalised_intercept(ridge, intercept):
    X, Y = samples(c=3)
    model = rm.ContinualRegressor(rm.RLS(ridge=ridge), fit_intercept=intercept)
    for part in np.array_split(np.arange(300), 17):
        model.partial_fit(X[part], Y[part])
    oracle = Ridge(alpha=ridge, fit_intercept=intercept, solver="svd", tol=0).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), oracle.predict(X), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.coef_, oracle.coef_, rtol=1e-7, atol=1e-9)


def test_large_means_do_not_spoil_the_intercept():
    X, Y = samples(d=3)
    model = rm.ContinualRegressor(rm.RLS(ridge=1e-3)).fit(X + 1e6, Y[:, 0])
    np.testing.assert_allclose(model.predict(X + 1e6), Ridge(alpha=1e-3).fit(X, Y[:, 0]).predict(X), rtol=1e-6)


def test_shapes_follow_y():
    X, Y = samples(c=2)
    flat = rm.ContinualRegressor().fit(X, Y[:, 0])
    assert flat.predict(X).shape == (300,) and flat.coef_.shape == (6,) and isinstance(flat.intercept_, float)
    table = rm.ContinualRegressor().fit(X, Y)
    assert table.predict(X).shape == (300, 2) and table.coef_.shape == (2, 6) and table.intercept_.shape == (2,)
    mean, std = table.predict(X, return_std=True)
    assert mean.shape == std.shape == (300, 2)


def test_standard_deviations_are_calibrated_when_the_ridge_chooses_itself():
    """Over many small problems the share of new targets within two standard deviations is what it should be."""
    rng = np.random.default_rng(0)
    within = []
    for _ in range(200):
        X, W = rng.standard_normal((40, 15)), rng.standard_normal(15)
        model = rm.ContinualRegressor(rm.RLS(ridge="auto")).fit(X[:30], X[:30] @ W + 0.5 * rng.standard_normal(30))
        mean, std = model.predict(X[30:], return_std=True)
        within += list(np.abs(X[30:] @ W + 0.5 * rng.standard_normal(10) - mean) < 2 * std)
    assert 0.90 < np.mean(within) < 0.98  # 0.954 for a Gaussian; 2000 draws, σ² estimated from 30


def test_uncertainty_grows_away_from_the_data():
    X, Y = samples()
    model = rm.ContinualRegressor().fit(X, Y[:, 0])
    near, far = model.predict(X[:1], return_std=True)[1], model.predict(X[:1] + 1e4, return_std=True)[1]
    assert far > 10 * near


def test_unlearn_and_merge_are_exact():
    X, Y = samples(400)
    model = rm.ContinualRegressor().fit(X, Y).unlearn(X[100:250], Y[100:250])
    keep = np.r_[0:100, 250:400]
    np.testing.assert_allclose(model.predict(X), rm.ContinualRegressor().fit(X[keep], Y[keep]).predict(X), atol=1e-8)
    merged = rm.ContinualRegressor().fit(X[:70], Y[:70]).merge(rm.ContinualRegressor().fit(X[70:], Y[70:]))
    np.testing.assert_allclose(merged.predict(X), rm.ContinualRegressor().fit(X, Y).predict(X), atol=1e-9)
    assert merged.n_seen_ == 400 and model.n_seen_ == 250


def test_weights_of_samples_are_exact():
    X, Y = samples(100)
    weights = np.random.default_rng(0).uniform(0.1, 3, 100)
    ours = rm.ContinualRegressor().fit(X, Y[:, 0], sample_weight=weights)
    oracle = Ridge(alpha=1.0, solver="svd").fit(X, Y[:, 0], sample_weight=weights)
    np.testing.assert_allclose(ours.predict(X), oracle.predict(X), rtol=1e-8)


def test_lms_weights_mean_repeats():
    X, Y = samples(30)
    times = np.random.default_rng(0).integers(1, 4, 30)
    weighed = rm.ContinualRegressor(rm.LMS(step=0.4)).fit(X, Y, sample_weight=times)
    repeated = rm.ContinualRegressor(rm.LMS(step=0.4)).fit(X.repeat(times, 0), Y.repeat(times, 0))
    np.testing.assert_allclose(weighed.predict(X), repeated.predict(X), rtol=1e-9)
    icl = rm.ContinualRegressor(rm.ICL())
    with pytest.raises(rm.InputError, match="integers"):
        icl.fit(X, Y, sample_weight=np.full(30, 0.5))
    assert not hasattr(icl, "n_features_in_")


def test_refusals_name_the_way_out():
    X, Y = samples(50)
    with pytest.raises(rm.InputError, match="use RLS"):
        rm.ContinualRegressor(rm.LMS()).fit(X, Y).predict(X, return_std=True)
    model = rm.ContinualRegressor().fit(X, Y)
    before = model.predict(X)
    with pytest.raises(rm.InputError, match="outputs as before"):
        model.partial_fit(X, np.column_stack([Y, Y]))
    with pytest.raises(ValueError):
        model.partial_fit(X, np.full((50, 1), np.inf))
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("as_given", [np.asarray, np.ndarray.tolist], ids=["array", "list"])
def test_magnitudes_that_would_overflow_are_refused_and_the_model_goes_on(intercept, as_given):
    X, Y = samples(400)
    for bad_X, bad_Y in [(X * 1e200, Y), (X, Y * 1e200)]:
        model = rm.ContinualRegressor(fit_intercept=intercept)
        with pytest.raises(rm.InputError, match="within"):
            model.fit(as_given(bad_X), as_given(bad_Y))
        model.partial_fit(X[:200], Y[:200])
        with pytest.raises(rm.InputError, match="within"):
            model.partial_fit(as_given(bad_X), as_given(bad_Y))
        model.partial_fit(X[200:], Y[200:])
        expected = rm.ContinualRegressor(fit_intercept=intercept).fit(X, Y).predict(X)
        np.testing.assert_allclose(model.predict(X), expected, rtol=1e-8)
