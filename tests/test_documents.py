"""Documents that run: every Python block of the README and docs is executed, and prints what stands below it."""

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import numpy as np
import pytest

import remanence as rm

ROOT = Path(__file__).parent.parent
DOCUMENTS = [p for p in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if "```python" in p.read_text()]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_code_blocks_run_and_print_what_they_say(path):
    blocks = re.findall(r"```(python|text)\n(.*?)```", path.read_text(), flags=re.DOTALL)
    names: dict[str, object] = {}
    printed = ""
    shown = 0
    for kind, block in blocks:
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(block, str(path), "exec"), names)
            printed = out.getvalue()
        else:
            assert printed == block
            shown += 1
    assert shown


def test_every_file_the_documents_point_to_exists():
    for path in [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} points to {target}"
        for target in re.findall(r"`((?:src|tests|memory|methods|examples)/[\w/]+\.py)`", path.read_text()):
            candidates = (ROOT / target, ROOT / "src/remanence" / target)
            assert any(c.exists() for c in candidates), f"{path.name} names {target}"


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
