"""Compiled code is of the present sources, and a place where nothing can be written only costs time."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "remanence"


@pytest.fixture
def package(tmp_path):
    """A copy of the package without anything compiled."""
    return shutil.copytree(SOURCE, tmp_path / "remanence", ignore=shutil.ignore_patterns("__pycache__"))


def python(package, code, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    kept |= {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=kept)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_read_only_installation_without_a_home_learns_and_answers(package):
    for folder in [package, *(p for p in package.rglob("*") if p.is_dir())]:
        (folder / "__pycache__").write_text("no folder can be made here")  # (root may write wherever it likes)
    code = """
import numpy as np, remanence as rm
import remanence.kernels.compiled_kalman_filter, remanence.kernels.compiled_kalman_smoother
rng = np.random.default_rng(0)
X, W = rng.standard_normal((40, 3)), np.ones((3, 1))
for method in (rm.RLS(ridge=1e-9), rm.LMS()):
    state = method.init(3, 1)
    for x in X:
        state = method.update(state, x[None], x[None] @ W)
        method.weights(state)
    print(abs(method.weights(state) - W).max() < 1e-2)
"""
    assert python(package, code, HOME="/proc/none").split() == ["True", "True"]


def test_a_disk_that_is_full_when_code_is_kept_is_no_reason_to_fail(package, tmp_path):
    code = """
import errno, numpy as np, remanence as rm
from numba.core.caching import IndexDataCacheFile
def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")
IndexDataCacheFile.save = full
method = rm.LMS()
print(method.weights(method.update(method.init(1, 1), np.ones((2, 1)), np.ones((2, 1))))[0, 0])
"""
    assert python(package, code, NUMBA_CACHE_DIR=str(tmp_path / "cache")).strip() == "1.0"


KERNEL = """
import numpy as np
from remanence.kernels.compiled_kalman import compiled, squared
from remanence.kernels.constants import SEEN

@compiled
def square(L):
    out = np.empty((1, 1))
    squared(L, out)
    return out[0, 0] + SEEN
"""


def test_changed_code_and_constants_of_other_files_are_compiled_anew(package, tmp_path):
    (package / "kernels" / "compiled_of_the_test.py").write_text(KERNEL)
    code = """
import numpy as np
from remanence.kernels.compiled_of_the_test import square
print(square(np.full((1, 1), 3.0)), sum(square.stats.cache_hits.values()))
"""

    def said():
        return python(package, code, NUMBA_CACHE_DIR=str(tmp_path / "cache")).split()

    assert said() == ["10.0", "0"] and said() == ["10.0", "1"]  # compiled, then found
    inlined = package / "kernels" / "compiled_kalman.py"
    inlined.write_text(inlined.read_text().replace("total += L[i, k] * L[j, k]", "total += L[i, k] * L[j, k] * 100"))
    assert said() == ["901.0", "0"]
    constants = package / "kernels" / "constants.py"
    constants.write_text(
        constants.read_text().replace("MISSING, SEEN, DECIDED = 0, 1, 2", "MISSING, SEEN, DECIDED = 0, 3, 2")
    )
    assert said() == ["903.0", "0"]


def test_whatever_compiled_code_takes_from_other_files_is_in_its_stamp():
    from remanence.kernels.jit import stamped_files

    stamped = {path.relative_to(SOURCE).with_suffix("").as_posix() for path in stamped_files()}
    for path in SOURCE.rglob("compiled*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("remanence."):
                home = node.module.removeprefix("remanence.").replace(".", "/")
                assert home in stamped or [a.name for a in node.names] == ["Array"], f"{path.name} imports {home}"


def test_nothing_is_compiled_past_the_stamp():
    for path in SOURCE.rglob("*.py"):
        assert "cache=True" not in path.read_text().replace("numba.njit(cache=True, …)", ""), path
