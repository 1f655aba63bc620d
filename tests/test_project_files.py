"""What pyproject.toml, CITATION.cff and the workflow say of the project agrees."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = (ROOT / "CITATION.cff").read_text()


def test_the_address_of_the_project_is_the_same_everywhere():
    cited = re.search(r"^repository-code: *[\"']?([^\"'\n]+)", CITATION, flags=re.M)
    assert PROJECT.get("urls", {}).get("Repository") == (cited[1] if cited else None)


def test_version_and_license_are_the_same_everywhere():
    assert f"\nversion: {PROJECT['version']}\n" in CITATION and f"\nlicense: {PROJECT['license']}\n" in CITATION


def test_the_classifiers_name_the_python_versions_of_the_workflow():
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    tested = re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.*)\]", workflow)[1])
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert promised == tested and PROJECT["requires-python"] == f">={tested[0]}"
