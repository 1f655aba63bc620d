"""Columns of vectors in files: every entry is a column, and their name stands for all of them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import remanence as rm
from remanence.errors import InputError
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.model_file import read

from .job_helpers import learn_tables


@pytest.mark.parametrize("ending", ["parquet", "arrow", "jsonl", "npz"])
def test_embeddings_are_declared_and_ignored_by_their_name(tmp_path, ending):
    rng = np.random.default_rng(0)
    E, y = rng.standard_normal((20, 4)), np.arange(20) % 2
    table = pa.table({"x": E[:, 0] + 1, "e": E.tolist(), "kind": y})
    path = tmp_path / f"t.{ending}"
    if ending == "parquet":
        pq.write_table(table, path)
    elif ending == "arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    elif ending == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        np.savez(path, e=E, kind=y)
    entries = [f"e{i}" for i in range(4)]
    alone = entries if ending == "npz" else ["x", *entries]
    learn_tables(tmp_path / "m", [path], LearnOptions("kind", column_kinds={"e": "embedding"}))
    assert read(tmp_path / "m").notes["columns"] == alone
    assert learn_tables(tmp_path / "m", [path], LearnOptions(column_kinds={"e": "embedding"})).total("skipped") == 20
    with pytest.raises(rm.InputError, match="to be an embedding or ignored, got text"):
        learn_tables(tmp_path / "n", [path], LearnOptions("kind", column_kinds={"e": "text"}))
    if ending != "npz":
        both = (LearnOptions("kind", column_kinds={"e": "ignored"}), LearnOptions("kind", ignored=("e",)))
        for k, options in enumerate(both):
            learn_tables(tmp_path / f"i{k}", [path], options)
            assert read(tmp_path / f"i{k}").notes["columns"] == ["x"]


@pytest.mark.parametrize("ending", ["parquet", "feather", "jsonl"])
def test_a_column_of_vectors_that_are_all_missing_can_be_ignored(tmp_path, ending):
    path, model = tmp_path / f"t.{ending}", tmp_path / "m.safetensors"
    table = pa.table({"a": [1.0, 2.0, 3.0], "v": pa.array([None] * 3, pa.list_(pa.float64())), "y": [1.0, 2.0, 4.0]})
    if ending == "parquet":
        pq.write_table(table, path)
    elif ending == "feather":
        pa.feather.write_feather(table, path)
    else:
        path.write_text("".join(json.dumps({**row, "v": row["v"] or []}) + "\n" for row in table.to_pylist()))
    if ending != "jsonl":
        with pytest.raises(InputError, match="vectors in the column 'v'"):
            learn_tables(model, [path], LearnOptions(targets=("y",)))
    report = learn_tables(model, [path], LearnOptions(targets=("y",), ignored=("v",)))
    assert report.total("learned") == 3 and rm.load(model).n_features_in_ == 1
