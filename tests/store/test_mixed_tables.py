"""Daily files of numbers, categories, text, dates and gaps: what the jobs learn is one fit of everything."""

import contextlib
import json
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import Ridge
from sklearn.preprocessing import OneHotEncoder

import remanence as rm
from remanence.errors import InputError
from remanence.store import read
from remanence.store.jobs.columns import Columns, blocks_of
from remanence.store.jobs.evaluate import evaluate_tables
from remanence.store.jobs.inspect import inspect_file
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.jobs.merge import merge_files
from remanence.store.jobs.predict import predict_table
from remanence.tables import open_table

from .job_helpers import learn_tables, unlearn_tables

WORDS = ["red", "blue", "large", "small", "old", "new", "cheap", "dear", "broken"]
CITIES = ["Rome", "Oslo", "Lima", "Bonn", "Cairo", "Quito", "Perth"]
OPTIONS = LearnOptions(targets=("paid",), ignored=("customer",), missing="indicator", text_width=16)


def day(k, rows=60):
    rng = np.random.default_rng(k)
    table = pd.DataFrame(
        {
            "id": range(rows),
            "customer": rng.integers(0, 12, rows),
            "price": rng.normal(size=rows) * 10.0 ** rng.integers(-2, 3, rows),
            "city": rng.choice(CITIES[: 2 + k // 2], rows),
            "member": rng.choice(["yes", "no"], rows),
            "note": [" ".join(rng.choice(WORDS, 5)) for _ in range(rows)],
            "ordered": pd.Timestamp("2024-01-01") + pd.to_timedelta(k * 86400 + rng.integers(0, 86400, rows), "s"),
        }
    )
    for name in ("price", "city", "note"):
        table.loc[rng.random(rows) < 0.08, name] = None
    return table.assign(paid=rng.normal(size=rows))


def encoded(table):
    """The numbers of a whole table, by encoders of scikit-learn and by pandas."""
    t, gaps = table["ordered"], table[["price", "city", "note"]].isna().astype(float)
    season = 2 * np.pi * (t.dt.day_of_year - 1) / 365.2425
    hour = 2 * np.pi * (t - t.dt.normalize()).dt.total_seconds() / 86400
    year = (t - pd.Timestamp("2000-01-01")).dt.total_seconds() / 86400 / 365.2425
    cities = OneHotEncoder(sparse_output=False).fit_transform(table[["city"]].fillna(""))
    named = np.sort(table["city"].fillna("").unique()) != ""
    return np.column_stack(
        [
            table["price"].fillna(0),
            table["member"] == "yes",
            HashingVectorizer(n_features=16).transform(table["note"].fillna("")).toarray(),
            cities[:, named],
            gaps,
            year,
            np.sin(season),
            np.cos(season),
            OneHotEncoder(categories=[list(range(7))], sparse_output=False).fit_transform(t.dt.day_of_week.to_frame()),
            np.sin(hour),
            1 - np.cos(hour),
        ]
    )


def joint(table):
    X = encoded(table)
    return Ridge(1.0).fit(X, table["paid"]).predict(X)


def answers(model, table, folder):
    table.to_parquet(folder / "all.parquet")
    predict_table(model, folder / "all.parquet", folder / "out.parquet", overwrite=True)
    return pd.read_parquet(folder / "out.parquet")["predicted"].to_numpy()


@pytest.fixture
def days(tmp_path):
    tables = [day(k) for k in range(10)]
    for k, table in enumerate(tables):
        if k % 3 == 1:
            table.to_parquet(tmp_path / f"day{k}.parquet")
        else:
            table.to_csv(tmp_path / f"day{k}.csv", index=False)
    return tables, sorted(tmp_path.glob("day*"), key=lambda path: path.name)


def test_ten_daily_files_are_one_fit_through_the_encoders_of_scikit_learn(tmp_path, days):
    tables, paths = days
    everything = pd.concat(tables, ignore_index=True)
    model = tmp_path / "m"
    for path in paths:
        assert learn_tables(model, [path], OPTIONS).total("learned") == 60
    np.testing.assert_allclose(answers(model, everything, tmp_path), joint(everything), atol=1e-9)
    notes = read(model).notes
    assert notes["kinds"] == {
        "price": "number", "city": "category", "member": "truth", "note": "text", "ordered": "date"
    }  # fmt: skip
    assert set(notes["ignored"]) == {"customer", "id"} and inspect_file(model).holds
    everything.to_csv(tmp_path / "again.csv", index=False)  # every piece is known, whatever file it is in
    assert learn_tables(model, [tmp_path / "again.csv"]).total("skipped") == 600

    for path in paths:
        unlearn_tables(model, [path], where={"customer": "7"})
    left = everything[everything["customer"] != 7].reset_index(drop=True)
    np.testing.assert_allclose(answers(model, left, tmp_path), joint(left), atol=1e-9)
    assert evaluate_tables(model, paths).rows == 600


def test_two_sites_with_different_categories_are_merged(tmp_path, days):
    tables, paths = days
    learn_tables(tmp_path / "a", paths[:4], OPTIONS)
    learn_tables(tmp_path / "b", paths[4:], OPTIONS)
    merge_files([tmp_path / "b", tmp_path / "a"], tmp_path / "both")
    everything = pd.concat(tables, ignore_index=True)
    np.testing.assert_allclose(answers(tmp_path / "both", everything, tmp_path), joint(everything), atol=1e-9)
    frame = rm.load(tmp_path / "both").predict(everything)  # the same in Python, on the DataFrame itself
    np.testing.assert_allclose(frame, joint(everything), atol=1e-9)


def test_sites_that_took_a_column_for_different_things_say_so(tmp_path):
    for name, cells in (("a", "x y"), ("b", "1 2")):
        (tmp_path / f"{name}.csv").write_text("code,n,t\n" + "".join(f"{c},1,2\n" for c in cells.split()))
        learn_tables(tmp_path / name, [tmp_path / f"{name}.csv"], LearnOptions(targets=("t",)))
    with pytest.raises(rm.InputError, match=r"code: category.*code: number"):
        merge_files([tmp_path / "a", tmp_path / "b"], tmp_path / "both")


def test_kinds_are_declared_kept_and_not_changed_silently(tmp_path):
    (tmp_path / "t.csv").write_text("zip,n,t\n1,1,2\n2,2,1\n1,5,2\n")
    declared = LearnOptions(targets=("t",), column_kinds={"zip": "category"})
    report = learn_tables(tmp_path / "m", [tmp_path / "t.csv"], declared)
    assert report.kinds == {"zip": "category", "n": "number"}
    assert json.loads(json.dumps(report.to_dict()))["columns"] == report.kinds
    with pytest.raises(rm.InputError, match="column 'zip'"):
        learn_tables(tmp_path / "m", [tmp_path / "t.csv"], LearnOptions(column_kinds={"zip": "number"}))
    (tmp_path / "u.csv").write_text("zip,n,t\n3,x,2\n4,7,1\n")
    before = (tmp_path / "m").read_bytes()
    with pytest.raises(rm.InputError, match=r"'n'.*'x'"):
        learn_tables(tmp_path / "m", [tmp_path / "u.csv"])
    assert (tmp_path / "m").read_bytes() == before


def test_all_bad_columns_are_named_at_once(tmp_path):
    rows = "".join(f"{i},{i},2024-01-0{i},true,1\n" for i in range(1, 8))
    (tmp_path / "t.csv").write_text("a,b,c,d,t\n" + rows)
    learn_tables(tmp_path / "m", [tmp_path / "t.csv"], LearnOptions(targets=("t",)))
    (tmp_path / "u.csv").write_text("a,b,c,d,t\n1,2,soon,maybe,1\n")
    with pytest.raises(rm.InputError, match=r"'c' \(date\).*'d' \(truth\)"):
        learn_tables(tmp_path / "m", [tmp_path / "u.csv"])
    (tmp_path / "v.csv").write_text("a,b,t\n1,2,1\n2,3,1\nx,?,1\n")
    with pytest.raises(rm.InputError, match=r"'a'.*'x' in row 3.*'b'.*'\?' in row 3"):
        learn_tables(tmp_path / "n", [tmp_path / "v.csv"], LearnOptions(targets=("t",)))
    assert not (tmp_path / "n").exists()


def test_wide_mixed_tables_take_time_in_proportion_to_their_width(tmp_path):
    def seconds(width):
        path = tmp_path / f"{width}.csv"
        path.write_text(",".join(f"c{j}" for j in range(width)) + "\n" + ",".join(["1"] * width) + "\n")
        names = tuple(f"c{j}" for j in range(width))
        columns = Columns(names, kinds=dict.fromkeys(names, "number"), gaps=True)
        begun = time.process_time()
        with contextlib.closing(open_table(path)) as table:
            list(blocks_of(table.pieces()[0], columns))
        return time.process_time() - begun

    of_few = min(seconds(500) for _ in range(3))
    assert min(seconds(4000) for _ in range(2)) < 8 * 3 * max(of_few, 0.005)


def test_a_category_of_numbers_is_written_in_one_way(tmp_path):
    """1.0 in a CSV file is what a data frame with gaps makes of 1: neither another category nor an unknown one."""
    for name, code in {"whole": "{}", "fraction": "{}.0"}.items():
        rows = [f"{code.format(k % 3)},0{k % 2},{k * k % 7}\n" for k in range(12)]
        (tmp_path / f"{name}.csv").write_text("shop,zip,y\n" + "".join(rows))
    options = LearnOptions(targets=("y",), column_kinds={"shop": "category", "zip": "category"})
    for first, other in (("whole", "fraction"), ("fraction", "whole")):
        learn_tables(tmp_path / first, [tmp_path / f"{first}.csv"], options)
        before = (tmp_path / first).read_bytes()
        for job in (learn_tables, evaluate_tables):
            with pytest.raises(InputError, match=r"'shop'.*one number"):
                job(tmp_path / first, [tmp_path / f"{other}.csv"])
        assert (tmp_path / first).read_bytes() == before
    with pytest.raises(InputError, match="one number"):
        merge_files([tmp_path / "whole", tmp_path / "fraction"], tmp_path / "both")


@pytest.mark.parametrize("gap", [False, True])
def test_integers_beyond_float_are_the_same_in_every_format(tmp_path, gap):
    values = [2**53 + 1, 2**53 + 3, 5, None if gap else 7] * 5
    table = pd.DataFrame({"x": np.arange(20) % 7 / 8, "k": pd.array(values, "Int64")})
    paths = [tmp_path / name for name in ("t.csv", "t.parquet", "t.jsonl")]
    table.to_csv(paths[0], index=False)
    table.to_parquet(paths[1])
    table.to_json(paths[2], orient="records", lines=True)
    for options in (LearnOptions("k"), LearnOptions(targets=("x",))):
        model = tmp_path / f"m{options.label}"
        assert learn_tables(model, paths, options, drop=True).total("learned") == (15 if gap else 20)
    assert {2**53 + 1, 2**53 + 3} < set(rm.load(tmp_path / "mk").classes_.tolist())


def test_categories_of_nearly_as_many_values_as_rows_are_told(tmp_path):
    days = [f"{k % 40 % 28 + 1:02}.{k % 40 // 28 + 1:02}.2024" for k in range(60)]
    rows = [f"{day},{'ABC'[k % 3]},{k}\n" for k, day in enumerate(days)]
    (tmp_path / "t.csv").write_text("sold,shop,y\n" + "".join(rows))
    (told,) = learn_tables(tmp_path / "m", [tmp_path / "t.csv"], LearnOptions(targets=("y",))).warnings
    assert "'sold'" in told and "40 values in 60 rows" in told
    options = LearnOptions(targets=("y",), column_kinds={"sold": "category"})
    assert not learn_tables(tmp_path / "n", [tmp_path / "t.csv"], options).warnings
