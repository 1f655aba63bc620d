"""Reliability against scikit-learn's log-loss and a calibration error by hand."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import remanence as rm
from remanence.evaluation.reliability import Reliability


@pytest.fixture
def answers():
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.full(4, 0.5), 300), rng.choice(["a", "b", "c", "d"], 300), ["a", "b", "c", "d"]


def by_hand(probabilities, true, classes):
    sure, answers = probabilities.max(axis=1), np.array(classes)[probabilities.argmax(axis=1)]
    bins = np.minimum((sure * 15).astype(int), 14)
    off = [abs((answers[bins == b] == true[bins == b]).mean() - sure[bins == b].mean()) for b in set(bins)]
    return np.average(off, weights=[(bins == b).sum() for b in set(bins)])


def test_log_loss_and_calibration_error(answers):
    found = Reliability.of(*answers)
    np.testing.assert_allclose(found.log_loss, log_loss(answers[1], answers[0], labels=answers[2]), rtol=1e-12)
    np.testing.assert_allclose(found.error, by_hand(*answers), rtol=1e-12)


def test_parts_add_up_and_survive_json(answers):
    probabilities, true, classes = answers
    whole = Reliability.of(*answers)
    parts = Reliability.of(probabilities[:77], true[:77], classes) + Reliability.of(
        probabilities[77:], true[77:], classes
    )
    read = Reliability.from_dict(json.loads(json.dumps(parts.to_dict())))
    np.testing.assert_allclose(read.bins, whole.bins, rtol=1e-12)
    assert read.rows == 300 and read.log_loss == pytest.approx(whole.log_loss)


def test_a_class_that_was_never_learned_has_no_probability():
    found = Reliability.of([[0.9, 0.1]], ["z"], ["a", "b"])
    assert found.log_loss == pytest.approx(-np.log(1e-15)) and found.bins[:, 2].sum() == 0


@pytest.mark.parametrize("bins", [[], [[1, 1, 1]], [[0, 0, 0]] * 15, [[-1, 0, 0]] * 15, [[float("nan")] * 3] * 15])
def test_other_sums_are_refused(bins):
    with pytest.raises(rm.InputError, match="15 bins"):
        Reliability.from_dict({"bins": bins, "losses": 1.0})


def test_joint_training_passes_the_probabilities_of_its_estimator_on():
    X, y = np.random.default_rng(1).standard_normal((60, 3)), np.repeat([3, 5, 9], 20)
    joint = rm.Joint(LogisticRegression()).partial_fit(X[:20], y[:20], classes=[1, 3, 5, 9])
    assert joint.predict_proba(X).tolist() == [[0, 1, 0, 0]] * 60
    joint.partial_fit(X[20:], y[20:])
    expected = LogisticRegression().fit(X, y).predict_proba(X)
    np.testing.assert_allclose(joint.predict_proba(X), np.column_stack([np.zeros(60), expected]), atol=1e-12)
    assert not hasattr(rm.Joint(), "predict_proba")
