"""Teaching from tables: exactly once, all or nothing a piece, and columns that mean what they meant before."""

import json
from pathlib import Path

import numpy as np
import pytest

import remanence as rm
from remanence.store import read
from remanence.store.jobs.columns import Columns
from remanence.store.jobs.learn import learn_session
from remanence.store.jobs.learn_options import LearnOptions
from remanence.tables import Piece, RowBlock, Table
from remanence.tables import csv as text
from remanence.tables import npz as arrays

from .conftest import content_of
from .job_helpers import learn_tables, unlearn_tables

KIND = LearnOptions(label="kind")


def sheet(path, X, y, names="abcd", label="kind", **more):
    """A CSV file of rows, labels and further columns."""
    columns = {**{name: map(repr, X[:, j].tolist()) for j, name in enumerate(names)}, label: map(str, y), **more}
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


def joint(X, y, **settings):
    return rm.ContinualClassifier(rm.RLS(**settings)).fit(X, y)


def same(model, other, X, allowed=1e-12):
    np.testing.assert_allclose(model.decision_function(X), other.decision_function(X), atol=allowed)


@pytest.fixture
def three(tmp_path, rows):
    X, y = rows
    return [sheet(tmp_path / f"{k}.csv", X[20 * k : 20 * k + 20], y[20 * k : 20 * k + 20]) for k in range(3)]


def test_pieces_are_learned_once_whatever_they_are_called(tmp_path, rows, three):
    X, y = rows
    m = tmp_path / "m.safetensors"
    assert learn_tables(m, [three[0]], KIND).to_dict()["learned"] == 20
    copied = tmp_path / "copy.csv"
    copied.write_bytes(three[0].read_bytes())
    report = learn_tables(m, [str(tmp_path / "*.csv")]).to_dict()  # (the label is known by now)
    assert (report["learned"], report["skipped"]) == (40, 40)
    assert {f["file"].rpartition("/")[2]: f["skipped"] for f in report["files"]} == {
        "0.csv": 20,
        "1.csv": 0,
        "2.csv": 0,
        "copy.csv": 20,
    }
    assert learn_tables(m, three).total("learned") == 0
    same(rm.load(m), joint(X, y), X)
    assert read(m).ledger.rows() == 60


def test_again_learns_once_more_and_all_of_it_goes_out_together(tmp_path, rows, three):

    X, y = rows
    m = tmp_path / "m"
    learn_tables(m, three, KIND)
    for _ in range(2):
        assert learn_tables(m, [three[2]], again=True).total("learned") == 20
    thrice = np.r_[np.arange(60), np.arange(40, 60), np.arange(40, 60)]
    same(rm.load(m), joint(X[thrice], y[thrice]), X)
    assert unlearn_tables(m, [three[2]]).total("unlearned") == 60
    same(rm.load(m), joint(X[:40], y[:40]), X)
    assert learn_tables(m, [three[2]]).total("learned") == 20 and read(m).ledger.rows() == 60


def test_columns_are_matched_by_name(tmp_path, rows):
    X, y = rows
    m = tmp_path / "m"
    learn_tables(m, [sheet(tmp_path / "a.csv", X[:30], y[:30])], KIND)
    learn_tables(m, [sheet(tmp_path / "b.csv", X[30:, ::-1], y[30:], names="dcba")])
    same(rm.load(m), joint(X, y), X)
    assert read(m).notes["columns"] == list("abcd")


REFUSED = {
    "a column more": ("a,b,c,d,e,kind\n1,2,3,4,5,0\n", "got 'e' besides; ignore it"),
    "a column less": ("a,b,c,kind\n1,2,3,0\n", "'d' is missing"),
    "another name": ("a,b,c,D,kind\n1,2,3,4,0\n", "'d' is missing, and got 'D' besides"),
    "no label": ("a,b,c,d\n1,2,3,4\n", "to have the column 'kind'"),
    "text in a column": ("a,b,c,d,kind\n1,2,3,4,0\n1,2,x,4,0\n", "column 'c', row 2 of bad.csv, got 'x'"),
    "text labels": ("a,b,c,d,kind\n1,2,3,4,0\n1,2,3,4,red\n", "got 'red' in row 2; use one kind of label"),
    "real labels": ("a,b,c,d,kind\n1,2,3,4,0.5\n", "got '0.5' in row 1"),
    "missing": ("a,b,c,d,kind\n1,2,3,4,0\n,2,3,4,0\n1,2,3,4,\n1,nan,3,4,1\n", "3 of 4 rows of bad.csv have missing"),
    "infinite": ("a,b,c,d,kind\n1,2,inf,4,0\n", "the first in row 1; drop those rows"),
    "empty": ("", "bad.csv is empty"),
    "only a header": ("a,b,c,d,kind\n", "no rows"),
    "something else": ("PAR1", "not what its name says"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_and_nothing_has_changed(tmp_path, three, name):
    content, words = REFUSED[name]
    m = tmp_path / "m"
    learn_tables(m, three[:2], KIND)
    before = m.read_bytes()
    (tmp_path / "bad.csv").write_text(content)
    with pytest.raises(rm.InputError) as refusal:
        learn_tables(m, [tmp_path / "bad.csv"])
    assert words in str(refusal.value) and "bad.csv" in str(refusal.value)
    assert m.read_bytes() == before
    if name == "a column more":
        assert learn_tables(m, [tmp_path / "bad.csv"], LearnOptions(ignored=("e",))).total("learned") == 1
    if name == "missing":
        report = learn_tables(m, [tmp_path / "bad.csv"], drop=True).to_dict()
        assert (report["learned"], report["dropped"]) == (1, 3) and read(m).ledger.rows() == 41


def test_a_first_file_that_is_refused_leaves_no_model(tmp_path):
    (tmp_path / "bad.csv").write_text("a,kind\n1,x\n?,y\n")
    with pytest.raises(rm.InputError):
        learn_tables(tmp_path / "m", [tmp_path / "bad.csv"], KIND)
    assert [p.name for p in tmp_path.iterdir()] == ["bad.csv"]


def test_a_piece_that_fails_half_way_leaves_the_model_as_it_was(tmp_path, rows, three, monkeypatch):
    """The bad row stands in the last of several blocks, after others were folded in."""
    X, y = rows
    m = tmp_path / "m"
    learn_tables(m, three[:1], KIND)
    before = m.read_bytes()
    monkeypatch.setattr(text, "ROWS_AT_ONCE", 7)
    big = sheet(tmp_path / "big.csv", np.tile(X, (20, 1))[::-1], np.tile(y, 20)[::-1])
    big.write_text(big.read_text() + "1,2,oops,4,0\n")
    with learn_session(m, KIND) as taught:
        learner = taught.session.model.learner
        kept = content_of(learner)
        with pytest.raises(rm.InputError, match=r"row 1201 of big\.csv"):
            taught.learn(big)
        assert taught.session.model.learner is learner and content_of(learner) == kept
        taught.learn(three[1])
    assert m.read_bytes() != before
    same(rm.load(m), joint(X[:40], y[:40]), X)


def test_good_files_before_a_bad_one_are_kept(tmp_path, rows, three):
    X, y = rows
    three[2].write_text("nonsense\n")
    with pytest.raises(rm.InputError, match=r"2\.csv"):
        learn_tables(tmp_path / "m", three, KIND)
    same(rm.load(tmp_path / "m"), joint(X[:40], y[:40]), X)


def test_data_that_a_learner_refuses_are_named(tmp_path, three):
    learn_tables(tmp_path / "m", three[:1], KIND)
    (tmp_path / "huge.csv").write_text("a,b,c,d,kind\n1e200,2,3,4,0\n")
    with pytest.raises(rm.InputError, match=r"cannot use huge\.csv: expected X within"):
        learn_tables(tmp_path / "m", [tmp_path / "huge.csv"])


def test_what_was_learned_before_an_interruption_is_kept(tmp_path, rows, three, monkeypatch):
    from remanence.store.jobs import session

    monkeypatch.setattr(session, "WRITE_RATIO", 1e9)
    X, y = rows

    def pressed(name, rows):
        if name == "2.csv":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), learn_session(tmp_path / "m", KIND) as taught:
        for path in three:
            taught.learn(path, pressed)
    same(rm.load(tmp_path / "m"), joint(X[:40], y[:40]), X)
    assert learn_tables(tmp_path / "m", three).total("learned") == 20


class Endless(Piece):
    """A piece of many blocks that are made as they are asked for."""

    path, name = Path("endless.parquet"), "endless.parquet"

    def __init__(self, n_blocks):
        self.n_blocks = n_blocks

    def fingerprint(self):
        return "0" * 64

    def blocks(self, columns, labels=(), originals=False, cells=()):
        for k in range(self.n_blocks):
            X = np.random.default_rng(k).standard_normal((2000, len(columns)))
            yield RowBlock(X, np.arange(2000) % 3, 2000 * k)


def test_memory_does_not_grow_with_the_rows(tmp_path, monkeypatch):
    import tracemalloc

    from remanence.store.jobs import learn as teaching

    class Long(Table):
        path, columns = Endless.path, (*(f"x{j}" for j in range(50)), "kind")

        def __init__(self, n_blocks):
            self.n_blocks = n_blocks

        def pieces(self):
            return [Endless(self.n_blocks)]

    def peak(n_blocks):
        monkeypatch.setattr(teaching, "open_table", lambda path, *_, **options: Long(n_blocks))
        tracemalloc.start()
        learn_tables(tmp_path / f"{n_blocks}", ["endless.parquet"], KIND)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert rm.load(tmp_path / f"{n_blocks}").n_seen_ == 2000 * n_blocks
        return found

    peak(20)  # what the first call imports is no part of the rows
    few, many = peak(40), peak(120)
    assert many < few + 0.05 * (80 * 2000 * 50 * 8)


def test_few_writes_where_writing_is_slow_and_all_of_it_at_the_end(tmp_path, three, monkeypatch):
    from remanence.store.jobs import session
    from remanence.store.model_file import Locked

    writes, real = [], Locked.write
    monkeypatch.setattr(Locked, "write", lambda self, model: (writes.append(len(model.ledger)), real(self, model)))
    monkeypatch.setattr(session, "WRITE_RATIO", 1e9)
    learn_tables(tmp_path / "m", three, KIND)
    assert writes == [1, 3]  # the first piece, and at the end the others together
    assert read(tmp_path / "m").ledger.rows() == 60


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_other_formats_give_the_same_model(tmp_path, rows, ending, monkeypatch):
    X, y = rows
    path = tmp_path / f"t.{ending}"
    if ending == "npz":
        monkeypatch.setattr(arrays, "ROWS_AT_ONCE", 7)
        np.savez(path, X=X, kind=y)
    else:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        columns = {f"x{j}": X[:, j] for j in range(4)}
        pq.write_table(pa.table({**columns, "kind": y}), path, row_group_size=25)
    learn_tables(tmp_path / "m", [path], KIND)
    same(rm.load(tmp_path / "m"), joint(X, y), X)
    names = [e.name for e in read(tmp_path / "m").ledger]
    assert names == ([f"t.{ending}"])
    if ending == "npz":
        np.savez(path, X=np.zeros((3, 5)), kind=y[:3])
        with pytest.raises(rm.InputError, match="got 'X4' besides"):
            learn_tables(tmp_path / "m", [path])


def test_a_regressor_learns_targets(tmp_path, rows):
    X, _ = rows
    Y = X @ np.array([[1.0, 2], [3, 4], [5, 6], [7, 8]])
    path = sheet(tmp_path / "t.csv", X, Y[:, 0].tolist(), label="u", v=Y[:, 1].tolist())
    learn_tables(tmp_path / "m", [path], LearnOptions(targets=("u", "v"), settings={"ridge": "auto"}))
    direct = rm.ContinualRegressor(rm.RLS("auto")).fit(X, Y)
    np.testing.assert_allclose(rm.load(tmp_path / "m").predict(X), direct.predict(X), atol=1e-12)
    learn_tables(tmp_path / "one", [path], LearnOptions(targets=("v",), ignored=("u",)))
    assert rm.load(tmp_path / "one").predict(X).shape == (60,)


def test_labels_keep_their_kind(tmp_path):
    def learned(name, labels, options=KIND):
        path = tmp_path / f"{name}.csv"
        path.write_text("a,kind\n" + "".join(f"{k},{label}\n" for k, label in enumerate(labels)))
        learn_tables(tmp_path / "m", [path], options)
        return rm.load(tmp_path / "m").classes_.tolist()

    assert learned("codes", ["01", "2", "x"]) == ["01", "2", "x"]
    assert learned("numbers", [2, 3]) == ["01", "2", "3", "x"]  # numbers are text among text
    np.savez(tmp_path / "n.npz", a=np.ones((2, 1)), kind=np.array([2.0, 7.0]))
    with pytest.raises(rm.InputError, match="'a' is missing"):
        learn_tables(tmp_path / "m", [tmp_path / "n.npz"])
    (tmp_path / "m").unlink()
    assert learned("whole", ["1.0", "2.0"]) == [1, 2]
    assert learned("whole too", [5]) == [1, 2, 5]
    (tmp_path / "m").unlink()
    with pytest.raises(rm.InputError, match=r"real numbers like 0\.5; learn them as a numeric target"):
        learned("real", [0.5, 1])


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([b"x", b"y"], ["x", "y"]),
        ([True, False], ["False", "True"]),
        ([3.0, 4.0], [3, 4]),
        (["12345678901234567890123", "5"], ["12345678901234567890123", "5"]),
        ([9007199254740993, 5], [5, 9007199254740993]),
    ],
)
def test_labels_of_every_kind_of_array(tmp_path, labels, classes):
    np.savez(tmp_path / "t.npz", X=np.eye(2), kind=np.array(labels))
    learn_tables(tmp_path / "m", [tmp_path / "t.npz"], KIND)
    assert rm.load(tmp_path / "m").classes_.tolist() == classes
    if isinstance(classes[0], str):  # and in a model whose labels are text already
        np.savez(tmp_path / "first.npz", X=np.eye(2), kind=np.array(["a", "b"]))
        learn_tables(tmp_path / "n", [tmp_path / "first.npz", tmp_path / "t.npz"], KIND)
        assert rm.load(tmp_path / "n").classes_.tolist() == sorted(["a", "b", *classes])


def test_labels_that_are_no_classes_are_refused_with_the_name_of_the_file(tmp_path):
    np.savez(tmp_path / "days.npz", X=np.eye(2), kind=np.array(["2020-01-01"] * 2, dtype="M8[D]"))
    with pytest.raises(rm.InputError, match=r"days\.npz.*numbers or text"):
        learn_tables(tmp_path / "m", [tmp_path / "days.npz"], KIND)


def test_labels_that_turn_to_text_late_in_a_first_file_are_all_text(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "ROWS_AT_ONCE", 2)
    (tmp_path / "t.csv").write_text("a,kind\n1,1\n2,2\n3,1\n4,x\n")
    learn_tables(tmp_path / "m", [tmp_path / "t.csv"], KIND)
    assert rm.load(tmp_path / "m").classes_.tolist() == ["1", "2", "x"]


CONFLICTS = {
    "label": (LearnOptions(label="a"), "label kind, got label a"),
    "targets": (LearnOptions(targets=("a",)), "targets none, got targets a"),
    "method": (LearnOptions(method="lms"), "method rls, got method lms"),
    "ridge": (LearnOptions(settings={"ridge": "2"}), r"ridge 1\.0, got ridge 2\.0"),
    "features": (LearnOptions(features="random:9"), "features none, got features random:9"),
    "ignored": (LearnOptions(ignored=("a",)), "got 'a', which it has learned from"),
    "no setting": (LearnOptions(settings={"step": 1}), "expected a setting of RLS"),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_settings_that_are_not_the_models_are_refused(tmp_path, three, name):
    options, words = CONFLICTS[name]
    learn_tables(tmp_path / "m", three[:1], LearnOptions("kind", method="RLS", settings={"ridge": 1}))
    with pytest.raises(rm.InputError, match=words):
        learn_tables(tmp_path / "m", three[1:], options)
    same_again = LearnOptions("kind", method="rls", settings={"ridge": "1.0", "forget": 1})
    assert learn_tables(tmp_path / "m", three[1:], same_again).total("learned") == 40


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (LearnOptions(), "got neither"),
        (LearnOptions("kind", ("a",)), "got both"),
        (LearnOptions("kind", ignored=("kind",)), "learned or ignored"),
        (LearnOptions("kind", ignored=("absent",)), "column 'absent'"),
        (LearnOptions("kind", method="rsl"), "did you mean rls"),
        (LearnOptions("kind", settings={"ridge": "-1"}), "ridge"),
        (LearnOptions("kind", features="fourier:3"), "random:5000"),
        (LearnOptions("kind", ignored=tuple("abcd")), "to have columns beside"),
        (LearnOptions("kind", column_kinds={"kind": "number"}), "'kind' is the label"),
        (LearnOptions(targets=("a",), column_kinds={"a": "number"}), "'a' is the target"),
        (LearnOptions("kind", ignored=("a",), column_kinds={"a": "number"}), "'a' is ignored"),
        (LearnOptions("kind", text_width=0), "text_width to be an integer of at least 1, got 0"),
    ],
)
def test_wishes_that_make_no_model_are_refused(tmp_path, three, options, words):
    with pytest.raises(rm.InputError, match=words):
        learn_tables(tmp_path / "m", three, options)
    assert not (tmp_path / "m").exists()


def test_random_features_and_other_methods(tmp_path, rows, three):
    X, y = rows
    learn_tables(tmp_path / "m", three, LearnOptions("kind", features="random:50:3"))
    direct = rm.ContinualClassifier(features=rm.RandomFeatures(50, seed=3)).fit(X, y)
    same(rm.load(tmp_path / "m"), direct, X, 1e-9)
    learn_tables(tmp_path / "lms", three, LearnOptions("kind", method="LMS", settings={"step": "0.1"}))
    assert rm.load(tmp_path / "lms").method == rm.LMS(0.1)


def test_a_model_from_python_is_taught_on(tmp_path, rows, three):
    X, y = rows
    rm.save(rm.ContinualClassifier().fit(X[:20], y[:20]), tmp_path / "m")
    with pytest.raises(rm.InputError, match="`label`"):
        learn_tables(tmp_path / "m", three[1:])
    learn_tables(tmp_path / "m", three[1:], KIND)
    same(rm.load(tmp_path / "m"), joint(X, y), X)
    assert [e.name for e in read(tmp_path / "m").ledger] == ["taught in Python", "1.csv", "2.csv"]
    assert read(tmp_path / "m").ledger.rows() == 60
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X[:20, ::-1], columns=list("dcba"))
    rm.save(rm.ContinualClassifier().fit(frame, y[:20]), tmp_path / "named")
    learn_tables(tmp_path / "named", three[1:], KIND)
    asked = pandas.DataFrame(X[:, ::-1], columns=list("dcba"))
    answers = joint(X[:, ::-1], y).decision_function(X[:, ::-1])
    np.testing.assert_allclose(rm.load(tmp_path / "named").decision_function(asked), answers, atol=1e-12)


def test_what_is_no_model_file_of_ours_is_refused(tmp_path, three):
    rm.save((rm.LMS(), rm.LMS().init(4, 2)), tmp_path / "pair")
    with pytest.raises(rm.InputError, match="ContinualClassifier"):
        learn_tables(tmp_path / "pair", three, KIND)
    with pytest.raises(rm.FileError, match="no model file"):
        learn_tables(three[0], three, KIND)
    with pytest.raises(rm.InputError, match="the name of a data file"):
        learn_tables(tmp_path / "new.csv", three, KIND)


def test_columns_come_back_from_notes():
    columns = Columns(("a", "b"), "kind", (), ("id",), "text")
    assert Columns.from_notes(json.loads(json.dumps(columns.to_notes()))) == columns
    assert Columns.from_notes({}) is None


def test_fingerprints_in_the_ledger_are_those_of_the_rows(tmp_path, three):
    learn_tables(tmp_path / "m", three[:1], KIND)
    (entry,) = read(tmp_path / "m").ledger
    crlf = tmp_path / "crlf.csv"
    crlf.write_bytes(three[0].read_bytes().replace(b"\n", b"\r\n"))
    assert learn_tables(tmp_path / "m", [crlf], KIND).total("skipped") == entry.rows == entry.span
    learn_tables(tmp_path / "other", three[1:2], KIND)
    assert read(tmp_path / "other").ledger.entries[0].fingerprint != entry.fingerprint
