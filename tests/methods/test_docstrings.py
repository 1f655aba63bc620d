"""Every public method and function of methods/ has a numpy-style docstring, and its example prints what it says."""

import doctest
import inspect

import pytest

import remanence as rm

METHODS = [rm.LMS, rm.APA, rm.ICL, rm.OGD, rm.ORFit, rm.RLS, rm.LowRankRLS]
FUNCTIONS = [rm.min_norm, rm.steps.alternating, rm.steps.terminating]


@pytest.mark.parametrize("thing", METHODS + FUNCTIONS, ids=lambda thing: thing.__name__)
def test_the_example_prints_what_it_says(thing):
    examples = [e for e in doctest.DocTestFinder(recurse=False).find(thing, thing.__name__, globs={}) if e.examples]
    assert len(examples) == 1 and not doctest.DocTestRunner().run(examples[0]).failed


@pytest.mark.parametrize("thing", METHODS + FUNCTIONS, ids=lambda thing: thing.__name__)
def test_the_docstring_names_every_parameter(thing):
    text = inspect.getdoc(thing)
    for section in ("Parameters", "Examples", *(["References"] if thing in METHODS else ["Returns"])):
        assert f"\n{section}\n{'-' * len(section)}\n" in text
    head = text.split("Parameters\n")[1].split("Examples\n")[0]
    for name in inspect.signature(thing).parameters:
        assert any(name in line.split(":")[0] for line in head.splitlines() if " : " in line), name
