"""The plan of the source tree: folders of readable size, and class names that mean one thing."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "remanence"
FULL = 15
# Public in two places on purpose: the method for linear models, and the same idea for networks.
PUBLIC_PAIRS = {"OGD": {"methods", "deep"}, "ORFit": {"methods", "deep"}}


def classes_by_name(source):
    """For every class name the packages that define it, one entry per definition."""
    found = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        package = path.relative_to(source).parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(package)
    return found


def repeated(source):
    """The class names defined more than once, but for the public pairs."""
    return {
        name: packages
        for name, packages in classes_by_name(source).items()
        if len(packages) > 1 and not (len(packages) == 2 and set(packages) == PUBLIC_PAIRS.get(name))
    }


def test_no_folder_has_more_files_than_one_can_read_at_a_glance():
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    crowded = {str(f.relative_to(SOURCE)): n for f in folders if (n := len(list(f.glob("*.py")))) > FULL}
    assert not crowded and len(folders) > 20


def test_no_class_name_occurs_twice():
    assert repeated(SOURCE) == {}
    assert len(classes_by_name(SOURCE)) > 100


def test_a_class_name_that_occurs_twice_would_be_found(tmp_path):
    for package, text in {
        "methods": "class OGD: ...\nclass Rows: ...",
        "deep": "class OGD: ...\ndef f():\n    class Rows: ...",
        "store": "class OGDState: ...",
    }.items():
        (tmp_path / package).mkdir()
        (tmp_path / package / "a.py").write_text(text)
    assert repeated(tmp_path) == {"Rows": ["deep", "methods"]}
    (tmp_path / "deep" / "b.py").write_text("class OGD: ...")
    assert set(repeated(tmp_path)) == {"Rows", "OGD"}


def without_readme(source):
    """Packages with more than five Python files and no README."""
    folders = {path.parent for path in source.rglob("*/*.py")}
    return [
        str(f.relative_to(source)) for f in folders if len(list(f.glob("*.py"))) > 5 and not (f / "README.md").exists()
    ]


def test_a_folder_with_more_than_five_files_has_a_readme(tmp_path):
    assert not without_readme(SOURCE)
    for k in range(6):
        (tmp_path / "package").mkdir(exist_ok=True)
        (tmp_path / "package" / f"{k}.py").touch()
    assert without_readme(tmp_path) == ["package"]
