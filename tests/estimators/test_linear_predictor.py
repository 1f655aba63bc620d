"""What predicts without scikit-learn gives the numbers of the estimator it is a part of, to the bit."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import remanence as rm
from remanence.estimators.linear_predictor import LinearClassifier, LinearRegressor
from remanence.store import read

RNG = np.random.default_rng(3)
X, NEW = RNG.standard_normal((40, 3)), RNG.standard_normal((9, 3))
LABELS, Y = np.array(["a", "b", "c", "a"] * 10), RNG.standard_normal((40, 2))
CASES = {
    "classes": (rm.ContinualClassifier(), LABELS),
    "two classes": (rm.ContinualClassifier(), LABELS == "a"),
    "uniform prior": (rm.ContinualClassifier(rm.RLS(ridge="auto"), prior="uniform"), LABELS),
    "class weights": (rm.ContinualClassifier(class_weight={"a": 3.0}), LABELS),
    "no intercept": (rm.ContinualClassifier(rm.LMS(0.1), fit_intercept=False), LABELS),
    "random features": (rm.ContinualClassifier(features=rm.RandomFeatures(16)), LABELS),
    "single precision": (rm.ContinualClassifier(dtype="float32"), LABELS),
    "one target": (rm.ContinualRegressor(), Y[:, 0]),
    "two targets": (rm.ContinualRegressor(rm.RLS(forget=0.9), dtype="float32"), Y),
    "target in a column": (rm.ContinualRegressor(rm.OGD(0.1)), Y[:, :1]),
}


@pytest.mark.parametrize("case", CASES)
def test_predictions_are_those_of_the_estimator(case, tmp_path):
    estimator, targets = CASES[case]
    rm.save(estimator.fit(X, targets), tmp_path / "model.safetensors")
    whole, part = rm.load(tmp_path / "model.safetensors"), read(tmp_path / "model.safetensors", predict_only=True)
    assert type(part.learner) in (LinearClassifier, LinearRegressor)
    assert isinstance(whole, type(part.learner))
    assert vars(whole).keys() == vars(part.learner).keys()
    for name in ("predict", "class_scores") if isinstance(whole, LinearClassifier) else ("predict",):
        found, expected = getattr(part.learner, name)(NEW), getattr(whole, name)(NEW)
        assert found.dtype == expected.dtype
        assert_array_equal(found, expected)
    for name in ("coef_", "intercept_"):
        assert_array_equal(getattr(part.learner, name), getattr(whole, name))


@pytest.mark.parametrize("case", ["classes", "random features", "two targets"])
@pytest.mark.parametrize("rows", [NEW[:, :2], NEW[0], np.full((2, 3), np.nan), np.full((2, 3), "a")], ids=str)
def test_rows_that_the_estimator_rejects_are_rejected(case, rows, tmp_path):
    estimator, targets = CASES[case]
    rm.save(estimator.fit(X, targets), tmp_path / "model.safetensors")
    learner = read(tmp_path / "model.safetensors", predict_only=True).learner
    for predictor in (estimator, learner):
        with pytest.raises(rm.InputError):
            predictor.predict(rows)


def test_numbers_beyond_single_precision_are_rejected(tmp_path):
    rm.save(rm.ContinualRegressor(dtype="float32").fit(X, Y), tmp_path / "model.safetensors")
    with pytest.raises(rm.InputError, match="infinity"):
        read(tmp_path / "model.safetensors", predict_only=True).learner.predict(NEW * 1e300)


def test_the_estimators_are_loaded_by_name_and_other_names_are_errors():
    import remanence.estimators

    assert set(remanence.estimators.__all__) <= set(dir(remanence.estimators))
    assert remanence.estimators.Joint is rm.Joint
    with pytest.raises(AttributeError, match="no attribute 'Ridge'"):
        remanence.estimators.Ridge  # noqa: B018
