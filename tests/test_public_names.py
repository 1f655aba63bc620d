"""The public surface, pinned: a name that comes, goes or changes its signature must do so here too."""

import dataclasses
import inspect
import sys

import numpy as np
import pytest

import remanence as rm

# The whole public surface, in the order of sorted(). Add a name here when you add one to remanence/__init__.py.
PUBLIC = [
    "APA",
    "BlockLMS",
    "ContinualClassifier",
    "ContinualRegressor",
    "ConvFeatures",
    "ErrorMatrix",
    "FileError",
    "Finetune",
    "GROUSE",
    "ICL",
    "InputError",
    "Joint",
    "Kalman",
    "KernelLMS",
    "KernelRLS",
    "LMS",
    "LowRankRLS",
    "MissingDependency",
    "NearestMean",
    "NumericalError",
    "OGD",
    "ORFit",
    "PETRELS",
    "PeriodicFeatures",
    "Prequential",
    "RLS",
    "RandomFeatures",
    "Replay",
    "StreamingSVD",
    "Switching",
    "TableFeatures",
    "Task",
    "TaskDictionary",
    "WindowRLS",
    "certificates",
    "certify",
    "check_method",
    "compat",
    "deep",
    "evaluate",
    "evaluation",
    "kalman",
    "list_methods",
    "load",
    "metrics",
    "min_norm",
    "prequential",
    "save",
    "scale",
    "set_threads",
    "steps",
    "streams",
    "threads",
]

# The settings of each linear method, with their defaults, in order: they may be given by position.
SETTINGS = {
    "LMS": {"step": 1.0, "normalized": True},
    "APA": {"buffer": 8, "step": 1.0},
    "ICL": {"tolerance": 1e-9},
    "OGD": {"step": 1.0, "tolerance": 1e-9},
    "ORFit": {"rank": None, "tolerance": 1e-9},
    "RLS": {"ridge": 1.0, "forget": 1.0, "floor": 0.0},
}

# What every method can do, and what RLS can do besides: the names of the arguments, in order.
CALLS = {
    "init": ["features", "outputs", "start", "dtype"],
    "update": ["state", "X", "Y", "donate"],
    "track": ["state", "X", "Y", "donate"],
    "weights": ["state"],
    "predict": ["state", "X"],
    "with_outputs": ["state", "sources"],
    "live": ["features", "outputs", "start", "dtype"],
    "live_from": ["state"],
}
CALLS_OF_RLS = {
    "init": ["features", "outputs", "start", "dtype", "free"],
    "remove": ["state", "X", "Y", "accept_loss"],
    "precision_loss": ["state"],
    "with_outputs": ["state", "sources", "donate"],
    "merge": ["a", "b", "donate"],
    "variance": ["state", "X"],
    "loss": ["state"],
    "evidence": ["state"],
    "with_ridge": ["state", "ridge"],
    "with_features": ["state", "features"],
    "with_columns": ["state", "sources"],
    "without_features": ["state", "columns"],
}


def arguments(function):
    return [name for name in inspect.signature(function).parameters if name != "self"]


def test_the_public_names_are_these_and_no_others():
    assert sorted(rm.__all__) == PUBLIC
    assert len(set(rm.__all__)) == len(rm.__all__)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_can_be_reached_and_says_what_it_is(name):
    if name == "deep":
        pytest.importorskip("torch")
    thing = getattr(rm, name)
    assert name in dir(rm)
    assert thing.__doc__ and thing.__doc__.strip()


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Perceptron'"):
        _ = rm.Perceptron


@pytest.mark.parametrize("name", SETTINGS)
def test_methods_are_frozen_values_with_these_settings(name):
    kind = getattr(rm, name)
    fields = {f.name: f.default for f in dataclasses.fields(kind)}
    assert fields == SETTINGS[name] and list(fields) == list(SETTINGS[name])
    assert kind() == kind(*SETTINGS[name].values())
    assert hash(kind()) == hash(kind())
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(kind(), next(iter(fields)), 1)


@pytest.mark.parametrize("name", SETTINGS)
def test_methods_have_these_calls(name):
    kind = getattr(rm, name)
    calls = {**CALLS, **(CALLS_OF_RLS if name == "RLS" else {})}
    assert {call: arguments(getattr(kind, call)) for call in calls} == calls
    for call in ("update", "track"):
        assert inspect.signature(getattr(kind, call)).parameters["donate"].default is False
    assert inspect.signature(kind.init).parameters["start"].default is None
    assert inspect.signature(kind.init).parameters["dtype"].default is np.float64


@pytest.mark.parametrize("name", SETTINGS)
def test_states_are_frozen_values(name):
    kind = getattr(rm, name)
    state = kind().init(3, 1)
    field = dataclasses.fields(state)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(state, field, 0)


def test_min_norm_takes_rows_targets_and_a_start():
    assert arguments(rm.min_norm) == ["X", "Y", "start"]
    assert inspect.signature(rm.min_norm).parameters["start"].default is None


def test_the_registry_knows_every_linear_method_and_what_it_costs():
    registry = rm.list_methods()
    assert set(SETTINGS) <= set(registry)
    for name, entry in registry.items():
        assert entry.method is getattr(rm, name, entry.method)
        assert entry.summary and entry.cost and entry.memory
        assert "\n" not in entry.summary and len(entry.summary) < 120


def test_the_registry_knows_what_learns_networks_where_torch_is_installed():
    pytest.importorskip("torch")
    from remanence.deep.online.learner import OnlineLearner

    registry = {name: entry.method for name, entry in rm.list_methods().items() if name.startswith("deep.")}
    known = {f"deep.{name}": getattr(rm.deep, name) for name in rm.deep.__all__}
    learners = (rm.deep.Guard, OnlineLearner, rm.deep.Growing)
    classes = {name: c for name, c in known.items() if isinstance(c, type) and issubclass(c, learners)}
    assert registry == {name: c for name, c in classes.items() if c is not rm.deep.Guard}
    assert not any(c.linear for c in registry.values())


def test_the_registry_without_torch_is_the_rest_of_it(monkeypatch):
    whole = rm.list_methods()
    monkeypatch.setitem(sys.modules, "remanence.deep", None)  # its import fails, as it does without torch
    assert rm.list_methods() == {name: entry for name, entry in whole.items() if not name.startswith("deep.")}
    assert {"StreamingSVD", "PeriodicFeatures", "ConvFeatures", "Switching", "RLS"} <= set(rm.list_methods())


def test_errors_are_also_the_errors_python_has_for_them():
    assert issubclass(rm.InputError, ValueError)
    assert issubclass(rm.NumericalError, ArithmeticError)
    assert issubclass(rm.FileError, OSError)
    assert issubclass(rm.MissingDependency, ImportError)


def test_the_version_is_that_of_the_package():
    from importlib.metadata import version

    assert rm.__version__ == version("remanence")
