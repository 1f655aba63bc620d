"""Periodic features: a linear model on them is one whose weights repeat, and it predicts tasks before they return."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import remanence as rm

rng = np.random.default_rng(0)


@parametrize_with_checks([rm.PeriodicFeatures(), rm.PeriodicFeatures(20, 3)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_they_are_the_columns_times_the_waves():
    X = np.column_stack([rng.uniform(0, 100, 30), rng.standard_normal(30)])
    found = rm.PeriodicFeatures(7.0, harmonics=2).fit(X).transform(X)
    t, x = X.T
    waves = [
        np.ones(30),
        *(np.cos(2 * np.pi * k * t / 7) for k in (1, 2)),
        *(np.sin(2 * np.pi * k * t / 7) for k in (1, 2)),
    ]
    np.testing.assert_allclose(found, np.stack([a * w for a in (np.ones(30), x) for w in waves], axis=1), atol=1e-12)


def test_a_period_of_twenty_is_predicted_where_a_learner_without_time_stays_at_the_mixture():
    """Labels turn round every ten steps: without the time no answer beats the mixture's error of 1/2."""
    t = np.arange(2000.0)
    x = rng.standard_normal(2000)
    y = np.where((t % 20 < 10) == (x > 0), 1, 0)
    X = np.column_stack([t, x, np.sign(x)])
    aware = rm.ContinualClassifier(rm.RLS(1e-6), features=rm.PeriodicFeatures(20, harmonics=10).fit(X))
    blind = rm.ContinualClassifier(rm.RLS(1e-6))
    aware.partial_fit(X[:1000], y[:1000])
    blind.partial_fit(X[:1000, 1:], y[:1000])
    assert aware.score(X[1000:], y[1000:]) > 0.99
    assert blind.score(X[1000:, 1:], y[1000:]) < 0.6


def test_an_estimator_fits_them_to_its_first_rows_and_its_file_holds_them(tmp_path):
    t = np.arange(100.0)[:, None]
    y = np.sin(2 * np.pi * t[:, 0] / 20)
    model = rm.ContinualRegressor(rm.RLS(1e-9), features=rm.PeriodicFeatures(20, 2)).partial_fit(t[:50], y[:50])
    assert np.abs(model.predict(t) - y).max() < 1e-6
    rm.save(model, tmp_path / "model")
    loaded = rm.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(t), model.predict(t))
    fitted = rm.ContinualRegressor(rm.RLS(1e-9), features=rm.PeriodicFeatures(20, 2).fit(t)).partial_fit(t[50:], y[50:])
    fitted.merge(loaded)
    other = rm.ContinualRegressor(rm.RLS(1e-9), features=rm.PeriodicFeatures(20 + 1e-9, 2)).partial_fit(t, y)
    with pytest.raises(rm.InputError, match="periodic:20"):
        fitted.merge(other)
    with pytest.raises(rm.InputError, match="column"):
        rm.ContinualRegressor(rm.RLS(), features=rm.PeriodicFeatures(20, column=1)).partial_fit(t, y)


@pytest.mark.parametrize("settings", [{"period": 0}, {"harmonics": 0}, {"column": 5}, {"column": -1}])
def test_bad_settings_are_refused(settings):
    with pytest.raises(rm.InputError, match=next(iter(settings))):
        rm.PeriodicFeatures(**settings).fit(np.ones((3, 2)))
