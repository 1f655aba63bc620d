"""What a stream can be: a table on disk, idx files, and classes in any order."""

import gzip
import json
import shlex

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import RidgeClassifier

import remanence as rm
from remanence.cli import main
from remanence.cli.run_options.streams import Asked, class_order, find_source
from remanence.errors import FileError, InputError

QUICK = ["--methods", "rls,joint", "--no-certify"]
KINDS = np.array(["setosa", "versicolor", "virginica"])


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as leaving:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return leaving.value.code, out, err


@pytest.fixture
def iris(tmp_path):
    """The same flowers in three formats."""
    import pandas as pd

    X, y = load_iris(return_X_y=True)
    table = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(kind=KINDS[y])
    table.to_csv(tmp_path / "iris.csv", index=False)
    table.to_parquet(tmp_path / "iris.parquet", row_group_size=40)
    np.savez(tmp_path / "iris.npz", X=X, kind=KINDS[y])
    return tmp_path


@pytest.mark.parametrize("name", ["iris.csv", "iris.parquet", "iris.npz"])
def test_a_table_is_cut_into_tasks_of_classes(iris, capsys, monkeypatch, name):
    monkeypatch.chdir(iris)
    code, out, err = call(capsys, "run", "--stream", name, "--label", "kind", *QUICK, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["settings"]["tasks"] == 3 and found["learners"][0]["matrix"]["names"] == list(KINDS)
    X, y = load_iris(return_X_y=True)
    direct = rm.evaluate(rm.Joint(), rm.streams.split_classes(X, KINDS[y], 3))
    joint = next(learner for learner in found["learners"] if learner["name"] == "joint")
    np.testing.assert_array_equal(joint["matrix"]["values"], direct.values)
    assert found["command"].endswith("--label kind --no-certify") and (iris / "runs/iris/index.html").exists()


def test_the_command_on_the_page_gives_the_same_numbers(iris, capsys, monkeypatch):
    monkeypatch.chdir(iris)
    chosen = ["--label", "kind", "--ignore", "b", "--order", "random", "--seeds", 2, "--seed", 5, "--test", 0.4]
    first = json.loads(call(capsys, "run", "--stream", "iris.csv", *chosen, *QUICK, "--json")[1])
    again = json.loads(call(capsys, *first["command"].split()[1:], "--out", "second", "--json")[1])
    assert again["reused"] == 0 and again["settings"] == first["settings"]
    assert [o["metrics"]["average_accuracy"] for o in again["learners"]] == [
        o["metrics"]["average_accuracy"] for o in first["learners"]
    ]


def test_gaps_are_left_out_and_said(tmp_path, capsys, monkeypatch):
    rows = ["x,y,kind", *(f"{i % 7},{i % 3},{'ab'[i % 2]}" for i in range(40)), ",1,a", "2,2,"]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    monkeypatch.chdir(tmp_path)
    code, out, _ = call(capsys, "run", "--stream", "t.csv", "--label", "kind", *QUICK, "--json")
    assert code == 0 and "t.csv: 2 rows with missing entries left out." in json.loads(out)["notes"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "--label"),
        (["--label", "sort"], "'sort'"),
        (["--label", "a", "--ignore", "kind"], "real numbers"),
        (["--label", "kind", "--tasks", "4"], "at most 3 tasks"),
        (["--label", "kind", "--order", "setosa"], "every class once"),
        (["--label", "kind", "--test", "2"], "test"),
    ],
)
def test_a_table_that_cannot_be_meant_is_refused_before_any_work(iris, capsys, monkeypatch, more, said):
    monkeypatch.chdir(iris)
    code, out, err = call(capsys, "run", "--stream", "iris.csv", *QUICK, *more)
    assert (code, out) == (2, "") and said in err and not (iris / "runs").exists()


@pytest.fixture
def days(tmp_path, monkeypatch):
    """Three files with the same columns: two classes, then one of them and a new one, in another order of columns."""
    rng = np.random.default_rng(0)
    for day, kinds, columns in (("mon", "ab", "xy"), ("tue", "bc", "yx"), ("wed", "ca", "xy")):
        rows = [",".join([*columns, "kind"])]
        for k in range(40):
            at = {"x": 3.0 * ord(kinds[k % 2]) + rng.standard_normal(), "y": rng.standard_normal()}
            rows.append(",".join([*(f"{at[c]:.6f}" for c in columns), kinds[k % 2]]))
        (tmp_path / f"{day}.csv").write_text("\n".join(rows) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("streams", [["*.csv"], ["mon.csv", "tue.csv", "wed.csv"]])
def test_files_are_tasks(days, capsys, streams):
    named = [part for name in streams for part in ("--stream", name)]
    code, out, err = call(capsys, "run", *named, "--label", "kind", *QUICK, "--json", "--out", "r")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["learners"][0]["matrix"]["names"] == ["mon", "tue", "wed"] and found["settings"]["tasks"] == 3
    assert found["learners"][0]["metrics"]["average_accuracy"] > 0.6
    assert "a class cannot be predicted" not in " ".join(found["notes"])  # classes come back
    again = json.loads(call(capsys, *shlex.split(found["command"])[1:], "--out", "r", "--json")[1])
    assert again["reused"] == 2


def test_a_file_is_cut_by_its_own_classes_and_columns_are_found_by_name(days):
    source = find_source(Asked("mon.csv", label="kind", others=("tue.csv",)))
    first, second = source.build(0)
    assert len(first.X) == 30 and len(first.X_test) == 10 and sorted(set(second.Y)) == ["b", "c"]
    assert second.X[:, 0].min() > 200 > abs(second.X[:, 1]).max()  # x before y, as in the first file
    other = find_source(Asked("mon.csv", label="kind", others=("tue.csv",))).build(1)[0]
    assert other.X_test.tolist() != first.X_test.tolist()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--tasks", "2"], "expected no --tasks with 3 files"),
        (["--order", "random"], "expected no --order with 3 files"),
        (["--stream", "other.csv"], "'z'"),
        ([], "--label"),
    ],
)
def test_files_that_cannot_be_tasks_are_refused_before_any_work(days, capsys, more, said):
    (days / "other.csv").write_text("x,y,z,kind\n1,2,3,a\n")
    label = ["--label", "kind"] if more else []
    code, out, err = call(capsys, "run", "--stream", "???.csv", *label, *QUICK, *more)
    assert (code, out) == (2, "") and said in err and not (days / "runs").exists()


def test_settings_and_features_reach_the_learners(iris, capsys, monkeypatch):
    monkeypatch.chdir(iris)
    chosen = ["--label", "kind", "--set", "rls.ridge=1e4", "--set", "joint.alpha=10", "--features", "random:20:cos:3"]
    found = json.loads(call(capsys, "run", "--stream", "iris.csv", *chosen, *QUICK, "--json")[1])
    X, y = load_iris(return_X_y=True)
    tasks = rm.streams.split_classes(X, KINDS[y], 3)
    features = rm.RandomFeatures(20, seed=3, activation="cos").fit(tasks[0].X)
    shown = [rm.Task(t.name, features.transform(t.X), t.Y, features.transform(t.X_test), t.Y_test) for t in tasks]
    for learner, expected in zip(
        found["learners"],
        (rm.ContinualClassifier(rm.RLS(ridge=1e4)), rm.Joint(RidgeClassifier(alpha=10.0))),
        strict=True,
    ):
        np.testing.assert_allclose(learner["matrix"]["values"], rm.evaluate(expected, shown).values)
    assert [o["label"] for o in found["learners"]] == ["RLS (ridge=10000.0)", "Ridge retrained (alpha=10.0)"]
    assert found["settings"]["features"] == "random:20:cos:3" and "20 random features" in found["notes"][0]
    again = json.loads(call(capsys, *found["command"].split()[1:], "--json")[1])
    assert again["reused"] == 2 and again["settings"] == found["settings"]


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        find_source(Asked(str(tmp_path / "gone.csv"), label="y"))


def test_classes_come_in_the_order_asked_for():
    y = np.array([3, 1, 2, 1])
    assert class_order(y, "sorted", 0) is None
    assert list(class_order(y, "given", 0)) == [3, 1, 2]
    assert list(class_order(y, "Reversed", 0)) == [3, 2, 1]
    assert list(class_order(y, "2, 3,1", 0)) == [2, 3, 1]
    drawn = [tuple(class_order(np.arange(10), "random", seed)) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2] and sorted(drawn[2]) == list(range(10))
    with pytest.raises(InputError, match="every class once"):
        class_order(y, "1,2,2", 0)
    names = [task.name for task in find_source(Asked("digits", 5, "reversed")).build(0)]
    assert names == ["9, 8", "7, 6", "5, 4", "3, 2", "1, 0"]


@pytest.fixture
def idx(tmp_path):
    """A small data set in the four files of MNIST, two of them gzipped."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for part, rows in (("train", 60), ("t10k", 32)):
        labels = np.arange(rows, dtype=np.uint8) % 4
        images = rng.integers(0, 40, (rows, 3, 3), dtype=np.uint8) + 50 * labels[:, None, None]
        for name, array in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
            raw = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()
            zipped = part == "t10k"
            (folder / f"{name}{'.gz' if zipped else ''}").write_bytes(gzip.compress(raw) if zipped else raw)
    return tmp_path / "data"


def test_idx_files_are_read_with_their_own_test_rows(idx):
    source = find_source(Asked("mnist", 2, data=idx))
    first, second = source.build(0)
    assert first.X.shape == (30, 9) and second.X_test.shape == (16, 9) and first.name == "0, 1"
    assert first.X.min() >= 0 and 0.2 < second.X.max() <= 1
    assert source.settings["fingerprint"] and "--data" in source.arguments


@pytest.mark.parametrize("damage", ["missing", "cut", "other"])
def test_idx_files_that_are_not_whole_are_refused(idx, damage):
    path = idx / "mnist" / "train-images-idx3-ubyte"
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] if damage == "cut" else b"text")
    with pytest.raises(FileError, match="train-images-idx3-ubyte"):
        find_source(Asked("mnist", data=idx))
