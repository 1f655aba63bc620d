"""Row groups read stripe by stripe: the same batches, a temporary file that is gone, and memory that is bounded."""

import subprocess
import sys
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from remanence.tables import open_table
from remanence.tables.pages.stripes import MOST, page_bytes, read_within, stripes
from remanence.tables.table import rows_at_once


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    columns = {f"x.{j}": rng.standard_normal(3000) for j in range(12)}
    columns |= {"v": list(rng.standard_normal((3000, 4))), "kind": [None, "red", "blue"] * 1000}
    pq.write_table(pa.table(columns), tmp_path / "wide.parquet", row_group_size=2000)
    return tmp_path / "wide.parquet"


def blocks(path):
    """Rows and labels of all blocks."""
    table = open_table(path)
    columns = table.features(["kind"])
    return [(block.X, block.labels) for piece in table.pieces() for block in piece.blocks(columns, ["kind"])]


@pytest.mark.parametrize("memory", [1, 30_000, 100_000, 1e9])
def test_the_same_blocks_with_any_memory(path, memory, monkeypatch, tmp_path):
    monkeypatch.setattr("remanence.tables.parquet.ROWS_AT_ONCE", 700)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    expected = blocks(path)
    with read_within(memory):
        found = blocks(path)
    assert len(found) == len(expected) == 5
    for ours, theirs in zip(found, expected, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert [p.name for p in tmp_path.iterdir()] == ["wide.parquet"]


def test_columns_are_taken_as_many_at_a_time_as_fit(path):
    table = open_table(path)
    held = page_bytes(table.metadata, 0, [*(f"x.{j}" for j in range(12)), "v", "kind"])
    assert held["v"] > 3 * held["x.0"] > 3 * 2000 * 8 > held["kind"] > 0
    with read_within(2.5 * held["x.0"]):
        parts = stripes(held)
    assert (
        [name for part in parts for name in part] == list(held)
        and {len(part) for part in parts[:6]} == {2}
        and ["v"] in parts
    )
    with read_within(1):
        assert len(stripes(dict.fromkeys(map(str, range(1000)), 10))) <= MOST
    assert len(stripes(held)) == 1


def test_wide_rows_are_read_fewer_at_a_time():
    sizes = 0, 1, 128, 512, 1024, 100_000
    assert [rows_at_once(d, 8192) for d in sizes] == [8192, 8192, 8192, 8192, 4096, 1000]
    with read_within(1e6):
        assert [rows_at_once(d, 8192) for d in sizes] == [8192, 8192, 8192, 2048, 1024, 1000]
    assert rows_at_once(256, 7) == 7


MEMORY = """
import sys
from remanence.tables import open_table
from remanence.tables.pages.stripes import read_within

def peak():
    return next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))

with read_within(float(sys.argv[2])):
    table = open_table(sys.argv[1])
    columns, piece = table.features(), table.pieces()[0]
    next(piece.blocks(columns[:1]))  # loads what is needed
    before = peak()
    rows = sum(len(block.X) for block in piece.blocks(columns))
print(rows, peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_is_bounded_by_what_is_given(tmp_path):
    path, rng = tmp_path / "real.parquet", np.random.default_rng(0)
    pq.write_table(pa.table({f"x{j}": rng.standard_normal(100_000) for j in range(128)}), path)
    found = {}
    for memory in (1e7, 1e9):
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, str(path), str(memory)], capture_output=True, text=True, check=True
        )
        rows, found[memory] = map(float, done.stdout.split())
        assert rows == 100_000
    assert found[1e7] < 90 < found[1e9]  # MB: a batch is 8 MB, all pages are 128 MB
