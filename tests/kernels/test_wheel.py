"""What pip does: build with and without a compiler, and install a wheel where there is none."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FIRST_STEPS = """
import numpy as np, remanence as rm
rng = np.random.default_rng(0)
X, W = rng.standard_normal((200, 5)), rng.standard_normal((5, 2))
for method in (rm.LMS(), rm.RLS(ridge=1e-9)):
    state, errors = method.track(method.init(5, 2), X, X @ W)
    assert abs(method.weights(state) - W).max() < 1e-3
model = rm.kalman.LinearGaussian(np.eye(2), 0.1 * np.eye(2), np.ones((1, 2)), np.eye(1), np.zeros(2), np.eye(2))
filtered = rm.kalman.filter(model, rng.standard_normal((30, 1)))
assert np.isfinite(rm.kalman.smooth(model, filtered).mean).all()
print("learned by", rm.__file__)
"""


def run(*command, **environment):
    """Run without a compiler on the path."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PATH", "PYTHONPATH", "CC")}
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, env={**kept, "PATH": "", **environment}
    )


def test_without_a_compiler_the_error_says_what_to_install(tmp_path):
    pytest.importorskip("Cython")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, tmp_path / name)
    native = tmp_path / "src" / "remanence" / "kernels" / "native"
    native.mkdir(parents=True)
    for path in (ROOT / "src" / "remanence" / "kernels" / "native").iterdir():
        shutil.copy2(path, native / path.name)
        if path.suffix == ".pyx":
            (native / path.name).write_text("x = 1\n")  # (what is compiled does not matter here)
    done = subprocess.run(
        [sys.executable, "setup.py", "build_ext"],
        cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PATH": str(tmp_path), "CC": ""},
    )  # fmt: skip
    assert done.returncode and "apt-get install gcc" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.sweep
def test_a_wheel_learns_in_an_empty_environment_without_a_compiler(tmp_path):
    """Uses the newest wheel in the folder REMANENCE_WHEELS, or builds one."""
    folder = os.environ.get("REMANENCE_WHEELS")
    if not folder:
        folder = tmp_path / "wheels"
        build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT]
        subprocess.run(build, check=True)
    wheel = max(Path(folder).glob("remanence-*.whl"), key=lambda path: path.stat().st_mtime)
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    installed = run(python, "-m", "pip", "install", "-q", "--only-binary=:all:", wheel)
    assert installed.returncode == 0, installed.stderr
    listed = run(python, "-m", "pip", "list").stdout.lower()
    assert "remanence" in listed and "numba" not in listed and "cython" not in listed
    done = run(python, "-c", FIRST_STEPS)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) in done.stdout
