"""The coverage figure of `make test`: a line above pytest's closing line, from all worker processes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """
def test_one():
    import remanence.errors
def test_two():
    import remanence.validation
"""


@pytest.mark.slow
def test_the_share_of_lines_is_printed_before_the_closing_line(tmp_path):
    pytest.importorskip("slipcover")
    (tmp_path / "test_two_files.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "tests.line_coverage", "--rootdir", tmp_path]
    plain = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run([*command, tmp_path], cwd=ROOT, env=plain, capture_output=True, text=True, check=False)
    *_, coverage, closing = done.stdout.splitlines()
    share = re.match(r"coverage: (\d+\.\d) % of (\d+) lines", coverage)
    assert share and 0 < float(share[1]) < 5 and int(share[2]) > 10_000
    assert closing.startswith("2 passed"), done.stdout + done.stderr
