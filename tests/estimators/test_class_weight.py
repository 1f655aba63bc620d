"""`class_weight="balanced"`: weights by class that are decided when solving, against fits on all rows at once."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

import remanence as rm


def clouds(seed, classes, features, rows):
    """Classes of very different sizes, every one at least twice."""
    rng = np.random.default_rng(seed)
    shares = 2.0 ** -np.arange(classes)
    y = np.concatenate([np.arange(classes).repeat(2), rng.choice(classes, rows, p=shares / shares.sum())])
    return rng.standard_normal((classes, features))[y] + rng.standard_normal((len(y), features)), y


def ridge_scores(X, y, at, weights, ridge=1.0, intercept=True):
    """Scores of every class by scikit-learn's Ridge on one-hot labels."""
    onehot = (y[:, None] == np.unique(y)).astype(float)
    return Ridge(ridge, fit_intercept=intercept).fit(X, onehot, sample_weight=weights).predict(at)


def assert_is_balanced(model, X, y, at, weights=None, tolerance=1e-8, **settings):
    balanced = compute_sample_weight("balanced", y) * (1.0 if weights is None else weights)
    expected = ridge_scores(X, y, at, balanced, **settings)
    np.testing.assert_allclose(model.class_scores(at), expected, atol=tolerance * np.abs(expected).max())
    assert model.classes_.tolist() == np.unique(y).tolist()


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    classes=st.integers(2, 8),
    features=st.integers(1, 12),
    cuts=st.integers(1, 9),
    ridge=st.sampled_from([1e-3, 1.0, 30.0]),
    intercept=st.booleans(),
    by_class=st.booleans(),
)
def test_cuts_new_classes_unlearning_merging_and_files_leave_the_balanced_fit(
    tmp_path_factory, seed, classes, features, cuts, ridge, intercept, by_class
):
    X, y = clouds(seed, classes, features, 60)
    rng = np.random.default_rng(seed)
    order = np.argsort(y, kind="stable") if by_class else rng.permutation(len(y))
    gone = rng.random(len(y)) < 0.2
    gone[: 2 * classes] = False
    site = rng.integers(0, 2, len(y))
    site[:2] = 0, 1
    sites = []
    for side in range(2):
        model = rm.ContinualClassifier(rm.RLS(ridge), class_weight="balanced", fit_intercept=intercept)
        for part in np.array_split(order[site[order] == side], cuts):
            if len(part):
                model.partial_fit(X[part], y[part])
        mine = site == side
        assert_is_balanced(model, X[mine], y[mine], X, ridge=ridge, intercept=intercept)
        sites.append(model)
    path = tmp_path_factory.mktemp("sites") / "site.safetensors"
    rm.save(sites[1], path)
    model = sites[0].merge(rm.load(path)).unlearn(X[gone], y[gone])
    rm.save(model, path)
    for found in (model, rm.load(path), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_is_balanced(found, X[~gone], y[~gone], X, ridge=ridge, intercept=intercept)


def test_sample_weights_multiply_and_a_class_that_is_gone_counts_no_more():
    X, y = clouds(0, 4, 5, 200)
    w = np.random.default_rng(1).uniform(0.5, 3.0, len(y))
    model = rm.ContinualClassifier(class_weight="balanced")
    for part in np.array_split(np.arange(len(y)), 5):
        model.partial_fit(X[part], y[part], sample_weight=w[part])
    assert_is_balanced(model, X, y, X, w)
    gone = y == 1
    model.unlearn(X[gone], y[gone], sample_weight=w[gone])
    assert_is_balanced(model, X[~gone], y[~gone], X, w[~gone])


def test_weights_can_be_given_after_learning():
    X, y = clouds(2, 3, 4, 100)
    model = rm.ContinualClassifier(class_weight="balanced").fit(X, y)
    model.set_params(class_weight={0: 0.5, 2: 7.0})
    w = np.array([0.5, 1.0, 7.0])
    np.testing.assert_allclose(model.class_scores(X), ridge_scores(X, y, X, w[y]), atol=1e-8)
    model.partial_fit(X[:9] + 1, y[:9])
    both, labels = np.vstack([X, X[:9] + 1]), np.append(y, y[:9])
    np.testing.assert_allclose(model.class_scores(X), ridge_scores(both, labels, X, w[labels]), atol=1e-8)
    model.set_params(class_weight=None)
    np.testing.assert_allclose(model.class_scores(X), ridge_scores(both, labels, X, None), atol=1e-8)
    assert_is_balanced(model.set_params(class_weight="balanced"), both, labels, X)
    model.set_params(class_weight=None)
    np.testing.assert_allclose(model.class_scores(X), rm.ContinualClassifier().fit(both, labels).class_scores(X))


def test_a_changed_ridge_an_announced_class_and_one_row_at_a_time():
    X, y = clouds(3, 3, 4, 40)
    model = rm.ContinualClassifier(class_weight="balanced")
    model.partial_fit(X[:1], y[:1], classes=[0, 1, 2])
    for i in range(1, len(y)):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    assert_is_balanced(model, X, y, X)
    assert_is_balanced(model.set_params(method__ridge=20.0), X, y, X, ridge=20.0)
    assert model.set_params(method__ridge="auto").ridge_ > 0


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_any_scale_a_far_offset_and_a_constant_column(scale):
    X, y = clouds(4, 3, 4, 200)
    X = scale * np.column_stack([X + 100.0, np.full(len(y), 3.0)])
    model = rm.ContinualClassifier(rm.RLS(scale**2), class_weight="balanced")
    for part in np.array_split(np.argsort(y), 4):
        model.partial_fit(X[part], y[part])
    assert_is_balanced(model, X, y, X, ridge=scale**2)


def test_standardized_columns_are_those_of_the_weighted_rows():
    X, y = clouds(5, 4, 6, 150)
    X = X * np.logspace(-3, 3, 6)
    model = rm.ContinualClassifier(rm.RLS(2.0), class_weight="balanced", scale="standard")
    for part in np.array_split(np.argsort(y), 4):
        model.partial_fit(X[part], y[part])
    w = compute_sample_weight("balanced", y)
    pipeline = make_pipeline(StandardScaler(), Ridge(2.0))
    pipeline.fit(X, np.eye(4)[y], standardscaler__sample_weight=w, ridge__sample_weight=w)
    np.testing.assert_allclose(model.class_scores(X), pipeline.predict(X), atol=1e-8)


def test_the_discriminant_is_that_of_classes_of_equal_weight():
    X, y = clouds(6, 3, 4, 93)
    times = np.bincount(y).prod() // np.bincount(y)  # whole numbers of copies that make all classes alike
    times = (times // np.gcd.reduce(times))[y]
    model = rm.ContinualClassifier(rm.RLS(1e-9), class_weight="balanced", readout="discriminant")
    for part in np.array_split(np.argsort(y), 4):
        model.partial_fit(X[part], y[part])
    whole = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=model.shrinkage_)
    expected = whole.fit(X.repeat(times, axis=0), y.repeat(times)).decision_function(X)
    found = model.decision_function(X)
    centred = [scores - scores.mean(axis=1, keepdims=True) for scores in (found, expected)]
    np.testing.assert_allclose(*centred, atol=1e-8 * np.abs(expected).max())


def test_it_helps_where_classes_are_rare_and_keeps_probabilities():
    rng = np.random.default_rng(7)
    centres, labels = 1.5 * rng.standard_normal((6, 8)), np.arange(6).repeat(200)
    shares = 2.0 ** -np.arange(6)
    y = rng.choice(6, 3000, p=shares / shares.sum())
    X, new = (centres[k] + rng.standard_normal((len(k), 8)) for k in (y, labels))
    plain, balanced = (rm.ContinualClassifier(class_weight=w).fit(X, y) for w in (None, "balanced"))
    assert balanced.score(new, labels) > plain.score(new, labels) + 0.05
    chances = [model.predict_proba(new) for model in (plain, balanced)]
    np.testing.assert_allclose(chances[1].sum(axis=1), 1)
    losses = [-np.log(p[np.arange(1200), labels]).mean() for p in chances]
    assert losses[1] < losses[0]


def test_a_uniform_prior_changes_nothing_where_classes_weigh_the_same():
    X, y = clouds(9, 3, 4, 90)
    seen, uniform = (rm.ContinualClassifier(class_weight="balanced", prior=p).fit(X, y) for p in ("seen", "uniform"))
    np.testing.assert_allclose(uniform.class_scores(X), seen.class_scores(X), rtol=1e-12)


def test_float32_keeps_its_digits():
    X, y = clouds(10, 4, 6, 300)
    model = rm.ContinualClassifier(class_weight="balanced", dtype="float32").fit(X, y)
    assert model.class_scores(X).dtype == np.float32
    assert_is_balanced(model, X, y, X, tolerance=1e-4)


@pytest.mark.parametrize(
    "settings",
    [{"method": rm.LMS()}, {"method": rm.RLS(forget=0.9)}, {"method": rm.LowRankRLS(2)}, {"class_weight": "equal"}],
)
def test_what_cannot_be_balanced_is_refused(settings):
    with pytest.raises(rm.InputError):
        rm.ContinualClassifier(**({"class_weight": "balanced"} | settings)).fit([[0.0], [1.0]], [0, 1])


def test_a_model_with_one_memory_cannot_become_balanced_nor_be_merged_with_one_that_is():
    X, y = clouds(11, 3, 4, 60)
    one, apart = rm.ContinualClassifier().fit(X, y), rm.ContinualClassifier(class_weight="balanced").fit(X, y)
    with pytest.raises(rm.InputError, match="one of each"):
        copy.deepcopy(one).merge(apart)
    with pytest.raises(rm.InputError, match="fit anew"):
        one.set_params(class_weight="balanced").predict(X)
    before = apart.class_scores(X)
    for rows, labels in ((X[:3], y[:3] + 7), (X[:1] + 50.0, y[:1])):
        with pytest.raises(rm.InputError):
            apart.unlearn(rows, labels)
    np.testing.assert_array_equal(apart.class_scores(X), before)


@pytest.mark.parametrize("scale", [None, "standard"])
@pytest.mark.parametrize("seed", range(8))
def test_rows_of_small_classes_and_rare_columns_can_all_be_unlearned_but_the_last(seed, scale):
    """A column that is zero in all rows that are left, and the mean of which was not, is no sign of other rows."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((24, 6)) * (rng.random((24, 6)) < 0.3), rng.integers(0, 3, 24)
    model = rm.ContinualClassifier(rm.RLS(1.0), class_weight="balanced", scale=scale).fit(X, y)
    for i in range(20):
        model.unlearn(X[i : i + 1], y[i : i + 1])
    fresh = rm.ContinualClassifier(rm.RLS(1.0), class_weight="balanced", scale=scale).fit(X[20:], y[20:])
    np.testing.assert_allclose(model.class_scores(X[20:]), fresh.class_scores(X[20:]), atol=1e-8)
