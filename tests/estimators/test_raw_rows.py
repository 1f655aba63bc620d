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


@pytest.mark.parametrize("rows", [TEXTS, tuple(TEXTS), np.array(TEXTS), pandas.Series(TEXTS).to_numpy()], ids=type)
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
