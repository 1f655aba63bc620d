"""Rows that only the frozen features can read: they receive them as they come."""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import Ridge
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import remanence as rm

pandas = pytest.importorskip("pandas")
ONE_MISSING = np.where(np.arange(60).reshape(20, 3) % 7 == 0, np.nan, np.arange(60.0).reshape(20, 3) % 11)
TEXTS = ["the cat sat", "a cat and a dog", "stocks fell", "stocks rose", "dogs bark", "markets rose", "the dog"]
TOPICS = np.array(["pets", "pets", "money", "money", "pets", "money", "pets"])
AIMS = np.arange(7.0)
TABLE = pandas.DataFrame(
    {"city": list("abcabca"), "size": AIMS**2, "note": TEXTS, "when": pandas.date_range("2020", periods=7)}
)


def encoder():
    return ColumnTransformer(
        [("c", OneHotEncoder(), ["city"]), ("s", StandardScaler(), ["size"]), ("n", TfidfVectorizer(), "note")]
    ).fit(TABLE)


@pytest.mark.parametrize(
    "rows", [TEXTS, tuple(TEXTS), np.array(TEXTS), pandas.Series(TEXTS).to_numpy(), pandas.Series(TEXTS)], ids=type
)
@pytest.mark.parametrize("features", [TfidfVectorizer().fit(TEXTS), HashingVectorizer(n_features=64)], ids=str)
def test_texts_reach_a_vectorizer(rows, features):
    model = (
        rm.ContinualClassifier(features=features).partial_fit(rows[:4], TOPICS[:4]).partial_fit(rows[4:], TOPICS[4:])
    )
    plain = rm.ContinualClassifier().fit(features.transform(TEXTS).toarray(), TOPICS)
    np.testing.assert_allclose(model.decision_function(rows), plain.decision_function(features.transform(TEXTS)), 1e-9)
    model.unlearn(rows[:2], TOPICS[:2])
    left = rm.ContinualClassifier().fit(features.transform(TEXTS[2:]), TOPICS[2:])
    np.testing.assert_allclose(model.decision_function(rows), left.decision_function(features.transform(TEXTS)), 1e-8)


def test_a_table_reaches_a_column_transformer(tmp_path):
    features = encoder()
    model = rm.ContinualRegressor(rm.RLS(0.5), features=features).fit(TABLE[:4], AIMS[:4])
    rm.save(model, tmp_path / "m")
    model = rm.load(tmp_path / "m", features=features)
    other = rm.ContinualRegressor(rm.RLS(0.5), features=features).fit(TABLE[4:], AIMS[4:])
    model.merge(other)
    encoded = features.transform(TABLE)
    encoded = encoded if isinstance(encoded, np.ndarray) else encoded.toarray()
    np.testing.assert_allclose(model.predict(TABLE), Ridge(0.5).fit(encoded, AIMS).predict(encoded), atol=1e-9)


def test_dictionaries_reach_a_dict_vectorizer():
    rows = TABLE[["city", "size"]].to_dict("records")
    features = DictVectorizer().fit(rows)
    model = rm.ContinualRegressor(features=features).fit(rows, AIMS)
    plain = rm.ContinualRegressor().fit(features.transform(rows).toarray(), AIMS)
    np.testing.assert_allclose(model.predict(rows), plain.predict(features.transform(rows)), atol=1e-9)


def test_what_the_features_cannot_read_is_refused():
    model = rm.ContinualRegressor(features=encoder()).fit(TABLE, AIMS)
    before = dict(vars(model))
    for rows in (
        TABLE.drop(columns="note"),
        TABLE.rename(columns={"city": "town"}),
        TEXTS,
        TABLE[:0],
    ):
        with pytest.raises(rm.InputError):
            model.predict(rows)
        with pytest.raises(rm.InputError):
            model.partial_fit(rows, AIMS[: len(rows)])
    assert all(vars(model)[name] is value for name, value in before.items())
    with pytest.raises(rm.InputError, match="fitted"):
        rm.ContinualClassifier(features=TfidfVectorizer()).fit(TEXTS, TOPICS)
    for rows in (TEXTS, TABLE):
        with pytest.raises(rm.InputError):
            rm.ContinualClassifier(features=StandardScaler().fit(np.eye(3))).fit(rows, TOPICS)
        with pytest.raises(rm.InputError):
            rm.ContinualClassifier(features=rm.RandomFeatures(5)).fit(rows, TOPICS)


def test_vectorizers_of_other_weights_are_told_apart():
    model = rm.ContinualClassifier(features=TfidfVectorizer().fit(TEXTS)).fit(TEXTS, TOPICS)
    model.features = TfidfVectorizer().fit(TEXTS + TEXTS[:1])
    with pytest.raises(rm.InputError, match="encoder"):
        model.predict(TEXTS)


@pytest.mark.parametrize("frame", [False, True], ids=["array", "frame"])
@pytest.mark.parametrize("kind", [rm.ContinualClassifier, rm.ContinualRegressor])
def test_imputers_see_what_is_missing(kind, frame):
    """Rows of numbers reach the features with their NaN, which an imputer fills in and others may leave."""
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline

    y = np.arange(20) % 2
    X = pandas.DataFrame(ONE_MISSING, columns=list("abc")) if frame else ONE_MISSING
    inner = make_pipeline(SimpleImputer(), StandardScaler())
    features = ColumnTransformer([("all", inner, list("abc") if frame else [0, 1, 2])]).fit(X)
    model = kind(features=features).fit(X[:12], y[:12]).partial_fit(X[12:], y[12:])
    plain = kind().fit(features.transform(X), y)
    np.testing.assert_allclose(model.design_matrix(X)[:, 1:].std(axis=0), features.transform(X).std(axis=0))
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X[:3]).round(9), plain.predict(features.transform(X[:3])).round(9))
    left = kind().fit(features.transform(X[:15]), y[:15])
    np.testing.assert_allclose(model.unlearn(X[15:], y[15:]).coef_, left.coef_, rtol=1e-8, atol=1e-12)
    for wrong in (StandardScaler().fit(X), rm.RandomFeatures(5), None):
        with pytest.raises(rm.InputError, match="NaN"):
            kind(features=wrong).fit(X, y)
    with pytest.raises(rm.InputError, match="infinity"):
        kind(features=features).fit(X.replace(3.0, np.inf) if frame else np.where(X == 3, np.inf, X), y)


@pytest.mark.parametrize("kind", [rm.ContinualClassifier, rm.ContinualRegressor])
def test_matrices_and_masked_entries_are_refused_in_words(kind):
    X, y = np.arange(60.0).reshape(20, 3) % 11, np.arange(20) % 2
    model = kind().fit(X, y)
    hidden = np.ma.masked_array(X, X > 9)
    for call in (model.predict, lambda X: model.partial_fit(X, y), lambda X: model.unlearn(X, y)):
        with pytest.raises(rm.InputError, match=r"np\.asarray"):
            call(np.asmatrix(X))
        with pytest.raises(rm.InputError, match="without masked entries"):
            call(hidden)
    with pytest.raises(rm.InputError, match=r"np\.asarray"):
        model.partial_fit(X, np.asmatrix(y).T)
    with pytest.raises(rm.InputError, match="without masked entries"):
        model.partial_fit(X, np.ma.masked_array(y, y == 1))
    np.testing.assert_array_equal(model.predict(np.ma.masked_array(X, False)), model.predict(X))
