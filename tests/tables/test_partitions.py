"""Folders named NAME=VALUE are columns, in every format and for every command."""

import numpy as np
import pytest

import remanence as rm
from remanence.store import read
from remanence.store.jobs.learn import learn_session
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.jobs.predict import predict_table
from remanence.tables import expand_paths, open_table


@pytest.fixture
def folder(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    for year in (2023, 2024):
        for city in ("Rome", "New%20York"):
            inside = tmp_path / "sales" / f"year={year}" / f"city={city}"
            inside.mkdir(parents=True)
            X = rng.normal(size=(20, 2))
            if year == 2023:
                pq.write_table(pa.table({"a": X[:, 0], "t": X[:, 1]}), inside / "part.parquet")
            else:
                (inside / "part.csv").write_text("a,t\n" + "".join(f"{a},{t}\n" for a, t in X.tolist()))
    return tmp_path / "sales"


def learned(model, data, options):
    with learn_session(model, options) as job:
        for path in expand_paths([data]):
            job.learn(path)
    return job.report


def test_a_folder_of_partitions_is_the_table_with_these_columns(tmp_path, folder):
    report = learned(tmp_path / "m", folder, LearnOptions(targets=("t",)))
    assert report.total("learned") == 80
    assert report.kinds == {"a": "number", "year": "number", "city": "category"}
    rows = {"a": [], "year": [], "city": [], "t": []}
    for path in expand_paths([folder]):
        table = open_table(path)
        for block in table.pieces()[0].blocks(("a", "t", "year"), ("city",)):
            rows["a"] += block.X[:, 0].tolist()
            rows["t"] += block.X[:, 1].tolist()
            rows["year"] += block.X[:, 2].tolist()
            rows["city"] += block.labels.tolist()
    assert set(rows["city"]) == {"Rome", "New York"} and set(rows["year"]) == {2023.0, 2024.0}
    targets = rows.pop("t")
    joint = rm.ContinualRegressor(features=rm.TableFeatures({"year": "number"})).fit(rows, targets)
    np.testing.assert_allclose(rm.load(tmp_path / "m").predict(rows), joint.predict(rows), atol=1e-9)
    for path in expand_paths([folder]):
        assert predict_table(tmp_path / "m", path, tmp_path / f"out{path.suffix}", overwrite=True).rows == 20
    assert "New York" in (tmp_path / "out.csv").read_text() or "Rome" in (tmp_path / "out.csv").read_text()


def test_a_label_may_be_a_folder_and_other_models_do_not_see_it(tmp_path, folder):
    assert learned(tmp_path / "m", folder, LearnOptions("city", ignored=("year",))).total("learned") == 80
    assert rm.load(tmp_path / "m").classes_.tolist() == ["New York", "Rome"]
    plain = tmp_path / "plain.csv"
    plain.write_text("a,t\n1,2\n3,4\n")
    learned(tmp_path / "n", plain, LearnOptions(targets=("t",)))
    learned(tmp_path / "n", folder, LearnOptions())
    assert read(tmp_path / "n").notes["columns"] == ["a"] and read(tmp_path / "n").ledger.rows() == 82
