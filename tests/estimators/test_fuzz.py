"""Only errors of ours reach a user, whatever is handed over, and what raises has changed nothing; in bounded memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FUZZING = Path(__file__).with_name("fuzzing.py")


def fuzzed(seed, cases):
    """In another process, whose memory is limited: a crash or a greedy allocation is seen as such."""
    command = [sys.executable, str(FUZZING), str(seed), str(cases)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def holds(found, cases):
    assert not found["broken"], f"{len(found['broken'])} broke the law:\n" + "\n".join(found["broken"][:20])
    assert found["refused"] > cases // 4 and found["accepted"] > cases // 10  # the fuzz meets both
    assert found["peak"] < 1 << 30


def test_odd_input_is_refused_in_words():
    holds(fuzzed(0, 400), 400)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1, 9))
def test_odd_input_of_every_kind_is_refused_in_words(seed):
    holds(fuzzed(seed, 1000), 1000)
