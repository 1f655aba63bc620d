"""Columns of vectors in files: every entry is a column, and their name stands for all of them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import remanence as rm
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
