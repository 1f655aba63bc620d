"""Documents that run: every block of Python and of the shell in the README and in docs, with what it prints.

A ```python block is executed after those above it on its page, a ```sh block by bash with this environment's
`remanence`, both in one empty folder a page; a ```text block is what the block above it prints. ```console blocks
(installing, long work) are not run.
"""

import contextlib
import doctest
import importlib
import importlib.util
import inspect
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import remanence as rm

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
DOCUMENTS = [p for p in [ROOT / "README.md", *PAGES] if re.search(r"^```(python|sh)$", p.read_text(), flags=re.M)]
ROOMS = ["kalman", "deep", "streams", "evaluation", "certificates", "store", "report", "methods"]


@pytest.mark.filterwarnings("ignore:no direction is left:UserWarning")  # a page shows a full layer on purpose
@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_code_blocks_run_and_print_what_they_say(path, tmp_path, monkeypatch):
    if "rm.deep" in path.read_text():
        pytest.importorskip("torch")
    if "import peft" in path.read_text():
        pytest.importorskip("transformers")
        pytest.importorskip("peft")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(python|sh|text)\n(.*?)^```$", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {}
    printed = ""
    shown = 0
    for kind, block in blocks:
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(block, str(path), "exec"), names)
            printed = out.getvalue()
        elif kind == "sh" and path.parent != ROOT:  # (test_first_steps.py runs those of the README)
            printed = said_by_bash(block)
        elif kind == "text":
            assert printed == block
            shown += 1
    assert shown


def said_by_bash(block):
    """What the commands print, on a terminal of a fixed width and without colours."""
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    terminal = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "PATH": programs}
    done = subprocess.run(["bash", "-ec", block], capture_output=True, text=True, env={**os.environ, **terminal})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_file_the_documents_point_to_exists():
    for path in [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *PAGES]:
        prose = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)\)", prose):
            made = path.parent == ROOT / "docs" or path.parent.parent == ROOT / "docs"
            name = Path(os.path.relpath(path.parent / target, ROOT / "docs")).as_posix()
            assert (path.parent / target).exists() or (made and name in MADE), f"{path.name} points to {target}"
        for target in re.findall(r"`((?:src|tests|memory|methods|examples)/[\w/]+\.py)`", path.read_text()):
            candidates = (ROOT / target, ROOT / "src/remanence" / target)
            assert any(c.exists() for c in candidates), f"{path.name} names {target}"


# Pages that the site takes from elsewhere in the repository (docs/repository_pages.py).
MADE = {"benchmarks.md", "experiments.md", "architecture.md", "contributing.md", "changelog.md"}


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.M))
    pages = {p.relative_to(ROOT / "docs").as_posix() for p in PAGES}
    assert {p for p in pages if not p.startswith("decisions/")} | MADE == listed


def test_the_api_reference_has_every_public_name():
    pytest.importorskip("torch")
    pages = "\n".join(p.read_text() for p in (ROOT / "docs/api").glob("*.md"))
    described = set(re.findall(r"^::: remanence\.([\w.]+)$", pages, flags=re.M))
    public = {n for n in rm.__all__ if not inspect.ismodule(getattr(rm, n))}
    for room in ROOMS:
        public |= {f"{room}.{n}" for n in importlib.import_module(f"remanence.{room}").__all__ if n not in public}
    missing = {n for n in public if n.rpartition(".")[2] not in {d.rpartition(".")[2] for d in described}}
    assert not missing - {"evaluation.metrics"}
    for name in described:  # and nothing that does not exist
        room, _, last = name.rpartition(".")
        home = getattr(rm, room) if room in rm.__all__ else importlib.import_module(f"remanence.{room}".rstrip("."))
        assert inspect.getdoc(getattr(home, last)), name


def test_examples_in_docstrings_print_what_they_say():
    torch = pytest.importorskip("torch")
    runner, asked = doctest.DocTestRunner(), []
    for thing in (rm.RLS, rm.deep.GradientProjection, rm.deep.OGD):  # (that of fit_stream runs with its own tests)
        torch.manual_seed(0)
        found = [e for e in doctest.DocTestFinder(recurse=False).find(thing, thing.__name__, globs={}) if e.examples]
        asked += [runner.run(example) for example in found]
    assert len(asked) == 3 and not any(result.failed for result in asked)


def test_the_site_builds_without_a_warning_and_asks_nobody_for_anything(tmp_path):
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings_handlers.python")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr
    for page in tmp_path.rglob("*.html"):
        loading = re.sub(r"<a\b[^>]*>", "", page.read_text())  # (what a reader may follow is not loaded)
        loaded = re.findall(r"""(?:src|href)=["']?((?:https?:)?//[^"' >]+)""", loading)
        assert not loaded, f"{page.name} loads {loaded}"


def test_the_skeleton_is_a_method_like_the_others():
    spec = importlib.util.spec_from_file_location("skeleton_method", ROOT / "examples/skeleton_method.py")
    skeleton = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(skeleton)
    rng = np.random.default_rng(0)
    X, Y, start = rng.standard_normal((30, 5)), rng.standard_normal((30, 2)), rng.standard_normal((5, 2))
    method = skeleton.LeakyLMS(step=0.5, leak=0.1)
    whole, errors = method.track(method.init(5, 2, start), X, Y)
    parts, W = method.init(5, 2, start), start
    for i in range(30):
        np.testing.assert_allclose(errors[i], Y[i] - method.predict(parts, X[i : i + 1])[0], atol=1e-12)
        parts = method.update(parts, X[i : i + 1], Y[i : i + 1])
        W = 0.9 * W + 0.1 * start + 0.5 * np.outer(X[i], Y[i] - X[i] @ W) / (X[i] @ X[i])
    np.testing.assert_allclose(method.weights(whole), W, atol=1e-12)
    np.testing.assert_allclose(method.weights(parts), W, atol=1e-12)
    plain = skeleton.LeakyLMS(step=0.7, leak=0.0)
    lms = rm.LMS(step=0.7)
    np.testing.assert_allclose(
        plain.weights(plain.update(plain.init(5, 2), X, Y)), lms.weights(lms.update(lms.init(5, 2), X, Y)), atol=1e-12
    )
    model = rm.ContinualClassifier(method)
    for label in range(3):
        model.partial_fit(X[label::3], np.full(10, label))
    assert model.classes_.tolist() == [0, 1, 2]
    for bad in ({"step": 3.0}, {"leak": -1}):
        with pytest.raises(rm.InputError):
            skeleton.LeakyLMS(**bad)
