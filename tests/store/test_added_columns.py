"""Columns of numbers that later files bring: learned where they are declared, refused where they are not."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import Ridge
from typer.testing import CliRunner

import remanence as rm
from remanence.cli import app
from remanence.cli.common.flags import message
from remanence.store.jobs.evaluate import evaluate_tables
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.jobs.predict import predict_table

from .job_helpers import learn_tables, unlearn_tables

NEW = LearnOptions(column_kinds={"late": "number"})
PRICE, KIND = LearnOptions(targets=("price",)), LearnOptions("kind")


def rows(count=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((count, 3)) + 2
    X[:40, 2] = 0  # what the column was before it was there
    return X, X @ [1.0, -2.0, 3.0] + 0.1 * rng.standard_normal(count)


def write(path, X, y, late=True, city=None):
    columns = {"a": X[:, 0], "late": X[:, 2], "b": X[:, 1], "price": y, "kind": np.where(y > 0, "up", "down")}
    columns |= {"city": city} if city is not None else {}
    columns = {name: column for name, column in columns.items() if late or name != "late"}
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
        return path
    cells = zip(*(np.asarray(c).tolist() for c in columns.values()), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in cells)]) + "\n")
    return path


def options(base, ignored):
    return LearnOptions(base.label, base.targets, ignored=(ignored,))


def assert_ridge(model, X, Y):
    """The scores are those of a ridge regression on all rows, with the columns in the order of the model."""
    expected = Ridge(alpha=1.0).fit(X, Y).predict(X)
    found = model.class_scores(X) if hasattr(model, "classes_") else model.predict(X)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("base", [options(PRICE, "kind"), options(KIND, "price")], ids=["regression", "classes"])
def test_a_declared_column_is_learned_as_if_it_had_been_there(tmp_path, base, ending):
    X, y = rows()
    Y = y if base.targets else np.column_stack([y <= 0, y > 0]).astype(float)
    first = write(tmp_path / f"a.{ending}", X[:40], y[:40], late=False)
    second = write(tmp_path / f"b.{ending}", X[40:], y[40:])
    learn_tables(tmp_path / "m", [first], base)
    before = (tmp_path / "m").read_bytes()
    with pytest.raises(rm.InputError, match="'late' besides; ignore it, or declare what was 0"):
        learn_tables(tmp_path / "m", [second])
    assert (tmp_path / "m").read_bytes() == before
    report = learn_tables(tmp_path / "m", [second], NEW)
    assert report.total("learned") == 20 and "counts as 0" in report.warnings[0]
    model = rm.load(tmp_path / "m")
    assert_ridge(model, X, Y)
    for again in (first, second, write(tmp_path / "c.parquet", X[:40], y[:40], late=True)):  # 0 in a column is absence
        assert learn_tables(tmp_path / "m", [again]).total("learned") == 0
    rows_before, rows_after = (
        write(tmp_path / "u.csv", X[5:15], y[5:15], late=False),
        write(tmp_path / "v.csv", X[45:50], y[45:50]),
    )
    assert unlearn_tables(tmp_path / "m", [rows_before, rows_after]).total("unlearned") == 15
    kept = np.r_[:5, 15:45, 50:60]
    assert_ridge(rm.load(tmp_path / "m"), X[kept], Y[kept])
    for data in (first, second):
        predict_table(tmp_path / "m", data, tmp_path / "out.csv", overwrite=True)
        assert evaluate_tables(tmp_path / "m", [data]).rows in (20, 40)
    assert "late" in (tmp_path / "out.csv").read_text().splitlines()[0]


def test_a_renamed_column_is_never_a_new_one(tmp_path):
    X, y = rows()
    base = options(PRICE, "kind")
    learn_tables(tmp_path / "m", [write(tmp_path / "a.csv", X, y)], base)
    renamed = tmp_path / "b.csv"
    renamed.write_text((tmp_path / "a.csv").read_text().replace("late", "Late", 1))
    before = (tmp_path / "m").read_bytes()
    for given in (None, LearnOptions(column_kinds={"Late": "number"})):
        with pytest.raises(rm.InputError, match="'late' is missing"):
            learn_tables(tmp_path / "m", [renamed], given)
    with pytest.raises(rm.InputError, match="to have the column 'lte'"):
        learn_tables(tmp_path / "m", [tmp_path / "a.csv"], LearnOptions(column_kinds={"lte": "number"}))
    with pytest.raises(rm.InputError, match="expected new columns of an existing model to be numbers"):
        learn_tables(tmp_path / "m", [tmp_path / "a.csv"], LearnOptions(column_kinds={"city": "category"}))
    with pytest.raises(rm.InputError, match="ignored"):
        learn_tables(tmp_path / "m", [tmp_path / "a.csv"], LearnOptions(column_kinds={"kind": "number"}))
    assert (tmp_path / "m").read_bytes() == before


def test_tables_with_categories_and_gaps_grow_too(tmp_path):
    X, y = rows()
    city = np.array(["Rome", "Oslo", "Lima"])[np.arange(60) % 3]
    base = LearnOptions(targets=("price",), ignored=("kind",), missing="indicator")
    learn_tables(tmp_path / "m", [write(tmp_path / "a.csv", X[:40], y[:40], late=False, city=city[:40])], base)
    learn_tables(tmp_path / "m", [write(tmp_path / "b.csv", X[40:], y[40:], city=city[40:])], NEW)
    hot = (city[:, None] == np.array(["Lima", "Oslo", "Rome"])).astype(float)
    expected = Ridge(alpha=1.0).fit(np.column_stack([X, hot]), y).predict(np.column_stack([X, hot]))
    report = predict_table(tmp_path / "m", write(tmp_path / "t.csv", X, y, city=city), tmp_path / "o.parquet")
    assert report.rows == 60
    np.testing.assert_allclose(pq.read_table(tmp_path / "o.parquet")["predicted"].to_numpy(), expected, atol=1e-9)
    model = rm.load(tmp_path / "m")
    assert model.features_.kinds_ == {"a": "number", "b": "number", "city": "category", "late": "number"}
    unlearn_tables(tmp_path / "m", [tmp_path / "a.csv"])
    assert learn_tables(tmp_path / "m", [tmp_path / "a.csv"]).total("learned") == 40
    predict_table(tmp_path / "m", tmp_path / "t.csv", tmp_path / "o.parquet", overwrite=True)
    np.testing.assert_allclose(pq.read_table(tmp_path / "o.parquet")["predicted"].to_numpy(), expected, atol=1e-9)


def test_models_of_pieces_grow_and_others_refuse(tmp_path):
    X, y = rows()
    first, second = write(tmp_path / "a.csv", X[:40], y[:40], late=False), write(tmp_path / "b.csv", X[40:], y[40:])
    learn_tables(tmp_path / "m", [first], LearnOptions(targets=("price",), ignored=("kind",), undo="pieces"))
    learn_tables(tmp_path / "m", [second], NEW)
    assert_ridge(rm.load(tmp_path / "m"), X, y)
    unlearn_tables(tmp_path / "m", [first])
    assert_ridge(rm.load(tmp_path / "m"), X[40:], y[40:])
    cases = {"random features": LearnOptions(features="random:20"), "ICL": LearnOptions(method="icl")}
    for said, given in cases.items():
        path = tmp_path / said
        base = LearnOptions(targets=("price",), ignored=("kind",), features=given.features, method=given.method)
        learn_tables(path, [write(tmp_path / "c.csv", X[:1], y[:1], late=False)], base)
        before = path.read_bytes()
        with pytest.raises(rm.InputError, match=said):
            learn_tables(path, [second], NEW)
        assert path.read_bytes() == before


def test_the_command_says_so(tmp_path):
    X, y = rows()
    write(tmp_path / "a.csv", X[:40], y[:40], late=False), write(tmp_path / "b.csv", X[40:], y[40:])
    model = str(tmp_path / "m")
    words = ["learn", model, str(tmp_path / "a.csv"), "--target", "price", "--ignore", "kind"]
    assert CliRunner().invoke(app, words).exit_code == 0
    refused = CliRunner().invoke(app, ["learn", model, str(tmp_path / "b.csv")])
    assert "--column NAME:KIND" in message(refused.exception)
    taken = CliRunner().invoke(app, ["learn", model, str(tmp_path / "b.csv"), "--column", "late:number"])
    assert taken.exit_code == 0 and "the column 'late' is new" in taken.output
