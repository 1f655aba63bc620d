"""A run survives a kill, is never mixed with another one, and can be shown and compared afterwards."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib import import_module

import numpy as np
import pytest

from remanence.cli import main
from remanence.report import Run

QUICK = ["--methods", "lms,rls,joint", "--tasks", "2", "--no-certify"]


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as leaving:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return leaving.value.code, out, err


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


def matrices(folder):
    return {o.name: [m.values for m in o.matrices] for o in Run.load(folder).outcomes}


def test_what_was_learned_before_a_stop_is_not_learned_again(folder, capsys, monkeypatch):
    comparing = import_module("remanence.report.compare")  # the function of this name hides it
    real, learned = comparing._learned, []

    def stopped(contender, *rest):
        if len(learned) == 3:
            raise KeyboardInterrupt
        learned.append(contender.name)
        return real(contender, *rest)

    monkeypatch.setattr(comparing, "_learned", stopped)
    call(capsys, "run", *QUICK, "--seeds", 2, "--out", folder)
    assert learned == ["lms", "rls", "joint"] and not (folder / "results.json").exists()
    learned[:] = [""] * 4
    code, out, _ = call(capsys, "run", *QUICK, "--seeds", 2, "--out", folder, "--json")
    assert code == 0 and json.loads(out)["reused"] == 3 and learned[4:] == ["lms", "rls", "joint"]
    monkeypatch.undo()
    call(capsys, "run", *QUICK, "--seeds", 2, "--out", folder.with_name("straight"))
    straight = matrices(folder.with_name("straight"))
    for name, found in matrices(folder).items():
        np.testing.assert_array_equal(found, straight[name])


def test_a_killed_process_leaves_whole_parts_and_the_same_command_goes_on(folder, capsys):
    command = [sys.executable, "-m", "remanence", "run", *QUICK, "--seeds", "300", "--out", str(folder)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, **quiet)
    deadline = time.monotonic() + 120
    while len(list((folder / "learned").glob("*.json"))) < 4:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = list((folder / "learned").glob("*.json"))
    assert all(json.loads(path.read_text())["matrix"] for path in kept) and not (folder / "results.json").exists()
    settings = json.loads((folder / "settings.json").read_text())
    assert settings["seeds"] == 300 and settings["tasks"] == 2
    (folder / "settings.json").write_text(json.dumps(settings | {"seeds": 2}))  # so that the rest is soon done
    code, out, _ = call(capsys, "run", *QUICK, "--seeds", 2, "--out", folder, "--json")
    assert code == 0 and 4 <= json.loads(out)["reused"] <= 6
    assert not list(folder.rglob("*.part"))


def test_another_run_is_not_mixed_in(folder, capsys):
    assert call(capsys, "run", *QUICK, "--out", folder)[0] == 0
    before = (folder / "results.json").read_bytes()
    code, out, err = call(capsys, "run", *QUICK, "--seed", 1, "--out", folder)
    assert (code, out) == (2, "") and "--again" in err and "seed 0 and not 1" in err
    assert (folder / "results.json").read_bytes() == before
    code, out, _ = call(capsys, "run", *QUICK, "--seed", 1, "--out", folder, "--again", "--json")
    assert code == 0 and json.loads(out)["reused"] == 0 and Run.load(folder).settings["seed"] == 1
    assert {path.name for path in (folder / "learned").iterdir()} == {"lms-1.json", "rls-1.json", "joint-1.json"}


def test_a_part_that_is_damaged_is_learned_anew(folder, capsys):
    call(capsys, "run", *QUICK, "--out", folder)
    before = matrices(folder)
    (folder / "learned" / "rls-0.json").write_text('{"matrix": ')
    code, out, _ = call(capsys, "run", *QUICK, "--out", folder)
    assert code == 0 and "2 of 3 results were reused" in out
    for name, found in matrices(folder).items():
        np.testing.assert_array_equal(found, before[name])


def test_a_run_is_shown_again_from_its_numbers(folder, capsys):
    call(capsys, "run", *QUICK, "--out", folder)
    page = (folder / "index.html").read_bytes()
    (folder / "index.html").unlink()
    code, out, _ = call(capsys, "report", folder)
    assert code == 0 and Run.load(folder).headline in " ".join(out.split()) and "Page: " in out
    assert (folder / "index.html").read_bytes() == page
    other = folder.with_name("other")
    code, out, _ = call(capsys, "report", folder / "results.json", "--out", other, "--json")
    assert code == 0 and json.loads(out)["headline"] and (other / "index.html").read_bytes() == page


def test_runs_are_put_side_by_side(folder, capsys, tmp_path):
    other = tmp_path / "other"
    call(capsys, "run", *QUICK, "--out", folder)
    call(capsys, "run", "--methods", "rls,icl", "--tasks", 5, "--no-certify", "--out", other)
    code, out, err = call(capsys, "compare", folder, other, "--out", tmp_path / "both", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "") and found["differing"]["tasks"] == [2, 5]
    kept = [o.metrics["average_accuracy"] for run in (folder, other) for o in Run.load(run).outcomes if o.name == "rls"]
    assert [cell["average_accuracy"] for cell in found["learners"]["RLS"]] == kept
    assert found["learners"]["LMS"][1] is None and found["learners"]["ICL"][0] is None
    page = (tmp_path / "both" / "index.html").read_text()
    assert (
        page.count("<svg") == 2
        and "http" not in page
        and all(run["headline"].replace(" %", "\u00a0%") in page for run in found["runs"])
    )
    code, out, _ = call(capsys, "compare", folder, other, "--out", tmp_path / "both")
    assert code == 0 and f"{100 * kept[0]:.1f}" in out and "tasks: 2 | 5" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["report", "nowhere"], "nowhere"), (["compare", "nowhere", "there"], "nowhere"), (["report"], "run")],
)
def test_what_is_no_run_is_refused(capsys, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "") and said in err.lower() and not list(tmp_path.iterdir())


def test_one_run_is_no_comparison(folder, capsys, tmp_path):
    call(capsys, "run", *QUICK, "--out", folder)
    code, _, err = call(capsys, "compare", folder, folder, "--out", tmp_path / "both")
    assert code == 2 and "two different runs" in err and not (tmp_path / "both").exists()
