"""Baselines are saved and loaded bit for bit."""

import numpy as np
import pytest

import remanence as rm

from .conftest import content_of, through_a_file

BASELINES = {
    "finetune": lambda: rm.Finetune(epochs=2),
    "replay": lambda: rm.Replay(memory=20, epochs=2),
    "nearest": rm.NearestMean,
    "joint": rm.Joint,
}


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_goes_on_as_if_it_had_never_been_saved(rows, name, single):
    X, y = rows
    X = X.astype(np.float32) if single else X
    model = BASELINES[name]().partial_fit(X[:30], y[:30])
    copy = through_a_file(model)
    assert content_of(copy) == content_of(model)
    for part in (slice(30, 45), slice(45, 60)):
        answers = [each.partial_fit(X[part], y[part]).decision_function(X).tobytes() for each in (model, copy)]
        assert answers[0] == answers[1]
    assert copy.n_seen_ == 60 and copy.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", BASELINES)
def test_an_announced_class_without_rows_is_saved_too(rows, name):
    X, y = rows
    model = BASELINES[name]().partial_fit(X, y, classes=[0, 1, 2, 7])
    copy = through_a_file(model)
    assert content_of(copy) == content_of(model) and copy.classes_.tolist() == [0, 1, 2, 7]
    assert copy.decision_function(X).tobytes() == model.decision_function(X).tobytes()


@pytest.mark.parametrize("name", BASELINES)
def test_an_unfitted_baseline_can_be_saved(name):
    model = BASELINES[name]()
    assert through_a_file(model).get_params() == model.get_params()


def test_joint_with_one_class_answers_it(rows):
    X, _ = rows
    copy = through_a_file(rm.Joint().partial_fit(X, np.full(60, "a")))
    assert set(copy.predict(X)) == {"a"}
