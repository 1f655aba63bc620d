"""Whatever goes wrong is said in a line, with an exit code that is no verdict; the traceback is there for who asks."""

import io
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import remanence.cli as cli
from remanence.cli import main
from remanence.cli.common.output import safe_output


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REMANENCE_DEBUG", raising=False)

    def called(*arguments):
        with pytest.raises(SystemExit) as leaving:
            main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return leaving.value.code or 0, out, err

    return called


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,b,k\n1,2,x\n2,1,y\n3,3,x\n4,1,y\n")
    return path


def broken(problem):
    def command(*_, **__):
        raise problem

    return command


def test_what_nobody_expected_is_said_in_a_line(call, monkeypatch):
    monkeypatch.setattr("remanence.cli.methods.table", broken(KeyError("columns")))
    code, out, err = call("methods")
    assert (code, out) == (2, "") and "Traceback" not in err and len(err.splitlines()) == 1
    assert "KeyError" in err and "'columns'" in err and "report" in err and "REMANENCE_DEBUG=1" in err
    assert "methods.py, line" in err and cli.__version__ in err


@pytest.mark.parametrize("problem", [KeyError("columns"), MemoryError(), OSError(5, "Input/output error", "x")])
def test_developers_get_the_exception_itself(monkeypatch, problem):
    monkeypatch.setattr("remanence.cli.methods.table", broken(problem))
    monkeypatch.setenv("REMANENCE_DEBUG", "1")
    with pytest.raises(type(problem)):
        main(["methods"])


@pytest.mark.parametrize(
    "problem, words",
    [
        (MemoryError(), "not enough memory; use fewer"),
        (MemoryError("Unable to allocate 7 TiB"), "not enough memory: Unable to allocate 7 TiB; use fewer"),
        (PermissionError(13, "Permission denied", "here.csv"), "here.csv: Permission denied"),
    ],
)
def test_memory_and_files_that_fail_are_no_defects(call, monkeypatch, problem, words):
    monkeypatch.setattr("remanence.cli.methods.table", broken(problem))
    code, out, err = call("methods")
    assert (code, out) == (2, "") and words in err and "defect" not in err


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_warning_is_a_line_without_a_place_in_the_code(tmp_path):
    (tmp_path / "cut.csv").write_text("a,t\n1,2\n2,3\n3,45")  # no line break at its end
    command = [sys.executable, "-m", "remanence", "learn", "m.safetensors", "cut.csv", "--target", "t"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr.startswith("Warning: the last line of cut.csv")
    assert len(done.stderr.splitlines()) == 1 and ".py" not in done.stderr


def test_a_full_standard_output_is_told_apart_from_the_work(tmp_path, data):
    environment = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2]), "REMANENCE_DEBUG": ""}
    command = [sys.executable, "-m", "remanence", "learn", "m.safetensors", str(data), "--label", "k"]
    with FULL.open("w") as full:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
        )
    assert done.returncode == 2 and "standard output" in done.stderr and "saved" in done.stderr
    assert len(done.stderr.splitlines()) == 1  # nothing more when Python ends
    assert (tmp_path / "m.safetensors").exists()


@pytest.fixture
def model(call, data):
    call("learn", "m.safetensors", data, "--label", "k")
    return "m.safetensors"


COMMANDS = [["inspect", "m.safetensors"], ["inspect", "m.safetensors", "--json"], ["methods"]]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_reader_that_leaves_ends_the_command_quietly_and_without_a_verdict(call, model, monkeypatch, arguments):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        monkeypatch.setattr("sys.stdout", closed)
        code, _, err = call(*arguments)
    assert code == 2 and err == ""  # 1 would say that a check has failed


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])  # (Python's choice in most locales, and in C)
@pytest.mark.parametrize("arguments", [*COMMANDS, ["evaluate", "m.safetensors", "data.csv"]], ids=" ".join)
def test_an_ascii_terminal_gets_signs_it_has(call, data, monkeypatch, arguments, errors):
    data.write_text(data.read_text().replace("y", "ÿ√"), encoding="utf-8")
    call("learn", "m.safetensors", data, "--label", "k")
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="ascii", errors=errors))
    code, _, err = call(*arguments)
    out = written.getvalue()
    assert code == 0 and err == "" and out
    if "--json" not in arguments:  # (which goes out as UTF-8)
        assert out.isascii()
    if arguments == COMMANDS[0]:
        assert b"+ " in out and b"x (2), \\u00ff\\u221a (2)" in out


@pytest.mark.parametrize("option", ["--ridge", "--forget", "--set=ridge", "--set=floor"])
def test_numbers_of_hundreds_of_digits_are_refused_in_words(call, data, option):
    value = "9" * 400
    given = [f"{option}={value}"] if "=" in option else [option, value]
    code, _, err = call("learn", "m.safetensors", data, "--label", "k", *given)
    assert code == 2 and err.startswith("Error: expected") and "defect" not in err and len(err) < 300


def test_names_of_files_that_are_no_text_can_be_printed(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="utf-8"))
    with safe_output():
        print("a\udcffb ✓", flush=True)
    assert written.getvalue().decode() == "a\\udcffb ✓\n"


def test_a_standard_output_that_is_closed_is_no_reason_to_fail(call, model, monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    assert call("inspect", model)[0] == 0


def test_json_nested_without_end_is_refused_everywhere(call, tmp_path, data):
    (tmp_path / "results.json").write_text("[" * 100_000)
    for arguments in (["report", tmp_path], ["compare", tmp_path, tmp_path / "results.json"]):
        code, out, err = call(*arguments)
        assert (code, out) == (2, "") and "nested" in err and "defect" not in err
    code, out, err = call(
        "learn", "m.safetensors", data, "--label", "k", "--method", "lms", "--set", "step=" + "[" * 100_000
    )
    assert (code, out) == (2, "") and "step" in err and "defect" not in err


@pytest.mark.parametrize("width", ["99999999999", "9" * 5000])
def test_features_that_no_memory_can_hold_are_refused_in_words(call, data, width, tmp_path):
    code, out, err = call("learn", "m.safetensors", data, "--label", "k", "--features", f"random:{width}")
    assert (code, out) == (2, "") and "defect" not in err and "features" in err
    assert not (tmp_path / "m.safetensors").exists()


def results(tmp_path, call):
    call("run", "--methods", "lms,joint", "--tasks", "2", "--no-certify", "--out", tmp_path / "run")
    return json.loads((tmp_path / "run" / "results.json").read_text())


def places(value, path=()):
    """The path of everything inside a JSON value."""
    yield path
    if isinstance(value, dict):
        for key, part in value.items():
            yield from places(part, (*path, key))
    elif isinstance(value, list):
        for k, part in enumerate(value[:2]):
            yield from places(part, (*path, k))


@pytest.mark.parametrize("share", [0.005, pytest.param(1.0, marks=pytest.mark.sweep)])
def test_forged_results_are_shown_or_refused_in_words(call, tmp_path, monkeypatch, share):
    right = results(tmp_path, call)
    monkeypatch.setattr("remanence.report.files.rendered", lambda figure, kind: b"<svg></svg>")
    monkeypatch.setattr("remanence.report.files.map_boxes", lambda figure: [])
    rng = np.random.default_rng(0)
    strange = [None, True, -1, 1e300, "x", [], {}, [[]], {"a": None}, "NaN", ["a", 1], 10**400]
    for spot, value in itertools.product((spot for spot in places(right) if spot), strange):
        if rng.random() > share:
            continue
        forged = json.loads(json.dumps(right))
        part = forged
        for step in spot[:-1]:
            part = part[step]
        part[spot[-1]] = value
        (tmp_path / "run" / "results.json").write_text(json.dumps(forged))
        code, _, err = call("report", tmp_path / "run")
        assert code in (0, 2) and "defect" not in err, (spot, value, err)
