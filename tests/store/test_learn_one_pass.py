"""`learn` opens a CSV file once and parses every row once, and still learns it exactly once."""

import csv
import os
import sys

import numpy as np
import pytest

import remanence as rm
from remanence.store import read
from remanence.store.jobs.learn_options import LearnOptions
from remanence.tables import csv as csv_module
from remanence.tables import hashing

from .job_helpers import learn_tables

KIND = LearnOptions(label="kind")
OPENED: list[str] | None = None  # paths opened, while a test counts them


def _count_opens(event, arguments):
    if OPENED is not None and event == "open":
        OPENED.append(os.fspath(arguments[0]) if isinstance(arguments[0], (str, os.PathLike)) else "")


sys.addaudithook(_count_opens)


class Reading:
    """What was read of one file: how often it was opened, bytes, and rows that the parser returned."""

    def __init__(self, monkeypatch):
        self.bytes = self.rows = 0
        readinto, reader = hashing.HashingFile.readinto, csv.reader

        def counted_bytes(source, buffer):
            count = readinto(source, buffer)
            self.bytes += count
            return count

        def counted_rows(*args, **settings):
            for row in reader(*args, **settings):
                self.rows += 1
                yield row

        monkeypatch.setattr(hashing.HashingFile, "readinto", counted_bytes)
        monkeypatch.setattr(csv_module.csv, "reader", counted_rows)

    def of(self, path, call):
        global OPENED
        self.bytes, self.rows, OPENED = 0, 0, []
        try:
            result = call()
            return result, OPENED.count(str(path)), self.bytes, self.rows
        finally:
            OPENED = None


def table(path, rows, labels, seed=0):
    X = np.random.default_rng(seed).standard_normal((rows, 3))
    lines = [f"{a!r},{b!r},{c!r},{label}\n" for (a, b, c), label in zip(X.tolist(), labels, strict=True)]
    path.write_text("a,b,c,kind\n" + "".join(lines))
    return path


@pytest.mark.parametrize("undo", [None, "pieces"])
@pytest.mark.parametrize("rows", [5, 20_000])
def test_a_file_is_opened_once_and_every_row_is_parsed_once(tmp_path, monkeypatch, rows, undo):
    reading = Reading(monkeypatch)
    labels = np.arange(rows) % 3
    options = LearnOptions(label="kind", undo=undo)
    for k, more in enumerate((0, 1)):  # a new model, and one that has learned; files of other sizes
        path = table(tmp_path / f"{k}.csv", rows + more, [*labels, *[1] * more], seed=k)
        report, opens, count, parsed = reading.of(path, lambda p=path: learn_tables(tmp_path / "m", [p], options))
        assert report.total("learned") == rows + more
        assert (opens, count, parsed) == (1, path.stat().st_size, rows + more + 1)  # (and the header)
    report, _, _, parsed = reading.of(path, lambda: learn_tables(tmp_path / "m", [path], options))
    assert report.total("skipped") == rows + 1 and parsed == 1  # only the header: known by its hash
    assert read(tmp_path / "m").ledger.rows() == 2 * rows + 1


def test_a_file_of_the_size_of_a_known_one_is_hashed_first_and_parsed_once(tmp_path, monkeypatch):
    first = table(tmp_path / "0.csv", 10, "ab" * 5)
    learn_tables(tmp_path / "m", [first], KIND)
    other = tmp_path / "1.csv"
    other.write_text(first.read_text().replace(",a\n", ",b\n", 1))
    report, opens, _, parsed = Reading(monkeypatch).of(other, lambda: learn_tables(tmp_path / "m", [other]))
    assert (report.total("learned"), opens, parsed) == (10, 2, 11)


def test_text_labels_after_many_integers_are_text_throughout(tmp_path, monkeypatch):
    """The kind of labels is that of the whole first file; finding text late costs a second pass."""
    labels = [*(str(k % 3) for k in range(20_000)), "x"]
    path = table(tmp_path / "t.csv", len(labels), labels)
    report, opens, _, _ = Reading(monkeypatch).of(path, lambda: learn_tables(tmp_path / "m", [path], KIND))
    assert report.total("learned") == len(labels) and opens == 2
    assert rm.load(tmp_path / "m").classes_.tolist() == ["0", "1", "2", "x"]


def test_a_file_that_becomes_a_known_one_while_it_is_read_is_not_learned(tmp_path, monkeypatch):
    """The decision is made from what was read, also where the size told nothing."""
    path = table(tmp_path / "t.csv", 10, "ab" * 5)
    learn_tables(tmp_path / "m", [path], KIND)
    before = (tmp_path / "m").read_bytes()
    monkeypatch.setattr("remanence.store.jobs.holdings.Holdings.may_know", lambda self, size: False)
    assert learn_tables(tmp_path / "m", [path]).total("skipped") == 10
    assert (tmp_path / "m").read_bytes() == before


@pytest.mark.parametrize("tail", ["1,2,3,a\n", "1,2,?,a\n"], ids=["good rows", "a bad row"])
def test_a_grown_file_is_an_error_before_its_new_rows_are(tmp_path, tail):
    path = table(tmp_path / "t.csv", 10, "ab" * 5)
    learn_tables(tmp_path / "m", [path], KIND)
    before = (tmp_path / "m").read_bytes()
    path.write_text(path.read_text() + tail)
    with pytest.raises(rm.InputError, match="has grown") as problem:
        learn_tables(tmp_path / "m", [path])
    assert problem.value.arguments == ("again",) and (tmp_path / "m").read_bytes() == before
