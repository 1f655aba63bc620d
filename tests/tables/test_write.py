"""Tables are written as they are: nothing is cut, shifted or left out because a format cannot hold it."""

import csv
import datetime
import io
import json

import numpy as np
import pytest

import remanence as rm
from remanence.tables.write import encoded

pa = pytest.importorskip("pyarrow")


def written(path, *blocks):
    return b"".join(encoded(path, blocks))


def csv_rows(path, *blocks):
    return list(csv.reader(io.StringIO(written(path, *blocks).decode())))


@pytest.mark.parametrize("ending", ["csv", "npz"])
@pytest.mark.parametrize("lists", [[[1, 2], [3]], [[3], [1, 2]], [[1, 2], []]], ids=["shorter", "longer", "empty"])
def test_lists_of_different_lengths_are_an_error_where_entries_are_columns(tmp_path, ending, lists):
    with pytest.raises(rm.InputError, match=r"expected lists of .* in column 'v'.*got one of .*write Parquet"):
        written(tmp_path / f"t.{ending}", {"v": pa.array(lists)})


@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_lists_of_another_length_in_a_later_block_are_an_error(tmp_path, ending):
    with pytest.raises(rm.InputError, match="expected lists of 2 in column 'v'"):
        written(tmp_path / f"t.{ending}", {"v": pa.array([[1, 2]])}, {"v": pa.array([[1, 2, 3]])})


@pytest.mark.parametrize("kind", [None, pa.list_(pa.int64(), 2)], ids=["variable", "fixed"])
def test_missing_lists_keep_the_columns_of_the_others(tmp_path, kind):
    first, missing = pa.array([[1, 2], None], kind), pa.array([None], kind or pa.list_(pa.int64()))
    blocks = [{"v": first, "k": np.array([7, 8])}, {"v": missing, "k": np.array([9])}]
    assert csv_rows(tmp_path / "t.csv", *blocks) == [["v0", "v1", "k"], ["1", "2", "7"], ["", "", "8"], ["", "", "9"]]
    arrays = np.load(io.BytesIO(written(tmp_path / "t.npz", *blocks)))
    np.testing.assert_array_equal(arrays["v"], [[1, 2], [np.nan, np.nan], [np.nan, np.nan]])


def test_lists_of_lists_of_different_lengths_do_not_go_into_arrays(tmp_path):
    with pytest.raises(rm.InputError, match="lists of one shape in column 'v'"):
        written(tmp_path / "t.npz", {"v": pa.array([[[1], [2, 3]]])})


def test_json_lines_have_null_for_missing_numbers(tmp_path):
    block = {"x": np.array([1.0, np.nan]), "v": pa.array([[1.0, float("nan")], [2.0, 3.0]])}
    lines = written(tmp_path / "t.jsonl", block).decode().splitlines()
    assert [json.loads(line, parse_constant=pytest.fail) for line in lines] == [
        {"x": 1.0, "v": [1.0, None]},
        {"x": None, "v": [2.0, 3.0]},
    ]


def test_infinite_numbers_do_not_go_into_json_lines(tmp_path):
    with pytest.raises(rm.InputError, match="got infinity; write a CSV"):
        written(tmp_path / "t.jsonl", {"x": np.array([np.inf])})


@pytest.mark.parametrize("ending", ["csv", "jsonl", "npz"])
def test_bytes_are_text(tmp_path, ending):
    found = written(tmp_path / f"t.{ending}", {"label": pa.array(["é".encode(), b"dog"])})
    if ending == "npz":
        assert np.load(io.BytesIO(found))["label"].tolist() == ["é", "dog"]
    else:
        assert "é" in found.decode() and "b'" not in found.decode()


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_times_are_text_in_arrays(tmp_path, unit):
    times = pa.array([datetime.datetime(2024, 1, 2, 3, 4, 5)], pa.timestamp(unit))
    found = np.load(io.BytesIO(written(tmp_path / "t.npz", {"when": times})))["when"]
    assert found.dtype.kind == "U" and found[0].startswith("2024-01-02 03:04:05")
