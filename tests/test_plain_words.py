"""Documents, docstrings and messages use the words of the field (docs/glossary.md), not private ones."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "remanence"
PER = "sample|step|seed|feature|series|task|class|row|group|layer|output|file|piece|learner|target|column"
DIALECT = {
    "grips?": "projector",
    "foretell\\w*|foretold": "predict",
    "wishes": "options",
    "lean(s|ing|ed)?": "project",
    "pupils?": "learner",
    "exams?": "test set",
    "lessons?": "task",
    f"one an? ({PER})": "one per …",
    "truths": "booleans",
    "whole numbers?": "integers",
    "restraints?": "protected directions",
    "surprises?": "innovations",
    "outlook": "forecast",
    "in our words|at the door|put(s)? right": "plain technical English",
}
WORDS = re.compile(rf"\b({'|'.join(DIALECT)})\b", flags=re.IGNORECASE)
PAGES = sorted(
    [*(ROOT / "docs").rglob("*.md"), *SOURCE.rglob("*.md"), *ROOT.glob("*.md"), ROOT / "experiments/README.md"]
)
PAGES = [page for page in PAGES if page.name != "CHANGELOG.md"]  # (it tells of earlier names)


def strings(path):
    """Every docstring and every other string of a file, with its line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def found_in(path):
    texts = strings(path) if path.suffix == ".py" else enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    return [f"{path.name}:{line} {word[0]!r}" for line, text in texts for word in WORDS.finditer(text)]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_documents_use_the_words_of_the_field(path):
    assert not found_in(path)


def test_docstrings_messages_and_help_use_the_words_of_the_field():
    files = [path for path in sorted(SOURCE.rglob("*.py")) if path.name != "moved.py"]  # (it lists old module names)
    assert len(files) > 100
    assert not [place for path in files for place in found_in(path)]


def test_a_planted_word_is_found(tmp_path):
    page, code = tmp_path / "page.md", tmp_path / "code.py"
    page.write_text("Together we examine it.\nWhole numbers, one a step.\n")
    code.write_text('"""Clean."""\ndef f():\n    """Foretell."""\n    raise ValueError(f"the pupil {f} left")\n')
    assert [place.split()[0] for place in found_in(page)] == ["page.md:2", "page.md:2"]
    assert [place.split(" ", 1) for place in found_in(code)] == [["code.py:3", "'Foretell'"], ["code.py:4", "'pupil'"]]
