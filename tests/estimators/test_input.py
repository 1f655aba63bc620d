"""What is handed to an estimator: refusals in words, and nothing read that was not meant."""

import warnings
from datetime import datetime

import numpy as np
import pytest
import scipy.sparse as sparse
from sklearn.preprocessing import StandardScaler

import remanence as rm

pandas = pytest.importorskip("pandas")

X = np.random.default_rng(0).standard_normal((12, 3))
LABELS = np.arange(12) % 3
ALL = [
    rm.ContinualClassifier(),
    rm.ContinualRegressor(),
    rm.ContinualClassifier(rm.LMS()),
    rm.NearestMean(),
    rm.Finetune(epochs=1),
    rm.Replay(epochs=1),
    rm.Joint(),
    rm.RandomFeatures(5),
]
ROWS = {
    "matrix": (np.asmatrix(X), "np.matrix is not supported"),
    "masked": (np.ma.masked_array(X, X > 1), "without masked entries, got"),
    "complex": (X + 1j, "Complex data not supported"),
    "dates": (pandas.DataFrame({"a": range(12), "when": datetime(2020, 1, 1)}), "expected|convert|DType|float"),
    "large integers": ([[10**400, 1, 2]] * 12, "too large|too many"),
    "dicts": ([{"a": "b"}] * 12, "number"),
    "text": ([["a", "b", "c"]] * 12, "could not convert"),
}


@pytest.mark.parametrize("model", ALL, ids=lambda m: f"{type(m).__name__}")
@pytest.mark.parametrize("name", ROWS)
def test_rows_of_other_kinds_are_refused_in_words(model, name):
    rows, words = ROWS[name]
    model = model.__class__(**model.get_params(deep=False))
    with pytest.raises(rm.InputError, match=words):
        model.fit(rows, LABELS)
    model.fit(X, LABELS)
    before = dict(vars(model))
    with pytest.raises(rm.InputError):
        (model.transform if isinstance(model, rm.RandomFeatures) else model.predict)(rows)
    assert vars(model).keys() == before.keys() and all(vars(model)[k] is before[k] for k in before)


@pytest.mark.parametrize("model", ALL[3:7], ids=lambda m: f"{type(m).__name__}")
def test_baselines_refuse_sparse_rows_in_words(model):
    with pytest.raises(rm.InputError, match=r"dense array as X, got a sparse one.*X\.toarray\(\), which needs"):
        model.fit(sparse.csr_matrix(X), LABELS)
    with pytest.raises(rm.InputError, match="sparse"):
        model.fit(sparse.coo_array(X), LABELS)


def test_a_mask_over_nothing_is_no_reason_to_refuse():
    open_mask = np.ma.masked_array(X, np.zeros_like(X))
    np.testing.assert_array_equal(
        rm.ContinualClassifier().fit(open_mask, LABELS).coef_, rm.ContinualClassifier().fit(X, LABELS).coef_
    )


def test_methods_refuse_masked_and_complex_entries_too():
    method = rm.RLS()
    state = method.init(3, 1)
    for rows, words in ((np.ma.masked_array(X, X > 1), "masked"), (X + 1j, "complex128. Complex data not supported")):
        with pytest.raises(rm.InputError, match=words):
            method.update(state, rows, X[:, :1])
        with pytest.raises(rm.InputError, match=words):
            method.update(state, X, rows[:, :1])


LABELLED = {
    "dicts": ([{"a": 1}] * 12, r"one kind, all text or all numbers, got \['dict'\]"),
    "none": ([None, "a", "b"] * 4, r"\['NoneType', 'str'\]"),
    "mixed": (np.array([1, "a", 2], object)[LABELS], r"\['int', 'str'\]"),
    "booleans and numbers": (np.array([True, 2, 3], object)[LABELS], r"\['bool', 'int'\]"),
    "400 digits": ([10**400, 1, 2] * 4, "too many digits"),
    "zero characters": (np.array(["a", "a\0", "b"], object)[LABELS], "zero character"),
    "dates": (LABELS.astype("M8[s]"), "Unknown label type"),
    "fractions": (LABELS + 0.5, "Unknown label type: continuous"),
    "missing": (np.where(LABELS, LABELS, np.nan), "NaN"),
    "masked": (np.ma.masked_array(LABELS, LABELS == 1), "y without masked entries, got 4"),
    "complex": (LABELS + 1j, "Complex data not supported"),
    "long texts": (np.array(["x" * 10**8, "b", "c"], object)[LABELS], "100000000 characters"),
    "nothing": (None, "y is None"),
}


@pytest.mark.parametrize("model", [m for m in ALL[:-1] if not isinstance(m, rm.ContinualRegressor)], ids=str)
@pytest.mark.parametrize("name", LABELLED)
def test_labels_of_other_kinds_are_refused_in_words(model, name):
    labels, words = LABELLED[name]
    model = model.__class__(**model.get_params(deep=False))
    with pytest.raises(rm.InputError, match=words):
        model.fit(X, labels)
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize("model", [rm.ContinualClassifier(), rm.NearestMean()], ids=str)
def test_announced_classes_are_of_the_kind_of_the_labels(model):
    text = np.array(["a", "b", "c"])[LABELS]
    with pytest.raises(rm.InputError, match="use one kind of label"):
        model.__class__().partial_fit(X, text, classes=[1, 2])
    assert model.__class__().partial_fit(X, text, classes=["c", "b", "a"]).classes_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("kind", [rm.ContinualClassifier, rm.NearestMean])
def test_whole_numbers_that_floats_confuse_are_refused_or_told_apart(kind):
    large = np.array([2**53 + 1, 2**53 + 2, 5])[LABELS]
    model = kind().fit(X, large)
    assert model.classes_.tolist() == [5, 2**53 + 1, 2**53 + 2]
    with pytest.raises(rm.InputError, match="told apart"):
        model.partial_fit(X, LABELS.astype(np.uint64) + 2**63)  # (the two are float64 together)
    assert model.classes_.dtype == np.int64


def test_many_distinct_labels_are_no_reason_to_warn():
    rows, labels = np.random.default_rng(0).standard_normal((60, 3)), np.arange(60)
    model = rm.ContinualClassifier().fit(rows, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.unlearn(rows[:40], labels[:40])
        model.partial_fit(rows[:40], labels[:40])


def test_settings_that_changed_since_learning_are_refused():
    scaler = StandardScaler().fit(X)
    scaled, plain = rm.ContinualClassifier(features=scaler).fit(X, LABELS), rm.ContinualRegressor().fit(X, LABELS)
    for model, changes in (
        (scaled, {"features": None}),
        (plain, {"features": scaler}),
        (plain, {"fit_intercept": False}),
        (rm.ContinualRegressor(fit_intercept=False).fit(X, LABELS), {"fit_intercept": True}),
        (rm.ContinualRegressor().fit(X, LABELS), {"dtype": "float32"}),
        (rm.ContinualRegressor(fit_intercept=False).fit(X, LABELS), {"dtype": "float32"}),
    ):
        model.set_params(**changes)
        for call in (lambda m=model: m.predict(X), lambda m=model: m.partial_fit(X, LABELS), lambda m=model: m.coef_):
            with pytest.raises(rm.InputError, match=next(iter(changes))):
                call()


def test_answers_that_overflow_are_refused_as_the_method_refuses_them():
    tiny = X * 1e-100
    for intercept in (True, False):
        model = rm.ContinualRegressor(rm.RLS(ridge=1e-300), fit_intercept=intercept).fit(tiny, X[:, 0] * 1e100)
        with pytest.raises(rm.NumericalError, match="overflowed"):
            model.predict(X * 1e149)
        with pytest.raises(rm.NumericalError, match="overflowed"):
            model.predict(X * 1e149, return_std=True)
    classes = rm.ContinualClassifier(rm.RLS(ridge=5e-324), prior="uniform").fit(X * 1e-160, LABELS)
    for ask in (classes.class_scores, classes.predict, classes.predict_proba, classes.decision_function):
        with pytest.raises(rm.NumericalError, match="overflowed"):
            ask(X * 1e149)


@pytest.mark.parametrize("unit", ["s", "ns"])
@pytest.mark.parametrize("kind", ["datetime64", "timedelta64"])
def test_dates_and_time_spans_are_no_numbers(kind, unit):
    times = np.arange(20).astype(f"{kind}[{unit}]")
    frame = pandas.DataFrame({"when": times})
    for rows in (times[:, None], frame, frame.assign(a=1.0)):
        for model in (rm.ContinualClassifier(), rm.ContinualRegressor(), rm.ContinualRegressor(grow_features=True)):
            with pytest.raises(rm.InputError):
                model.fit(rows, np.arange(20) % 2)
        with pytest.raises(rm.InputError, match="unit"):
            rm.ContinualClassifier().fit(np.ones((4, 1)), [0, 1, 0, 1]).predict(times[:, None])


@pytest.mark.parametrize("labels", [["a", None] * 6, [1.0, np.nan] * 6], ids=["None", "NaN"])
def test_the_error_for_missing_labels_says_how_to_leave_them_out(labels):
    with pytest.raises(rm.InputError, match="missing_labels='skip'"):
        rm.ContinualClassifier().fit(X, np.array(labels, dtype=object if "a" in labels else float))
