"""Tables changed at random: every command ends in an answer or a refusal in words, and the model is as it was."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")


def run_sweep(tables, seed):
    run = subprocess.run(
        [sys.executable, "-W", "ignore", Path(__file__).with_name("fuzzing.py"), str(tables), str(seed)],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert not found["failures"], "\n".join(f"{f['table']}\n{f['trace']}" for f in found["failures"][:3])
    return found["counts"]


def test_thirty_fuzzed_tables_end_in_words():
    counts = run_sweep(30, 1)
    assert sum(counts.values()) == 180 and counts["learn: 2"] > 20 and counts["predict: 0"] > 5


@pytest.mark.sweep
def test_fifteen_hundred_fuzzed_tables_end_in_words():
    print(run_sweep(1500, 2))
