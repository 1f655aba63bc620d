"""The continual classifier against classifiers trained on everything at once, and against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits, make_classification
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import remanence as rm


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def taught_in_parts(model, X, y, parts):
    for part in parts:
        model.partial_fit(X[part], y[part])
    return model


@pytest.mark.parametrize("intercept", [True, False])
def test_class_by_class_equals_joint_training(digits, intercept):
    X, y = digits
    model = rm.ContinualClassifier(rm.RLS(ridge=1.0), fit_intercept=intercept)
    one_class_each = [np.flatnonzero(y == c) for c in (7, 2, 9, 0, 1, 8, 3, 6, 4, 5)]
    taught_in_parts(model, X, y, one_class_each)
    joint = clone(model).fit(X, y)
    assert np.abs(model.decision_function(X) - joint.decision_function(X)).max() <= 1e-10
    np.testing.assert_array_equal(model.predict(X), joint.predict(X))


def test_scores_equal_ridge_regression_on_one_hot_labels(digits):
    X, y = digits
    model = taught_in_parts(rm.ContinualClassifier(rm.RLS(ridge=2.5)), X, y, np.array_split(np.argsort(y), 13))
    ridge = Ridge(alpha=2.5, solver="svd").fit(X, np.eye(10)[y])
    np.testing.assert_allclose(model.decision_function(X), ridge.predict(X), atol=1e-11)
    np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-11)
    np.testing.assert_allclose(model.intercept_, ridge.intercept_, atol=1e-11)


def test_float32_gives_the_joint_accuracy(digits):
    X, y = digits
    single = rm.ContinualClassifier(rm.RLS(ridge=1e-3), dtype="float32")
    taught_in_parts(single, X, y, np.array_split(np.argsort(y, kind="stable"), 9))
    double = rm.ContinualClassifier(rm.RLS(ridge=1e-3)).fit(X, y)
    assert single.decision_function(X).dtype == np.float32
    assert np.abs(single.decision_function(X) - double.decision_function(X)).max() <= 1e-4
    assert abs(single.score(X, y) - double.score(X, y)) <= 1e-3


@pytest.mark.parametrize(
    "labels",
    [
        np.array(list("jihgfedcba")),
        np.array([f"name {i}" * (i + 1) for i in range(10)]),
        np.array([-3, 100, 7, 2, 55, -20, 0, 1, 3, 4]),
        np.array([False, True] * 5),
        np.arange(10.0),
        np.array([b"b" * (10 - i) for i in range(10)]),
    ],
    ids=["letters", "texts of growing length", "integers", "truth values", "whole floats", "bytes"],
)
def test_labels_of_any_kind_grow_in_any_order(digits, labels):
    X, y = digits
    names = labels[y]
    order = np.argsort(names, kind="stable")[::-1]
    model = taught_in_parts(rm.ContinualClassifier(), X, names, np.array_split(order, 11))
    joint = rm.ContinualClassifier().fit(X, names)
    assert model.classes_.tolist() == sorted(set(names.tolist()))
    np.testing.assert_allclose(model.decision_function(X), joint.decision_function(X), atol=1e-9)
    assert set(model.predict(X[:100]).tolist()) <= set(names.tolist())
    weights = np.arange(100.0)
    right = model.predict(X[:100]) == names[:100]
    assert model.score(X[:100], names[:100]) == pytest.approx(right.mean(), abs=1e-12)
    expected = pytest.approx(np.average(right, weights=weights), abs=1e-12)
    assert model.score(X[:100], names[:100], sample_weight=weights) == expected


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), cuts=st.integers(1, 12))
def test_every_method_grows_classes_as_if_they_had_always_been_there(seed, cuts):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((30, 6)), np.sort(rng.integers(0, 4, 30))
    for method in (
        rm.LMS(step=0.5),
        rm.APA(buffer=3),
        rm.ICL(),
        rm.OGD(step=0.1),
        rm.ORFit(rank=3),
        rm.RLS(forget=0.95),
    ):
        grown = taught_in_parts(rm.ContinualClassifier(method), X, y, np.array_split(np.arange(30), cuts))
        told = rm.ContinualClassifier(method).partial_fit(X, y, classes=np.unique(y))
        np.testing.assert_allclose(grown.class_scores(X), told.class_scores(X), atol=1e-8)


def test_announced_classes_are_there_and_score_nothing():
    X, y = np.random.default_rng(0).standard_normal((20, 3)), np.array([0, 1] * 10)
    model = rm.ContinualClassifier().partial_fit(X, y, classes=[0, 1, 2])
    assert model.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(model.decision_function(X)[:, 2], 0)
    model.unlearn(X[:3], y[:3])  # a row of another class says nothing about a class that is still to come
    never = rm.ContinualClassifier().partial_fit(X[3:], y[3:], classes=[0, 1, 2])
    assert model.classes_.tolist() == never.classes_.tolist() == [0, 1, 2]
    np.testing.assert_allclose(model.decision_function(X), never.decision_function(X), atol=1e-12)
    assert model.partial_fit(X[:3], [2, 2, 2]).unlearn(X[:3], [2, 2, 2]).classes_.tolist() == [0, 1]


def test_unlearning_rows_and_whole_classes_equals_never_having_seen_them(digits):
    X, y = digits
    rng = np.random.default_rng(1)
    gone = np.zeros(len(y), bool)
    gone[rng.choice(len(y), 700, replace=False)] = True
    gone |= np.isin(y, [3, 8])
    model = rm.ContinualClassifier(rm.RLS(ridge=0.1)).fit(X, y).unlearn(X[gone], y[gone])
    never = rm.ContinualClassifier(rm.RLS(ridge=0.1)).fit(X[~gone], y[~gone])
    assert model.classes_.tolist() == never.classes_.tolist() == [0, 1, 2, 4, 5, 6, 7, 9]
    assert np.abs(model.decision_function(X) - never.decision_function(X)).max() <= 1e-8
    assert model.n_seen_ == never.n_seen_
    np.testing.assert_array_equal(model.class_count_, never.class_count_)


def test_unlearning_everything_leaves_a_model_that_knows_nothing(digits):
    X, y = digits
    model = rm.ContinualClassifier().fit(X[:50], y[:50]).unlearn(X[:50], y[:50])
    with pytest.raises(ValueError, match="not fitted"):
        model.predict(X)
    model.partial_fit(X, y)
    np.testing.assert_allclose(
        model.decision_function(X), rm.ContinualClassifier().fit(X, y).decision_function(X), atol=1e-10
    )


def test_unlearning_what_was_never_learned_is_refused_and_changes_nothing(digits):
    X, y = digits
    model = rm.ContinualClassifier().fit(X[:200], y[:200])
    before = model.decision_function(X)
    strange = 50 * np.random.default_rng(0).standard_normal((3, 64))
    for rows, labels in [
        (strange, y[:3]),
        (X[:1], ["x"]),
        (X[:1], [77]),
        (np.repeat(X[:1], 60, 0), np.repeat(y[:1], 60)),
    ]:
        with pytest.raises(rm.InputError):
            model.unlearn(rows, labels)
    np.testing.assert_array_equal(model.decision_function(X), before)
    assert model.n_seen_ == 200


def test_merging_sites_with_different_classes_equals_training_on_both(digits):
    X, y = digits
    a, b = y < 6, y >= 4
    both = np.r_[np.flatnonzero(a), np.flatnonzero(b)]
    merged = rm.ContinualClassifier().fit(X[a], y[a]).merge(rm.ContinualClassifier().fit(X[b], y[b]))
    joint = rm.ContinualClassifier().fit(X[both], y[both])
    assert merged.classes_.tolist() == joint.classes_.tolist()
    np.testing.assert_allclose(merged.decision_function(X), joint.decision_function(X), atol=1e-10)
    assert merged.n_seen_ == len(both)


@pytest.mark.parametrize(
    "other",
    [
        lambda X, y: rm.ContinualClassifier(rm.RLS(ridge=9.0)).fit(X, y),
        lambda X, y: rm.ContinualClassifier(fit_intercept=False).fit(X, y),
        lambda X, y: rm.ContinualClassifier().fit(X[:, :9], y),
        lambda X, y: rm.ContinualClassifier().fit(X, y.astype(str)),
        lambda X, y: rm.ContinualRegressor().fit(X, y),
    ],
)
def test_models_that_do_not_fit_together_are_not_merged(digits, other):
    X, y = digits
    model = rm.ContinualClassifier().fit(X, y)
    before = model.decision_function(X)
    with pytest.raises(rm.InputError):
        model.merge(other(X, y))
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_sample_weights_are_exact(digits):
    X, y = digits
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    weighed = rm.ContinualClassifier().partial_fit(X[:900], y[:900], sample_weight=weights[:900])
    weighed.partial_fit(X[900:], y[900:], sample_weight=weights[900:])
    repeated = rm.ContinualClassifier().fit(X.repeat(weights, 0), y.repeat(weights))
    np.testing.assert_allclose(weighed.decision_function(X), repeated.decision_function(X), atol=1e-10)
    back = weighed.unlearn(X[:50], y[:50], sample_weight=np.maximum(weights[:50], 1e-9))
    assert np.isfinite(back.decision_function(X)).all()


def test_class_weights_are_sample_weights_given_up_front(digits):
    X, y = digits
    by_class = rm.ContinualClassifier(class_weight={3: 5.0, 7: 0.25})
    taught_in_parts(by_class, X, y, np.array_split(np.argsort(y), 5))
    by_sample = rm.ContinualClassifier().fit(X, y, sample_weight=np.where(y == 3, 5.0, np.where(y == 7, 0.25, 1.0)))
    np.testing.assert_allclose(by_class.decision_function(X), by_sample.decision_function(X), atol=1e-10)


def test_uniform_prior_divides_the_scores_by_the_share_of_each_class(digits):
    X, y = digits
    rare = np.r_[np.flatnonzero(y != 4), np.flatnonzero(y == 4)[:8]]
    seen = rm.ContinualClassifier().fit(X[rare], y[rare])
    uniform = rm.ContinualClassifier(prior="uniform").fit(X[rare], y[rare])
    share = np.bincount(y[rare]) / len(rare)
    np.testing.assert_allclose(uniform.decision_function(X) * share * 10, seen.decision_function(X), atol=1e-12)
    fours = y == 4
    assert (uniform.predict(X[fours]) == 4).mean() > (seen.predict(X[fours]) == 4).mean() + 0.2


@pytest.mark.parametrize("intercept", [True, False])
def test_a_weight_counts_as_so_many_rows_in_the_shares_of_a_uniform_prior(digits, intercept):
    X, y = digits
    times = 1 + (np.arange(len(y)) + y) % 3
    settings = {"prior": "uniform", "fit_intercept": intercept, "calibrate": False}
    expected = rm.ContinualClassifier(**settings).fit(X.repeat(times, axis=0), y.repeat(times)).class_scores(X)
    weighted = rm.ContinualClassifier(**settings).fit(X, y, sample_weight=times)
    for model in (weighted, weighted.partial_fit(X, y, classes=[99]).unlearn(X, y)):
        np.testing.assert_allclose(model.class_scores(X)[:, :10], expected, atol=1e-8 * np.abs(expected).max())
    factors = {3: 5.0, 7: 0.25}
    by_class = rm.ContinualClassifier(class_weight=factors, **settings).fit(X, y).class_scores(X)
    apart = rm.ContinualClassifier(class_weight="balanced", **settings).fit(X, y).set_params(class_weight=factors)
    np.testing.assert_allclose(apart.class_scores(X), by_class, atol=1e-8 * np.abs(by_class).max())


def test_lms_is_adaline_and_learns(digits):
    X, y = digits
    model = rm.ContinualClassifier(rm.LMS(step=0.3))
    for _ in range(5):
        model.partial_fit(X, y)
    assert model.score(X, y) > 0.85


def test_the_ridge_can_change_after_learning_and_choose_itself(digits):
    X, y = digits
    model = rm.ContinualClassifier(rm.RLS(ridge=1.0)).fit(X, y)
    model.set_params(method__ridge=30.0)
    expected = rm.ContinualClassifier(rm.RLS(ridge=30.0)).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-11)
    auto = rm.ContinualClassifier(rm.RLS(ridge="auto")).fit(X[::2], y[::2])
    assert 1e-3 < auto.ridge_ < 1e3
    worst = min(
        rm.ContinualClassifier(rm.RLS(ridge=r)).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) for r in (1e-8, 1e6)
    )
    assert auto.score(X[1::2], y[1::2]) > worst
    with pytest.raises(rm.InputError, match="fit anew"):
        model.set_params(method=rm.LMS()).predict(X)


def test_probabilities_lie_on_the_simplex_and_keep_the_order(digits):
    X, y = digits
    model = rm.ContinualClassifier().fit(X, y)
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert (P >= 0).all()
    np.testing.assert_array_equal(P.argmax(axis=1), model.decision_function(X).argmax(axis=1))


def test_works_in_the_tools_of_scikit_learn():
    X, y = make_classification(300, 12, n_informative=6, n_classes=3, random_state=0)
    search = GridSearchCV(rm.ContinualClassifier(), {"method__ridge": [1e-2, 1.0, 1e4]}, cv=3).fit(X, y)
    assert search.best_params_["method__ridge"] < 1e4
    assert search.best_estimator_.method.ridge == search.best_params_["method__ridge"]
    assert cross_val_score(rm.ContinualClassifier(rm.RLS(ridge="auto")), X, y, cv=3, n_jobs=2).mean() > 0.5
    pipe = make_pipeline(StandardScaler(), rm.ContinualClassifier(rm.RLS(ridge=0.5))).fit(X, y)
    assert pipe.set_params(continualclassifier__method__ridge=2.0)[-1].method == rm.RLS(ridge=2.0)
    assert "ContinualClassifier" in pipe._repr_html_()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_a_table_are_checked(library):
    frame = pytest.importorskip(library).DataFrame
    rng = np.random.default_rng(0)
    data = {name: rng.standard_normal(30) for name in "abc"}
    y = rng.integers(0, 2, 30)
    model = rm.ContinualClassifier().partial_fit(frame(data), y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(rm.InputError, match="feature names"):
        model.partial_fit(frame({"c": data["c"], "b": data["b"], "a": data["a"]}), y)
    labels = pytest.importorskip("pandas").Series(np.where(y > 0, "yes", "no"))
    assert rm.ContinualClassifier().fit(frame(data), labels).classes_.tolist() == ["no", "yes"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_features_fitted_on_a_table_get_their_columns_by_name(library):
    frame = pytest.importorskip(library).DataFrame
    rng = np.random.default_rng(0)
    data = {name: rng.standard_normal(30) for name in "abc"}
    X, y = np.column_stack(list(data.values())), rng.integers(0, 2, 30)
    scale = StandardScaler().fit(frame(data))
    model = rm.ContinualClassifier(features=scale).partial_fit(frame(data), y).partial_fit(frame(data), y)
    plain = rm.ContinualClassifier(features=StandardScaler().fit(X)).partial_fit(X, y).partial_fit(X, y)
    np.testing.assert_allclose(model.decision_function(frame(data)), plain.decision_function(X), atol=1e-12)
    turned = frame({name: data[name] for name in "cba"})
    with pytest.raises(rm.InputError, match=r"fitted on, a, b, c, in that order, got c, b, a"):
        rm.ContinualClassifier(features=scale).fit(turned, y)
    with pytest.raises(rm.InputError, match="feature names"):
        model.predict(turned)


def test_features_may_choose_columns_by_name():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table, y = pd.DataFrame(rng.standard_normal((30, 3)), columns=list("abc")), rng.integers(0, 2, 30)
    chosen = ColumnTransformer([("scaled", StandardScaler(), ["c"])], remainder="drop").fit(table)
    model = rm.ContinualClassifier(features=chosen).fit(table, y)
    only = rm.ContinualClassifier(features=StandardScaler().fit(table[["c"]].to_numpy()))
    only.fit(table[["c"]].to_numpy(), y)
    np.testing.assert_allclose(model.decision_function(table), only.decision_function(table[["c"]].to_numpy()))


def test_bad_input_is_refused_and_changes_nothing(digits):
    X, y = digits
    model = rm.ContinualClassifier().fit(X, y)
    before = model.decision_function(X)
    bad = [
        (np.full((2, 64), np.nan), [0, 1]),
        (X[:2, :60], y[:2]),
        (X[:2], y[:3]),
        (X[:2], ["a", "b"]),
        (X[:2], [0.5, 1.5]),
        (X[:0], y[:0]),
        (np.full((2, 64), "text"), y[:2]),
    ]
    for rows, labels in bad:
        with pytest.raises(ValueError):
            model.partial_fit(rows, labels)
    np.testing.assert_array_equal(model.decision_function(X), before)
    fresh = rm.ContinualClassifier()
    for rows, labels in [(np.full((2, 64), np.nan), [0, 1]), (X[:2], [0.5, 1.5]), (X[:2], y[:3])]:
        with pytest.raises(ValueError):
            fresh.partial_fit(rows, labels)
        assert not hasattr(fresh, "n_features_in_")
    for settings_ in ({"prior": "wrong"}, {"dtype": "int8"}, {"class_weight": "equal"}):
        with pytest.raises(rm.InputError):
            rm.ContinualClassifier(**settings_).fit(X, y)
    with pytest.raises(rm.InputError, match="use RLS"):
        rm.ContinualClassifier(rm.ICL()).fit(X, y).unlearn(X[:1], y[:1])


def test_the_stress_that_breaks_an_explicit_inverse():
    """Ill-conditioned unscaled features in class order: both precisions keep the joint accuracy."""
    X, y = load_digits(return_X_y=True)
    H = rm.RandomFeatures(width=400, seed=0, scale=8.0).fit(X).transform(X)
    H = (
        H
        @ (np.random.default_rng(0).standard_normal((400, 300)) / 20)
        @ np.random.default_rng(1).standard_normal((300, 400))
    )
    order = np.argsort(y, kind="stable")
    joint = rm.ContinualClassifier(rm.RLS(ridge=1e-6)).fit(H, y)
    reference = joint.score(H, y)
    for dtype in ("float64", "float32"):
        model = rm.ContinualClassifier(rm.RLS(ridge=1e-6), dtype=dtype)
        taught_in_parts(model, H, y, np.array_split(order, 40))
        assert model.score(H, y) >= reference - 1e-3
    # What published recursions do: an explicit inverse, updated by the Woodbury identity, in float32.
    Z = np.column_stack([np.ones(len(y)), H])[order].astype(np.float32)
    T = np.eye(10, dtype=np.float32)[y[order]]
    P, W = np.eye(401, dtype=np.float32) * np.float32(1e6), np.zeros((401, 10), np.float32)
    for i in range(0, len(Z), 45):
        z, t = Z[i : i + 45], T[i : i + 45]
        K = P @ z.T @ np.linalg.inv(np.eye(len(z), dtype=np.float32) + z @ P @ z.T)
        W, P = W + K @ (t - z @ W), P - K @ z @ P
    broken = (np.nan_to_num(Z @ W).argmax(axis=1) == y[order]).mean()
    assert broken < reference - 0.05


def test_rows_of_weight_zero_come_and_go_without_a_trace(digits):
    X, y = digits
    weights = np.ones(len(y))
    weights[:5] = 0
    model = rm.ContinualClassifier().fit(X, y, sample_weight=weights)
    model.unlearn(X[:50], y[:50], sample_weight=weights[:50])
    never = rm.ContinualClassifier().fit(X[50:], y[50:])
    np.testing.assert_allclose(model.decision_function(X), never.decision_function(X), atol=1e-9)
    assert model.n_seen_ == never.n_seen_ == len(y) - 50
    for labels in (y, [{int(label)} for label in y]):
        model = rm.ContinualClassifier().fit(X, labels, sample_weight=(y < 8).astype(float))
        assert model.classes_.tolist() == list(range(8))  # labels that only rows of weight zero have are not met
        model.unlearn(X[:50], labels[:50], sample_weight=(y[:50] < 8).astype(float))
        assert model.n_seen_ == (y[50:] < 8).sum()
    model = rm.ContinualClassifier(class_weight={9: 0.0}).fit(X, y).unlearn(X[:50], y[:50])
    assert model.n_seen_ == (y[50:] < 9).sum()


def test_single_precision_is_not_spoilt_by_large_means():
    """The first block's mean is taken off, which a free intercept makes exact; two sites take off different ones."""
    X, y = load_digits(return_X_y=True)
    X = X + 1000.0
    order = np.argsort(y, kind="stable")
    exact = rm.ContinualClassifier().fit(X, y)
    single = rm.ContinualClassifier(dtype="float32")
    taught_in_parts(single, X, y, np.array_split(order, 10))
    assert np.abs(single.decision_function(X) - exact.decision_function(X)).max() < 1e-3
    a, b = np.array_split(order, 2)
    merged = rm.ContinualClassifier().fit(X[a], y[a]).merge(rm.ContinualClassifier().fit(X[b], y[b]))
    np.testing.assert_allclose(merged.decision_function(X), exact.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(X @ merged.coef_.T + merged.intercept_, exact.decision_function(X), atol=1e-8)
    wide = rm.ContinualClassifier(rm.LowRankRLS(rank=65)).fit(X[a], y[a])
    wide.merge(rm.ContinualClassifier(rm.LowRankRLS(rank=65)).fit(X[b], y[b]))
    np.testing.assert_allclose(wide.decision_function(X), exact.decision_function(X), atol=1e-7)


@pytest.mark.parametrize("intercept", [True, False])
def test_numbers_that_go_bad_after_the_door_are_refused_and_the_model_goes_on(digits, intercept):
    """Absurd weights, or an encoder that answers NaN: refused, and what is learned afterwards is right."""
    from sklearn.preprocessing import FunctionTransformer

    X, y = digits
    broken = {"now": False}
    features = FunctionTransformer(lambda Z: Z * np.nan if broken["now"] else Z).fit(X)
    for model in (rm.ContinualClassifier(fit_intercept=intercept), rm.ContinualClassifier(None, intercept, features)):
        model.partial_fit(X[:900], y[:900])
        with pytest.raises(rm.InputError):
            model.partial_fit(X[900:], y[900:], sample_weight=np.full(len(y) - 900, 1e308))
        if model.features is not None:
            broken["now"] = True
            with pytest.raises(rm.InputError, match="features"):
                model.partial_fit(X[900:], y[900:])
            broken["now"] = False
        model.partial_fit(X[900:], y[900:])
        joint = clone(model).fit(X, y)
        np.testing.assert_allclose(model.decision_function(X), joint.decision_function(X), atol=1e-10)


def test_every_class_has_a_score_also_where_there_are_two():
    X, y = load_digits(return_X_y=True)
    two = y < 2
    model = rm.ContinualClassifier().fit(X[two], y[two])
    scores = model.class_scores(X[two])
    assert scores.shape == (two.sum(), 2)
    np.testing.assert_allclose(scores[:, 1] - scores[:, 0], model.decision_function(X[two]), atol=1e-12)
    np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-9)  # one-hot labels sum to one, and so do their fits
