"""A new user's path: a fresh environment, then every command the README prints, each timed and its result looked at."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TIMES = ROOT / "build" / "first-steps.json"
INSTALL, COMMAND = 480.0, 300.0  # seconds; far above what either takes, so that only a stand-still is caught


def commands():
    """The lines of the README's shell block."""
    block = re.search(
        r"### From a shell\n+```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert block is not None
    return block[1].strip().splitlines()


def spent(command, folder, environment, limit):
    """Seconds the command took; it must leave with 0."""
    start = time.perf_counter()
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return time.perf_counter() - start


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A copy of the project as a user gets it, and an environment in which nothing is installed."""
    folder = tmp_path_factory.mktemp("user") / "remanence"
    folder.mkdir()
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so")
    for name in ("src", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
    home = folder.parent / "environment"
    subprocess.run([sys.executable, "-m", "venv", home], check=True, timeout=INSTALL)
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")}
    environment |= {"PATH": f"{home / 'bin'}{os.pathsep}{environment['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    probe = [home / "bin" / "pip", "download", "-q", "--no-deps", "--no-cache-dir", "-d", folder.parent / "probe"]
    reached = subprocess.run([*probe, "threadpoolctl"], env=environment, capture_output=True, timeout=120, check=False)
    if reached.returncode:
        pytest.skip("no package index can be reached, so that nothing can be installed afresh")
    return folder, environment


@pytest.mark.sweep
def test_every_command_of_the_readme_works_in_a_fresh_environment(place):
    folder, environment = place
    lines = commands()
    assert lines[0] == "pip install ." and {line.split()[1] for line in lines[1:]} == {
        "run",
        "learn",
        "predict",
        "unlearn",
    }
    times = {line: spent(line, folder, environment, INSTALL if k == 0 else COMMAND) for k, line in enumerate(lines)}
    TIMES.parent.mkdir(exist_ok=True)
    TIMES.write_text(json.dumps({line: round(seconds, 1) for line, seconds in times.items()}, indent=1) + "\n")
    for line, seconds in times.items():
        print(f"{seconds:6.1f} s  {line}")

    page = (folder / "runs" / "digits" / "index.html").read_text(encoding="utf-8")
    assert "joint training" in page and page.rstrip().endswith("</html>")
    with (folder / "answers.csv").open(newline="", encoding="utf-8") as file:
        answers = [row["predicted"] for row in csv.DictReader(file)]
    assert len(answers) == 30 and set(answers) == {"setosa", "versicolor", "virginica"}
    code = (
        "import csv, numpy as np, remanence as rm\n"
        "rows = lambda day: list(csv.DictReader(open(f'examples/flowers/{day}.csv')))\n"
        "customer = rows('customer')\n"
        "kept = [r for r in rows('monday') + rows('tuesday') if r not in customer]\n"
        "X = np.array([[float(v) for k, v in r.items() if k != 'kind'] for r in kept])\n"
        "never = rm.ContinualClassifier(rm.RLS()).fit(X, [r['kind'] for r in kept])\n"
        "model = rm.load('flowers.safetensors')\n"
        "print(len(kept), np.abs(model.decision_function(X) - never.decision_function(X)).max() < 1e-9)\n"
    )
    said = subprocess.run(
        ["python", "-c", code], cwd=folder, env=environment, capture_output=True, text=True, timeout=COMMAND, check=True
    )
    assert said.stdout == "115 True\n"
