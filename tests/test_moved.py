"""Import paths of earlier versions keep working, warn, and give the same objects."""

import importlib
import subprocess
import sys
import warnings

import pytest

import remanence as rm
from remanence.moved import MOVED

# What users imported, by the path it had before.
PUBLIC = {
    "deep.ebp": ["EBP"],
    "deep.ekf": ["EKF"],
    "deep.fit_result": ["StreamFit"],
    "deep.gradient_projection": ["GradientProjection"],
    "deep.guard": ["Guard"],
    "deep.guard_report": ["GradientReport", "GuardReport", "LayerReport"],
    "deep.heads": ["MultiHead"],
    "deep.linearized_rls": ["LinearizedRLS"],
    "deep.ogd": ["OGD"],
    "deep.orfit": ["ORFit"],
    "deep.owm": ["OWM"],
    "kalman.filtering": ["filter"],
    "kalman.learning": ["Learned", "learn"],
    "kalman.linear_methods": ["Linearized", "linearized"],
    "kalman.outlook": ["forecast", "sample"],
    "kalman.smoothing": ["smooth"],
    "kalman.surprises": ["Innovations", "innovations"],
    "kalman.transfer": ["backward_transfer"],
    "methods.steps": ["alternating", "terminating"],
    "streams.repeat": ["recurring"],
}
# What the skeleton of a method imported.
FOR_METHODS = {
    "checks": ["Array", "check_block", "check_number", "check_result", "check_start", "quiet", "read_only"],
}


# Modules inside a package that moved as a whole.
INSIDE = {"streams.tables.parquet": "tables.parquet", "streams.tables.table": "tables.table"}
PATHS = {**MOVED, **INSIDE}


@pytest.mark.parametrize("old", PATHS)
def test_an_old_path_imports_warns_and_is_the_module_at_its_new_place(old, monkeypatch):
    if old.startswith("deep."):
        pytest.importorskip("torch")
    monkeypatch.delitem(sys.modules, f"remanence.{old}", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        importlib.import_module(f"remanence.{old}".rpartition(".")[0])  # (parents may have moved as well)
    with pytest.warns(DeprecationWarning, match=f"remanence.{PATHS[old]} instead") as caught:
        module = importlib.import_module(f"remanence.{old}")
    assert len(caught) == 1
    assert module is importlib.import_module(f"remanence.{PATHS[old]}")
    assert module.__name__ == module.__spec__.name == f"remanence.{PATHS[old]}"
    package = getattr(rm, old.split(".")[0], None)
    for name in PUBLIC.get(old, []):
        found = getattr(module, name)
        assert found is getattr(rm.steps if old == "methods.steps" else package, name)
    assert all(hasattr(module, name) for name in FOR_METHODS.get(old, []))


def test_the_warning_points_at_the_line_that_imports():
    code = "import warnings; warnings.simplefilter('error'); import remanence.methods.steps"
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert failed.returncode == 1 and "DeprecationWarning: remanence.methods.steps has moved" in failed.stderr
    code = "from remanence.checks import check_rows"
    shown = subprocess.run(
        [sys.executable, "-W", "default", "-c", code], capture_output=True, text=True, check=True
    ).stderr
    assert shown.startswith("<string>:1: DeprecationWarning: remanence.checks has moved")


def test_paths_that_never_existed_are_not_found():
    for name in ("remanence.perceptron", "remanence.kalman.perceptron", "remanence.checks.perceptron", "checks"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)


def test_importing_the_package_again_installs_nothing_twice():
    importlib.reload(rm)
    assert sum(type(finder).__name__ == "MovedModules" for finder in sys.meta_path) == 1
