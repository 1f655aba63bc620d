"""Containers and labels of other libraries: taken as the numbers they hold, or refused by an error of ours."""

import warnings
from datetime import date
from decimal import Decimal

import numpy as np
import pytest

import remanence as rm

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
X = np.random.default_rng(0).integers(0, 5, (12, 3)).astype(float)
Y = np.arange(12) % 3
COLUMNS = {name: X[:, j].tolist() for j, name in enumerate("abc")}
GAPS = {**COLUMNS, "b": [None, *COLUMNS["b"][1:]]}
RECORDS = np.rec.fromarrays(list(X.T), names="a,b,c")


class Unreadable:
    def __array__(self, *_, **__):
        raise RuntimeError("no")


ROWS = {
    "matrix": np.asmatrix(X),
    "records": RECORDS,
    "structured": np.array([tuple(row) for row in X], [("a", float), ("b", float), ("c", float)]),
    "masked": np.ma.masked_array(X, X > 3),
    "objects": X.astype(object),
    "objects of several kinds": np.array([[1, "a", None]] * 12, object),
    "decimals": np.array([[Decimal(1)] * 3] * 12, object),
    "dates": np.full((12, 3), np.datetime64("2020-01-01")),
    "days": [[date(2020, 1, 1)] * 3] * 12,
    "large integers": [[10**400] * 3] * 12,
    "integers beyond float": [[2**70, 1, 1]] * 12,
    "rows of unequal length": [[1.0], [1.0, 2.0]] * 6,
    "pandas, nullable": pandas.DataFrame(COLUMNS).astype("Float64"),
    "pandas, gaps": pandas.DataFrame(GAPS).astype("Float64"),
    "pandas, arrow": pandas.DataFrame(COLUMNS).astype("float64[pyarrow]"),
    "pandas, arrow with gaps": pandas.DataFrame(GAPS).astype("float64[pyarrow]"),
    "pandas, categories": pandas.DataFrame(COLUMNS).astype("category"),
    "pandas, dates": pandas.DataFrame({**COLUMNS, "b": pandas.Timestamp("2020-01-01")}),
    "polars": polars.DataFrame(COLUMNS),
    "polars, gaps": polars.DataFrame(GAPS),
    "polars, text": polars.DataFrame({**COLUMNS, "b": ["x"] * 12}),
    "polars, lazy": polars.DataFrame(COLUMNS).lazy(),
    "arrow": pyarrow.table(COLUMNS),
    "arrow, gaps": pyarrow.table(GAPS),
    "arrow array": pyarrow.array(COLUMNS["a"]),
    "columns": COLUMNS,
    "dictionaries": [{"a": 1.0, "b": 2.0, "c": float(i)} for i in range(12)],
    "dictionaries with gaps": [{"a": 1.0, "b": None, "c": 1.0}] * 12,
    "nothing": None,
    "text": "abc",
    "a number": 3,
    "an array of no dimension": np.array(3.0),
    "an array that cannot be read": Unreadable(),
    "texts": ["a", "b"] * 6,
    "bytes": [b"a"] * 12,
    "an empty list": [],
    "three dimensions": np.zeros((12, 3, 1)),
    "timedeltas": np.zeros((12, 3), "m8[s]"),
}
LABELS = {
    "bytes": [b"a", b"b", b"c"] * 4,
    "bytes array": np.array([b"a", b"bb", b"c"] * 4),
    "integers and text": [1, "a", 2] * 4,
    "booleans and integers": [True, 1, 2] * 4,
    "booleans": [True, False, True] * 4,
    "gaps": ["a", None, "b"] * 4,
    "NaN": [1.0, np.nan, 2.0] * 4,
    "pandas, gaps": pandas.Series([1, None, 2] * 4, dtype="Int64"),
    "pandas, text": pandas.Series(["a", "b", "c"] * 4, dtype="string"),
    "pandas, categories": pandas.Series(["a", "b", "c"] * 4, dtype="category"),
    "pandas, arrow": pandas.Series([1, 2, 3] * 4, dtype="int64[pyarrow]"),
    "polars": polars.Series([1, 2, 3] * 4),
    "polars, gaps": polars.Series([1, None, 3] * 4),
    "arrow": pyarrow.array(["a", "b", "c"] * 4),
    "arrow, gaps": pyarrow.array(["a", None, "c"] * 4),
    "arrow chunks": pyarrow.chunked_array([["a", "b", "c"] * 2] * 2),
    "dates": np.array(["2020-01-01", "2020-01-02", "2020-01-03"] * 4, "M8[D]"),
    "large integers": [10**400, 1, 2] * 4,
    "sets": [{1, 2}, {1}, set()] * 4,
    "dictionaries": [{"a": 1}] * 12,
    "an indicator matrix": np.eye(3, dtype=int)[Y],
    "complex": Y + 1j,
    "masked": np.ma.masked_array(Y, Y == 1),
    "matrix": np.asmatrix(Y),
    "records": np.rec.fromarrays([Y, Y]),
    "nothing": None,
    "text": "abc",
    "too few": [0, 1],
}
CLASSES = [rm.ContinualClassifier, rm.ContinualRegressor]


def attempt(model, name, *given):
    """Whether a call was accepted; one that was refused has changed nothing."""
    before = dict(vars(model))
    try:
        getattr(model, name)(*given)
        return True
    except (rm.InputError, rm.NumericalError):
        assert vars(model).keys() == before.keys() and all(vars(model)[k] is before[k] for k in before)
        return False


@pytest.mark.parametrize("grow", [False, True])
@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("name", ROWS)
def test_rows_are_taken_or_refused_in_words(name, kind, grow):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for taught in (X, pandas.DataFrame(COLUMNS)):
            attempt(kind(grow_features=grow), "fit", ROWS[name], Y)
            for call in ("predict", "partial_fit", "unlearn", "merge"):
                model = kind(grow_features=grow).fit(taught, Y)
                attempt(model, call, ROWS[name], *([Y] if call in ("partial_fit", "unlearn") else []))


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("name", ROWS)
def test_tables_are_taken_or_refused_in_words(name, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attempt(kind(features=rm.TableFeatures()), "fit", ROWS[name], Y)
        for call in ("predict", "partial_fit", "unlearn"):
            model = kind(features=rm.TableFeatures()).fit(pandas.DataFrame(COLUMNS), Y)
            attempt(model, call, ROWS[name], *((Y,) if call != "predict" else ()))


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("name", LABELS)
def test_labels_are_taken_or_refused_in_words(name, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in ("fit", "partial_fit", "unlearn", "score"):
            attempt(kind().fit(X, Y), call, X, LABELS[name])
        attempt(kind(), "partial_fit", X, LABELS[name])


@pytest.mark.parametrize("name", ["pandas, nullable", "pandas, arrow", "polars", "objects", "dictionaries"])
def test_numbers_are_taken_whatever_holds_them(name):
    for kind in CLASSES:
        rows = ROWS[name]
        plain = X if name != "dictionaries" else np.array([list(row.values()) for row in rows])
        np.testing.assert_array_equal(kind().fit(rows, Y).coef_, kind().fit(plain, Y).coef_)


@pytest.mark.parametrize("name", ["bytes", "bytes array", "booleans", "pandas, text", "pandas, categories", "arrow"])
def test_labels_of_every_kind_are_classes(name, tmp_path):
    model = rm.ContinualClassifier().partial_fit(X[:6], LABELS[name][:6]).partial_fit(X[6:], LABELS[name][6:])
    rm.save(model, tmp_path / "m")
    codes = np.unique([str(label) for label in LABELS[name]], return_inverse=True)[1]
    assert np.unique(rm.load(tmp_path / "m").predict(X), return_inverse=True)[1].shape == (12,)
    plain = rm.ContinualClassifier().fit(X[:6], codes[:6]).partial_fit(X[6:], codes[6:])
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-12)
    np.testing.assert_array_equal(np.searchsorted(model.classes_, model.predict(X)), plain.predict(X))


@pytest.mark.parametrize("name", ["gaps", "NaN", "pandas, gaps", "polars, gaps", "masked"])
def test_rows_without_a_label_are_skipped_by_choice(name, tmp_path):
    y = LABELS[name]
    with pytest.raises(rm.InputError):
        rm.ContinualClassifier().fit(X, y)
    model = rm.ContinualClassifier(missing_labels="skip").fit(X, y, sample_weight=np.arange(1.0, 13.0))
    model.partial_fit(X[1:2], [None])
    there = np.array([i for i in range(12) if i % 3 != 1]) if name != "masked" else np.flatnonzero(Y != 1)
    plain = rm.ContinualClassifier().fit(X[there], Y[there], sample_weight=there + 1.0)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-12)
    assert model.n_seen_ == 8
    rm.save(model, tmp_path / "m")
    model = rm.load(tmp_path / "m").unlearn(X[:6], y[:6], sample_weight=np.arange(1.0, 7.0))
    left = there[there >= 6]
    np.testing.assert_allclose(
        model.coef_, rm.ContinualClassifier().fit(X[left], Y[left], sample_weight=left + 1.0).coef_, atol=1e-10
    )
    with pytest.raises(rm.InputError, match="at least one row with a label"):
        rm.ContinualClassifier(missing_labels="skip").fit(X, [None] * 12)
