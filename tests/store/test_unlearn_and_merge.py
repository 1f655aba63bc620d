"""Rows go out exactly, and only where they are known to be in; models of several sites become one."""

import numpy as np
import pytest

import remanence as rm
from remanence.store import read
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.jobs.merge import merge_files
from remanence.store.jobs.predict import predict_table
from remanence.tables import csv as text

from .job_helpers import learn_tables, unlearn_tables
from .test_learn import KIND, joint, same, sheet


@pytest.fixture
def site(tmp_path, rows):
    """Three learned files in a folder, and elsewhere a place for others."""
    X, y = rows
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir(), elsewhere.mkdir()
    files = [sheet(home / f"{k}.csv", X[20 * k : 20 * k + 20], y[20 * k : 20 * k + 20]) for k in range(3)]
    learn_tables(home / "m", files, KIND)
    return home / "m", files, elsewhere


def test_a_file_goes_out_as_if_it_had_never_been_learned(site, rows):
    m, files, _ = site
    X, y = rows
    assert unlearn_tables(m, [files[1]]).to_dict()["unlearned"] == 20
    left = np.r_[0:20, 40:60]
    same(rm.load(m), joint(X[left], y[left]), X)
    assert rm.load(m).n_seen_ == 40 == read(m).ledger.rows()
    again = unlearn_tables(m, [files[1]])
    assert (again.total("unlearned"), again.total("skipped")) == (0, 20)
    assert learn_tables(m, files).to_dict()["learned"] == 20
    same(rm.load(m), joint(X, y), X)


def test_rows_of_a_learned_file_go_out_and_the_rest_of_it_after_them(site, rows, monkeypatch):
    monkeypatch.setattr(text, "ROWS_AT_ONCE", 6)
    m, files, elsewhere = site
    X, y = rows
    customer = sheet(elsewhere / "customer.csv", X[[33, 5, 7]], y[[33, 5, 7]])  # from two files, in another order
    assert unlearn_tables(m, [customer]).total("unlearned") == 3
    left = np.setdiff1d(np.arange(60), [5, 7, 33])
    same(rm.load(m), joint(X[left], y[left]), X)
    assert unlearn_tables(m, [customer]).total("skipped") == 3
    overlapping = sheet(elsewhere / "other.csv", X[[7, 8]], y[[7, 8]])  # one of the two is out already
    report = unlearn_tables(m, [overlapping])
    assert (report.total("unlearned"), report.total("skipped")) == (1, 1)
    assert unlearn_tables(m, [files[0]]).total("unlearned") == 17
    left = np.setdiff1d(np.arange(20, 60), [33])
    same(rm.load(m), joint(X[left], y[left]), X)
    assert read(m).ledger.rows() == 39 == rm.load(m).n_seen_
    learn_tables(m, [files[0]])  # and back: the customer's rows with it, so that they must go once more
    assert unlearn_tables(m, [sheet(elsewhere / "two.csv", X[[5, 7]], y[[5, 7]])]).total("unlearned") == 2
    assert read(m).ledger.rows() == 57


def test_what_came_back_goes_out_again(site, rows):
    m, files, elsewhere = site
    X, y = rows
    customer = sheet(elsewhere / "customer.csv", X[[5, 7]], y[[5, 7]])
    unlearn_tables(m, [customer])
    unlearn_tables(m, [files[0]])
    learn_tables(m, [files[0]])
    assert unlearn_tables(m, [customer]).total("unlearned") == 2
    left = np.setdiff1d(np.arange(60), [5, 7])
    same(rm.load(m), joint(X[left], y[left]), X)


def test_a_row_that_is_there_twice_goes_out_twice(tmp_path, rows):
    X, y = rows
    twice = sheet(tmp_path / "twice.csv", X[[0, 1, 0, 2, 3]], y[[0, 1, 0, 2, 3]])
    one = sheet(tmp_path / "one.csv", X[[0]], y[[0]])
    learn_tables(tmp_path / "m", [twice], KIND)
    assert unlearn_tables(tmp_path / "m", [one]).total("unlearned") == 2
    assert unlearn_tables(tmp_path / "m", [one]).total("unlearned") == 0
    same(rm.load(tmp_path / "m"), joint(X[1:4], y[1:4]), X)


def test_rows_that_were_never_learned_are_refused_though_arithmetic_would_let_them_go(site, rows):
    m, _, elsewhere = site
    before = m.read_bytes()
    strange = 0.1 * np.random.default_rng(5).standard_normal((4, 4))
    stranger = sheet(elsewhere / "stranger.csv", strange, [0, 1, 0, 1])
    assert rm.load(m).unlearn(strange, [0, 1, 0, 1]).n_seen_ == 56  # (a memory alone cannot tell)
    with pytest.raises(rm.InputError, match=r"4 rows of stranger\.csv.*name the files.*on trust"):
        unlearn_tables(m, [stranger])
    X, y = rows
    relabelled = sheet(elsewhere / "relabelled.csv", X[:2], 1 - y[:2])
    with pytest.raises(rm.InputError, match="2 rows of relabelled"):
        unlearn_tables(m, [relabelled])
    assert m.read_bytes() == before


def test_without_the_learned_file_it_takes_trust_and_what_arithmetic_excludes_is_refused(site, rows, monkeypatch):
    m, files, elsewhere = site
    X, y = rows
    part = sheet(elsewhere / "part.csv", X[:3], y[:3])
    moved = files[0].rename(elsewhere / "renamed.csv")
    before = m.read_bytes()
    with pytest.raises(rm.InputError, match="3 rows of part"):
        unlearn_tables(m, [part])
    huge = sheet(elsewhere / "huge.csv", 100 * X[:3], y[:3])
    with pytest.raises(rm.InputError, match="cannot all have been learned"):
        unlearn_tables(m, [huge], trust=True)
    assert m.read_bytes() == before
    assert unlearn_tables(m, [part], sources=[moved]).total("unlearned") == 3
    same(rm.load(m), joint(X[3:], y[3:]), X)
    more = sheet(elsewhere / "more.csv", X[3:5], y[3:5])
    assert unlearn_tables(m, [more], trust=True).total("unlearned") == 2
    same(rm.load(m), joint(X[5:], y[5:]), X)
    assert read(m).ledger.rows() == 55


def test_everything_can_go_and_come_back(site, rows):
    m, files, _ = site
    X, y = rows
    assert unlearn_tables(m, files).total("unlearned") == 60
    assert read(m).ledger.rows() == 0
    with pytest.raises(rm.InputError, match="learn some rows first"):
        predict_table(m, files[0], m.with_name("o.csv"))
    learn_tables(m, files)
    same(rm.load(m), joint(X, y), X)


def test_rows_dropped_for_what_they_miss_do_not_go_out(tmp_path, rows):
    X, y = rows
    first = sheet(tmp_path / "0.csv", X[:30], y[:30])
    holes = X[30:].copy()
    holes[3, 2] = np.nan
    second = sheet(tmp_path / "1.csv", holes, y[30:])
    learn_tables(tmp_path / "m", [first, second], KIND, drop=True)
    assert rm.load(tmp_path / "m").n_seen_ == 59
    assert unlearn_tables(tmp_path / "m", [second]).total("unlearned") == 29
    same(rm.load(tmp_path / "m"), joint(X[:30], y[:30]), X)


def test_what_fades_cannot_be_taken_back(tmp_path, rows):
    X, y = rows
    path = sheet(tmp_path / "0.csv", X, y)
    for options, words in (
        (LearnOptions("kind", settings={"forget": 0.99}), "forget=1"),
        (LearnOptions("kind", method="lms"), "use RLS"),
    ):
        m = tmp_path / words
        learn_tables(m, [path], options)
        before = m.read_bytes()
        with pytest.raises(rm.InputError, match=words):
            unlearn_tables(m, [path])
        assert m.read_bytes() == before


def test_a_regressor_forgets_too(tmp_path, rows):
    X, _ = rows
    t = np.sin(X[:, 0])
    files = [sheet(tmp_path / f"{k}.csv", X[30 * k :][:30], t[30 * k :][:30].tolist(), label="t") for k in range(2)]
    learn_tables(tmp_path / "m", files, LearnOptions(targets=("t",)))
    unlearn_tables(tmp_path / "m", [files[0]])
    direct = rm.ContinualRegressor().fit(X[30:], t[30:])
    np.testing.assert_allclose(rm.load(tmp_path / "m").predict(X), direct.predict(X), atol=1e-12)
    unlearn_tables(tmp_path / "m", [files[1]])
    learn_tables(tmp_path / "m", [files[1]])
    np.testing.assert_allclose(rm.load(tmp_path / "m").predict(X), direct.predict(X), atol=1e-12)


# Merging


def taught(path, data, options=KIND):
    learn_tables(path, data, options)
    return path


def test_models_of_two_sites_are_the_model_of_both(tmp_path, site, rows):
    _, files, elsewhere = site
    X, y = rows
    a, b = taught(tmp_path / "a", files[:1]), taught(tmp_path / "b", files[1:])
    unlearn_tables(b, [sheet(elsewhere / "c.csv", X[[25]], y[[25]])], sources=files)
    merged = merge_files([a, b], tmp_path / "both")
    left = np.setdiff1d(np.arange(60), [25])
    same(rm.load(tmp_path / "both"), joint(X[left], y[left]), X)
    ledger = read(tmp_path / "both").ledger
    assert [(e.name, e.action) for e in ledger] == [("0.csv", "learned"), ("1.csv", "merged"), ("2.csv", "merged")]
    assert ledger.rows() == 59 == rm.load(tmp_path / "both").n_seen_ == merged.learner.n_seen_
    assert learn_tables(tmp_path / "both", files).total("learned") == 0
    unlearn_tables(tmp_path / "both", [files[1]])  # but for the row that is out already
    left = np.r_[0:20, 40:60]
    same(rm.load(tmp_path / "both"), joint(X[left], y[left]), X)


def test_what_both_have_learned_would_count_twice_and_is_refused(tmp_path, site):
    m, files, _ = site
    a, b = taught(tmp_path / "a", files[:2]), taught(tmp_path / "b", files[1:])
    with pytest.raises(rm.InputError, match=r"cannot merge .*b: .*both have learned 1\.csv; unlearn"):
        merge_files([a, b], tmp_path / "both")
    assert not (tmp_path / "both").exists()
    unlearn_tables(b, [files[1]])
    merge_files([a, b], a)  # into one of them
    assert rm.load(a).n_seen_ == 60
    with pytest.raises(rm.InputError, match="both have learned"):
        merge_files([a, b], a)
    with pytest.raises(rm.FileError, match="would be lost"):
        merge_files([a, b], m)
    with pytest.raises(rm.InputError, match="at least two"):
        merge_files([a], tmp_path / "one")


def test_models_that_were_taught_otherwise_are_refused(tmp_path, site, rows):
    _, files, elsewhere = site
    X, y = rows
    a = taught(tmp_path / "a", files[:1])
    for name, options, data, words in (
        ("ridge", LearnOptions("kind", settings={"ridge": 2}), files[1], "same features"),
        ("order", KIND, sheet(elsewhere / "o.csv", X, y, names="dcba"), "same columns in the same order"),
        ("names", KIND, sheet(elsewhere / "n.csv", X, y, names="efgh"), "the same columns"),
        ("kind", KIND, sheet(elsewhere / "t.csv", X, ["x", "y"] * 30), "kind of label"),
        ("label", LearnOptions("klass"), sheet(elsewhere / "l.csv", X, y, label="klass"), "the same label"),
    ):
        b = taught(tmp_path / name, [data], options)
        with pytest.raises(rm.InputError, match=words):
            merge_files([a, b], tmp_path / "both")
    assert not (tmp_path / "both").exists()
