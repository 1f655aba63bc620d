"""The model file as the command line uses it: learner, ledger and notes in one write, and a look without loading."""

import json
from dataclasses import replace

import numpy as np
import pytest

import remanence as rm
from remanence.store import Entry, Ledger, ModelFile, content_fingerprint, describe, locked, read, write

from .conftest import content_of, through_a_file


def test_learner_ledger_and_notes_come_back_together(tmp_path, small):
    ledger = Ledger((Entry(content_fingerprint(b"rows"), "Montag ü.csv", 53),))
    notes = {"label": "größe", "columns": ["a", "b"], "n": 3, "share": 0.1, "none": None}
    write(tmp_path / "m", ModelFile(small, ledger, notes))
    model = read(tmp_path / "m")
    assert model.ledger == ledger and model.notes == notes
    assert content_of(model.learner) == content_of(small)


def test_rows_are_learned_exactly_once_however_often_they_come(tmp_path, rows):
    X, y = rows
    path = tmp_path / "m.safetensors"

    def learn(part):
        mark = content_fingerprint(X[part], y[part])
        with locked(path) as file:
            model = file.read() if file.exists() else ModelFile(rm.ContinualClassifier())
            if model.ledger.contains(mark):
                return 0
            model.learner.partial_fit(X[part], y[part])
            file.write(replace(model, ledger=model.ledger.with_entry(Entry(mark, f"{part}", len(X[part])))))
            return len(X[part])

    parts = [slice(0, 30), slice(30, 60)]
    assert [learn(part) for part in (*parts, *parts)] == [30, 30, 0, 0]
    whole = rm.ContinualClassifier().partial_fit(X[:30], y[:30]).partial_fit(X[30:], y[30:])
    # (rows that wait are folded before writing, which rounds otherwise than folding them later)
    np.testing.assert_allclose(rm.load(path).decision_function(X), whole.decision_function(X), rtol=1e-12, atol=1e-14)


def test_notes_that_are_no_json_values_raise_input_error(tmp_path, small):
    for bad in ({"a": np.arange(2)}, {"a": float("nan")}, {"a": {1, 2}}):
        with pytest.raises(rm.InputError, match="notes of JSON values"):
            write(tmp_path / "m", ModelFile(small, notes=bad))
    assert not list(tmp_path.iterdir())


def test_a_file_describes_itself_without_its_encoder(tmp_path, rows):
    pandas = pytest.importorskip("pandas")
    from sklearn.preprocessing import StandardScaler

    X, y = rows
    table = pandas.DataFrame(X, columns=list("abcd"))
    model = rm.ContinualClassifier(rm.RLS(2.0), features=StandardScaler().fit(table))
    model.partial_fit(table, np.array(["x", "y", "z"])[y])
    rm.save(model, tmp_path / "m")
    told = describe(tmp_path / "m")
    assert told.summary == {
        "kind": "ContinualClassifier",
        "method": "RLS",
        "settings": {"ridge": 2.0, "forget": 1.0, "floor": 0.0},
        "features": 4,
        "outputs": 3,
        "precision": "float64",
        "rows": 60,
        "feature names": list("abcd"),
        "labels": ["x", "y", "z"],
        "encoder": model.features_fingerprint_,
    }
    assert told.size == (tmp_path / "m").stat().st_size and told.library == f"remanence {rm.__version__}"
    assert len(told.ledger) == 0 and told.notes == {}
    with pytest.raises(rm.FileError, match=r"absent: there is no such file"):
        describe(tmp_path / "absent")


@pytest.mark.parametrize(
    ("learner", "expected"),
    [
        ((rm.LMS(), rm.LMS().init(3, 2)), {"kind": "pair", "method": "LMS", "features": 3, "outputs": 2, "rows": 0}),
        ((rm.ICL(), rm.ICL().init(3, 2)), {"kind": "pair", "method": "ICL"}),
        ((rm.LMS([0.5] * 99), rm.LMS().init(1, 1)), {"settings": {"step": "99 numbers", "normalized": True}}),
        ((rm.Kalman("auto"), rm.Kalman("auto").init(3, 2)), {"method": "Kalman", "features": 3, "rows": 0}),
        (rm.ContinualRegressor(), {"kind": "ContinualRegressor"}),
        (rm.ContinualRegressor().fit([[1.0], [2.0]], [1, 2]), {"rows": 2, "features": 1, "outputs": 1}),
        (rm.NearestMean().fit([[1.0], [2.0]], [True, False]), {"rows": 2, "labels": [False, True]}),
    ],
    ids=["lms", "icl", "steps", "kalman", "unfitted", "regressor", "baseline"],
)
def test_what_a_file_says_of_itself(learner, expected, tmp_path):
    rm.save(learner, tmp_path / "m")
    told = describe(tmp_path / "m").summary
    assert {key: told.get(key) for key in expected} == expected
    json.dumps(told, allow_nan=False)


def test_arrays_are_restored_in_their_memory_layout():
    """Column-major, transposed, sliced and reversed ones too: where numbers lie decides how products round."""
    rng = np.random.default_rng(0)
    big = rng.standard_normal((8, 6))
    W = {"F": np.asfortranarray(big), "T": big.T, "slice": big[::2, 1:4], "reversed": big[:, ::-1], "one": big[:, :1]}
    for name, array in W.items():
        method = rm.LMS()
        state = replace(method.init(*array.shape), W=array)
        loaded = through_a_file((method, state))[1].W
        assert (loaded == array).all() and loaded.flags.writeable
        assert loaded.flags.f_contiguous == np.copy(array, order="K").flags.f_contiguous, name


def test_loaded_arrays_belong_to_the_learner_alone(small, rows):
    X, y = rows
    a, b = through_a_file(small), through_a_file(small)
    before = b.decision_function(X)
    a.partial_fit(X, y)
    assert (b.decision_function(X) == before).all()


@pytest.mark.slow
def test_a_wide_model_is_written_as_a_triangle(tmp_path):
    method = rm.RLS()
    X = np.random.default_rng(0).standard_normal((1500, 1000))
    state = method.update(method.init(1000, 2), X, X[:, :2])
    rm.save((method, state), tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < 1.1 * 8 * 1000 * 1001 / 2
    assert method.weights(rm.load(tmp_path / "m")[1]).tobytes() == method.weights(state).tobytes()


def test_a_file_that_may_keep_a_ledger_is_not_overwritten_by_a_bare_learner(tmp_path, small):
    """A flipped bit in the header, or a newer format, hides the ledger; it is there all the same."""
    path = tmp_path / "m"
    write(path, ModelFile(small, Ledger((Entry(content_fingerprint("a"), "a", 3),))))
    content = path.read_bytes()
    for damaged in (content.replace(b'"format":"1"', b'"format":"2"'), content.replace(b'"notes"', b'"motes"')):
        assert damaged != content
        path.write_bytes(damaged)
        with pytest.raises(rm.FileError, match="damaged or newer and may keep one"):
            rm.save(small, path)
        assert path.read_bytes() == damaged
    path.write_bytes(b"a,b\n1,2\n")  # what is no model file has none
    rm.save(small, path)
    assert rm.load(path).n_seen_ == small.n_seen_
