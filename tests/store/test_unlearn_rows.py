"""What the ledger says is true of the model: copies, rows that came back, rows out on trust, files that changed."""

import numpy as np
import pytest

import remanence as rm
from remanence.store import read
from remanence.store.jobs.inspect import inspect_file
from remanence.store.jobs.merge import merge_files
from remanence.tables import csv as text
from remanence.tables import npz as arrays
from remanence.tables import parquet

from .job_helpers import learn_tables, unlearn_tables
from .test_learn import KIND, joint, same, sheet

CUSTOMER = [3, 5, 7, 11, 13]


@pytest.fixture
def place(tmp_path, rows):
    """A folder, its model, and a way to write rows into files there."""
    X, y = rows

    def write(name, which):
        return sheet(tmp_path / name, X[list(which)], y[list(which)])

    return tmp_path / "m", write


def holds(m, rows, which):
    """The model is that of these rows, and so say its counts and its ledger."""
    X, y = rows
    which = list(which)
    same(rm.load(m), joint(X[which], y[which]), X, 1e-10)
    assert rm.load(m).n_seen_ == len(which) == read(m).ledger.rows()


def without(which, *gone):
    return [i for i in which if i not in gone]


# Rows that came back


def test_rows_that_came_back_go_out_and_only_what_is_out_is_called_out(place, rows):
    m, write = place
    learn_tables(m, [write("jan.csv", range(20))], KIND)
    customer = write("customer.csv", CUSTOMER)
    assert unlearn_tables(m, [customer]).total("unlearned") == 5
    learn_tables(m, [write("feb.csv", [*CUSTOMER[:3], *range(20, 40)])])
    report = unlearn_tables(m, [customer])
    assert (report.total("unlearned"), report.total("skipped")) == (3, 2)
    holds(m, rows, without(range(40), *CUSTOMER))
    report = unlearn_tables(m, [customer])
    assert (report.total("unlearned"), report.total("skipped"), report.unsearched) == (0, 5, {})


def test_rows_are_not_called_out_where_they_may_have_come_back(place, rows):
    m, write = place
    learn_tables(m, [write("jan.csv", range(20))], KIND)
    customer = write("customer.csv", CUSTOMER)
    unlearn_tables(m, [customer])
    feb = write("feb.csv", [20, *CUSTOMER[::-1], *range(21, 40)])
    learn_tables(m, [feb])
    feb.rename(feb.with_name("elsewhere.csv"))
    before = m.read_bytes()
    with pytest.raises(rm.InputError, match=r"5 rows of customer\.csv.*not found.*feb\.csv"):
        unlearn_tables(m, [customer])
    assert m.read_bytes() == before
    assert unlearn_tables(m, [customer], sources=[feb.with_name("elsewhere.csv")]).total("unlearned") == 5
    holds(m, rows, without(range(40), *CUSTOMER))


def test_rows_that_are_out_are_called_out_whatever_file_asks(place, rows):
    m, write = place
    learn_tables(m, [write("jan.csv", range(20)), write("feb.csv", range(20, 40))], KIND)
    unlearn_tables(m, [write("customer.csv", CUSTOMER)])
    report = unlearn_tables(m, [write("other.csv", [5, 3])])  # out as rows of jan.csv
    assert (report.total("unlearned"), report.total("skipped")) == (0, 2)
    unlearn_tables(m, [m.with_name("feb.csv")])
    report = unlearn_tables(m, [write("third.csv", [21, 22])])  # out with all of feb.csv
    assert (report.total("unlearned"), report.total("skipped")) == (0, 2)
    with pytest.raises(rm.InputError, match=r"1 row of fourth\.csv"):
        unlearn_tables(m, [write("fourth.csv", [3, 50])])


# Every copy


def test_every_copy_of_a_row_goes_out(place, rows):
    m, write = place
    learn_tables(m, [write("jan.csv", range(20)), write("both.csv", [*CUSTOMER, 3, *range(20, 40)])], KIND)
    learn_tables(m, [m.with_name("jan.csv")], again=True)
    customer = write("customer.csv", CUSTOMER)
    assert unlearn_tables(m, [customer]).total("unlearned") == 16
    left = [*without(range(20), *CUSTOMER), *without(range(20), *CUSTOMER), *range(20, 40)]
    holds(m, rows, left)
    assert unlearn_tables(m, [customer]).total("skipped") == 5
    unlearn_tables(m, [m.with_name("jan.csv")])
    holds(m, rows, range(20, 40))


def test_a_whole_file_takes_its_copies_in_other_files_along(place, rows):
    m, write = place
    files = [write("jan.csv", range(20)), write("both.csv", range(10, 30)), write("rest.csv", range(30, 40))]
    learn_tables(m, files, KIND)
    assert unlearn_tables(m, files[:1]).total("unlearned") == 30
    holds(m, rows, range(20, 40))
    assert learn_tables(m, files[:1]).total("learned") == 20
    holds(m, rows, range(40))


def test_pieces_that_are_not_at_hand_are_named(place, rows):
    m, write = place
    learn_tables(m, [write("jan.csv", range(20)), write("both.csv", [*CUSTOMER, *range(20, 40)])], KIND)
    m.with_name("both.csv").rename(m.with_name("away"))
    customer = write("customer.csv", CUSTOMER)
    report = unlearn_tables(m, [customer])
    assert report.total("unlearned") == 5 and report.unsearched == {"both.csv": 25}
    assert report.to_dict()["unsearched"] == [{"name": "both.csv", "rows": 25}]
    m.with_name("away").rename(m.with_name("both.csv"))
    assert unlearn_tables(m, [customer]).total("unlearned") == 5
    holds(m, rows, without(range(40), *CUSTOMER))


# On trust


@pytest.fixture
def trusted(place):
    """Customer's rows taken out on trust, as jan.csv was away; it is back now."""
    m, write = place
    learn_tables(m, [write("jan.csv", range(20)), write("mar.csv", range(20, 40))], KIND)
    m.with_name("jan.csv").rename(m.with_name("away"))
    customer = write("customer.csv", CUSTOMER)
    assert unlearn_tables(m, [customer], trust=True).total("unlearned") == 5
    m.with_name("away").rename(m.with_name("jan.csv"))
    return m, write, customer


def certified(m):
    return {c.name: c.status for c in inspect_file(m).certificates}


def test_rows_out_on_trust_do_not_go_out_with_their_file_again(trusted, rows):
    m, *_ = trusted
    holds(m, rows, without(range(40), *CUSTOMER))
    assert certified(m)["ledger"] == "does not apply"
    assert unlearn_tables(m, [m.with_name("jan.csv")]).total("unlearned") == 15
    holds(m, rows, range(20, 40))
    assert certified(m)["ledger"] == "holds"


def test_rows_out_on_trust_do_not_go_out_as_parts_again(trusted, rows):
    m, write, customer = trusted
    report = unlearn_tables(m, [write("other.csv", [3, 4])])
    assert (report.total("unlearned"), report.total("skipped")) == (1, 1)
    assert unlearn_tables(m, [customer]).total("skipped") == 5
    holds(m, rows, without(range(40), *CUSTOMER, 4))


def test_where_rows_out_on_trust_are_not_at_hand_nothing_else_goes_out_of_older_pieces(trusted, rows):
    m, write, customer = trusted
    hidden = customer.rename(customer.with_name("hidden"))
    before = m.read_bytes()
    for asked in (m.with_name("jan.csv"), m.with_name("mar.csv"), write("part.csv", [0, 1])):
        with pytest.raises(rm.InputError, match=r"customer\.csv"):
            unlearn_tables(m, [asked])
        assert m.read_bytes() == before
    learn_tables(m, [write("new.csv", range(40, 50))])
    assert unlearn_tables(m, [m.with_name("new.csv")]).total("unlearned") == 10  # they cannot be in here
    copy = hidden.rename(hidden.with_name("copy.csv"))
    assert unlearn_tables(m, [m.with_name("jan.csv")], sources=[copy]).total("unlearned") == 15
    holds(m, rows, range(20, 40))


def test_rows_out_on_trust_stay_so_in_a_merged_model(trusted, rows):
    m, write, _ = trusted
    other = m.with_name("other")
    learn_tables(other, [write("new.csv", range(40, 60))], KIND)
    both = m.with_name("all")
    merge_files([other, m], both)
    holds(both, rows, without(range(60), *CUSTOMER))
    assert certified(both)["ledger"] == "does not apply"
    assert unlearn_tables(both, [m.with_name("jan.csv")]).total("unlearned") == 15
    holds(both, rows, range(20, 60))


# Files that change while they are read


def between(monkeypatch, change, name="t"):
    """Run `change` once, after a file was hashed or a CSV file was opened, and before its rows are parsed."""
    done = []

    def changing(real):
        def hashed(self):
            found = real(self)
            if self.path.stem == name and not done:
                done.append(True)
                change(self.path)
            return found

        return hashed

    for kind in (text.CsvTable, arrays.NpzTable, parquet.ParquetTable):
        monkeypatch.setattr(kind, "pieces", changing(kind.pieces))
    monkeypatch.setattr(text.CsvTable, "source", changing(text.CsvTable.source))


def written(path, X, y):
    if path.suffix == ".csv":
        return sheet(path, X, y, names=["x0", "x1", "x2", "x3"])
    if path.suffix == ".npz":
        np.savez(path, x=X, kind=y)
        return path
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({**{f"x{j}": X[:, j] for j in range(4)}, "kind": y}), path)
    return path


def appended(path):
    with path.open("a") as file:
        file.write("1,2,3,4,0\n")


def replaced(rows):
    X, y = rows

    def change(path):
        beside = path.with_name("beside" + path.suffix)
        written(beside, X[20:40] + 1, y[20:40]).replace(path)

    return change


@pytest.mark.parametrize("ending", ["csv", "npz", "parquet"])
@pytest.mark.parametrize("known", [False, True], ids=["first", "later"])
def test_a_file_that_is_replaced_after_it_was_hashed_is_refused_or_known_by_what_was_read(
    tmp_path, rows, monkeypatch, ending, known
):
    X, y = rows
    m, path = tmp_path / "m", written(tmp_path / f"t.{ending}", X[:20], y[:20])
    if known:
        learn_tables(m, [written(tmp_path / f"0.{ending}", X[40:], y[40:])], KIND)
    before = m.read_bytes() if known else None
    between(monkeypatch, replaced(rows))
    if ending != "parquet":  # (an NPZ is read as a whole before it is hashed, a CSV is read from one open file)
        learn_tables(m, [path], KIND)
        assert learn_tables(m, [written(tmp_path / f"again.{ending}", X[:20], y[:20])]).total("skipped") == 20
        return
    with pytest.raises(rm.InputError, match=rf"t\.{ending} changed while it was being read"):
        learn_tables(m, [path], KIND)
    assert (m.read_bytes() if m.exists() else None) == before
    assert learn_tables(m, [path], KIND).total("learned") == 20
    assert learn_tables(m, [path], KIND).total("skipped") == 20


@pytest.mark.parametrize("known", [False, True], ids=["first", "later"])
def test_rows_that_are_appended_while_a_file_is_read_wait(tmp_path, rows, monkeypatch, known):
    X, y = rows
    m, path = tmp_path / "m", written(tmp_path / "t.csv", X[:20], y[:20])
    if known:
        learn_tables(m, [written(tmp_path / "0.csv", X[40:], y[40:])], KIND)
    between(monkeypatch, appended)
    assert learn_tables(m, [path], KIND).total("learned") == 20
    report = learn_tables(m, [path], KIND)
    assert (report.total("learned"), report.total("skipped")) == (1, 20)


def test_unlearning_refuses_a_file_that_changes_meanwhile(tmp_path, rows, monkeypatch):
    X, y = rows
    files = [written(tmp_path / f"{name}.csv", X[20 * k :][:20], y[20 * k :][:20]) for k, name in enumerate("01t")]
    m = tmp_path / "m"
    learn_tables(m, files, KIND)
    before = m.read_bytes()
    between(monkeypatch, replaced(rows))
    with pytest.raises(rm.InputError, match=r"t\.csv changed while it was being read"):
        unlearn_tables(m, [tmp_path / "t.csv"])
    assert m.read_bytes() == before


def test_rows_are_searched_in_what_was_read_of_a_file(tmp_path, rows, monkeypatch):
    X, y = rows
    files = [written(tmp_path / f"{name}.csv", X[20 * k :][:20], y[20 * k :][:20]) for k, name in enumerate("01t")]
    m = tmp_path / "m"
    learn_tables(m, files, KIND)
    between(monkeypatch, replaced(rows))  # t.csv is open then: what is in it is searched
    assert unlearn_tables(m, [written(tmp_path / "part.csv", X[40:43], y[40:43])]).total("unlearned") == 3


def test_a_header_that_changes_after_it_was_read_is_refused(tmp_path, rows, monkeypatch):
    X, y = rows
    path = written(tmp_path / "t.csv", X[:20], y[:20])

    def swapped(table):
        path.write_text(path.read_text().replace("x0,x1", "x1,x0", 1))

    opened = text.CsvTable.pieces
    monkeypatch.setattr(text.CsvTable, "pieces", lambda self: (swapped(self), opened(self))[1])
    with pytest.raises(rm.InputError, match=r"t\.csv changed while it was being read"):
        learn_tables(tmp_path / "m", [path], KIND)


# Parquet files of equal row groups


def test_equal_row_groups_count_as_often_as_they_stand_there(tmp_path, rows):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, y = rows
    twice = np.r_[0:10, 0:10, 10:20, 0:10]
    columns = {name: X[twice, j] for j, name in enumerate("abcd")}
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({**columns, "kind": y[twice]}), path, row_group_size=10)
    m, other = tmp_path / "m", tmp_path / "other"
    assert learn_tables(m, [path], KIND).to_dict()["learned"] == 40
    learn_tables(other, [sheet(tmp_path / "t.csv", X[twice], y[twice])], KIND)
    same(rm.load(m), rm.load(other), X)
    holds(m, rows, twice)
    again = learn_tables(m, [path], KIND)
    assert (again.total("learned"), again.total("skipped")) == (0, 40)
    assert learn_tables(m, [path], KIND, again=True).total("learned") == 40
    holds(m, rows, [*twice, *twice])
    assert unlearn_tables(m, [path]).total("unlearned") == 80
    assert read(m).ledger.rows() == 0
    assert learn_tables(m, [path], KIND).total("learned") == 40


# Files that grew


def test_of_a_file_that_grew_only_what_is_new_is_learned(place, rows):
    m, write = place
    log = write("log.csv", range(20))
    learn_tables(m, [log, write("other.csv", range(50, 60))], KIND)
    short = log.read_bytes()
    write("log.csv", range(30))
    assert log.read_bytes().startswith(short)
    report = learn_tables(m, [log])
    assert (report.total("learned"), report.total("skipped")) == (10, 20)
    holds(m, rows, [*range(30), *range(50, 60)])
    assert learn_tables(m, [log], again=True).total("learned") == 30
    holds(m, rows, [*range(30), *range(50, 60), *range(30)])
    log.write_bytes(short)
    assert learn_tables(m, [log]).total("skipped") == 20
    assert unlearn_tables(m, [log]).total("unlearned") == 40
    holds(m, rows, [*range(20, 30), *range(50, 60), *range(20, 30)])


def test_a_file_that_grew_from_one_of_an_earlier_ledger_is_refused_with_advice(place, rows):
    m, write = place
    log = as_earlier(m, write("log.csv", range(20)))
    short = log.read_bytes()
    write("log.csv", range(30))
    before = m.read_bytes()
    with pytest.raises(rm.InputError, match=r"log\.csv.*grown.*20 rows.*file of their own"):
        learn_tables(m, [log])
    assert m.read_bytes() == before
    log.write_bytes(short)
    assert learn_tables(m, [log]).total("skipped") == 20
    assert unlearn_tables(m, [log]).total("unlearned") == 20


def as_earlier(m, log, size=True):
    """A model file as earlier versions wrote it: the ledger knows the file by its bytes."""
    import hashlib

    from remanence.store import Ledger, ModelFile
    from remanence.store import write as write_file

    learn_tables(m, [log], KIND)
    model = read(m)
    content = log.read_bytes()
    listed = [hashlib.sha256(content).hexdigest(), log.name, 20, "learned", model.ledger.entries[0].when]
    ledger = Ledger.from_list([[*listed, *([len(content)] if size else [])]])
    write_file(m, ModelFile(model.learner, ledger, model.notes))
    assert b'"format":"1"' in m.read_bytes()
    return log


def test_a_file_that_grew_may_be_learned_when_the_old_part_is_out(place, rows):
    m, write = place
    log = write("log.csv", range(20))
    learn_tables(m, [log], KIND)
    write("old.csv", range(20))
    unlearn_tables(m, [m.with_name("old.csv")])
    write("log.csv", range(30))
    assert learn_tables(m, [log]).total("learned") == 30
    holds(m, rows, range(30))


@pytest.mark.parametrize("size", [True, False])
def test_ledgers_of_earlier_versions_are_read_and_go_on(place, rows, size):
    m, write = place
    log = as_earlier(m, write("log.csv", range(20)), size)
    assert learn_tables(m, [log]).total("skipped") == 20
    assert learn_tables(m, [write("more.csv", range(20, 40))]).total("learned") == 20
    holds(m, rows, range(40))
    assert b'"format":"3"' in m.read_bytes()
    assert learn_tables(m, [log, m.with_name("more.csv")]).total("skipped") == 40
    assert unlearn_tables(m, [write("part.csv", [3, 25])]).total("unlearned") == 2
    holds(m, rows, [r for r in range(40) if r not in (3, 25)])
    assert unlearn_tables(m, [log]).total("unlearned") == 19
    assert learn_tables(m, [log]).total("learned") == 20
    holds(m, rows, [*range(25), *range(26, 40)])
