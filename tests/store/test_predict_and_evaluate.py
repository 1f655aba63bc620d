"""Predictions come with every column that was there; evaluations count; a look inside finds what is wrong."""

import csv
from dataclasses import replace

import numpy as np
import pytest

import remanence as rm
from remanence.errors import InputError
from remanence.store import ModelFile, read, write
from remanence.store.jobs.evaluate import evaluate_tables
from remanence.store.jobs.inspect import inspect_file
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.jobs.predict import default_out, outputs_for, predict_table
from remanence.tables import csv as text
from remanence.tables import npz as arrays
from remanence.tables import open_table

from .job_helpers import learn_tables
from .test_learn import KIND, sheet


@pytest.fixture
def asked(tmp_path, rows, monkeypatch):
    """A model, and a table it can be asked about: columns in another order, among others, without labels."""
    X, y = rows
    monkeypatch.setattr(text, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(arrays, "ROWS_AT_ONCE", 7)
    learn_tables(tmp_path / "m", [sheet(tmp_path / "t.csv", X, y)], KIND)
    ids = [f"né {k}, {'a' * k}" for k in range(20)]
    columns = {"id": ids, "d": X[:20, 3], "c": X[:20, 2], "b": X[:20, 1], "a": X[:20, 0], "day": [f"0{k}" for k in ids]}
    with (tmp_path / "new.csv").open("w", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(columns)
        text_of = [c if isinstance(c, list) else map(repr, c.tolist()) for c in columns.values()]
        writer.writerows(zip(*text_of, strict=True))
    return tmp_path / "m", tmp_path / "new.csv", X[:20], ids


def column(path, name):
    table = open_table(path)
    return np.concatenate([np.asarray(r.original[name]) for p in table.pieces() for r in p.blocks((), originals=True)])


@pytest.mark.parametrize("ending", ["csv", "tsv", "npz", "parquet"])
def test_all_columns_come_back_with_the_predictions_beside_them(asked, tmp_path, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    m, data, X, ids = asked
    out = tmp_path / f"out.{ending}"
    report = predict_table(m, data, out, scores=True)
    assert (report.rows, report.dropped, report.out) == (20, 0, str(out))
    model = rm.load(m)
    expected = model.predict(X).tolist()
    assert column(out, "id").tolist() == ids
    assert [int(v) for v in column(out, "predicted")] == expected
    for label, scores in zip(model.classes_, model.class_scores(X).T, strict=True):
        np.testing.assert_allclose(column(out, f"score_{label}").astype(float), scores, rtol=1e-14)
    assert (column(out, "c").astype(float) == X[:, 2]).all()
    assert evaluate_tables(m, [out], label="predicted").accuracy == 1.0
    predict_table(m, out, tmp_path / "again.csv", column="second")
    assert [int(v) for v in column(tmp_path / "again.csv", "second")] == expected


def test_arrays_and_vectors_are_handed_on(tmp_path, rows):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, y = rows
    np.savez(tmp_path / "t.npz", X=X, kind=y, id=np.arange(60))
    learn_tables(tmp_path / "m", [tmp_path / "t.npz"], LearnOptions("kind", ignored=("id",)))
    expected = rm.load(tmp_path / "m").predict(X)
    for ending in ("npz", "csv", "parquet"):
        predict_table(tmp_path / "m", tmp_path / "t.npz", tmp_path / f"o.{ending}")
        assert (column(tmp_path / f"o.{ending}", "predicted").astype(int) == expected).all()
        assert (column(tmp_path / f"o.{ending}", "id").astype(int) == np.arange(60)).all()
    assert (np.load(tmp_path / "o.npz")["X"] == X).all()
    table = pa.table({"v": pa.array(list(X), pa.list_(pa.float64())), "kind": y.astype(str), "when": [None] + [5] * 59})
    pq.write_table(table, tmp_path / "v.parquet", row_group_size=40)
    learn_tables(tmp_path / "mv", [tmp_path / "v.parquet"], LearnOptions("kind", ignored=("when",)))
    for ending in ("npz", "csv", "parquet"):
        predict_table(tmp_path / "mv", tmp_path / "v.parquet", tmp_path / f"v_o.{ending}")
        assert (column(tmp_path / f"v_o.{ending}", "predicted").astype(int) == expected).all()
    assert (np.load(tmp_path / "v_o.npz")["v"] == X).all()
    assert pq.read_table(tmp_path / "v_o.parquet").drop(["predicted"]).equals(table)
    assert column(tmp_path / "v_o.csv", "when")[:2].tolist() == ["", "5"]


def test_a_refused_question_writes_nothing(asked, tmp_path):
    m, data, X, _ = asked
    short = sheet(tmp_path / "short.csv", X, [0] * 20, names="abcD")
    holes = sheet(tmp_path / "holes.csv", np.where(np.arange(20)[:, None] == 11, np.nan, X), [0] * 20)
    taken = sheet(tmp_path / "taken.csv", X, [0] * 20, label="predicted")
    rm.save(rm.ContinualRegressor().fit(X, X[:, 0]), tmp_path / "r")
    for arguments, words in (
        ((m, short), "'d' is missing"),
        ((m, holes), "row 12 has missing"),
        ((m, taken), "no column 'predicted' yet"),
        ((tmp_path / "r", data, "o.csv", True), "expected a classifier with `scores`"),
        ((tmp_path / "r", data), "expected 4 columns of features"),
    ):
        with pytest.raises(rm.InputError, match=words):
            predict_table(arguments[0], arguments[1], tmp_path / "o.csv", *arguments[3:])
        assert not [p for p in tmp_path.iterdir() if p.name.startswith((".o", "o."))]
    with pytest.raises(rm.InputError, match="ending in"):
        predict_table(m, data, tmp_path / "o.json")
    before = data.read_bytes()
    with pytest.raises(rm.InputError, match="which is read"):
        predict_table(m, data, data)
    assert data.read_bytes() == before
    assert predict_table(m, holes, tmp_path / "o.csv", drop=True).dropped == 1


def test_a_regressor_of_several_targets_names_them(tmp_path, rows):
    X, _ = rows
    path = sheet(tmp_path / "t.csv", X, X[:, 0].tolist(), label="u", v=(2 * X[:, 1]).tolist())
    learn_tables(tmp_path / "m", [path], LearnOptions(targets=("u", "v"), settings={"ridge": 1e-12}))
    predict_table(tmp_path / "m", path, tmp_path / "o.csv")
    np.testing.assert_allclose(column(tmp_path / "o.csv", "predicted_v").astype(float), 2 * X[:, 1], atol=1e-9)
    found = evaluate_tables(tmp_path / "m", [path])
    assert found.errors["u"]["rmse"] < 1e-9 and found.errors["v"]["r2"] > 1 - 1e-9


def test_errors_of_a_regressor_are_those_of_scikit_learn(tmp_path, rows, monkeypatch):
    from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

    X, _ = rows
    t = np.sin(3 * X[:, 0]) + 50
    monkeypatch.setattr(text, "ROWS_AT_ONCE", 7)
    path = sheet(tmp_path / "t.csv", X, t.tolist(), label="t")
    learn_tables(tmp_path / "m", [path], LearnOptions(targets=("t",)))
    guess = rm.load(tmp_path / "m").predict(X)
    found = evaluate_tables(tmp_path / "m", [path]).errors["t"]
    expected = {
        "rmse": mean_squared_error(t, guess) ** 0.5,
        "mae": mean_absolute_error(t, guess),
        "r2": r2_score(t, guess),
    }
    assert found == pytest.approx(expected, rel=1e-10)


def test_the_confusion_counts_every_row_and_labels_nobody_has_met(asked, tmp_path, rows):
    from sklearn.metrics import confusion_matrix

    m, *_ = asked
    X, y = rows
    truth = np.where(np.arange(60) < 3, 9, y)
    path = sheet(tmp_path / "e.csv", X, truth, label="true")
    found = evaluate_tables(m, [path], label="true")
    guess = rm.load(m).predict(X)
    assert found.labels == [0, 1, 2, 9]
    assert (found.confusion == confusion_matrix(truth, guess, labels=found.labels)).all()
    told = found.to_dict()
    assert told["accuracy"] == np.mean(truth == guess) and told["wrong"] == (truth != guess).sum()
    assert told["classes"][-1] == {"label": 9, "rows": 3, "correct": 0, "accuracy": 0.0}
    with pytest.raises(rm.InputError, match="`label`"):
        evaluate_tables(m, [path], targets=["true"])


def test_log_loss_is_that_of_scikit_learn_and_the_bins_hold_every_row(asked, tmp_path, rows):
    from sklearn.metrics import log_loss

    m, *_ = asked
    X, y = rows
    told = evaluate_tables(m, [sheet(tmp_path / "e.csv", X, y, label="true")], label="true").to_dict()
    given = rm.load(m).predict_proba(X)
    assert told["log_loss"] == pytest.approx(log_loss(y, given), rel=1e-12)
    assert np.sum(told["reliability"], axis=0) == pytest.approx(
        [60, given.max(axis=1).sum(), (given.argmax(1) == y).sum()]
    )


# Looking inside


def test_a_sound_model_shows_what_it_knows(asked):
    m, *_ = asked
    found = inspect_file(m)
    told = found.to_dict()
    model = rm.load(m)
    assert told["rows"] == 60 and told["classes"] == [0, 1, 2] and told["counts"] == model.class_count_.tolist()
    assert (told["columns"], told["label"], told["ridge"], told["bytes"]) == (
        list("abcd"),
        "kind",
        1.0,
        m.stat().st_size,
    )
    known = model.calibration_
    assert told["calibration"] == {
        "rows": known.rows,
        "accuracy": known.accuracy,
        "log_loss": known.log_loss,
        "calibration_error": known.error,
    }
    assert [(e["name"], e["rows"], e["action"]) for e in told["ledger"]] == [("t.csv", 60, "learned")]
    assert [c.name for c in found.certificates] == [
        "ledger",
        "class-counts",
        "normal-equations",
        "determined",
        "precision",
    ]
    assert found.holds and all(c.holds for c in found.certificates)


def damaged(model, **parts):
    """The model with parts of its memory put wrong."""
    learner = model.learner
    for name, value in parts.items():
        setattr(learner, name, value)
    return replace(model, learner=learner)


def test_certificates_fail_where_something_is_wrong(asked, tmp_path):
    m, *_ = asked
    model = read(m)
    state = model.learner.state_
    weights = model.learner._method().weights(state)
    state.cache.weights = weights * (1 + 1e-9)
    from remanence.store.jobs.inspect import _solution

    assert not _solution(model.learner).equations.holds
    for parts, name in (({"n_seen_": 59}, "ledger"), ({"class_count_": np.array([1.0, 2.0, 3.0])}, "class-counts")):
        write(tmp_path / "d", damaged(read(m), **parts))
        found = inspect_file(tmp_path / "d")
        assert not found.holds and name in [c.name for c in found.certificates if c.status == "fails"]


def test_the_condition_is_that_of_the_root_with_its_prior(tmp_path, rows):
    X, y = rows
    X = X * [1, 1e3, 1e-3, 1]
    learn_tables(tmp_path / "m", [sheet(tmp_path / "t.csv", X, y)], KIND)
    ones = np.column_stack([np.ones(60), X - X.mean(axis=0)])
    rows_and_prior = np.vstack([ones, np.diag([1e-9, 1, 1, 1, 1])])
    exact = np.linalg.cond(np.linalg.qr(rows_and_prior)[1], 1)
    assert exact / 3 < inspect_file(tmp_path / "m").condition < 1.01 * exact


def test_other_learners_can_be_looked_into_as_far_as_they_go(tmp_path, rows):
    from sklearn.preprocessing import StandardScaler

    X, y = rows
    rm.save((rm.LMS(), rm.LMS().init(3, 2)), tmp_path / "pair")
    assert inspect_file(tmp_path / "pair").to_dict()["method"] == "LMS"
    rm.save(rm.ContinualClassifier(features=StandardScaler().fit(X)).fit(X, y), tmp_path / "encoded")
    found = inspect_file(tmp_path / "encoded").to_dict()
    assert found["rows"] == 60 and found["classes"] == [0, 1, 2] and not found["certificates"]
    write(tmp_path / "empty", ModelFile(rm.ContinualRegressor()))
    assert inspect_file(tmp_path / "empty").to_dict()["rows"] == 0
    learn_tables(tmp_path / "lms", [sheet(tmp_path / "t.csv", X, y)], LearnOptions("kind", method="lms"))
    status = {c.name: c.status for c in inspect_file(tmp_path / "lms").certificates}
    assert status == {"ledger": "does not apply", "class-counts": "holds"}
    content = bytearray((tmp_path / "lms").read_bytes())
    content[-5] ^= 1
    (tmp_path / "lms").write_bytes(content)
    with pytest.raises(rm.FileError, match="checksum"):
        inspect_file(tmp_path / "lms")


def test_predictions_for_an_npy_file_are_an_npz_file(tmp_path):
    X = np.random.default_rng(0).standard_normal((9, 3))
    np.save(tmp_path / "t.npy", X)
    learn_tables(tmp_path / "m", [tmp_path / "t.npy"], LearnOptions(targets=("X2",)))
    out = default_out(tmp_path / "t.npy")
    predict_table(tmp_path / "m", tmp_path / "t.npy", out)
    with np.load(out) as found:
        assert out.name == "t-predicted.npz" and (found["X"] == X).all() and found["predicted"].shape == (9,)
    assert outputs_for([tmp_path / "t.npy", "b.csv"], tmp_path / "o")[0].name == "t.npz"
    with pytest.raises(InputError, match=r"\.npz") as refusal:
        predict_table(tmp_path / "m", tmp_path / "t.npy", tmp_path / "o.npy")
    assert ".npy, " not in str(refusal.value)


def test_tables_of_one_name_keep_their_folders(tmp_path):
    found = outputs_for(["d/k=1/0.parquet", "d/k=2/0.parquet"], tmp_path / "o")
    assert found == [tmp_path / "o" / "k=1" / "0.parquet", tmp_path / "o" / "k=2" / "0.parquet"]
    assert all(path.parent.is_dir() for path in found)
    addresses = outputs_for(["memory://d/k=1/0.csv", "memory://d/k=2/0.csv"], tmp_path / "p")
    assert addresses == [tmp_path / "p" / "k=1" / "0.csv", tmp_path / "p" / "k=2" / "0.csv"]
    with pytest.raises(InputError, match="more than once"):
        outputs_for(["d/0.csv", "memory://d/0.csv"], tmp_path / "q")


def test_predictions_are_not_written_to_addresses(tmp_path):
    with pytest.raises(InputError, match="file of this machine"):
        predict_table(tmp_path / "m", tmp_path / "t.csv", "memory://x/o.csv")
