"""Columns that come and go: the model equals one that had all of them from the beginning, absent ones as 0."""

import numpy as np
import pytest
import scipy.sparse as sparse
from sklearn.linear_model import Ridge

import remanence as rm

pandas = pytest.importorskip("pandas")
NAMES = [f"c{j}" for j in range(6)]
METHODS = [rm.RLS(0.3), rm.RLS("auto"), rm.RLS(0.3, forget=0.97), rm.LowRankRLS(20, 0.3), rm.LMS(0.5)]


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = pandas.DataFrame(rng.standard_normal((n, 6)) + 3, columns=NAMES)
    X.loc[:19, ["c4", "c5"]] = 0.0  # not there yet
    X.loc[40:, "c1"] = 0.0  # gone
    y = X.to_numpy() @ rng.standard_normal(6) + 0.1 * rng.standard_normal(n)
    return X, y


def parts(X):
    """As they come: two columns later, in another order, one gone."""
    return X.loc[:19, NAMES[:4]], X.loc[20:39, ["c5", *NAMES[:5]]], X.loc[40:, ["c4", "c0", "c5", "c3", "c2"]]


def as_dicts(frame):
    return frame.to_dict("records")


@pytest.mark.parametrize("form", ["table", "dictionaries"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_equals_a_model_of_all_columns(method, intercept, form):
    X, y = table()
    cut = (y[:20], y[20:40], y[40:])
    for kind, change in ((rm.ContinualRegressor, lambda v: v), (rm.ContinualClassifier, lambda v: v > np.median(y))):
        model = kind(method, fit_intercept=intercept, grow_features=True)
        whole = kind(method, fit_intercept=intercept)
        for own, full, aim in zip(parts(X), (X[:20], X[20:40], X[40:]), cut, strict=True):
            model.partial_fit(own if form == "table" else as_dicts(own), change(aim))
            whole.partial_fit(full, change(aim))
        assert model.feature_names_in_.tolist() == ["c0", "c1", "c2", "c3", "c5", "c4"]
        ask = "predict" if kind is rm.ContinualRegressor else "class_scores"
        for given in (X, X[NAMES[::-1]], as_dicts(X)):
            np.testing.assert_allclose(getattr(model, ask)(given), getattr(whole, ask)(X), atol=1e-9)
        gone = X.drop(columns="c2")
        np.testing.assert_allclose(
            getattr(model, ask)(gone.assign(other=7.0)), getattr(whole, ask)(X.assign(c2=0.0)), atol=1e-9
        )


def test_unlearning_merging_and_saving(tmp_path):
    X, y = table()
    first, second, third = parts(X)
    made = lambda: rm.ContinualRegressor(rm.RLS(0.3), grow_features=True)
    one, two = made().fit(first, y[:20]), made().fit(third, y[40:])
    rm.save(one, tmp_path / "m")
    one = rm.load(tmp_path / "m").partial_fit(second, y[20:40]).merge(two).unlearn(second[5:10], y[25:30])
    kept = np.r_[0:25, 30:60]
    oracle = Ridge(0.3).fit(X.iloc[kept], y[kept])
    np.testing.assert_allclose(one.predict(X), oracle.predict(X), atol=1e-8)
    assert one.n_features_in_ == 6
    with pytest.raises(rm.InputError, match="learned, got others in x"):
        one.unlearn(second[:1].assign(x=1.0), y[20:21])
    labels = (y > 0).astype(int)
    a = rm.ContinualClassifier(rm.RLS(0.3), grow_features=True, class_weight="balanced").fit(first, labels[:20])
    a.partial_fit(second, labels[20:40]).merge(
        rm.ContinualClassifier(rm.RLS(0.3), grow_features=True, class_weight="balanced").fit(third, labels[40:])
    )
    b = rm.ContinualClassifier(rm.RLS(0.3), class_weight="balanced").fit(X, labels)
    np.testing.assert_allclose(a.class_scores(X), b.class_scores(X), atol=1e-8)


def test_standardized_columns_and_sparse_rows_grow_too():
    X, y = table()
    model = rm.ContinualRegressor(rm.RLS(0.3), scale="standard", grow_features=True)
    for own, aim in zip(parts(X), (y[:20], y[20:40], y[40:]), strict=True):
        model.partial_fit(own, aim)
    whole = rm.ContinualRegressor(rm.RLS(0.3), scale="standard").fit(X, y)
    np.testing.assert_allclose(model.predict(X), whole.predict(X), atol=1e-8)
    S = sparse.csr_array(X.to_numpy())
    thin = rm.ContinualRegressor(rm.RLS(0.3), grow_features=True).fit(S[:20, :4], y[:20]).partial_fit(S[20:], y[20:])
    full = rm.ContinualRegressor(rm.RLS(0.3)).fit(X.to_numpy(), y)
    np.testing.assert_allclose(thin.predict(S), full.predict(X.to_numpy()), atol=1e-9)
    np.testing.assert_allclose(thin.predict(S[:, :3]), full.predict(X.assign(c3=0, c4=0, c5=0).to_numpy()), atol=1e-9)


def test_by_default_other_columns_are_refused_with_a_way_out():
    X, y = table()
    model = rm.ContinualRegressor().fit(X, y)
    before = dict(vars(model))
    with pytest.raises(rm.InputError, match="feature names"):
        model.partial_fit(X.assign(new=1.0), y)
    for rows in (as_dicts(X.assign(new=1.0)), as_dicts(X.drop(columns="c0")), [{"c0": 1.0}, {"c1": 2.0}]):
        for call in (lambda given: model.partial_fit(given, y[: len(given)]), model.predict):
            with pytest.raises(rm.InputError, match="grow_features=True"):
                call(rows)
    assert all(vars(model)[name] is value for name, value in before.items())
    np.testing.assert_allclose(model.predict(as_dicts(X[NAMES[::-1]])), model.predict(X))
    with pytest.raises(rm.InputError, match=r"same columns.*grow_features=True"):
        model.merge(rm.ContinualRegressor().fit(X.rename(columns={"c0": "zero"}), y))
    turned = rm.ContinualRegressor().fit(X[NAMES[::-1]], y)
    np.testing.assert_allclose(
        model.merge(turned).predict(X), rm.ContinualRegressor().fit(pandas.concat([X, X]), np.r_[y, y]).predict(X)
    )


@pytest.mark.parametrize(
    "rows",
    [
        [{"a": "text"}],
        [{"a": None}],
        [{"a": np.nan}],
        [{"a": 10**400}],
        [{1: 1.0}],
        [{}],
        [{"a": 1.0}, 3],
        [{"a": 1j}],
        pandas.DataFrame([[1.0, 2.0]], columns=["a", "a"]),
        pandas.DataFrame({"a": ["text"]}),
        pandas.DataFrame({0: [1.0], "0": [2.0]}),
    ],
    ids=repr,
)
def test_rows_that_are_no_numbers_by_name_are_refused(rows):
    model = rm.ContinualRegressor(grow_features=True)
    with pytest.raises(rm.InputError):
        model.fit(rows, np.arange(len(rows)))
    model.fit(pandas.DataFrame({"a": [1.0, 2.0]}), [1.0, 2.0])
    before = dict(vars(model))
    with pytest.raises(rm.InputError):
        model.partial_fit(rows, np.arange(len(rows)))
    with pytest.raises(rm.InputError):
        model.partial_fit(np.ones((2, 3)), [1.0, 2.0])
    assert all(vars(model)[name] is value for name, value in before.items())


def test_methods_that_cannot_grow_and_frozen_features_say_so():
    X, y = table()
    model = rm.ContinualRegressor(rm.ICL(), grow_features=True).fit(X[["c0"]], y)
    with pytest.raises(rm.InputError, match="features can grow"):
        model.partial_fit(X, y)
    with pytest.raises(rm.InputError, match="grow_features=False"):
        rm.ContinualRegressor(features=rm.RandomFeatures(5), grow_features=True).fit(X, y)


@pytest.mark.parametrize("columns", [["a", "b", "c"], ["b"]])
def test_the_error_for_other_columns_says_how_to_let_them_come_and_go(columns):
    table = pandas.DataFrame(np.ones((4, 3)), columns=list("abc"))
    model = rm.ContinualRegressor().fit(table[["a", "b"]], np.arange(4.0))
    with pytest.raises(rm.InputError, match="grow_features=True"):
        model.partial_fit(table[columns], np.arange(4.0))
