"""Files that grow: after every append only the new rows are learned, also where a writer is in the middle of a line."""

import gzip
import io

import numpy as np
import pytest

import remanence as rm
from remanence.store import read
from remanence.store.jobs.inspect import inspect_file
from remanence.store.jobs.learn_options import LearnOptions

from .job_helpers import learn_tables, unlearn_tables

ROWS, KIND = 12_000, LearnOptions(label="kind", settings={"ridge": 0.1})
NAMES = ["a", "b", "c", "d"]


def lines_of(X, y):
    return [",".join([*map(repr, row), label]).encode() + b"\n" for row, label in zip(X.tolist(), y, strict=True)]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((ROWS, 4)) * 10.0 ** np.arange(-1, 3)
    return X, np.array(["red", "green", "blue"])[rng.integers(0, 3, ROWS)]


def same(path, other):
    ours, theirs = rm.load(path), rm.load(other)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-12, atol=1e-12)
    assert ours.n_seen_ == theirs.n_seen_ and (ours.class_count_ == theirs.class_count_).all()


@pytest.mark.filterwarnings("ignore:the last line of log")
@pytest.mark.parametrize("undo", [None, "pieces"])
def test_a_hundred_appends_are_one_file_also_converted(tmp_path, rows, undo):
    X, y = rows
    content = b",".join(n.encode() for n in NAMES) + b",kind\n" + b"".join(lines_of(X, y))
    rng = np.random.default_rng(9)
    options = LearnOptions(label="kind", settings={"ridge": 0.1}, undo=undo)
    steps = 100 if undo is None else 15
    cuts = np.sort(rng.integers(40, len(content), steps - 1)).tolist()  # anywhere: mostly inside a line
    log, m = tmp_path / "log.csv", tmp_path / "m"
    for end in [*cuts, len(content)]:
        log.write_bytes(content[:end])
        report = learn_tables(m, [log], options)
        whole = content[:end].count(b"\n") - 1
        assert report.total("learned") + report.total("skipped") == whole
        assert read(m).learner.n_seen_ == whole
    learn_tables(tmp_path / "once", [log], options)
    same(m, tmp_path / "once")
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    columns = pa.table({"kind": y} | {name: X[:, j] for j, name in enumerate(NAMES)})
    pa.parquet.write_table(columns, tmp_path / "log.parquet", row_group_size=700)
    pa.feather.write_feather(columns, tmp_path / "log.feather")
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(content.replace(b"\n", b"\r\n")))
    np.savez(tmp_path / "log.npz", X=X, kind=y)
    for ending in ("parquet", "feather", "csv.gz"):
        report = learn_tables(m, [tmp_path / f"log.{ending}"], options)
        assert (report.total("learned"), report.total("skipped")) == (0, ROWS)
    assert inspect_file(m).holds
    assert unlearn_tables(m, [tmp_path / "log.parquet"]).total("unlearned") == ROWS
    assert read(m).ledger.rows() == 0


def written(path, X, y, order=None, header=None):
    order = np.arange(len(X)) if order is None else order
    path.write_bytes((header or ",".join([*NAMES, "kind"]) + "\n").encode() + b"".join(lines_of(X[order], y[order])))
    return path


@pytest.fixture
def learned(tmp_path, rows):
    """A model that has learned nine thousand rows."""
    X, y = rows
    learn_tables(tmp_path / "m", [written(tmp_path / "jan.csv", X[:9000], y[:9000])], KIND)
    return tmp_path / "m", X, y


def outcome(m, path, **options):
    """Rows learned and skipped; the reason where it is refused, and the model is then as it was."""
    before = m.read_bytes()
    try:
        report = learn_tables(m, [path], KIND, **options)
    except rm.InputError as reason:
        assert m.read_bytes() == before
        return str(reason)
    return report.total("learned"), report.total("skipped")


def test_a_cumulative_export_brings_what_is_new(learned, tmp_path):
    m, X, y = learned
    assert outcome(m, written(tmp_path / "feb.csv", X, y)) == (3000, 9000)


def test_a_shuffled_file_is_refused(learned, tmp_path):
    m, X, y = learned
    order = np.random.default_rng(0).permutation(9000)
    assert "learned before, in another order" in outcome(m, written(tmp_path / "t.csv", X, y, order))
    assert outcome(m, tmp_path / "t.csv", again=True) == (9000, 0)


def test_a_file_in_another_order_of_columns_is_known(learned, tmp_path):
    m, X, y = learned
    lines = [f"{k},{d!r},{c!r},{b!r},{a!r}\n" for k, (a, b, c, d) in zip(y[:9000], X[:9000].tolist(), strict=True)]
    (tmp_path / "t.csv").write_text("kind,d,c,b,a\n" + "".join(lines))
    assert outcome(m, tmp_path / "t.csv") == (0, 9000)


def test_half_a_file_brings_nothing(learned, tmp_path):
    m, X, y = learned
    found = outcome(m, written(tmp_path / "half.csv", X[:4500], y[:4500]))
    assert found == (0, 4500) or "learned before" in found
    second = outcome(m, written(tmp_path / "second.csv", X[4500:9000], y[4500:9000]))
    assert second == (0, 4500) or "learned before" in second


def test_a_doubled_file_is_refused(learned, tmp_path, rows):
    m, X, y = learned
    twice = np.r_[0:9000, 0:9000]
    assert "learned before" in outcome(m, written(tmp_path / "twice.csv", X, y, twice))
    with pytest.raises(rm.InputError, match=r"expected every row once, but .* are copies of rows above them"):
        learn_tables(tmp_path / "new", [tmp_path / "twice.csv"], KIND)
    assert learn_tables(tmp_path / "new", [tmp_path / "twice.csv"], KIND, again=True).total("learned") == 18000


@pytest.mark.parametrize("ledger", [None, "rows"])
def test_copies_within_a_first_file_are_not_said_to_be_learned_before(tmp_path, rows, ledger):
    X, y = rows
    options = LearnOptions(label="kind", ledger=ledger)
    file = written(tmp_path / "t.csv", X, y, np.r_[0:9000, 100:900])
    report = learn_tables(tmp_path / "m", [file], options)
    assert report.total("learned") == 9800 and len(report.warnings) == 1
    assert "rows above them" in report.warnings[0] and "before" not in report.warnings[0]


@pytest.mark.parametrize(("header", "reason"), [("A,b,c,d,kind\n", "'a' is missing"), ("u,v,w,z,kind\n", "missing")])
def test_renamed_columns_are_refused(learned, tmp_path, header, reason):
    m, X, y = learned
    assert reason in outcome(m, written(tmp_path / "t.csv", X[:50], y[:50], header=header))


def test_other_ends_of_lines_and_other_ways_to_write_a_number_are_known(tmp_path):
    (tmp_path / "t.csv").write_text("a,kind\n" + "".join(f"{i}.5,{'xy'[i % 2]}\n" for i in range(50)))
    learn_tables(tmp_path / "m", [tmp_path / "t.csv"], KIND)
    text = "a,kind\r\n" + "".join(
        (f"{i}.500" if i % 3 else f"+{i * 10 + 5}e-1") + f", {'xy'[i % 2]}\r\n" for i in range(50)
    )
    (tmp_path / "other.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert outcome(tmp_path / "m", tmp_path / "other.csv") == (0, 50)
    semicolons = text.replace(",", ";").replace(".", ",").replace("\r\n", "\n")
    (tmp_path / "de.csv").write_text(semicolons, encoding="utf-16")
    assert outcome(tmp_path / "m", tmp_path / "de.csv") == (0, 50)


def test_files_joined_and_pieces_in_another_order_are_known(learned, tmp_path):
    m, X, y = learned
    new = written(tmp_path / "new.csv", X[9000:9500], y[9000:9500])
    both = tmp_path / "both.csv"
    both.write_bytes(new.read_bytes() + b"".join(lines_of(X[:9000], y[:9000])))
    assert outcome(m, both) == (500, 9000)
    pieces = np.cumsum([0, *(e.span for e in read(m).ledger.entries if e.name == "jan.csv")])
    order = np.concatenate([np.arange(a, b) for a, b in zip(pieces[-2::-1], pieces[:0:-1], strict=True)])
    assert len(pieces) > 2 and outcome(m, written(tmp_path / "turned.csv", X, y, order)) == (0, 9000)


def test_a_few_corrected_rows_are_named_as_familiar(learned, tmp_path):
    m, X, y = learned
    order = np.r_[9000:9400, 0:20]
    report = learn_tables(m, [written(tmp_path / "t.csv", X, y, order)], KIND)
    assert report.total("learned") == 420
    assert any("20 rows of t.csv look like rows learned before" in warning for warning in report.warnings)


def test_a_new_row_with_a_gap_is_an_error_wherever_it_is(tmp_path):
    log, m, text = tmp_path / "log.csv", tmp_path / "m", "a,b,c,d,kind\n1,2,3,4,x\n2,3,4,5,y\n"
    log.write_text(text)
    assert learn_tables(m, [log], KIND).total("learned") == 2
    for more in ("1,,3,4,x\n", "1,,3,4,x\n5,6,7,8,x\n"):
        log.write_text(text + more)
        assert "1 of" in outcome(m, log)
    assert outcome(m, log, drop=True) == (1, 2)
    assert outcome(m, log) == (0, 3)  # the row was seen before, and left out


@pytest.mark.parametrize("rows_again", [[4, 3, 0, 9, 7, 1, 8, 2, 6, 5], [0, 1, 2, 3, 4, 5, 6, 7], range(0, 20, 2)])
def test_a_small_file_of_known_rows_only_is_an_error(tmp_path, rows, rows_again):
    X, y = rows
    m = tmp_path / "m"
    learn_tables(m, [written(tmp_path / "t.csv", X[:20], y[:20])], KIND)
    reason = outcome(m, written(tmp_path / "part.csv", X, y, np.array(rows_again)))
    assert "were learned before" in str(reason)
    assert outcome(m, tmp_path / "part.csv", again=True) == (len(rows_again), 0)


def test_rows_that_repeat_by_nature_are_learned(tmp_path):
    rng = np.random.default_rng(3)
    for k in range(4):
        X = rng.integers(0, 2, (200, 4)).astype(float)
        path = written(tmp_path / f"{k}.csv", X, np.array(["x", "y"])[rng.integers(0, 2, 200)])
        assert learn_tables(tmp_path / "m", [path], KIND).total("learned") == 200
    one = tmp_path / "one.csv"
    text = "a,b,c,d,kind\n"
    for k in range(5):  # the same row, appended again and again
        text += "1.5,2.0,3.0,4.0,x\n"
        one.write_text(text)
        report = learn_tables(tmp_path / "m", [one], KIND)
        assert (report.total("learned"), report.total("skipped")) == (1, k)


# A ledger of rows


@pytest.fixture
def by_row(tmp_path, rows):
    X, y = rows
    options = LearnOptions(label="kind", settings={"ridge": 0.1}, ledger="rows")
    learn_tables(tmp_path / "m", [written(tmp_path / "jan.csv", X[:300], y[:300])], options)
    return tmp_path / "m", X, y


def holds(m, X, y, chosen):
    joint = rm.ContinualClassifier(rm.RLS(ridge=0.1)).fit(X[chosen], y[chosen])
    model = rm.load(m)
    np.testing.assert_allclose(model.class_scores(X[:50]), joint.class_scores(X[:50]), atol=1e-9)
    assert model.n_seen_ == len(chosen) == read(m).ledger.rows() == len(read(m).row_keys.words)
    assert inspect_file(m).holds


def test_with_a_ledger_of_rows_every_row_is_known(by_row, tmp_path):
    m, X, y = by_row
    order = np.random.default_rng(1).permutation(400)
    assert outcome(m, written(tmp_path / "t.csv", X, y, order)) == (100, 300)
    holds(m, X, y, np.arange(400))
    twice = np.r_[0:400, 0:10]
    assert outcome(m, written(tmp_path / "twice.csv", X, y, twice)) == (10, 400)
    holds(m, X, y, twice)
    part = written(tmp_path / "part.csv", X, y, np.r_[5:15, 600])
    report = unlearn_tables(m, [part])
    assert (report.total("unlearned"), report.total("skipped")) == (15, 1)
    holds(m, X, y, np.r_[0:5, 0:5, 15:400])
    for path in (tmp_path / "jan.csv", tmp_path / "twice.csv", part):
        path.unlink()  # no file is needed
    assert unlearn_tables(m, [written(tmp_path / "p.csv", X, y, np.r_[0:3])]).total("unlearned") == 6


@pytest.mark.parametrize("count", [20, 300])
def test_with_a_ledger_of_rows_a_doubled_file_is_refused(by_row, tmp_path, count):
    m, X, y = by_row
    twice = written(tmp_path / "twice.csv", X, y, np.tile(np.arange(count), 2))
    assert "further copies" in outcome(m, twice)
    holds(m, X, y, np.arange(300))
    assert outcome(m, twice, again=True) == (2 * count, 0)


def test_with_a_ledger_of_rows_models_that_share_rows_are_not_merged(by_row, tmp_path):
    from remanence.store.jobs.merge import merge_files

    m, X, y = by_row
    options = LearnOptions(label="kind", settings={"ridge": 0.1}, ledger="rows")
    learn_tables(tmp_path / "n", [written(tmp_path / "feb.csv", X, y, np.r_[298:500])], options)
    with pytest.raises(rm.InputError, match="both have learned 2 equal rows"):
        merge_files([m, tmp_path / "n"], tmp_path / "all")
    unlearn_tables(tmp_path / "n", [written(tmp_path / "two.csv", X, y, np.r_[298, 299])])
    merge_files([m, tmp_path / "n"], tmp_path / "all")
    holds(tmp_path / "all", X, y, np.arange(500))


@pytest.mark.parametrize("ledger", [None, "rows"])
def test_the_rows_of_one_customer_are_unlearned(tmp_path, rows, ledger):
    from remanence.store.jobs.unlearn import unlearn_session

    X, y = rows
    customer = np.arange(300) % 7
    text = "customer,a,b,c,d,kind\n" + "".join(
        f"{who},{','.join(map(repr, x))},{label}\n"
        for who, x, label in zip(customer, X[:300].tolist(), y, strict=False)
    )
    (tmp_path / "t.csv").write_text(text)
    options = LearnOptions("kind", ignored=("customer",), settings={"ridge": 0.1}, ledger=ledger)
    learn_tables(tmp_path / "m", [tmp_path / "t.csv"], options)
    with unlearn_session(tmp_path / "m", where={"customer": "3"}) as job:
        job.unlearn(tmp_path / "t.csv")
    assert job.report.total("unlearned") == (customer == 3).sum()
    joint = rm.ContinualClassifier(rm.RLS(ridge=0.1)).fit(X[:300][customer != 3], y[:300][customer != 3])
    np.testing.assert_allclose(rm.load(tmp_path / "m").class_scores(X[:9]), joint.class_scores(X[:9]), atol=1e-9)
    assert learn_tables(tmp_path / "m", [tmp_path / "t.csv"]).total("learned") == (0 if ledger is None else 43)


def test_standard_input_and_addresses_are_read(tmp_path, rows, monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    from remanence.store.jobs.learn import learn_session

    X, y = rows
    content = written(tmp_path / "t.csv", X[:100], y[:100]).read_bytes()
    with fsspec.open("memory://day/t.csv.gz", "wb") as file:
        file.write(gzip.compress(content))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    with learn_session(tmp_path / "m", KIND, given="csv") as job:
        job.learn("-")
    with learn_session(tmp_path / "m", KIND) as job:
        job.learn("memory://day/t.csv.gz")
    assert job.report.total("skipped") == 100 and read(tmp_path / "m").ledger.rows() == 100
