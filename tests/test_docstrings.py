"""Docstrings of the estimators, evaluation, certificates and reports: sections, and examples that run."""

import doctest
import inspect

import pytest

import remanence as rm
from remanence import certificates, estimators, evaluation, report

PLACES = {"estimators": estimators, "evaluation": evaluation, "certificates": certificates, "report": report}
METRICS = ("average", "forgetting", "backward_transfer", "forward_transfer", "regret")
PUBLIC = {f"{place}.{name}": getattr(home, name) for place, home in PLACES.items() for name in home.__all__}
PUBLIC = {name: thing for name, thing in PUBLIC.items() if not inspect.ismodule(thing)}
PUBLIC |= {f"metrics.{name}": getattr(rm.metrics, name) for name in METRICS}
# Values and protocols that are shown by the examples of what uses them.
NO_EXAMPLE = {"evaluation.TaskStep"}
PUBLISHED = {
    "estimators.ContinualClassifier",
    "estimators.ContinualRegressor",
    "estimators.Finetune",
    "estimators.NearestMean",
    "estimators.RandomFeatures",
    "estimators.Replay",
    "estimators.ConvFeatures",
    "estimators.PeriodicFeatures",
    "estimators.GROUSE",
    "estimators.PETRELS",
    "estimators.StreamingSVD",
    "evaluation.ErrorMatrix",
    "evaluation.prequential",
    "certificates.certify",
    "certificates.draw_map",
    *(f"metrics.{name}" for name in METRICS),
}


def arguments(thing):
    if inspect.isclass(thing) and getattr(thing, "_is_protocol", False):
        return []
    return [name for name in inspect.signature(thing).parameters if name not in ("args", "kwargs")]


@pytest.mark.parametrize("name", PUBLIC)
def test_sections_are_there_and_examples_print_what_they_say(name):
    thing = PUBLIC[name]
    text = inspect.getdoc(thing)
    if arguments(thing):
        assert "Parameters\n----------" in text
        assert not [p for p in arguments(thing) if p not in text], name
    if inspect.isfunction(thing) and inspect.signature(thing).return_annotation not in (None, "None"):
        assert "Returns\n-------" in text
    assert ("References\n----------" in text) == (name in PUBLISHED)
    examples = [e for e in doctest.DocTestFinder(recurse=False).find(thing, name, globs={}) if e.examples]
    assert len(examples) == (name not in NO_EXAMPLE)
    for example in examples:
        assert not doctest.DocTestRunner().run(example).failed
