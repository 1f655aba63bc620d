"""Several labels per row: ridge regression on the indicator of everything, whatever the cuts, forms and corrections."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.metrics import accuracy_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import MultiLabelBinarizer

import remanence as rm

NAMES = np.array(["blue", "green", "red", "small", "tall"])
FITTED = ("coef_", "intercept_")


def data(rows=120, labels=5, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X, W = rng.standard_normal((rows, 6)), rng.standard_normal((6, labels))
    Y = X @ W + rng.standard_normal((rows, labels)) > rng.uniform(0, 2, labels)
    return scale * (X + 3), Y.astype(int)


def as_sets(Y, names=NAMES):
    return [set(names[: Y.shape[1]][row.astype(bool)].tolist()) for row in Y]


def assert_ridge(model, X, Y, ridge=1.0, tolerance=1e-9):
    """The model is scikit-learn's ridge regression on these rows."""
    joint = Ridge(alpha=ridge).fit(X, Y)
    expected = joint.predict(X).reshape(len(X), -1)
    np.testing.assert_allclose(model.class_scores(X), expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())
    np.testing.assert_allclose(
        model.coef_, np.atleast_2d(joint.coef_), rtol=1e-7, atol=1e-9 * np.abs(joint.coef_).max()
    )


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_scores_are_those_of_ridge_regression_on_the_indicator(scale):
    X, Y = data(scale=scale)
    model = rm.ContinualClassifier(rm.RLS(scale**2)).fit(X, Y)
    assert_ridge(model, X, Y, scale**2)
    assert model.classes_.tolist() == [0, 1, 2, 3, 4] and model.class_count_.tolist() == Y.sum(axis=0).tolist()


def test_answers_are_those_of_a_ridge_classifier():
    X, Y = data()
    model, peer = rm.ContinualClassifier().fit(X, Y), RidgeClassifier(alpha=1.0).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), peer.predict(X))
    np.testing.assert_allclose(2 * model.decision_function(X), peer.decision_function(X), atol=1e-9)
    assert model.score(X, Y) == pytest.approx(accuracy_score(Y, peer.predict(X)), abs=1e-12)
    weights = np.linspace(0, 2, len(X))
    assert model.score(X, Y, weights) == pytest.approx(accuracy_score(Y, peer.predict(X), sample_weight=weights))


def test_every_label_is_a_least_squares_of_its_own():
    X, Y = data()
    peer = OneVsRestClassifier(Ridge(alpha=1.0)).fit(X, Y)
    each = np.column_stack([one.predict(X).ravel() for one in peer.estimators_])
    np.testing.assert_allclose(rm.ContinualClassifier().fit(X, Y).class_scores(X), each, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 5), st.booleans())
def test_cuts_new_labels_and_their_order_change_nothing(seed, parts, sets):
    X, Y = data(60, seed=seed % 1000)
    rng = np.random.default_rng(seed)
    Y[:20, 3:] = 0  # labels that are new later
    cuts = np.split(np.arange(60), np.sort(rng.integers(1, 60, parts)))
    model = rm.ContinualClassifier()
    first = 0
    for cut in cuts:
        if not len(cut) or (not first and not Y[cut].any()):
            cut = np.arange(first, cut[-1] + 1) if len(cut) else cut
            if not len(cut) or not Y[cut].any():
                continue
        rows = np.arange(first, cut[-1] + 1)
        first = int(cut[-1]) + 1
        seen = 3 if rows[-1] < 20 else 5
        model.partial_fit(X[rows], as_sets(Y[rows]) if sets else Y[rows][:, :seen])
    X, Y = X[:first], Y[:first]
    kept = [k for k in range(5) if Y[:, k].any()] if sets else list(range(len(model.classes_)))
    assert_ridge(model, X, Y[:, kept])
    if sets:
        assert model.classes_.tolist() == NAMES[kept].tolist()
        assert model.predict(X).tolist() == [frozenset(s) for s in as_sets(model.class_scores(X) > 0.5, NAMES[kept])]


def test_sets_equal_an_indicator_made_by_scikit_learn():
    X, Y = data()
    labels = as_sets(Y)
    binarizer = MultiLabelBinarizer().fit(labels)
    ours, theirs = (rm.ContinualClassifier().fit(X, y) for y in (labels, binarizer.transform(labels)))
    np.testing.assert_array_equal(ours.class_scores(X), theirs.class_scores(X))
    assert ours.classes_.tolist() == list(binarizer.classes_)
    found = ours.predict(X)
    assert found.dtype == object and isinstance(found[0], frozenset)
    np.testing.assert_array_equal(binarizer.transform(found), theirs.predict(X))
    assert ours.score(X, labels) == theirs.score(X, binarizer.transform(labels))
    assert ours.score(X, [{*s, "never met"} for s in labels]) == 0


@pytest.mark.parametrize(
    "form",
    [
        lambda Y: Y.astype(bool),
        lambda Y: Y.astype(float),
        lambda Y: Y.astype(np.uint8),
        lambda Y: Y.tolist(),
        lambda Y: list(Y),
        lambda Y: sparse.csr_matrix(Y),
        lambda Y: sparse.coo_array(Y),
        lambda Y: Y.astype(object),
        lambda Y: np.ma.masked_array(Y, False),
    ],
)
def test_forms_of_an_indicator(form):
    X, Y = data()
    model = rm.ContinualClassifier().fit(X, form(Y))
    np.testing.assert_array_equal(model.class_scores(X), rm.ContinualClassifier().fit(X, Y).class_scores(X))
    assert model.predict(X).dtype == np.int64


def test_forms_of_sets():
    import pandas as pd

    X, Y = data()
    labels = as_sets(Y)
    expected = rm.ContinualClassifier().fit(X, labels).class_scores(X)
    array = np.empty(len(labels), object)
    array[:] = labels
    for form in (
        [frozenset(s) for s in labels],
        [sorted(s) for s in labels],
        tuple(tuple(s) for s in labels),
        array,
        pd.Series(labels),
        pd.Series([sorted(s) for s in labels]),
    ):
        np.testing.assert_array_equal(rm.ContinualClassifier().fit(X, form).class_scores(X), expected)


@pytest.mark.parametrize("kind", [int, str, bytes, bool])
def test_kinds_of_labels_in_sets(kind):
    X, Y = data(labels=2)
    names = {int: [7, 9], str: ["x", "yy"], bytes: [b"x", b"yy"], bool: [False, True]}[kind]
    model = rm.ContinualClassifier().fit(X, [{names[k] for k in np.flatnonzero(row)} for row in Y])
    assert model.classes_.tolist() == names and model.coef_.shape == (2, 6)
    assert_ridge(model, X, Y)
    with pytest.raises(rm.InputError, match="labels like those met"):
        model.partial_fit(X[:1], [{"text"} if kind is not str else {3}])


def test_unlearning_forgets_rows_and_labels():
    X, Y = data()
    Y[:, 4] = 0
    Y[100:, 4] = 1
    for form in (as_sets, lambda Y: Y):
        model = rm.ContinualClassifier().fit(X, form(Y)).unlearn(X[90:], form(Y[90:]))
        left = 4 if form is as_sets else 5
        assert len(model.classes_) == left and model.n_seen_ == 90
        assert_ridge(model, X[:90], Y[:90, :left])
    assert not model.coef_[4].any() and not model.predict(X)[:, 4].any()
    model.unlearn(X[:90], Y[:90])
    assert not hasattr(model, "classes_") and "multilabel_" not in vars(model)
    assert model.fit(X, np.arange(len(X)) % 3).predict(X).ndim == 1


def test_rows_without_labels_count_and_can_be_all_that_is_left():
    X, Y = data()
    Y[:50] = 0
    model = rm.ContinualClassifier().fit(X, as_sets(Y)).unlearn(X[50:], as_sets(Y[50:]))
    assert model.n_seen_ == 50 and not np.abs(model.class_scores(X)).max()
    assert set(model.predict(X)) == {frozenset()}
    model.partial_fit(X[50:], as_sets(Y[50:])).partial_fit(X[:3], [set(), [], frozenset()])
    assert_ridge(model, np.vstack([X, X[:3]]), np.vstack([Y, Y[:3]]))


def test_merging_sites_that_met_different_labels():
    X, Y = data()
    Y[:60, 3], Y[60:, 1] = 0, 0
    one, other = (rm.ContinualClassifier().fit(X[part], as_sets(Y[part])) for part in (slice(60), slice(60, None)))
    assert one.classes_.tolist() != other.classes_.tolist()
    assert_ridge(one.merge(other), X, Y)
    Y[:60, 3:] = 0
    narrow, wide = (
        rm.ContinualClassifier().fit(X[part], Y[part, :k]) for part, k in ((slice(60), 3), (slice(60, None), 5))
    )
    assert_ridge(narrow.merge(wide), X, Y)
    single = rm.ContinualClassifier().fit(X, NAMES[np.arange(120) % 5])
    before = one.class_scores(X)
    for model, stranger in ((one, single), (single, one)):
        with pytest.raises(rm.InputError, match="labels have the same form"):
            model.merge(stranger)
    np.testing.assert_array_equal(one.class_scores(X), before)


@pytest.mark.parametrize("form", [as_sets, lambda Y: Y], ids=["sets", "indicator"])
def test_files_pickles_and_copies_go_on_as_the_model_does(tmp_path, form):
    X, Y = data()
    model = rm.ContinualClassifier().fit(X[:60], form(Y[:60]))
    rm.save(model, tmp_path / "m")
    for twin in (rm.load(tmp_path / "m"), pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model)):
        assert np.array_equal(twin.predict(X), model.predict(X))
        twin.partial_fit(X[60:], form(Y[60:]))
        assert_ridge(twin, X, Y)
    assert model.n_seen_ == 60


def test_weights_scaling_growing_columns_and_single_precision():
    X, Y = data()
    weights = np.linspace(0.1, 3, len(X))
    weighted = rm.ContinualClassifier().fit(X[:50], Y[:50], sample_weight=weights[:50])
    weighted.partial_fit(X[50:], Y[50:], sample_weight=weights[50:])
    joint = Ridge(alpha=1.0).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(weighted.class_scores(X), joint.predict(X), atol=1e-9)
    scaled = rm.ContinualClassifier(scale="standard").fit(X, Y)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(scaled.class_scores(X), Ridge(alpha=1.0).fit(Z, Y).predict(Z), atol=1e-9)
    growing = rm.ContinualClassifier(grow_features=True).fit(X[:50, :4], Y[:50]).partial_fit(X[50:], Y[50:])
    padded = np.vstack([np.pad(X[:50, :4], [(0, 0), (0, 2)]), X[50:]])
    np.testing.assert_allclose(growing.class_scores(padded), Ridge(alpha=1.0).fit(padded, Y).predict(padded), atol=1e-9)
    single = rm.ContinualClassifier(dtype="float32").fit(X, Y)
    np.testing.assert_allclose(single.class_scores(X), Ridge(alpha=1.0).fit(X, Y).predict(X), atol=1e-4)
    assert single.predict_proba(X.astype(np.float32)).dtype == np.float32


def test_hard_data_one_row_few_rows_and_constant_columns():
    X, Y = data()
    assert_ridge(rm.ContinualClassifier().fit(X[:1], [{"a", "b"}]), X[:1], np.ones((1, 2)))
    assert_ridge(rm.ContinualClassifier().fit(X[:3], Y[:3]), X[:3], Y[:3])
    X[:, 2] = 5.0
    assert_ridge(rm.ContinualClassifier().fit(X, Y), X, Y)
    one = rm.ContinualClassifier().fit(X, [{"a"} if k else set() for k in Y[:, 0]])
    assert_ridge(one, X, Y[:, :1])
    assert one.predict_proba(X).shape == one.decision_function(X).shape == (120, 1)


@pytest.mark.parametrize("method", [rm.LMS(0.1), rm.LowRankRLS(4), rm.RLS("auto"), rm.RLS(0.1, 0.99)], ids=str)
def test_any_method_learns_the_same_targets(method):
    X, Y = data()
    model = rm.ContinualClassifier(method).fit(X[:50], Y[:50]).partial_fit(X[50:], Y[50:])
    peer = rm.ContinualRegressor(method, intervals=False).fit(X[:50], Y[:50].astype(float))
    peer.partial_fit(X[50:], Y[50:].astype(float))
    np.testing.assert_allclose(model.class_scores(X), peer.predict(X), atol=1e-9)


def test_probabilities_are_scores_that_are_never_certain():
    X, Y = data()
    model = rm.ContinualClassifier().fit(X, Y)
    found, scores = model.predict_proba(X), model.class_scores(X)
    assert found.min() >= 1 / 122 and found.max() <= 1 - 1 / 122
    inside = (scores > 0.01) & (scores < 0.99)
    np.testing.assert_array_equal(found[inside], scores[inside])
    np.testing.assert_array_equal(found > 0.5, model.predict(X).astype(bool))


@pytest.mark.parametrize(
    "setting",
    [
        {"readout": "discriminant"},
        {"readout": "auto"},
        {"class_weight": "balanced"},
        {"class_weight": {0: 2.0}},
        {"prior": "uniform"},
    ],
    ids=str,
)
def test_settings_for_single_labels_are_refused(setting):
    X, Y = data()
    name = next(iter(setting))
    with pytest.raises(rm.InputError, match=f"expected {name}=.* where rows have several labels"):
        rm.ContinualClassifier(**setting).fit(X, Y)
    model = rm.ContinualClassifier().fit(X, Y)
    before = model.class_scores(X)
    model.set_params(**setting)
    for call in (model.predict, model.class_scores, model.predict_proba, lambda X: model.partial_fit(X, Y)):
        with pytest.raises(rm.InputError, match=name):
            call(X)
    model.set_params(readout="ridge", class_weight=None, prior="seen")
    np.testing.assert_array_equal(model.class_scores(X), before)


def test_bad_labels_are_refused_and_change_nothing():
    X, Y = data(12)
    labels = as_sets(Y)
    import pandas as pd

    fresh = [
        (Y + 1, "indicator .* of 0 and 1"),
        (Y.astype(float) * np.nan, "indicator .* of 0 and 1"),
        (Y.astype(str), "indicator .* of 0 and 1"),
        ([[1, 2], [3]] * 6, "different lengths"),
        ([{1, "a"}] * 12, "labels of one kind"),
        ([{1.5}] * 12, "continuous"),
        ([*labels[:11], None], "an empty set says"),
        ([*labels[:11], "red"], "an empty set says"),
        (labels[:5], "12 rows, got 5"),
        ([set()] * 12, "at least one row with a label"),
        (pd.DataFrame(Y, columns=NAMES), "not known by name"),
        (np.ma.masked_array(Y, Y == 1), "masked"),
    ]
    for y, message in fresh:
        with pytest.raises(rm.InputError, match=message):
            rm.ContinualClassifier().fit(X, y)
    model = rm.ContinualClassifier().fit(X, labels)
    table = rm.ContinualClassifier().fit(X, Y)
    before, counts = model.class_scores(X), model.class_count_.copy()
    later = [
        (model, Y, "expected sets of labels, as this model has learned"),
        (model, ["red"] * 12, "expected sets of labels"),
        (table, labels, "expected an indicator"),
        (table, Y[:, :3], "at least 5 columns"),
        (rm.ContinualClassifier().fit(X, [1, 2] * 6), Y, "expected one label per row"),
    ]
    for learner, y, message in later:
        for call in (learner.partial_fit, learner.unlearn):
            with pytest.raises(rm.InputError, match=message):
                call(X, y)
    with pytest.raises(rm.InputError, match="expected labels that were learned"):
        model.unlearn(X[:1], [{"purple"}])
    with pytest.raises(rm.InputError, match="got more of"):
        model.unlearn(np.vstack([X, X]), labels + labels)
    with pytest.raises(rm.InputError, match="no `classes` with an indicator"):
        table.partial_fit(X, Y, classes=[0, 1])
    np.testing.assert_array_equal(model.class_scores(X), before)
    np.testing.assert_array_equal(model.class_count_, counts)


def test_missing_sets_are_skipped_on_request_and_announced_labels_wait():
    X, Y = data(12)
    labels = as_sets(Y)
    model = rm.ContinualClassifier(missing_labels="skip").fit(X, [None, *labels[1:]])
    assert model.n_seen_ == 11
    kept = Y[1:, [bool(Y[1:, k].any()) for k in range(5)]]
    assert_ridge(model, X[1:], kept)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        announced = rm.ContinualClassifier().partial_fit(X, labels, classes=["zebra"])
    assert announced.classes_[-1] == "zebra" and not announced.coef_[-1].any()
