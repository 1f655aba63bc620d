"""CONTRIBUTING.md is true: its commands, run in a copy of the repository, give a method that works everywhere."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMED = {"src/remanence/methods/my_method.py", "src/remanence/methods/__init__.py", "tests/laws/conftest.py"}

USE = """
import numpy as np
import remanence as rm

cls = rm.list_methods()["MyMethod"].method
assert cls.__module__ == "remanence.methods.my_method"
method = cls(step=0.5, leak=0.1)
rm.check_method(method)

X, Y = np.random.default_rng(0).standard_normal((2, 20, 3))
state = method.update(method.init(3, 3), X, Y)
rm.save((method, state), "pair.safetensors")
again, loaded = rm.load("pair.safetensors")
assert again == method and (method.weights(loaded) == method.weights(state)).all()

model = rm.ContinualClassifier(method).fit(X, np.arange(20) % 3)
rm.save(model, "model.safetensors")
assert (rm.load("model.safetensors").predict(X) == model.predict(X)).all()

certificates = rm.certify(method, [rm.Task("first", X[:9], Y[:9]), rm.Task("second", X[9:], Y[9:])])
assert certificates and all(c.status in ("holds", "fails", "does not apply") for c in certificates)
assert any(c.status != "does not apply" for c in certificates)
"""


def commands():
    """The block of commands under "Add a method"."""
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Add a method")[1].split("\n## ")[0]
    (block,) = re.findall(r"```sh\n(.*?)```", section, flags=re.DOTALL)
    return block


def contents(folder):
    skipped = ("__pycache__", ".pytest_cache", ".hypothesis")
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not any(part in skipped for part in path.parts)
    }


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of the repository after the commands of CONTRIBUTING.md."""
    if shutil.which("perl") is None:
        pytest.skip("the commands need perl")
    folder = tmp_path_factory.mktemp("clone")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("src", "examples", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    before = contents(folder)
    subprocess.run(["bash", "-ec", commands()], cwd=folder, check=True)
    after = contents(folder)
    assert {name for name in after if after[name] != before.get(name)} == NAMED
    return folder


def run(clone, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(clone / "src"), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=clone, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_a_copy_of_the_skeleton_is_checked_saved_loaded_and_certified(clone):
    run(clone, "-W", "error::UserWarning", "-c", USE)


def test_a_copy_of_the_skeleton_is_run_and_listed_by_the_command(clone):
    table = run(clone, "-m", "remanence", "methods", "--json")
    assert '"run": "mymethod", "learn": "mymethod"' in table
    out = run(clone, "-m", "remanence", "run", "--tasks", "2", "--methods", "mymethod", "--no-certify", "--json")
    assert '"name": "mymethod"' in out


def test_the_laws_of_the_clone_run_on_the_copy_and_hold(clone):
    laws = run(clone, "-m", "pytest", "tests/laws", "tests/test_public_names.py", "-k", "my-method or registry")
    assert int(re.search(r"(\d+) passed", laws)[1]) > 30
