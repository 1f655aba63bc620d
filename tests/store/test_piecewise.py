"""What unlearning costs in digits is refused, accepted or avoided, and `inspect` says so."""

import numpy as np
import pytest

import remanence as rm
from remanence.store import read
from remanence.store.jobs.inspect import inspect_file
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.jobs.merge import merge_files
from remanence.store.model_file import describe

from .job_helpers import learn_tables, unlearn_tables
from .test_learn import sheet

T = LearnOptions(targets=("t",))
PIECES = LearnOptions(targets=("t",), undo="pieces")


@pytest.fixture
def mishap(tmp_path):
    """Good rows, and a way to write a file of rows that are many times larger."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 4))
    t = X @ [1.0, -2, 3, 0.5] + 0.1 * rng.standard_normal(400)
    good = [sheet(tmp_path / f"{k}.csv", X[200 * k :][:200], t[200 * k :][:200].tolist(), label="t") for k in range(2)]

    def glitch(size):
        wild = size * rng.standard_normal((20, 4))
        return sheet(tmp_path / "glitch.csv", wild, rng.standard_normal(20).tolist(), label="t")

    return tmp_path / "m", good, glitch, rm.ContinualRegressor().fit(X, t), X


def far(m, never):
    found, direct = rm.load(m), never
    return np.linalg.norm(found.coef_ - direct.coef_) / np.linalg.norm(direct.coef_)


def status(m):
    return {c.name: c.status for c in inspect_file(m).certificates}


@pytest.mark.filterwarnings("ignore:.*larger")
@pytest.mark.parametrize("power", [2, 4, 6, 8, 10, 12, 14])
def test_a_mishap_goes_out_to_the_promise_or_is_refused(mishap, power):
    m, good, glitch, never, _ = mishap
    wild = glitch(10.0**power)
    learn_tables(m, [good[0], wild, good[1]], T)
    before = m.read_bytes()
    try:
        unlearn_tables(m, [wild])
    except rm.NumericalError:
        assert m.read_bytes() == before
        unlearn_tables(m, [wild], accept_loss=True)
        assert status(m)["precision"] == "fails" and status(m)["ledger"] == "does not apply"
        assert not inspect_file(m).holds
    else:
        assert far(m, never) < 1e-6
        assert status(m)["precision"] == "holds" == status(m)["ledger"]


@pytest.mark.filterwarnings("ignore:.*larger")
@pytest.mark.parametrize("power", [8, 10, 12, 14])
def test_with_pieces_a_mishap_leaves_no_trace(mishap, power):
    m, good, glitch, never, X = mishap
    wild = glitch(10.0**power)
    learn_tables(m, [good[0], wild, good[1]], PIECES)
    assert read(m).pieces.keys() == read(m).ledger.in_force().keys()
    unlearn_tables(m, [wild])
    assert far(m, never) < 1e-12
    assert set(status(m).values()) == {"holds"} and inspect_file(m).to_dict()["undo"] == "pieces"
    np.testing.assert_allclose(rm.load(m).predict(X), never.predict(X), atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*larger")
def test_rows_of_a_piece_touch_that_piece_only(mishap, tmp_path):
    m, good, glitch, _, X = mishap
    wild = glitch(1e10)
    learn_tables(m, [good[0], wild, good[1]], PIECES)
    lines = good[0].read_text().splitlines(True)
    (tmp_path / "part.csv").write_text("".join([lines[0], *lines[3:9]]))
    kept = read(m).pieces
    assert unlearn_tables(m, [tmp_path / "part.csv"]).total("unlearned") == 6
    now = read(m).pieces
    assert [rm_.n_seen_ for rm_ in now.values()] == [194, 20, 200]
    for mark, same in zip(now, (False, True, True), strict=True):
        assert (now[mark].coef_ == kept[mark].coef_).all() == same
    unlearn_tables(m, [wild])
    left = rm.ContinualRegressor().fit(np.delete(X, range(2, 8), 0), np.delete(_targets(good), range(2, 8)))
    assert far(m, left) < 1e-12


def _targets(good):
    return np.concatenate([np.loadtxt(path, delimiter=",", skiprows=1)[:, 4] for path in good])


def test_pieces_are_a_setting_of_the_model(mishap, tmp_path):
    m, good, _, _, _ = mishap
    learn_tables(m, good[:1], PIECES)
    plain = tmp_path / "plain"
    learn_tables(plain, good[1:], T)
    assert (
        describe(m).ledger.rows() == 200 and b'"format":"3"' in m.read_bytes() and b'"format":"3"' in plain.read_bytes()
    )
    with pytest.raises(rm.InputError, match=r"undo none, got undo pieces"):
        learn_tables(plain, good[:1], PIECES)
    with pytest.raises(rm.InputError, match="one of each"):
        merge_files([m, plain], tmp_path / "both")
    for other in (LearnOptions(targets=("t",), undo="pieces", method="lms"), LearnOptions(targets=("t",), undo="rows")):
        with pytest.raises(rm.InputError, match=r"RLS with forget=1|pieces"):
            learn_tables(tmp_path / "other", good, other)
    second = tmp_path / "second"
    learn_tables(second, good[1:], PIECES)
    merged = merge_files([m, second], tmp_path / "both")
    assert [p.n_seen_ for p in read(tmp_path / "both").pieces.values()] == [200, 200]
    assert merged.learner.n_seen_ == 400
    unlearn_tables(tmp_path / "both", good)
    assert read(tmp_path / "both").pieces == {} and read(tmp_path / "both").ledger.rows() == 0


def test_pieces_that_do_not_belong_are_refused(mishap):
    from dataclasses import replace

    from remanence.store import write

    m, good, _, _, _ = mishap
    learn_tables(m, good, PIECES)
    model = read(m)
    one = dict(list(model.pieces.items())[:1])
    for pieces, words in ((one, "pieces of 400 rows"), ({"0" * 64: model.learner}, "that the ledger has")):
        write(m, replace(model, pieces=pieces))
        with pytest.raises(rm.FileError, match=words):
            read(m)
