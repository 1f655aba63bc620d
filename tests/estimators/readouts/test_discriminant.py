"""The discriminant out of the memory against scikit-learn's LinearDiscriminantAnalysis on all rows at once."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import remanence as rm


def clouds(seed, classes, features, rows, spread=1.0):
    """Every class at least twice; Gaussian clouds around random means."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(classes).repeat(2), rng.integers(0, classes, rows - 2 * classes)])
    X = spread * rng.standard_normal((classes, features))[y] + rng.standard_normal((rows, features))
    return X, y


def model_of(ridge=2.0, **settings):
    return rm.ContinualClassifier(rm.RLS(ridge=ridge), readout="discriminant", **settings)


def contrasts(model, X):
    """Scores minus their mean: a number that is the same for all classes says nothing."""
    scores = model.decision_function(X)
    return scores if scores.ndim == 1 else scores - scores.mean(axis=1, keepdims=True)


def assert_is_lda(model, X, y, at, solver="lsqr", tolerance=1e-8):
    whole = LinearDiscriminantAnalysis(solver=solver, shrinkage=model.shrinkage_).fit(X, y)
    expected = contrasts(whole, at)
    np.testing.assert_allclose(contrasts(model, at), expected, atol=tolerance * np.abs(expected).max())
    assert model.classes_.tolist() == whole.classes_.tolist()
    clear = np.ones(len(at), bool)
    if expected.ndim == 2:
        best = np.sort(expected, axis=1)
        clear = best[:, -1] - best[:, -2] > 1e-6 * np.abs(expected).max()
    np.testing.assert_array_equal(model.predict(at)[clear], whole.predict(at)[clear])


@pytest.mark.parametrize("solver", ["lsqr", "eigen"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    ("classes", "features", "rows"), [(2, 5, 60), (4, 6, 400), (3, 40, 20), (30, 5, 300), (7, 7, 90), (2, 1, 9)]
)
def test_class_by_class_equals_scikit_learn_on_all_rows(classes, features, rows, intercept, solver):
    X, y = clouds(0, classes, features, rows)
    model = model_of(fit_intercept=intercept)
    for part in np.array_split(np.argsort(y, kind="stable"), 6):
        model.partial_fit(X[part], y[part])
    assert_is_lda(model, X, y, 3 * X, solver)


def test_the_documented_ridge_gives_the_shrinkage_of_scikit_learn():
    X, y = clouds(1, 4, 8, 200)
    within = sum(((X[y == k] - X[y == k].mean(axis=0)) ** 2).sum() for k in range(4))
    for shrinkage in (1e-15, 1e-9, 0.01, 0.3, 0.9):
        model = model_of(shrinkage / (1 - shrinkage) * within / 8).fit(X, y)
        assert model.shrinkage_ == pytest.approx(shrinkage, rel=1e-12)
        assert_is_lda(model, X, y, X)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    classes=st.integers(2, 12),
    features=st.integers(1, 15),
    cuts=st.integers(1, 9),
    ridge=st.sampled_from([1e-3, 1.0, 30.0]),
    intercept=st.booleans(),
)
def test_unlearn_merge_file_and_cuts_leave_the_discriminant_of_the_rows(
    tmp_path_factory, seed, classes, features, cuts, ridge, intercept
):
    X, y = clouds(seed, classes, features, 4 * classes + 40)
    rng = np.random.default_rng(seed)
    gone = rng.random(len(y)) < 0.2
    gone[: 2 * classes] = False
    site = rng.integers(0, 2, len(y))
    sites = []
    for side in range(2):
        model = model_of(ridge, fit_intercept=intercept)
        for part in np.array_split(rng.permutation(np.flatnonzero(site == side)), cuts):
            if len(part):
                model.partial_fit(X[part], y[part])
        sites.append(model)
    path = tmp_path_factory.mktemp("sites") / "site.safetensors"
    rm.save(sites[1], path)
    model = sites[0].merge(rm.load(path)).unlearn(X[gone], y[gone])
    rm.save(model, path)
    assert_is_lda(rm.load(path), X[~gone], y[~gone], X)


def test_digits_equal_scikit_learn_and_are_better_read_than_by_ridge():
    X, y = load_digits(return_X_y=True)
    X = X / 16.0  # three columns are zero in every row
    model = model_of(1.0)
    for k in (7, 2, 9, 0, 1, 8, 3, 6, 4, 5):
        model.partial_fit(X[y == k], y[y == k])
    assert_is_lda(model, X, y, X)
    model.unlearn(X[y == 3], y[y == 3])
    assert_is_lda(model, X[y != 3], y[y != 3], X)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
def test_any_scale_and_a_far_offset(scale):
    X, y = clouds(2, 5, 6, 300)
    X = scale * (X + 100.0)
    model = model_of(1e-3 * scale**2)
    for part in np.array_split(np.arange(300), 7):
        model.partial_fit(X[part], y[part])
    assert_is_lda(model, X, y, X)


def test_columns_of_very_different_scales_and_constant_ones():
    X, y = clouds(3, 4, 8, 300)
    X = X * np.logspace(-3, 3, 8)
    X[:, 2] = 5.0
    assert_is_lda(model_of(1.0).fit(X, y), X, y, X)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("classes", "features"), [(4, 6), (9, 3)])
def test_rows_that_are_tiny_beside_the_ridge_have_the_discriminant_of_full_shrinkage(classes, features, intercept):
    X, y = clouds(16, classes, features, 200)
    model = model_of(1.0, fit_intercept=intercept).fit(1e-9 * X, y)
    assert model.shrinkage_ == pytest.approx(1, abs=1e-12)
    sphere = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=1.0).fit(X, y)
    expected = contrasts(sphere, X)
    np.testing.assert_allclose(contrasts(model, 1e-9 * X), expected, atol=1e-9 * np.abs(expected).max())


def test_classes_a_thousand_deviations_apart():
    X, y = clouds(4, 3, 5, 120, spread=1e3)
    assert_is_lda(model_of(1.0).fit(X, y), X, y, X)


def test_single_precision_keeps_its_digits():
    X, y = clouds(5, 5, 12, 500)
    single, double = (model_of(1.0, dtype=dtype).fit(X, y) for dtype in ("float32", "float64"))
    assert single.decision_function(X).dtype == np.float32
    np.testing.assert_allclose(
        contrasts(single, X), contrasts(double, X), atol=1e-4 * np.abs(contrasts(double, X)).max()
    )


def test_a_weight_counts_as_so_many_rows():
    X, y = clouds(6, 3, 4, 40)
    times = np.random.default_rng(0).integers(1, 4, 40)
    for intercept in (True, False):
        model = model_of(fit_intercept=intercept).fit(X, y, sample_weight=times)
        assert_is_lda(model, X.repeat(times, axis=0), y.repeat(times), X)


def test_forgetting_weighs_old_rows_less():
    X, y = clouds(7, 3, 4, 60)
    forget = 0.9
    model = rm.ContinualClassifier(rm.RLS(ridge=1.0, forget=forget), readout="discriminant").fit(X, y)
    weights = forget ** np.arange(len(y))[::-1]
    known = model_of(1.0 * forget ** len(y)).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(contrasts(model, X), contrasts(known, X), atol=1e-8)


def test_automatic_ridge():
    X, y = clouds(8, 4, 6, 200)
    assert_is_lda(rm.ContinualClassifier(rm.RLS(ridge="auto"), readout="discriminant").fit(X, y), X, y, X)


def test_the_readout_can_be_changed_at_any_time():
    X, y = clouds(9, 4, 6, 200)
    model = rm.ContinualClassifier(rm.RLS(ridge=2.0)).fit(X, y)
    ridge = model.decision_function(X)
    model.set_params(readout="discriminant")
    assert_is_lda(model, X, y, X)
    model.set_params(method__ridge=5.0)
    assert_is_lda(model, X, y, X)
    assert model.shrinkage_ > 0.01
    model.set_params(readout="ridge", method__ridge=2.0)
    np.testing.assert_allclose(model.decision_function(X), ridge, atol=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("classes", [2, 4])
def test_coefficients_are_those_of_the_scores(classes, intercept):
    X, y = clouds(10, classes, 6, 100)
    model = model_of(fit_intercept=intercept).fit(X, y)
    scores = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(scores.reshape(model.decision_function(X).shape), model.decision_function(X), atol=1e-9)


def test_uniform_prior_leaves_out_the_shares():
    X, y = clouds(11, 3, 4, 200)
    keep = (y > 0) | (np.arange(200) < 60)
    X, y = X[keep], y[keep]
    seen, uniform = model_of().fit(X, y), model_of(prior="uniform").fit(X, y)
    shares = np.log(np.bincount(y) / len(y))
    np.testing.assert_allclose(
        seen.decision_function(X) - uniform.decision_function(X), shares + 0 * X[:, :1], atol=1e-9
    )


def test_announced_classes_are_never_predicted():
    X, y = clouds(12, 3, 4, 60)
    for intercept in (True, False):
        model = model_of(fit_intercept=intercept).partial_fit(X, y, classes=[0, 1, 2, 9])
        plain = model_of(fit_intercept=intercept).fit(X, y)
        assert set(model.predict(1e6 * X)) <= {0, 1, 2}
        np.testing.assert_allclose(model.decision_function(X)[:, :3], plain.decision_function(X), atol=1e-9)
        model.partial_fit(X[:5] + 3, [9] * 5)
        assert_is_lda(model, np.vstack([X, X[:5] + 3]), np.append(y, [9] * 5), X)


def test_small_data_have_an_answer():
    X = np.random.default_rng(0).standard_normal((6, 3))
    assert model_of().fit(X[:1], ["a"]).predict(X).tolist() == ["a"] * 6
    assert model_of().fit(X, ["a"] * 6).predict(X).tolist() == ["a"] * 6
    singles = model_of().fit(X, list("abcdef"))  # no spread within classes at all
    assert np.isfinite(singles.decision_function(X)).all()
    assert singles.predict(X).tolist() == list("abcdef")
    alike = model_of().fit(np.ones((4, 2)), [0, 0, 1, 1])
    assert np.isfinite(alike.decision_function(X[:, :2])).all()


def test_copies_and_pickles_answer_alike():
    X, y = clouds(13, 4, 6, 100)
    model = model_of().fit(X, y)
    before = model.decision_function(X)
    twin = copy.copy(model)
    for other in (twin, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.decision_function(X), before)
    model.partial_fit(X[:50] + 2, y[:50])
    np.testing.assert_array_equal(twin.decision_function(X), before)
    assert np.abs(model.decision_function(X) - before).max() > 0.1


@pytest.mark.parametrize(
    "method", [rm.LMS(), rm.APA(buffer=2), rm.ICL(), rm.RLS(forget=0), rm.RLS(forget="auto"), rm.LowRankRLS(3)], ids=str
)
def test_methods_without_the_scatter_name_rls(method):
    X, y = clouds(14, 3, 40, 10)
    model = rm.ContinualClassifier(method, readout="discriminant")
    with pytest.raises(rm.InputError, match="RLS"):
        model.fit(X, y)
    model.set_params(readout="ridge").fit(X, y).set_params(readout="discriminant")
    with pytest.raises(rm.InputError, match="RLS"):
        model.predict(X)


def test_a_wrong_word_is_refused_and_changes_nothing():
    X, y = clouds(15, 3, 4, 30)
    model = model_of().fit(X, y)
    before = model.decision_function(X)
    model.set_params(readout="quadratic")
    for call in (lambda: model.predict(X), lambda: model.partial_fit(X, y)):
        with pytest.raises(rm.InputError, match="readout"):
            call()
    np.testing.assert_array_equal(model.set_params(readout="discriminant").decision_function(X), before)


def test_unlearning_is_exact_where_columns_depend_on_each_other():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 4, 300)
    X = np.column_stack([np.eye(4)[kind], rng.standard_normal((300, 3))])  # with the intercept, one column too many
    y = (X[:, 4] + kind / 2 > 0.7).astype(int) + (X[:, 5] > 1)
    model = rm.ContinualClassifier(readout="discriminant").fit(X, y).unlearn(X[:50], y[:50])
    rest = rm.ContinualClassifier(readout="discriminant").fit(X[50:], y[50:])
    np.testing.assert_allclose(model.decision_function(X), rest.decision_function(X), atol=1e-10)
    assert model.shrinkage_ == pytest.approx(rest.shrinkage_, rel=1e-12)
