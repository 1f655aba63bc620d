"""Tables whose rows have any number of labels: lists, or text with a separator; the same rows in every format."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import Ridge
from typer.testing import CliRunner

import remanence as rm
from remanence.cli import app
from remanence.store.jobs.evaluate import evaluate_tables
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.jobs.merge import merge_files
from remanence.store.jobs.predict import predict_table

from .job_helpers import learn_tables, unlearn_tables

NAMES = ["blue", "green", "red"]
TAGS = LearnOptions("tags", ignored=("who",), separator=";")


def rows(count, seed=0, names=NAMES):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((count, 4))
    Y = X @ rng.standard_normal((4, len(names))) + rng.standard_normal((count, len(names))) > 0.5
    return X, Y.astype(int), [[names[k] for k in np.flatnonzero(row)] for row in Y]


def table(X, labels):
    columns = {f"x{j}": X[:, j] for j in range(4)}
    return pa.table({**columns, "who": pa.array(range(len(X))), "tags": pa.array(labels, pa.list_(pa.string()))})


def write(path, X, labels, separator=";"):
    """The rows as a file of the format that its ending says."""
    if path.suffix == ".parquet":
        pq.write_table(table(X, labels), path)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, table(X, labels).schema) as writer:
            writer.write_table(table(X, labels))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table(X, labels).to_pylist()))
    else:
        lines = ["x0,x1,x2,x3,who,tags"]
        for i, (x, y) in enumerate(zip(X, labels, strict=True)):
            lines.append(",".join([*map(repr, x.tolist()), str(i), separator.join(y)]))
        text = "\n".join(lines) + "\n"
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def assert_ridge(model, X, Y):
    expected = Ridge(alpha=1.0).fit(X, Y).predict(X)
    np.testing.assert_allclose(model.class_scores(X), expected, atol=1e-9)


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "arrow", "jsonl"])
def test_a_table_of_sets_is_learned_once_in_every_format(tmp_path, ending):
    X, Y, labels = rows(60)
    options = TAGS if "csv" in ending else LearnOptions("tags", ignored=("who",))
    model = tmp_path / "m"
    learn_tables(model, [write(tmp_path / f"a.{ending}", X[:40], labels[:40])], options)
    for other in ("csv", "parquet", "jsonl"):
        report = learn_tables(model, [write(tmp_path / f"b.{other}", X[:40], labels[:40])])
        assert (report.total("learned"), report.total("skipped")) == (0, 40)
    learn_tables(model, [write(tmp_path / "c.csv", X[40:], [[*y, "", y[0]] if y else y for y in labels[40:]])])
    found = rm.load(model)
    assert found.classes_.tolist() == NAMES and found.multilabel_ == "sets"
    assert_ridge(found, X, Y)


def test_labels_that_are_new_later_unlearning_and_merging(tmp_path):
    X, Y, labels = rows(90)
    early = [[name for name in y if name != "red"] for y in labels[:45]]
    Y[:45, 2] = 0
    first, second = write(tmp_path / "a.csv", X[:45], early), write(tmp_path / "b.parquet", X[45:], labels[45:])
    learn_tables(tmp_path / "m", [first, second], TAGS)
    assert_ridge(rm.load(tmp_path / "m"), X, Y)
    learn_tables(tmp_path / "one", [first], TAGS)
    learn_tables(tmp_path / "two", [second], LearnOptions("tags", ignored=("who",)))
    assert_ridge(merge_files([tmp_path / "one", tmp_path / "two"], tmp_path / "both").learner, X, Y)
    part = write(tmp_path / "part.csv", X[50:70], labels[50:70])
    assert unlearn_tables(tmp_path / "m", [part]).total("unlearned") == 20
    kept = np.r_[:50, 70:90]
    assert_ridge(rm.load(tmp_path / "m"), X[kept], Y[kept])
    unlearn_tables(tmp_path / "both", [second])
    assert rm.load(tmp_path / "both").classes_.tolist() == NAMES[:2]


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "npz"])
def test_predictions_are_written_as_sets(tmp_path, ending):
    X, _, labels = rows(60)
    data = write(tmp_path / "a.parquet", X, labels)
    learn_tables(tmp_path / "m", [data], LearnOptions("tags", ignored=("who",)))
    expected = [sorted(s) for s in rm.load(tmp_path / "m").predict(X)]
    assert [] in expected and any(len(s) > 1 for s in expected)
    out = tmp_path / f"out.{ending}"
    predict_table(tmp_path / "m", data, out, scores=True)
    if ending == "csv":
        lines = [line.split(",") for line in out.read_text().splitlines()]
        assert lines[0][-5:] == ["tags", "predicted", "score_blue", "score_green", "score_red"]
        assert [line[-4] for line in lines[1:]] == [";".join(s) for s in expected]
        assert [line[-5] for line in lines[1:]] == [";".join(s) for s in labels]
    elif ending == "parquet":
        assert pq.read_table(out)["predicted"].to_pylist() == expected
    elif ending == "jsonl":
        assert [json.loads(line)["predicted"] for line in out.read_text().splitlines()] == expected
    else:
        assert np.load(out)["predicted"].tolist() == [";".join(s) for s in expected]


def test_numbers_as_labels_other_separators_and_cells_without_labels(tmp_path):
    X, Y, labels = rows(30, names=["3", "10", "7"])
    data = write(tmp_path / "a.csv", X, labels, " | ")
    learn_tables(tmp_path / "m", [data], LearnOptions("tags", ignored=("who",), separator="|"))
    model = rm.load(tmp_path / "m")
    assert model.classes_.tolist() == [3, 7, 10] and model.n_seen_ == 30
    assert_ridge(model, X, Y[:, [0, 2, 1]])
    words = write(tmp_path / "b.csv", X, [["x", *y] for y in labels], "|")
    before = (tmp_path / "m").read_bytes()
    with pytest.raises(rm.InputError, match="expected integers as labels"):
        learn_tables(tmp_path / "m", [words])
    assert (tmp_path / "m").read_bytes() == before


def test_evaluation_counts_labels(tmp_path):
    X, Y, labels = rows(80)
    data = write(tmp_path / "a.csv", X, labels)
    learn_tables(tmp_path / "m", [data], TAGS)
    said = rm.load(tmp_path / "m").class_scores(X) > 0.5
    found = evaluate_tables(tmp_path / "m", [data])
    assert found.accuracy == (said == Y).all(axis=1).mean()
    for k, one in enumerate(found.to_dict()["labels"]):
        assert one["rows"] == Y[:, k].sum() and one["predicted"] == said[:, k].sum()
        assert one["correct"] == (said[:, k] & (Y[:, k] == 1)).sum()
    strange = evaluate_tables(tmp_path / "m", [write(tmp_path / "b.csv", X, [["new"]] * 80)])
    assert strange.accuracy == 0 and strange.to_dict()["labels"][2]["label"] == "new"


def test_what_cannot_be_is_refused_and_changes_nothing(tmp_path):
    X, _, labels = rows(12)
    data = write(tmp_path / "a.csv", X, labels)
    for options, message in (
        (LearnOptions("tags", separator=" "), "a separator of labels like"),
        (LearnOptions(targets=("x0",), separator=";"), "separator only where labels"),
        (
            LearnOptions("tags", ignored=("who",), separator=";", readout="discriminant"),
            "where rows have several labels",
        ),
    ):
        with pytest.raises(rm.InputError, match=message):
            learn_tables(tmp_path / "n", [data], options)
    assert not (tmp_path / "n").exists()
    learn_tables(tmp_path / "m", [data], TAGS)
    before = (tmp_path / "m").read_bytes()
    lists = table(X, labels)
    inside = lists.set_column(5, "tags", pa.array([["a;b"]] * 12))
    numbers = lists.set_column(5, "tags", pa.array([[1, 2]] * 12))
    deeper = lists.set_column(5, "tags", pa.array([[[1.0, 2.0]]] * 12))
    missing = lists.set_column(5, "tags", pa.array([["red"], None] * 6))
    for wrong, message in (
        (inside, "without ';', which separates labels"),
        (numbers, "lists of numbers; write the labels as text"),
        (deeper, "lists of text in .*, got list<"),
        (missing, "6 of 12 rows"),
    ):
        pq.write_table(wrong, tmp_path / "wrong.parquet")
        with pytest.raises(rm.InputError, match=message):
            learn_tables(tmp_path / "m", [tmp_path / "wrong.parquet"], again=True)
    with pytest.raises(rm.InputError, match="separator"):
        learn_tables(tmp_path / "m", [data], LearnOptions(separator=","))
    assert (tmp_path / "m").read_bytes() == before
    pq.write_table(numbers, tmp_path / "wrong.parquet")
    with pytest.raises(rm.InputError, match="lists of numbers; write the labels as text"):
        learn_tables(tmp_path / "n", [tmp_path / "wrong.parquet"], LearnOptions("tags"))
    pq.write_table(missing, tmp_path / "wrong.parquet")
    assert learn_tables(tmp_path / "m", [tmp_path / "wrong.parquet"], drop=True).total("dropped") == 6


def test_models_of_single_labels_do_not_take_lists(tmp_path):
    X, _, labels = rows(12)
    single = write(tmp_path / "s.csv", X, [["x"], ["y"]] * 6)
    learn_tables(tmp_path / "m", [single], LearnOptions("tags", ignored=("who",)))
    with pytest.raises(rm.InputError, match="numbers or text, got list"):
        learn_tables(tmp_path / "m", [write(tmp_path / "a.parquet", X, labels)])


def test_models_fitted_in_python_go_on_with_tables(tmp_path):
    X, Y, labels = rows(40)
    rm.save(rm.ContinualClassifier().fit(X[:20], [set(y) for y in labels[:20]]), tmp_path / "m")
    data = write(tmp_path / "a.csv", X[20:], labels[20:])
    learn_tables(tmp_path / "m", [data], TAGS)
    assert_ridge(rm.load(tmp_path / "m"), X, Y)
    rm.save(rm.ContinualClassifier().fit(X, Y), tmp_path / "i")
    with pytest.raises(rm.InputError, match="an indicator; continue in Python"):
        learn_tables(tmp_path / "i", [data], TAGS)
    predict_table(tmp_path / "i", data, tmp_path / "o.csv", ignored=("who", "tags"), scores=True)
    assert (tmp_path / "o.csv").read_text().splitlines()[0].endswith("predicted_2,score_0,score_1,score_2")


def test_the_commands(tmp_path):
    X, _, labels = rows(30)
    data = write(tmp_path / "a.csv", X, labels)
    model = str(tmp_path / "m")

    def run(*words):
        found = CliRunner().invoke(app, [*map(str, words)])
        assert found.exit_code == 0, found.output
        return found.output

    run("learn", model, data, "--label", "tags", "--label-separator", ";", "--ignore", "who")
    assert "any number per row, with ';' between them" in run("inspect", model)
    assert "all labels right in" in run("evaluate", model, data)
    run("predict", model, data, "-o", tmp_path / "o.csv")
    certificates = json.loads(run("inspect", model, "--json"))["certificates"]
    assert "class-counts" not in [c.get("name") for c in certificates]
