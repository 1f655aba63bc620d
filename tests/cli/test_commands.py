"""Exit codes, refusals and the table of methods, without starting a process for each."""

import itertools
import json

import pytest

import remanence as rm
from remanence.cli import main
from remanence.cli.run_options.learners import DEFAULT, LEARNERS, contenders, read_learners, registered
from remanence.cli.run_options.streams import STREAMS, Asked, find_source
from remanence.errors import InputError
from remanence.report import compare


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as leaving:
        main(arguments)
    out, err = capsys.readouterr()
    return leaving.value.code, out, err


def test_version(capsys):
    assert call(capsys, "--version") == (0, f"remanence {rm.__version__}\n", "")


@pytest.mark.parametrize(
    "arguments", [["--help"], *([name, "--help"] for name in ("run", "report", "compare", "methods", "verify"))]
)
def test_every_help_has_an_example(capsys, arguments):
    code, out, _ = call(capsys, *arguments)
    assert code == 0 and "Example: remanence" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--methods", "rlss"], "did you mean rls?"),
        (["run", "--methods", "finetune,perceptron"], ", ".join(LEARNERS)),
        (["run", "--methods", ","], "at least one method"),
        (["run", "--stream", "mnits"], ", ".join(STREAMS)),
        (["run", "--stream", "mnist"], "make data"),
        (["run", "--stream", "digits", "--label", "y"], "--label"),
        (["run", "--seeds", "0"], "--seeds"),
        (["run", "--set", "rls.rigde=1"], "one of ridge, forget"),
        (["run", "--set", "rls.ridge=-1"], "above 0"),
        (["run", "--set", "rls.readout=astrology"], "readout"),
        (["run", "--set", "lms.step=1"], "for a method of this run"),
        (["run", "--set", "ridge=1"], "LEARNER.NAME=VALUE"),
        (["run", "--set", "rls.ridge=1", "--set", "rls.ridge=2"], "twice"),
        (["run", "--set", "nearest-mean.k=3"], "which has none"),
        (["run", "--set", "logistic.C=much"], "expected other settings of logistic"),
        (["run", "--features", "fourier:9"], "random:5000"),
        (["run", "--features", "random:50:sin"], "cos"),
        (["run", "--stream", "digits", "--stream", "mnist"], "to be files"),
        (["run", "--stream", "nothing-*.csv", "--label", "y"], "no file matches"),
        (["run", "--order", "3,1"], "every class once"),
        (["run", "--stream", "rotated-digits", "--order", "random"], "--order"),
        (["run", "--tasks", "0"], "at least 1"),
        (["run", "--tasks", "five"], "--tasks"),
        (["run", "--seed", "-1"], "at least 0"),
        (["run", "--speed", "3"], "--speed"),
        (["walk"], "walk"),
    ],
)
def test_bad_use_leaves_with_2_and_says_what_to_do(capsys, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "") and said in err and "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_the_table_lists_every_method_and_baseline(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    code, out, _ = call(capsys, "methods")
    assert code == 0
    for name, entry in rm.list_methods().items():
        assert name in out and entry.cost.split(" ")[0] in out
    for name, choice in LEARNERS.items():
        assert choice.method or name in out


def test_the_table_as_json(capsys):
    code, out, err = call(capsys, "methods", "--json")
    rows = json.loads(out)["methods"]
    assert (code, err) == (0, "")
    assert {row["method"] for row in rows} - {""} == set(rm.list_methods())
    assert {row["run"] for row in rows} - {""} == {*LEARNERS, *registered()} >= {"lowrankrls"}
    assert all(row["summary"] and row["cost"] and row["memory"] for row in rows)


def test_names_are_read_leniently_and_each_once():
    assert read_learners(" RLS,joint ,rls,") == ["rls", "joint"]
    assert read_learners("lowrank,ridge") == ["lowrankrls", "joint"]
    assert read_learners("all") == list(LEARNERS)
    assert set(DEFAULT) <= set(LEARNERS)
    with pytest.raises(InputError):
        read_learners("")


@pytest.mark.parametrize("name", LEARNERS)
def test_every_choice_learns_one_class_at_a_time(name):
    run = compare(contenders([name], seed=1), rm.streams.digits(10)[:3])
    assert run.outcomes[0].name == name
    assert 0.3 <= run.outcomes[0].curve[-1] <= 1.0


@pytest.mark.parametrize("name", ["digits", "permuted-digits", "rotated-digits"])
def test_every_stream_is_a_function_of_its_seed(name):
    source = find_source(Asked(name, 2))
    first, again, other = (source.build(seed) for seed in (1, 1, 2))
    assert len(first) == 2
    assert all((a.X == b.X).all() for a, b in zip(first, again, strict=True))
    assert any(a.X.shape != b.X.shape or (a.X != b.X).any() for a, b in zip(first, other, strict=True))


def test_the_table_of_methods_is_right_about_what_learn_takes(capsys):
    from remanence.store.jobs.learn_options import LearnOptions

    rows = json.loads(call(capsys, "methods", "--json")[1])["methods"]
    taken = [row["learn"] for row in rows if row["learn"]]
    in_batches = [m for m, *_ in rm.list_methods().values() if m.linear and not m.task_per_update]
    assert "lowrankrls" in taken and "kalman" not in taken and len(taken) == len(in_batches)
    for name in taken:
        assert type(LearnOptions("kind", method=name).new_learner().method).__name__.lower() == name
    said = " ".join(call(capsys, "methods")[1].split())
    assert "KernelRLS *" in said and "in Python only" in said  # `run` takes what `learn` does not, if it is linear
    assert "Kalman *" not in said and "Switching *" not in said
    run_only = [row["method"] for row in rows if row["run"] and row["method"] and not row["learn"]]
    assert "Kalman" in run_only and f"learn --method (not {' and '.join(run_only)})" in said


@pytest.mark.parametrize("columns", [40, 80])
def test_the_table_of_methods_is_shown_whole(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    out = call(capsys, "methods")[1]
    assert "…" not in out and max(map(len, out.splitlines())) <= columns
    if columns == 80:
        names = {line.split("│")[1].strip(" *") for line in out.splitlines() if "│" in line}
        assert all(set(name.replace(".", ".\n").splitlines()) & names for name in rm.list_methods())


@pytest.mark.parametrize("command", ["learn", "unlearn"])
def test_paragraphs_of_help_fill_their_lines(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.strip() for line in call(capsys, command, "--help")[1].split("╭")[0].splitlines()]
    full = [(line, after) for line, after in itertools.pairwise(lines) if line and after]
    assert len(full) > 4 and all(len(line) + 1 + len(after.split()[0]) > 78 for line, after in full)
