"""`learn` opens a text file once and reads every byte once, and learns every row exactly once."""

import os
import sys

import numpy as np
import pytest

import remanence as rm
from remanence.store import read
from remanence.store.content import cutting
from remanence.store.jobs import learn_file, session
from remanence.store.jobs.learn_file import GROUP
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.model_file import Locked
from remanence.tables import text

from .conftest import content_of
from .job_helpers import learn_tables

KIND = LearnOptions(label="kind")
OPENED: list[str] | None = None  # paths opened, while a test counts them


def _count_opens(event, arguments):
    if OPENED is not None and event == "open":
        OPENED.append(os.fspath(arguments[0]) if isinstance(arguments[0], (str, os.PathLike)) else "")


sys.addaudithook(_count_opens)


class Reading:
    """What was read of one file: how often it was opened to be parsed, and bytes."""

    def __init__(self, monkeypatch):
        self.bytes, self.parsed = 0, []
        raw, begin = text.TextSource._raw, text.TextSource.__init__

        def counted_bytes(source, read):
            part = raw(source, read)  # (bytes, or how many went into a buffer)
            self.bytes += part if isinstance(part, int) else len(part)
            return part

        def counted(source, path, *args, **settings):
            self.parsed.append(str(path))
            begin(source, path, *args, **settings)

        monkeypatch.setattr(text.TextSource, "_raw", counted_bytes)
        monkeypatch.setattr(text.TextSource, "__init__", counted)

    def of(self, path, call):
        global OPENED
        self.bytes, self.parsed, OPENED = 0, [], []
        try:
            result = call()
            assert OPENED.count(str(path)) == 2 * self.parsed.count(str(path))  # (also to look at the first four bytes)
            return result, self.parsed.count(str(path)), self.bytes
        finally:
            OPENED = None


def table(path, rows, labels, seed=0):
    X = np.random.default_rng(seed).standard_normal((rows, 3))
    lines = [f"{a!r},{b!r},{c!r},{label}\n" for (a, b, c), label in zip(X.tolist(), labels, strict=True)]
    path.write_text("a,b,c,kind\n" + "".join(lines))
    return path


@pytest.mark.parametrize("undo", [None, "pieces"])
@pytest.mark.parametrize("rows", [5, 20_000])
def test_a_file_is_opened_once_and_every_byte_is_read_once(tmp_path, monkeypatch, rows, undo):
    reading = Reading(monkeypatch)
    labels = np.arange(rows) % 3
    options = LearnOptions(label="kind", undo=undo)
    for k, more in enumerate((0, 1)):  # a new model, and one that has learned
        path = table(tmp_path / f"{k}.csv", rows + more, [*labels, *[1] * more], seed=k)
        report, opens, count = reading.of(path, lambda p=path: learn_tables(tmp_path / "m", [p], options))
        assert report.total("learned") == rows + more
        assert (opens, count) == (1, path.stat().st_size)
    report, opens, count = reading.of(path, lambda: learn_tables(tmp_path / "m", [path], options))
    assert report.total("skipped") == rows + 1 and (opens, count) == (1, path.stat().st_size)
    assert read(tmp_path / "m").ledger.rows() == 2 * rows + 1


def test_text_labels_after_many_integers_are_text_throughout(tmp_path, monkeypatch):
    """The kind of labels is that of the whole first file; finding text late costs a second pass."""
    labels = [*(str(k % 3) for k in range(20_000)), "x"]
    path = table(tmp_path / "t.csv", len(labels), labels)
    report, opens, _ = Reading(monkeypatch).of(path, lambda: learn_tables(tmp_path / "m", [path], KIND))
    assert report.total("learned") == len(labels) and opens == 2
    assert rm.load(tmp_path / "m").classes_.tolist() == ["0", "1", "2", "x"]


@pytest.mark.parametrize("tail", ["1,2,3,a\n", "1,2,?,a\n"], ids=["good rows", "a bad row"])
def test_of_a_grown_file_the_new_rows_are_learned_or_named(tmp_path, tail):
    path = table(tmp_path / "t.csv", 10, "ab" * 5)
    learn_tables(tmp_path / "m", [path], KIND)
    before = (tmp_path / "m").read_bytes()
    path.write_text(path.read_text() + tail)
    if "?" in tail:
        with pytest.raises(rm.InputError, match="row 11 of"):
            learn_tables(tmp_path / "m", [path])
        assert (tmp_path / "m").read_bytes() == before
    else:
        report = learn_tables(tmp_path / "m", [path])
        assert (report.total("learned"), report.total("skipped")) == (1, 10)


@pytest.mark.parametrize("method", [None, "kalman"])
def test_pieces_are_learned_together_unless_each_is_a_task(tmp_path, monkeypatch, method):
    """A call of the estimator has a price beside that of its rows; the Kalman filter takes a call for a task."""
    calls, learn = [], rm.ContinualClassifier.partial_fit

    def counted(model, X, y, **settings):
        calls.append(len(X))
        return learn(model, X, y, **settings)

    monkeypatch.setattr(rm.ContinualClassifier, "partial_fit", counted)
    path = table(tmp_path / "t.csv", 60_000, np.arange(60_000) % 3, seed=5)
    if method == "kalman":
        rm.save(rm.ContinualClassifier(rm.Kalman(drift=0.1)).fit(np.eye(3), [0, 1, 2]), tmp_path / "m")
        calls.clear()
    learn_tables(tmp_path / "m", [path], KIND)
    ledger = read(tmp_path / "m").ledger
    pieces = [entry.rows for entry in ledger if entry.name == "t.csv"]
    assert len(pieces) > 8 and sum(calls) == 60_000
    assert calls == pieces if method == "kalman" else len(calls) <= 1 + len(pieces) // GROUP
    if method is None:
        X = np.random.default_rng(5).standard_normal((60_000, 3))
        whole = learn(rm.ContinualClassifier(), X, np.arange(60_000) % 3)
        found = read(tmp_path / "m").learner
        np.testing.assert_allclose(found.decision_function(X[:50]), whole.decision_function(X[:50]), atol=1e-12)


@pytest.fixture
def calls(monkeypatch):
    """The rows of every call of the estimator; pieces have about 64 rows."""
    found, learn = [], rm.ContinualClassifier.partial_fit

    def counted(model, X, y, **settings):
        found.append(len(X))
        return learn(model, X, y, **settings)

    monkeypatch.setattr(rm.ContinualClassifier, "partial_fit", counted)
    monkeypatch.setattr(cutting, "SIZE", 4)  # (there are no shorter ones)
    return found


@pytest.mark.parametrize("labels", [["0", "1", "2"], ["red", "green", "blue"]])
def test_integer_labels_are_learned_in_as_few_calls_as_others(tmp_path, calls, labels):
    """What they are is only decided at the end of a first file, so that nothing is written before."""
    path = table(tmp_path / "t.csv", 6000, labels * 2000)
    learn_tables(tmp_path / "m", [path], KIND)
    pieces = len(read(tmp_path / "m").ledger)
    assert pieces > 3 * GROUP and sum(calls) == 6000 and len(calls) == -(-pieces // GROUP)


@pytest.mark.parametrize("settings", [{}, {"undo": "pieces"}, {"ledger": "rows"}])
def test_a_run_killed_behind_any_write_goes_on_to_the_same_bits(tmp_path, monkeypatch, calls, settings):
    """Within one file, pieces that waited are in the ledger only when they are in the model."""

    class Killed(BaseException):
        pass

    monkeypatch.setattr(session, "WRITE_RATIO", 0.0)
    rows, options = 3000 if "undo" in settings else 6000, LearnOptions("kind", **settings)
    path = table(tmp_path / "t.csv", rows, ["red", "green", "blue"] * (rows // 3))
    writes, write, stop = [], Locked.write, [10**9]

    def written(file, model):
        if len(writes) >= stop[0]:
            raise Killed  # also at the end, where what is finished would be written
        writes.append(model.ledger.rows())
        write(file, model)

    monkeypatch.setattr(Locked, "write", written)
    learn_tables(tmp_path / "once", [path], options)
    once, whole = read(tmp_path / "once"), list(writes)
    assert len(whole) >= 3 and whole[0] < whole[-1] == rows
    for k in range(len(whole) - 1):
        m, stop[0] = tmp_path / f"{k}", k + 1
        writes.clear()
        with pytest.raises(Killed):
            learn_tables(m, [path], options)
        left = read(m)
        assert left.ledger.rows() == left.learner.n_seen_ == whole[k]
        stop[0] = 10**9
        report = learn_tables(m, [path], options)
        assert (report.total("skipped"), report.total("learned")) == (whole[k], rows - whole[k])
        found = read(m)
        assert content_of(found.learner) == content_of(once.learner)
        assert [e.fingerprint for e in found.ledger] == [e.fingerprint for e in once.ledger]


def test_pieces_of_long_texts_do_not_wait_for_others(tmp_path, monkeypatch, calls):
    monkeypatch.setattr(learn_file, "TOGETHER", 1 << 14)
    path = tmp_path / "t.csv"
    words = ["one", "two", "three", "four", "five"]
    path.write_text(
        "a,note,kind\n" + "".join(f"{k}.5,{words[k % 5]} {'long ' * 60},{'xy'[k % 2]}\n" for k in range(600))
    )
    learn_tables(tmp_path / "m", [path], LearnOptions("kind", column_kinds={"note": "text"}, text_width=4))
    assert sum(calls) == 600 and len(calls) > 5 > len(read(tmp_path / "m").ledger) / GROUP
