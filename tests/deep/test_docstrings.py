"""Docstrings of remanence.deep: parameters, an example that runs, references of published methods."""

import doctest
import inspect

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
PUBLISHED = {
    "EBP",
    "EKF",
    "Editor",
    "edit_layers",
    "find_value",
    "find_values",
    "Constrained",
    "GEM",
    "GradientProjection",
    "Growing",
    "LinearizedRLS",
    "OGD",
    "ORFit",
    "OWM",
    "ScaledProjection",
}


@pytest.mark.parametrize("name", rm.deep.__all__)
def test_examples_run_and_sections_are_there(name):
    thing = getattr(rm.deep, name)
    sections = inspect.getdoc(thing)
    assert "Parameters\n----------" in sections
    assert ("References\n----------" in sections) == (name in PUBLISHED)
    torch.manual_seed(0)
    examples = [e for e in doctest.DocTestFinder(recurse=False).find(thing, name, globs={}) if e.examples]
    assert len(examples) == 1
    assert not doctest.DocTestRunner().run(examples[0]).failed


def public_methods():
    for name in rm.deep.__all__:
        for attribute, method in vars(getattr(rm.deep, name)).items():
            if inspect.isfunction(method) and not attribute.startswith("_"):
                yield f"{name}.{attribute}", method


@pytest.mark.parametrize(("name", "method"), list(public_methods()), ids=lambda x: x if isinstance(x, str) else "")
def test_methods_have_docstrings_that_name_their_arguments(name, method):
    text = inspect.getdoc(method)
    assert text, name
    given = [p for p in inspect.signature(method).parameters if p != "self"]
    if len(given) > 1:
        assert all(p in text for p in given), name
