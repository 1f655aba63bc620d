"""Probabilities: leave-one-out answers against models fitted again, calibration against rows never learned."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import remanence as rm
from remanence.estimators.readouts.assessment import NOTHING, Assessment
from remanence.estimators.readouts.calibration import Calibration, calibration_error, reliability_bins
from remanence.estimators.readouts.probe import AskedRows, answers_without, readouts_of

READOUTS = ["ridge", "discriminant"]


def clouds(seed, classes=4, features=6, rows=120):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(classes).repeat(2), rng.integers(0, classes, rows - 2 * classes)])
    return 0.8 * rng.standard_normal((classes, features))[y] + rng.standard_normal((rows, features)), y


def error_of(probabilities, y):
    best = probabilities.argmax(axis=1)
    return calibration_error(reliability_bins(probabilities.max(axis=1), best == y))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("classes", "features"), [(2, 3), (4, 6), (9, 4)])
def test_leave_one_out_equals_fitting_without_the_row(classes, features, intercept):
    X, y = clouds(0, classes, features, 60)
    weights = np.random.default_rng(1).uniform(0.2, 1, 60)
    model = rm.ContinualClassifier(rm.RLS(ridge=0.5), fit_intercept=intercept, readout="discriminant")
    model.fit(X, y, sample_weight=weights)
    rows = AskedRows(model.design_matrix(X), y, weights)
    offset = model.offset_ if intercept else None
    found = readouts_of(model.method_, model.state_, model.classes_, model.class_count_, offset, True)
    answers, positions, _ = answers_without(model.method_, model.state_, found, rows, model.class_count_)
    np.testing.assert_array_equal(positions, y)
    for i in (0, 7, 31, 59):
        rest = np.arange(60) != i
        without = clone(model).fit(X[rest], y[rest], sample_weight=weights[rest])
        ridge = clone(without).set_params(readout="ridge").fit(X[rest], y[rest], sample_weight=weights[rest])
        np.testing.assert_allclose(answers["ridge"][i], ridge.class_scores(X[[i]])[0], atol=1e-10)
        # up to a number that is the same for all classes, and with the shrinkage of all rows
        share = np.log(np.bincount(y[rest], weights[rest]))
        scale = (1 - without.shrinkage_) / (1 - model.shrinkage_)
        expected = (without.class_scores(X[[i]])[0] - share) * scale + share
        off = answers["discriminant"][i] - expected
        np.testing.assert_allclose(off - off.mean(), 0, atol=1e-9 * np.abs(expected).max())


def test_a_weight_of_two_is_two_rows():
    X, y = clouds(2)
    times = np.random.default_rng(0).integers(1, 4, len(y))
    for readout in READOUTS:
        model = rm.ContinualClassifier(readout=readout)
        a, b = clone(model).fit(X, y, sample_weight=times), clone(model).fit(X.repeat(times, axis=0), y.repeat(times))
        np.testing.assert_allclose(a.calibration_.losses, b.calibration_.losses, rtol=1e-9)
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-9)


def test_a_row_that_is_alone_in_its_class_does_not_count():
    X, y = clouds(1)
    y = np.append(y[:-1], 99)
    model = rm.ContinualClassifier(readout="discriminant").fit(X, y)
    assert model.calibration_.rows == len(y) - 1


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("order", ["at once", "shuffled parts", "class by class", "row by row"])
def test_probabilities_of_new_rows_are_calibrated(readout, order):
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(y))
    train, test = rows[:1000], rows[1000:]
    parts = {
        "at once": [train],
        "shuffled parts": np.array_split(train, 20),
        "class by class": [train[y[train] == k] for k in range(10)],
        "row by row": np.array_split(train, len(train)),
    }[order]
    model = rm.ContinualClassifier(rm.RLS(ridge=1.0), readout=readout)
    for part in parts:
        model.partial_fit(X[part], y[part])
    P = model.predict_proba(X[test])
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert (P > 0).all()
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X[test]))
    assert error_of(P, y[test]) <= (0.05 if order in ("at once", "shuffled parts") else 0.1)
    assert log_loss(y[test], P) <= {"ridge": 0.35, "discriminant": 0.25}[readout]


@pytest.mark.parametrize("readout", READOUTS)
def test_a_wide_model_learned_in_small_blocks_is_calibrated_for_what_it_has_become(readout):
    """Its first answers, of fewer rows than features, are those of another model."""
    X, y = make_classification(4000, 20, n_informative=12, n_classes=8, flip_y=0.1, class_sep=1.5, random_state=1)
    X = rm.RandomFeatures(512, activation="cos").fit(X).transform(X)
    past, new = slice(2000), slice(2000, None)
    model = rm.ContinualClassifier(rm.RLS(ridge=0.1), readout=readout)
    at_once = clone(model).fit(X[past], y[past])
    for first in range(0, 2000, 50):
        model.partial_fit(X[first : first + 50], y[first : first + 50])
    P = model.predict_proba(X[new])
    assert log_loss(y[new], P) <= 1.05 * log_loss(y[new], at_once.predict_proba(X[new]))
    assert error_of(P, y[new]) <= 0.1


@pytest.mark.parametrize("weights", [None, [0.9, 0.1]])
@pytest.mark.parametrize("classes", [2, 4])
def test_log_loss_is_near_that_of_logistic_regression(classes, weights):
    if classes > 2:
        weights = None
    X, y = make_classification(3000, 12, n_informative=8, n_classes=classes, weights=weights, random_state=1)
    logistic = LogisticRegression().fit(X[:2000], y[:2000])
    theirs = log_loss(y[2000:], logistic.predict_proba(X[2000:]))
    for readout in READOUTS:
        P = rm.ContinualClassifier(readout=readout).fit(X[:2000], y[:2000]).predict_proba(X[2000:])
        assert log_loss(y[2000:], P) <= 1.25 * theirs
        assert error_of(P, y[2000:]) <= 0.06


def test_estimates_foretell_what_new_rows_show():
    X, y = clouds(3, rows=4000)
    model = rm.ContinualClassifier(readout="discriminant").fit(X[:1000], y[:1000])
    P, found = model.predict_proba(X[1000:]), model.calibration_
    assert found.rows == 1000
    assert found.accuracy == pytest.approx(model.score(X[1000:], y[1000:]), abs=0.04)
    assert found.log_loss == pytest.approx(log_loss(y[1000:], P), rel=0.1)
    assert found.error < 0.05


def test_answers_do_not_change_what_is_learned():
    X, y = clouds(4, rows=600)
    model = rm.ContinualClassifier().fit(X, y)
    method = rm.RLS()
    design = np.column_stack([np.ones(600), X - X.mean(axis=0)])
    state = method.update(method.init(7, 4, free=1), design, np.eye(4)[y])
    np.testing.assert_allclose(model.class_scores(X), design @ method.weights(state), atol=1e-12)


@pytest.mark.parametrize(
    "method",
    [rm.LMS(0.1), rm.APA(2), rm.OGD(0.1), rm.RLS(forget=0.99), rm.RLS("auto", 0.99), rm.LowRankRLS(3), rm.Kalman(0.1)],
    ids=str,
)
def test_every_method_has_probabilities(method):
    X, y = clouds(5, rows=400)
    whole = rm.ContinualClassifier(method).fit(X[:200], y[:200])
    P = whole.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    if not isinstance(method, rm.Kalman):  # a block is one task: no answers before it is learned
        assert whole.calibration_.rows > 50
    whole.partial_fit(X[200:], y[200:])
    assert np.isfinite(whole.predict_proba(X)).all()


def test_one_class_and_two():
    X, y = clouds(6, classes=2)
    one = rm.ContinualClassifier().fit(X, ["a"] * len(X))
    np.testing.assert_array_equal(one.predict_proba(X), 1)
    two = rm.ContinualClassifier().fit(X, y)
    assert two.predict_proba(X).shape == (len(X), 2)
    announced = rm.ContinualClassifier(readout="discriminant").partial_fit(X, y, classes=[0, 1, 2])
    assert announced.predict_proba(X)[:, 2].max() < 0.05


def test_far_rows_and_single_precision_have_finite_probabilities():
    X, y = clouds(7)
    for readout in READOUTS:
        for dtype in ("float64", "float32"):
            model = rm.ContinualClassifier(readout=readout, dtype=dtype).fit(X, y)
            assert np.isfinite(model.predict_proba(1e9 * X)).all()


def test_sums_are_kept_in_files_and_pickles(tmp_path):
    X, y = clouds(8, rows=300)
    model = rm.ContinualClassifier(readout="discriminant")
    for part in np.array_split(np.arange(300), 5):
        model.partial_fit(X[part], y[part])
    rm.save(model, tmp_path / "model.safetensors")
    expected = model.predict_proba(X)
    for other in (rm.load(tmp_path / "model.safetensors"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_allclose(other.predict_proba(X), expected, atol=1e-12)
        assert other.calibration_.rows == model.calibration_.rows


def test_merging_adds_and_unlearning_scales_the_sums():
    X, y = clouds(9, rows=400)
    a, b = (rm.ContinualClassifier().fit(X[part], y[part]) for part in (slice(0, 250), slice(250, 400)))
    rows = a.calibration_.rows + b.calibration_.rows
    a.merge(b)
    assert a.calibration_.rows == pytest.approx(rows)
    assert error_of(a.predict_proba(X), y) < 0.1
    a.unlearn(X[:100], y[:100])
    assert a.calibration_.rows == pytest.approx(rows * 300 / 400)
    a.unlearn(X[100:], y[100:])
    assert "assessment_" not in vars(a)
    fresh = a.fit(X[:50], y[:50])
    assert fresh.calibration_.rows <= 50


def test_nothing_in_memory_outlives_unlearned_rows():
    X, y = clouds(10)
    model = rm.ContinualClassifier(readout="discriminant").fit(X, y)
    model.predict(X)
    model.unlearn(X[:20], y[:20])
    assert model._earlier is None
    model.unlearn(X[20:], y[20:])
    assert not [name for name in vars(model) if name.endswith("_")]
    assert model.__dict__.get("_earlier") is None


def test_a_fit_that_has_no_unique_weights_is_still_learned():
    X, y = np.zeros((10, 3)), np.array([0, 1] * 5)
    model = rm.ContinualClassifier(rm.RLS(ridge=1e-300)).fit(X, y)
    assert model.n_seen_ == 10


def test_few_rows_leave_usual_values():
    few = rm.ContinualClassifier().fit([[0.0], [1.0]], [0, 1])
    beta, epsilon = few.calibration_.setting
    assert 2 < beta < 16
    assert 0 < epsilon < 0.1
    assert few.calibration_.accuracy is None
    assert NOTHING.of("ridge", 10).log_loss is None


def test_the_temperature_minimises_the_log_loss():
    rng = np.random.default_rng(11)
    truth = rng.standard_normal((4000, 5))
    shares = np.exp(truth) / np.exp(truth).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(5, p=p) for p in shares])
    found = Assessment().of("discriminant", 5).updated(3.0 * truth, y, np.ones(4000))
    beta, epsilon = found.setting
    assert beta == pytest.approx(1 / 3, rel=0.1)
    assert epsilon <= 0.004
    assert isinstance(found, Calibration)
    assert found.error < 0.03


def test_without_calibration_the_scores_are_the_same_and_nothing_is_counted(tmp_path):

    X, y = load_digits(return_X_y=True)
    kept, plain = (rm.ContinualClassifier(calibrate=c).fit(X[:500], y[:500]) for c in (True, False))
    for model in (kept, plain):
        model.partial_fit(X[500:900], y[500:900])
    assert (plain.decision_function(X) == kept.decision_function(X)).all()
    assert plain.calibration_.log_loss is None and kept.calibration_.log_loss is not None
    np.testing.assert_allclose(plain.predict_proba(X).sum(axis=1), 1)
    rm.save(plain, tmp_path / "m.safetensors")
    assert rm.load(tmp_path / "m.safetensors").calibrate is False
    with pytest.raises(rm.InputError, match="calibrate"):
        rm.ContinualClassifier(calibrate="no").fit(X, y)
