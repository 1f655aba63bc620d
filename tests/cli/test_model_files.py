"""The commands on a model file: what they print, how they leave, and that a script can read them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import remanence as rm
from remanence.cli import main

COMMANDS = ["learn", "predict", "evaluate", "unlearn", "merge", "inspect"]


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")

    def called(*arguments):
        with pytest.raises(SystemExit) as leaving:
            main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return leaving.value.code or 0, out, err

    return called


@pytest.fixture
def data(tmp_path):
    """Three tables; y is the sign of a."""
    rng = np.random.default_rng(0)
    for k in range(3):
        X = rng.standard_normal((25, 2))
        lines = [f"{a!r},{b!r},{'up' if a > 0 else 'down'}" for a, b in X.tolist()]
        (tmp_path / f"{k}.csv").write_text("\n".join(["a,b,way", *lines]) + "\n")


def told(call, *arguments, code=0):
    left, out, err = call(*arguments, "--json")
    assert left == code, err
    return json.loads(out)


def test_a_day_in_the_life_of_a_model_file(call, data):
    assert told(call, "learn", "m", "0.csv", "1.csv", "--label", "way")["learned"] == 50
    code, out, err = call("learn", "m", "*.csv")
    assert (code, err) == (0, "")
    assert "2.csv: 25 learned" in out and "m: 25 rows learned" in out and "50 known already" in out
    again = told(call, "learn", "m", "*.csv")
    assert (again["learned"], again["skipped"], again["dropped"], len(again["files"])) == (0, 75, 0, 3)
    seen = told(call, "inspect", "m")
    assert seen["rows"] == 75 and seen["classes"] == ["down", "up"] and all(c["holds"] for c in seen["certificates"])
    assert told(call, "predict", "m", "2.csv", "-o", "o.csv", "--scores")["predicted"] == 25
    assert told(call, "evaluate", "m", "o.csv", "--label", "predicted")["accuracy"] == 1.0
    found = told(call, "evaluate", "m", "0.csv", "1.csv")
    assert found["rows"] == 50 and found["accuracy"] > 0.8
    assert told(call, "unlearn", "m", "2.csv")["unlearned"] == 25
    assert told(call, "unlearn", "m", "2.csv") == {
        "unlearned": 0,
        "skipped": 25,
        "unsearched": [],
        "files": [{"file": "2.csv", "unlearned": 0, "skipped": 25}],
    }
    told(call, "learn", "north", "2.csv", "--label", "way")
    assert told(call, "merge", "m", "north", "-o", "all")["rows"] == 75
    assert told(call, "inspect", "all")["rows"] == 75


def test_what_people_are_shown(call, data):
    call("learn", "m", "0.csv", "1.csv", "--label", "way", "--ridge", "auto")
    code, out, _ = call("inspect", "m")
    assert code == 0
    for words in (
        "RLS(ridge=auto",
        "down (",
        "a, b",
        "0.csv",
        "ledger (2 entries)",
        "✓ equals training at once on every piece its ledger lists",
    ):
        assert words in out
    code, out, _ = call("evaluate", "m", "2.csv")
    assert code == 0 and "accuracy" in out and "as down" in out
    assert "25 rows with predictions" in call("predict", "m", "2.csv", "-o", "o.csv")[1]
    assert "1.csv: 25 rows unlearned" in call("unlearn", "m", "1.csv", "--label", "way")[1]
    call("learn", "n", "2.csv", "--label", "way", "--ridge", "auto")
    assert "ledger (1 entry)" in call("inspect", "n")[1]
    assert "50 rows in 2 pieces from 2 models" in call("merge", "m", "n", "-o", "o")[1]


@pytest.mark.parametrize("minutes", ["0", "-1", "nan"])
def test_minutes_between_writes_are_checked(call, data, minutes):
    code, _, err = call("learn", "m", "0.csv", "--label", "way", f"--save-every={minutes}")
    shown = "nan" if minutes == "nan" else f"{float(minutes)!r}"
    assert code == 2 and f"expected --save-every to be a number above 0, got {shown}" in err


def test_one_table_goes_into_a_folder_as_several_do(call, data, monkeypatch):
    call("learn", "m", "0.csv", "--label", "way")
    assert told(call, "predict", "m", "0.csv", "-o", "new/")["out"] == "new/0.csv"
    assert told(call, "predict", "m", "1.csv", "-o", "new")["out"] == "new/1.csv"
    code, _, err = call("predict", "m", "0.csv", "-o", "new.xls")
    assert code == 2 and "got new.xls" in err


def test_inspect_says_how_many_answers_its_figures_are_about(call, data):
    call("learn", "m", "0.csv", "1.csv", "--label", "way")
    rows = told(call, "inspect", "m")["calibration"]["rows"]
    assert 0 < rows <= 50 and f"to {rows:.0f} rows before they were learned" in call("inspect", "m")[1]


def test_a_bad_file_among_good_ones_is_named_and_the_good_ones_before_it_are_kept(call, data, tmp_path):
    (tmp_path / "1.csv").write_text("a,b,way\n1,2,up\n1,oops,down\n")
    found = told(call, "learn", "m", "0.csv", "1.csv", "2.csv", "--label", "way", code=2)
    assert found["learned"] == 25 and "1.csv" in found["error"]
    code, out, err = call("learn", "m", "0.csv", "1.csv", "2.csv")
    assert code == 2 and "row 2 of 1.csv, got 'oops'" in err and "0.csv: 25 skipped" in out
    assert told(call, "inspect", "m")["rows"] == 25


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["learn", "m", "absent.csv", "--label", "way"], "absent.csv"),
        (["learn", "m", "x*.csv", "--label", "way"], "no file matches"),
        (["learn", "m", "0.csv"], "--label"),
        (["learn", "m", "0.csv", "--label", "way", "--set", "step"], "NAME=VALUE"),
        (["learn", "m", "0.csv", "--label", "way", "--ridge", "1", "--set", "ridge=2"], "ridge twice"),
        (["learn", "m", "0.csv", "--label", "way", "--method", "sgd"], "unknown method"),
        (["learn", "no/such/folder/m", "0.csv", "--label", "way"], "name another folder"),
        (["inspect", "absent"], "no such file"),
        (["inspect", "0.csv"], "no model file"),
        (["predict", "absent", "0.csv", "-o", "o.csv"], "absent"),
        (["predict", "0.csv", "0.csv"], "no model file"),
        (["unlearn", "absent", "0.csv"], "absent"),
        (["merge", "absent", "missing", "-o", "o"], "absent"),
        (["evaluate", "absent", "0.csv"], "absent"),
    ],
)
def test_bad_use_leaves_with_2_one_paragraph_and_no_file(call, data, tmp_path, arguments, words):
    before = sorted(p.name for p in tmp_path.iterdir())
    code, out, err = call(*arguments)
    assert (code, out) == (2, "") and words in err
    assert err.startswith("Error: ")
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_inspect_leaves_with_1_where_a_check_fails(call, data):
    from remanence.store import read, write

    call("learn", "m", "0.csv", "--label", "way")
    model = read("m")
    model.learner.n_seen_ = 24
    write("m", model)
    code, out, _ = call("inspect", "m")
    assert code == 1 and "✗ equals training at once" in out
    assert call("inspect", "m", "--json")[0] == 1


def test_settings_reach_the_model(call, data):
    call("learn", "m", "0.csv", "--label", "way", "--method", "lms", "--set", "step=0.25", "--features", "random:30")
    model = rm.load("m")
    assert model.method == rm.LMS(0.25) and model.features.width == 30
    call("learn", "r", "0.csv", "--target", "a", "--ignore", "way", "--forget", "0.9", "--ridge", "auto")
    assert rm.load("r").method == rm.RLS("auto", 0.9)


def test_a_model_that_another_process_writes_is_waited_for_and_then_refused(call, data, monkeypatch):
    from remanence.store import locked
    from remanence.store.jobs import learn as teaching

    monkeypatch.setattr(teaching.learn_session.__wrapped__, "__defaults__", (False, False, 0.1, None, None, None))
    with locked("m"):
        code, _, err = call("learn", "m", "0.csv", "--label", "way")
    assert code == 2 and "another process" in err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example(call, command):
    code, out, _ = call(command, "--help")
    assert code == 0 and f"Example: remanence {command}" in out


def test_the_shell_completes_commands_and_options():
    def completed(line, word):
        environment = {
            **os.environ,
            "_REMANENCE_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(word),
        }
        done = subprocess.run([sys.executable, "-m", "remanence"], env=environment, capture_output=True, text=True)
        return done.stdout.split()

    assert {"learn", "inspect"} <= set(completed("remanence ", 1))
    assert "--label" in completed("remanence learn --", 2)
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "true"}
    command = [sys.executable, "-m", "remanence", "--show-completion", "bash"]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert shown.returncode == 0 and "complete" in shown.stdout


def test_benchmarks_run_from_the_source_tree_and_are_refused_elsewhere(call, monkeypatch):
    found = told(call, "bench", "--smoke", "--only", "memory-donate")
    assert [row["name"] for group in found["groups"] for row in group["rows"]] == ["memory-donate"]
    code, _, err = call("bench", "--only", "nothing")
    assert code == 2 and "expected a group or a benchmark, got 'nothing'" in err
    monkeypatch.setattr("remanence.cli.bench.WHERE", "elsewhere/")
    code, _, err = call("bench")
    assert code == 2 and "clone it and run `make bench`" in err


def test_files_that_are_not_at_hand_and_rows_out_on_trust_are_told(call, data):
    call("learn", "m", "*.csv", "--label", "way")
    lines = Path("0.csv").read_text().splitlines(True)
    Path("part.csv").write_text("".join([lines[0], *lines[1:6:2]]))
    Path("0.csv").rename("zero")
    code, _, err = call("unlearn", "m", "part.csv")
    assert (
        code == 2 and "3 rows of part.csv" in err and "0.csv (25 rows)" in err and "--from" in err and "--trust" in err
    )
    code, out, err = call("unlearn", "m", "part.csv", "--trust")
    assert code == 0 and "3 rows unlearned" in out and "Warning: not searched, as not found: 0.csv (25 rows)" in err
    code, out, _ = call("inspect", "m")
    assert code == 0 and "– equals training" in out and "3 rows were unlearned on trust" in out
    Path("zero").rename("0.csv")
    Path("part.csv").rename("hidden.csv")
    code, _, err = call("unlearn", "m", "0.csv")
    assert code == 2 and "part.csv, which was not found" in err and "--from" in err
    assert told(call, "unlearn", "m", "0.csv", "--from", "hidden.csv")["unlearned"] == 22
    assert told(call, "unlearn", "m", "1.csv")["unsearched"] == []
    assert told(call, "inspect", "m")["rows"] == 25


@pytest.mark.filterwarnings("ignore:.*larger")
def test_a_loss_of_digits_is_refused_accepted_and_shown_or_avoided(call, data):
    lines = [f"{1e12 * k},{-1e12 * k * k},up" for k in range(1, 6)]
    Path("wild.csv").write_text("\n".join(["a,b,way", *lines]) + "\n")
    call("learn", "m", "0.csv", "wild.csv", "--label", "way")
    code, _, err = call("unlearn", "m", "wild.csv")
    assert code == 2 and "--accept-loss" in err and "--undo pieces" in err
    assert call("unlearn", "m", "wild.csv", "--accept-loss")[0] == 0
    code, out, _ = call("inspect", "m")
    assert code == 1 and "✗ predictions have the promised precision" in out and "– equals training" in out
    code, out, _ = call("learn", "p", "0.csv", "wild.csv", "--label", "way", "--undo", "pieces")
    assert code == 0 and "every piece keeps a memory of its own: 3² numbers, 72 bytes each" in out
    assert call("unlearn", "p", "wild.csv")[0] == 0
    code, out, _ = call("inspect", "p")
    assert code == 0 and "undo       pieces, 1 separate learners" in out and "✗" not in out


def test_of_a_file_that_grew_the_new_rows_are_learned(call, data):
    call("learn", "m", "0.csv", "--label", "way")
    with Path("0.csv").open("a") as file:
        file.write("1.5,2.5,up\n")
    code, out, _ = call("learn", "m", "0.csv")
    assert code == 0 and "1 learned, 25 skipped" in out


@pytest.mark.parametrize(
    ("ledger", "said"), [((), "25 were removed before"), (("--ledger", "rows"), "25 are not in the")]
)
def test_rows_that_are_not_there_are_said_to_be_removed_only_where_that_is_known(call, data, ledger, said):
    call("learn", "m", "0.csv", "1.csv", "--label", "way", *ledger)
    assert "25 rows unlearned" in call("unlearn", "m", "0.csv")[1]
    assert f"0 rows unlearned, {said}" in call("unlearn", "m", "0.csv")[1]


def test_columns_that_are_all_left_out_are_named_with_the_reason(call, tmp_path):
    dates = [f"{day:02}.{month:02}.2024" for month in (1, 2) for day in range(1, 21)]
    (tmp_path / "t.csv").write_text("when,way\n" + "".join(f"{d},{'ab'[k % 2]}\n" for k, d in enumerate(dates)))
    code, _, err = call("learn", "m", "t.csv", "--label", "way")
    assert code == 2 and "got only 'when', left out: its text is different in every row; it looks like dates" in err
    assert "--column NAME:KIND" in err and not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["t.data"], "(option --format NAME)"),
        (["ragged.csv"], "correct that row, or name the delimiter or the quotes of the file (option --csv-option"),
        (["0.csv", "--missing", "mean"], "(options --missing indicator, --drop-nan)"),
    ],
)
def test_errors_about_files_name_the_option(call, data, tmp_path, arguments, words):
    (tmp_path / "t.data").write_text("a,way\n1,x\n")
    (tmp_path / "ragged.csv").write_text("a,b,way\n1,2,x\n1,2,3,x\n")
    code, _, err = call("learn", "m", *arguments, "--label", "way")
    assert code == 2 and words in err
