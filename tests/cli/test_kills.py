"""Whatever moment `remanence learn` is killed at, the next run ends where an uninterrupted one does.

REMANENCE_KILLS=200 makes it two hundred kills.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

KILLS = int(os.environ.get("REMANENCE_KILLS", "15"))


def test_a_run_that_was_killed_goes_on_to_the_same_bits(tmp_path):
    command = [sys.executable, str(Path(__file__).with_name("killing.py")), str(tmp_path), str(KILLS), "7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] == KILLS and found["finished"] >= 1
    assert found["apart"] == 0.0
    assert any(0 < pieces < 60 for pieces in found["pieces at a kill"]), "no kill fell into the middle of a run"
    assert found["left"] == []


@pytest.mark.parametrize("kills", [6, pytest.param(200, marks=pytest.mark.sweep)])
def test_files_that_grow_between_kills_are_learned_once(tmp_path, kills):
    command = [sys.executable, str(Path(__file__).with_name("killing.py")), str(tmp_path), str(kills), "7", "growing"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] >= 0.8 * kills and found["rows"] == found["expected"]
    assert found["in mid-run"] >= 0.5 * kills, "too few kills fell between the first and the last rows of a run"
    assert found["while writing"] >= 0.2 * kills, "too few kills fell while the model was written"
    assert found["apart"] < 1e-12
