"""What works where only the core of the project is installed: every command of the README, without any extra.

The environment of the tests has torch, dask, pandas and more; here a process of its own cannot import what the
dependencies of the project do not bring.
"""

import os
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
FLOWERS = ROOT / "examples" / "flowers"

BLOCK = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def core():
    """The distributions that installing the project without extras brings."""
    found, wanted = set(), ["remanence"]
    while wanted:
        name = wanted.pop().lower().replace("_", "-")
        if name in found:
            continue
        found.add(name)
        for line in metadata.requires(name) or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                wanted.append(needed.name)
    return found


def not_in_the_core():
    """The importable names of everything installed here that the core does not bring."""
    brought = core()
    return {
        name
        for name, distributions in metadata.packages_distributions().items()
        if not brought & {distribution.lower().replace("_", "-") for distribution in distributions}
    }


@pytest.fixture(scope="module")
def bare():
    """Runs a program in a process that has the core only."""
    block = BLOCK.format(names=sorted(not_in_the_core()))

    def run(program, folder):
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-c", block + textwrap.dedent(program)]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)

    return run


def test_the_extras_cannot_be_imported_here(bare, tmp_path):
    assert {"torch", "dask", "pandas", "river"} <= not_in_the_core()
    assert not {"numpy", "scipy", "sklearn", "pyarrow", "rich", "typer"} & not_in_the_core()
    done = bare("import torch", tmp_path)
    assert "No module named 'torch'" in done.stderr and done.returncode


def test_the_main_job_runs(bare, tmp_path):
    done = bare("from remanence.cli import main; main(['run', '--out', 'runs/digits'])", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "digits" / "index.html").read_text(encoding="utf-8").rstrip().endswith("</html>")


def test_commands_on_files_run(bare, tmp_path):
    program = f"""
    from remanence.cli import main
    folder = {str(FLOWERS)!r}
    for words in (
        ["learn", "m.safetensors", folder + "/monday.csv", "--label", "kind"],
        ["learn", "m.safetensors", folder + "/tuesday.csv"],
        ["predict", "m.safetensors", folder + "/new.csv", "-o", "answers.csv"],
        ["evaluate", "m.safetensors", folder + "/tuesday.csv"],
        ["unlearn", "m.safetensors", folder + "/customer.csv"],
        ["inspect", "m.safetensors"],
        ["methods"],
    ):
        try:
            main(words)
        except SystemExit as ended:
            assert not ended.code, words
    """
    done = bare(program, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len((tmp_path / "answers.csv").read_text().splitlines()) == 31


def test_claims_are_known_without_torch_and_the_others_name_what_they_need(bare, tmp_path):
    program = """
    from remanence.certificates.catalogue import NEED_TORCH, claims_without_torch, left_out
    assert len(claims_without_torch()) > 50
    missing = left_out()
    assert missing.keys() == NEED_TORCH, missing
    assert all("torch" in why and "pip install" in why for why in missing.values()), missing
    """
    done = bare(program, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["deep", "scale"])
def test_a_part_that_needs_an_extra_says_which(bare, tmp_path, name):
    program = f"""
    import remanence as rm
    try:
        rm.{name}.fit
    except rm.MissingDependency as missing:
        print(missing)
    """
    done = bare(program, tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"remanence[{name}]" in done.stdout
