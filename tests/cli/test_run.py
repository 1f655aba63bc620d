"""The main job, run as a user runs it: one real process, and everything it leaves behind."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import remanence as rm
from remanence.cli.run_options.learners import DEFAULT
from remanence.estimators.baselines import Joint
from remanence.report import Run

FILES = {"results.json", "matrices.png", "matrices.svg", "accuracy.png", "accuracy.svg", "index.html"}
KEPT = {"settings.json", "learned"}


def remanence(*arguments, cwd=None, **environment):
    command = [sys.executable, "-m", "remanence", *map(str, arguments)]
    env = {**os.environ, "COLUMNS": "100", **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd, env=env)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("run") / "new" / "digits"


@pytest.fixture(scope="module")
def done(folder):
    result = remanence("run", "--out", folder)
    assert result.returncode == 0, result.stderr
    return result


@pytest.fixture(scope="module")
def results(done, folder):
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


def test_it_prints_the_matrices_the_table_and_the_headline(done, results):
    for learner in results["learners"]:
        rows = (line for line in done.stdout.splitlines() if " kB" in line)
        row = next(row for row in rows if row.startswith(learner["label"]))
        assert f"{100 * learner['metrics']['average_accuracy']:.1f}" in row
    assert "tasks learned (column)" in done.stdout
    assert " ".join(results["headline"].split()) in " ".join(done.stdout.split())
    assert done.stderr == ""


def test_it_leaves_every_file_and_nothing_half_written(done, folder):
    assert {path.name for path in folder.iterdir()} == FILES | KEPT
    assert sorted(path.name for path in (folder / "learned").iterdir()) == sorted(f"{name}-0.json" for name in DEFAULT)


def test_the_metrics_in_the_file_are_those_of_its_matrices(results):
    for learner in results["learners"]:
        matrix = rm.ErrorMatrix.from_dict(learner["matrix"])
        m = learner["metrics"]
        assert m["average_accuracy"] == 1 - rm.metrics.average(matrix)
        assert m["forgetting"] == rm.metrics.forgetting(matrix)
        assert m["backward_transfer"] == -m["forgetting"]
        assert m["forward_transfer"] == rm.metrics.forward_transfer(matrix)
        assert m["seconds"] == matrix.seconds.sum() > 0
        assert learner["accuracy_after_each_task"][-1] == m["average_accuracy"]


def test_the_matrices_in_the_file_are_those_of_the_library(results):
    stream = rm.streams.digits(5, seed=0)
    written = {learner["name"]: np.array(learner["matrix"]["values"]) for learner in results["learners"]}
    np.testing.assert_array_equal(written["joint"], rm.evaluate(Joint(), stream).values)
    learner = rm.ContinualClassifier(rm.RLS(ridge=1.0))
    np.testing.assert_allclose(written["rls"], rm.evaluate(learner, stream).values, atol=1 / 80)  # one row at a border


def test_the_file_says_how_to_run_it_again(results):
    expected = {"stream": "digits", "tasks": 5, "methods": list(DEFAULT), "seed": 0, "seeds": 1}
    assert results["settings"] == expected | {"order": "sorted", "test": 0.25, "certify": None}
    assert results["command"].startswith("remanence run --stream digits --tasks 5 --methods finetune,")
    assert results["versions"]["remanence"] == rm.__version__ and results["schema"] == 2


def test_the_run_is_certified(results, done, folder):
    found = {learner["name"]: learner["certificates"] for learner in results["learners"]}
    assert found["rls"][0]["claim"] == "The learner equals joint training on all tasks" and found["rls"][0]["holds"]
    assert found["finetune"][0]["status"] == "fails" and found["nearest-mean"][1]["status"] == "does not apply"
    assert results["relations"] == []  # no two methods of the default run are related
    assert "✓ The learner equals joint training on all tasks" in done.stdout


def test_rls_reaches_joint_training_and_fine_tuning_forgets(results):
    kept = {learner["name"]: learner["metrics"]["average_accuracy"] for learner in results["learners"]}
    assert kept["rls"] > 0.9 and abs(kept["rls"] - kept["joint"]) < 0.01
    assert kept["finetune"] < 0.5


@pytest.mark.parametrize("name", ["matrices", "accuracy"])
def test_the_pictures_show_something(done, folder, name):
    with Image.open(folder / f"{name}.png") as picture:
        assert min(picture.size) > 400
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 50
    svg = (folder / f"{name}.svg").read_text(encoding="utf-8")
    assert "Ridge retrained" in svg and "tasks learned" in svg


def test_the_page_needs_nothing_else(done, folder, results):
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"https?:|//[a-z]|<script|<link|@import|\bsrc=", page, re.IGNORECASE)
    assert len(page.encode()) < 1_000_000
    assert results["headline"].replace(" %", "\u00a0%") in page and results["command"] in page
    assert page.count("<svg") == 2 + len(results["learners"])  # accuracy, reliability, and a map of each
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(|href=")#([^")]+)', page)) <= set(ids)


def test_json_is_json_and_nothing_else(tmp_path):
    result = remanence("run", "--methods", "RLS, joint,rls", "--tasks", 2, "--seed", 3, "--json", cwd=tmp_path)
    printed = json.loads(result.stdout)
    assert result.returncode == 0 and result.stderr == ""
    assert printed["settings"]["methods"] == ["rls", "joint"] and printed["settings"]["seed"] == 3
    written = tmp_path / "runs" / "digits"  # where they go unless told
    assert {path.name for path in written.iterdir()} == FILES | KEPT
    assert {path.rsplit("/", 1)[-1] for path in printed["files"]} == FILES
    assert Run.load(written).to_dict() | {"files": printed["files"], "reused": 0} == printed


def test_a_bad_folder_is_refused_before_any_work(tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    result = remanence("run", "--out", taken)
    assert result.returncode == 2 and "folder" in result.stderr and "Traceback" not in result.stderr
    assert taken.read_text() == "mine"


def test_an_error_is_one_paragraph_and_a_traceback_on_demand(tmp_path):
    result = remanence("run", "--tasks", 11, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: expected at most 10 tasks") and result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
    assert "Traceback" in remanence("run", "--tasks", 11, cwd=tmp_path, REMANENCE_DEBUG="1").stderr


def test_help_is_there_before_the_heavy_packages_are():
    code = """
import sys
from remanence.cli import main
try:
    main(["run", "--help"])
finally:
    print(sorted({"numpy", "sklearn", "numba", "matplotlib", "scipy", "torch", "jinja2"} & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.stdout.rstrip().endswith("[]")
    assert "Example: remanence run" in result.stdout
