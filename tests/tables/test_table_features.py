"""Tables of any kind as numbers: against scikit-learn's encoders, growing, unlearning and merging exactly."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import Ridge
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

import remanence as rm
from remanence.tables.encoding.kinds import guess_kinds

WORDS = ["red", "blue", "large", "small", "old", "new", "cheap", "dear"]


def frame(rows, cities, seed=0, gaps=0.0):
    rng = np.random.default_rng(seed)
    found = pd.DataFrame(
        {
            "price": rng.normal(size=rows),
            "city": rng.choice(cities, rows),
            "sold": rng.random(rows) > 0.5,
            "note": [" ".join(rng.choice(WORDS, 6)) for _ in range(rows)],
            "when": pd.Timestamp("2023-11-01") + pd.to_timedelta(rng.integers(0, 10**7, rows), "s"),
        }
    )
    for name in ("price", "city"):
        found.loc[rng.random(rows) < gaps, name] = None
    return found, found["price"].fillna(0).to_numpy() + rng.normal(size=rows)


def calendar(times):
    """Calendar parts, written with pandas."""
    t = times.iloc[:, 0]
    angle = 2 * np.pi * (t.dt.day_of_year - 1) / 365.2425
    hour = 2 * np.pi * ((t - t.dt.normalize()).dt.total_seconds()) / 86400
    year = (t - pd.Timestamp("2000-01-01")).dt.total_seconds() / 86400 / 365.2425
    days = [(t.dt.day_of_week == k).astype(float) for k in range(7)]
    return np.column_stack([year, np.sin(angle), np.cos(angle), *days, np.sin(hour), 1 - np.cos(hour)])


def oracle(table, width):
    """Numbers as scikit-learn's encoders make them of the whole table, in an order of their own."""
    return make_column_transformer(
        (FunctionTransformer(lambda part: part.astype(float)), ["price", "sold"]),
        (OneHotEncoder(), ["city"]),
        (HashingVectorizer(n_features=width), "note"),
        (FunctionTransformer(calendar), ["when"]),
        sparse_threshold=0,
    ).fit(table)


def test_a_table_in_parts_is_the_ridge_of_all_of_it_through_encoders_of_scikit_learn():
    (first, a), (second, b) = frame(70, ["Rome", "Oslo"]), frame(80, ["Lima", "Rome", "Bonn"], 1)
    both, y = pd.concat([first, second], ignore_index=True), np.concatenate([a, b])
    encoder = oracle(both, 16)
    joint = Ridge(1.0).fit(encoder.transform(both), y)
    model = rm.ContinualRegressor(features=rm.TableFeatures(text_width=16)).partial_fit(first, a).partial_fit(second, b)
    np.testing.assert_allclose(model.predict(both), joint.predict(encoder.transform(both)), atol=1e-9)
    assert model.features_.kinds_ == dict(zip(first, ["number", "category", "truth", "text", "date"], strict=True))
    theirs = rm.ContinualRegressor(features=rm.TableFeatures(text_width=16)).fit(second, b)
    ours = rm.ContinualRegressor(features=rm.TableFeatures(text_width=16)).fit(first, a).merge(theirs)
    np.testing.assert_allclose(ours.predict(both), joint.predict(encoder.transform(both)), atol=1e-9)
    ours.unlearn(first, a)
    np.testing.assert_allclose(ours.predict(second), theirs.predict(second), atol=1e-9)
    assert "Oslo" not in str(ours.features_.encoding_)


@given(
    st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6), min_size=2, max_size=6), st.integers(0, 99)
)
@settings(max_examples=25, deadline=None)
def test_the_order_in_which_values_come_changes_nothing(parts, seed):
    rng = np.random.default_rng(seed)
    tables = [{"kind": list(part), "size": rng.normal(size=len(part))} for part in parts]
    ys = [rng.normal(size=len(part)) for part in parts]
    whole = {n: np.concatenate([np.asarray(t[n], object) for t in tables]).tolist() for n in ("kind", "size")}
    features = rm.TableFeatures({"kind": "category"})
    joint = rm.ContinualRegressor(features=features).fit(whole, np.concatenate(ys))
    grown = rm.ContinualRegressor(features=features)
    for table, y in zip(reversed(tables), reversed(ys), strict=True):
        grown.partial_fit(table, y)
    np.testing.assert_allclose(grown.predict(whole), joint.predict(whole), atol=1e-9)
    grown.unlearn(tables[0], ys[0])
    rest = [rm.ContinualRegressor(features=features).fit(t, y) for t, y in zip(tables[1:], ys[1:], strict=True)]
    merged = rest[0]
    for other in rest[1:]:
        merged.merge(other)
    np.testing.assert_allclose(grown.predict(whole), merged.predict(whole), atol=1e-7)
    assert sorted(grown.features_.encoding_.columns[0].values) == sorted(set().union(*parts[1:]))


@pytest.mark.parametrize("readout", ["ridge", "discriminant"])
def test_a_classifier_of_tables_grows_and_unlearns(readout):
    (first, a), (second, b) = frame(70, ["Rome", "Oslo"]), frame(80, ["Lima", "Rome"], 1)
    both, y = pd.concat([first, second], ignore_index=True), np.concatenate([a, b]) > 0
    make = lambda: rm.ContinualClassifier(features=rm.TableFeatures(text_width=8), readout=readout)
    grown = make().partial_fit(first, y[:70]).partial_fit(second, y[70:])
    joint = make().fit(both, y)
    np.testing.assert_allclose(grown.decision_function(both), joint.decision_function(both), atol=1e-8)
    if readout == "discriminant":  # (whose shrinkage magnifies what rounding leaves of columns that sum to one)
        return
    grown.unlearn(second, y[70:])
    np.testing.assert_allclose(
        grown.decision_function(first), make().fit(first, y[:70]).decision_function(first), atol=1e-8
    )


def test_gaps_are_refused_or_columns_of_their_own():
    table, y = frame(60, ["Rome", "Oslo"], 2, gaps=0.2)
    with pytest.raises(rm.InputError, match=r"missing entries.*the first in row"):
        rm.ContinualRegressor(features=rm.TableFeatures()).fit(table, y)
    features = rm.TableFeatures(missing="indicator", text_width=4)
    model = rm.ContinualRegressor(features=features).partial_fit(table[:20], y[:20]).partial_fit(table[20:], y[20:])
    names = model.features_.get_feature_names_out().tolist()
    X = model.features_.transform(table)
    assert {"price?", "city?"} <= set(names)
    np.testing.assert_array_equal(X[:, names.index("price?")], table["price"].isna())
    np.testing.assert_array_equal(X[:, names.index("price")], table["price"].fillna(0))
    np.testing.assert_array_equal(X[:, names.index("city=Rome")], table["city"] == "Rome")
    np.testing.assert_allclose(model.predict(table), Ridge(1.0).fit(X, y).predict(X), atol=1e-9)


def test_values_never_met_are_zero_for_predictions_and_an_error_for_unlearning():
    model = rm.ContinualRegressor(features=rm.TableFeatures()).fit({"city": ["Rome", "Oslo"] * 4}, np.arange(8.0))
    assert model.features_.transform({"city": ["Lima"]}).tolist() == [[0.0, 0.0]]
    before = pickle.dumps(model)
    with pytest.raises(rm.InputError, match="'Lima' in the column 'city'"):
        model.unlearn({"city": ["Lima"]}, [1.0])
    with pytest.raises(rm.InputError, match="more often than learned"):
        model.unlearn({"city": ["Rome"] * 5}, [1.0] * 5)
    assert pickle.dumps(model) == before


def test_every_kind_of_table_is_the_same_table():
    table, _ = frame(40, ["Rome", "Oslo"], gaps=0.1)
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    coded = arrow.set_column(1, "city", arrow.column("city").combine_chunks().dictionary_encode())
    mapping = {name: table[name].tolist() for name in table}
    expected = rm.TableFeatures(missing="indicator", text_width=4).fit_transform(arrow)
    for other in (table, coded, table.astype({"city": "category"}), mapping, table.iloc[:, ::-1]):
        features = rm.TableFeatures(missing="indicator", text_width=4).fit(arrow)
        np.testing.assert_array_equal(features.transform(other), expected)


def test_text_that_holds_numbers_dates_and_truth_is_read_as_such():
    table = {
        "a": ["1", "2.5", "NA"],
        "b": ["yes", "no", "yes"],
        "c": ["2024-02-29", "2024-02-29T12:00", ""],
        "d": list("xyx"),
    }
    features = rm.TableFeatures(missing="indicator").fit(table)
    assert list(features.kinds_.values()) == ["number", "truth", "date", "category"]
    assert features.transform(table)[:, 0].tolist() == [1, 2.5, 0]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["31.01.2024", "1/2/24", "15.3.2024", "x"], "dates, such as '31.01.2024'"),
        (["01/31/2024 12:00", "02/28/2024 13:00", "03/31/2024 14:00"], "dates, such as '01/31/2024 12:00'"),
        (["2024/01/31", "2024/02/28", "2024/03/31"], "dates, such as '2024/01/31'"),
        (["$1,200.50", "$7", "\u20ac 3.5"], "numbers, such as '$1,200.50'"),
        (["12%", "3,5 %", "7%"], "numbers, such as '12%'"),
        (["1 234,5", "2 000", "1'000"], "numbers, such as '1 234,5'"),
        (["10 EUR", "-20 EUR", "30 EUR"], "numbers, such as '10 EUR'"),
        (["Rome", "Oslo", "Bonn"], ""),
        (["A-1", "B-2", "C-3"], ""),
        (["192.168.0.1", "10.0.0.1", "10.0.0.2"], ""),
        (["12%", "7%", "many", "few", "some", "most", "none of", "all of"], ""),  # too few to say so
        (["31.01.2024", "01.02.2024"], ""),
    ],
)
def test_dates_and_numbers_in_another_notation_are_named(values, said):
    column = pa.array(values * 20)
    guess = guess_kinds({"a": column}, {}, "here")
    assert guess.kinds == {"a": "category"}
    assert guess.reasons == ({"a": guess.reasons["a"]} if said else {}) and said in guess.reasons.get("a", "")
    assert guess_kinds({"a": column}, {"a": "category"}, "here").reasons == {}  # what was declared is not doubted


@pytest.mark.parametrize("values", [["00701", "10115"], ["1", "007", "NA"], ["1.5", "-01"]])
def test_numbers_that_begin_with_a_zero_may_be_codes(values):
    guess = guess_kinds({"zip": pa.array(values)}, {}, "here")
    assert guess.kinds == {"zip": "number"}
    code = next(value for value in values if value.lstrip("-").startswith("0"))
    assert guess.doubts("t.csv") == [
        f"the column 'zip' of t.csv is a number: '{code}' begins with a zero, which a number does not keep; is it a "
        f"category?"
    ]
    assert guess_kinds({"zip": pa.array(values)}, {"zip": "number"}, "here").reasons == {}


@pytest.mark.parametrize("values", [["0", "10"], ["0.5", "-0.25"], ["0", "1", "2"], ["1e-05", "100"]])
def test_other_numbers_with_zeros_are_not_doubted(values):
    assert guess_kinds({"a": pa.array(values)}, {}, "here").reasons == {}


@pytest.mark.parametrize("odd", ["2024-02-30", "soon"])
def test_dates_with_a_mistake_are_named(odd):
    dates = [f"2024-01-{day:02d}" for day in range(1, 13)]
    guess = guess_kinds({"when": pa.array([*dates, odd] * 10)}, {}, "here")
    assert guess.kinds == {"when": "category"} and f"most of it is dates, but '{odd}' is none" in guess.reasons["when"]
    assert guess_kinds({"when": pa.array([*dates, "", "NA"])}, {}, "here").kinds == {"when": "date"}


def test_vectors_are_as_many_columns_and_identifiers_are_left_out():
    rows = 40
    table = pa.table(
        {
            "id": range(rows),
            "code": [f"c{i}" for i in range(rows)],
            "embedding": pa.array([[float(i), 1.0, 2.0] for i in range(rows)], pa.list_(pa.float32(), 3)),
        }
    )
    with pytest.warns(UserWarning) as told:
        features = rm.TableFeatures().fit(table)
    assert [str(warning.message) for warning in told] == [
        "the column 'id' of the table is left out: it counts the rows",
        "the column 'code' of the table is left out: its text is different in every row",
    ]
    assert features.kinds_ == {"embedding": "embedding"}
    np.testing.assert_array_equal(features.transform(table)[:, 0], np.arange(rows))
    assert list(features.get_feature_names_out()) == ["embedding0", "embedding1", "embedding2"]


def test_all_columns_that_cannot_be_used_are_named_at_once():
    table = {"a": ["1", "2", "x"], "b": ["3", "4", "?"], "c": [1.0, 2.0, 3.0]}
    with pytest.raises(rm.InputError, match=r"'a'.*'x' in row 3.*'b'.*'\?'"):
        rm.TableFeatures().fit(table)
    features = rm.TableFeatures().fit({"a": [1.0], "b": [True], "c": ["2024-01-01"]})
    with pytest.raises(rm.InputError, match=r"'a' \(number\).*'b' \(truth\).*'c' \(date\)"):
        features.transform({"a": ["x"], "b": ["maybe"], "c": ["soon"]})
    with pytest.raises(rm.InputError, match=r"'m'.*'n'"):
        rm.TableFeatures().fit(pd.DataFrame({"m": [1, "a", b"c"], "n": [{1, 2}, 3, 4]}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": {"a": "colour"}},
        {"columns": ["a"]},
        {"missing": "mean"},
        {"text_width": 0},
    ],
)
def test_wrong_settings_are_input_errors(wrong):
    with pytest.raises(rm.InputError):
        rm.TableFeatures(**wrong).fit({"a": [1.0, 2.0]})


@pytest.mark.parametrize("X", [np.zeros(3), {"a": [1], "b": [1, 2]}, {}, None, "text", {"a": [np.inf]}, {"a": []}])
def test_what_is_no_table_is_an_input_error(X):
    with pytest.raises(rm.InputError):
        rm.ContinualRegressor(features=rm.TableFeatures()).fit(X, [1.0])


def test_methods_that_cannot_grow_say_so_and_change_nothing():
    model = rm.ContinualRegressor(rm.APA(), features=rm.TableFeatures()).fit({"c": ["a", "b"] * 4}, np.arange(8.0))
    before = pickle.dumps(model)
    with pytest.raises(rm.InputError, match="features can grow"):
        model.partial_fit({"c": ["z"]}, [1.0])
    assert pickle.dumps(model) == before


def test_tables_of_other_kinds_are_not_merged():
    make = lambda kind, v: rm.ContinualRegressor(features=rm.TableFeatures({"c": kind})).fit({"c": v}, [1.0, 2.0])
    with pytest.raises(rm.InputError, match="'c': category and text"):
        make("category", ["a", "b"]).merge(make("text", ["a", "b"]))


def test_files_hold_the_encoder(tmp_path):
    table, y = frame(30, ["Rome", "Oslo"], gaps=0.1)
    model = rm.ContinualRegressor(features=rm.TableFeatures(missing="indicator", text_width=4)).fit(table, y)
    rm.save(model, tmp_path / "model")
    again = rm.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    more, z = frame(30, ["Lima"], 4)
    np.testing.assert_array_equal(again.partial_fit(more, z).predict(more), model.partial_fit(more, z).predict(more))
    rm.save(model.features_, tmp_path / "encoder")
    assert rm.load(tmp_path / "encoder").kinds_ == model.features_.kinds_


def test_root_columns_are_taken_moved_and_forgotten():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 4)), rng.normal(size=(30, 2))
    method = rm.RLS(0.5)
    state = method.update(method.init(4, 2), X, Y)
    sources = np.array([2, -1, 0, 3])
    taken = np.where(sources >= 0, X[:, sources], 0)
    direct = method.update(method.init(4, 2), taken, Y)
    np.testing.assert_allclose(method.weights(method.with_columns(state, sources)), method.weights(direct), atol=1e-12)
    np.testing.assert_allclose(method.loss(method.with_columns(state, sources)), method.loss(direct), rtol=1e-12)


def test_rows_as_dicts_are_a_table():
    rows = [{"city": "Rome", "size": 1.0}, {"city": "Oslo"}, {"size": 3.0, "city": "Rome"}]
    table = {"city": ["Rome", "Oslo", "Rome"], "size": [1.0, None, 3.0]}
    features = rm.TableFeatures(missing="indicator")
    np.testing.assert_array_equal(features.fit_transform(rows), features.fit_transform(table))
    model = rm.ContinualRegressor(features=rm.TableFeatures(missing="indicator")).fit(rows, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(model.predict(rows), model.predict(table))
    with pytest.raises(rm.InputError, match="missing"):
        rm.TableFeatures().fit(rows)


def test_columns_that_arrow_cannot_take_are_an_input_error():
    with pytest.raises(rm.InputError, match="columns of one kind"):
        rm.TableFeatures().fit(np.ones((3, 2), complex))
