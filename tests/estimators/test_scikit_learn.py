"""scikit-learn's own examination of every estimator."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import remanence as rm

WEIGHTS = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
# method → check → why it cannot hold
EXPECTED = {
    rm.LMS: {
        **dict.fromkeys(
            WEIGHTS, "LMS learns sample by sample, so shuffling the samples changes it; the check shuffles"
        ),
        "check_class_weight_classifiers": "one pass over overlapping blobs is too noisy for the share it demands",
    },
    rm.RLS: dict.fromkeys(
        WEIGHTS, "a weight says how precise a sample is, so the evidence counts it once, whatever its weight"
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [rm.ContinualClassifier, rm.ContinualRegressor])
@pytest.mark.parametrize("method", [None, rm.RLS(ridge=0.1), rm.RLS(ridge="auto"), rm.LMS(step=0.5)], ids=str)
def test_estimators_pass_the_checks(kind, method):
    exact = method is None or getattr(method, "ridge", None) == 0.1
    check_estimator(kind(method), expected_failed_checks={} if exact else EXPECTED[type(method)])


@pytest.mark.filterwarnings("ignore")
def test_random_features_pass_the_checks():
    check_estimator(rm.RandomFeatures(20))


def test_clones_share_frozen_features_and_forget_what_was_learned():
    X, y = np.random.default_rng(0).standard_normal((40, 5)), np.arange(40) % 3
    scaler = StandardScaler().fit(X)
    model = rm.ContinualClassifier(features=scaler).fit(X, y)
    twin = clone(model)
    assert twin.features is scaler and not hasattr(twin, "state_")
    np.testing.assert_array_equal(twin.fit(X, y).predict(X), model.predict(X))


def test_features_from_another_encoder_are_refused():
    X, y = np.random.default_rng(0).standard_normal((40, 5)), np.arange(40) % 3
    model = rm.ContinualClassifier(features=rm.RandomFeatures(30, seed=1)).fit(X, y)
    other = rm.ContinualClassifier(features=rm.RandomFeatures(30, seed=2)).fit(X, y)
    with pytest.raises(rm.InputError, match="encoder"):
        model.merge(other)
    model.features = rm.RandomFeatures(30, seed=2)
    with pytest.raises(rm.InputError, match="encoder"):
        model.predict(X)
    scaled = rm.ContinualClassifier(features=StandardScaler().fit(X)).fit(X, y)
    scaled.features = StandardScaler().fit(X + 1)
    with pytest.raises(rm.InputError, match="encoder"):
        scaled.partial_fit(X, y)
    with pytest.raises(rm.InputError, match="fitted"):
        rm.ContinualClassifier(features=StandardScaler()).fit(X, y)


def test_random_features_are_drawn_again_from_the_seed_and_never_copied():
    X = np.random.default_rng(0).standard_normal((10, 4))
    layer = rm.RandomFeatures(5000, seed=3).fit(X)
    blob = pickle.dumps(layer)
    assert len(blob) < 2000
    np.testing.assert_array_equal(pickle.loads(blob).transform(X), layer.transform(X))
    assert not np.array_equal(rm.RandomFeatures(5000, seed=4).fit(X).transform(X), layer.transform(X))
    assert layer.transform(X.astype(np.float32)).dtype == np.float32
    for activation, check in {"relu": lambda H: H.min() == 0, "tanh": lambda H: np.abs(H).max() < 1}.items():
        assert check(rm.RandomFeatures(200, activation=activation).fit(X).transform(X))
    with pytest.raises(rm.InputError, match="activation"):
        rm.RandomFeatures(5, activation="nope").fit(X)


def test_models_survive_a_copy_with_rows_still_waiting():
    X, y = np.random.default_rng(0).standard_normal((90, 40)), np.arange(90) % 3
    model = rm.ContinualClassifier().partial_fit(X[:70], y[:70]).partial_fit(X[70:75], y[70:75])
    model.predict(X)
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(twin.decision_function(X), model.decision_function(X), atol=1e-13)
    twin.partial_fit(X[75:], y[75:])
    model.partial_fit(X[75:], y[75:])
    np.testing.assert_allclose(twin.decision_function(X), model.decision_function(X), atol=1e-12)
