"""The experiments run from end to end on small made-up images, and their own oracle is right."""

import numpy as np
import pytest
from experiments.learners import exact_joint, largest_difference, outcome
from sklearn.linear_model import Ridge

import remanence as rm
from experiments import class_incremental, data, stress
from remanence.estimators.baselines import NearestMean


def made_up(*_):
    """3000 + 400 noisy images of ten patterns."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 200, (10, 784))
    split = []
    for rows in (3000, 400):
        y = np.arange(rows, dtype=np.uint8) % 10
        split += [np.clip(patterns[y] + rng.normal(0, 40, (rows, 784)), 0, 255).astype(np.uint8), y]
    return tuple(split)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_joint_oracle_is_ridge_regression(intercept):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((80, 12)) + 3, np.arange(80) % 4
    X_test = rng.standard_normal((9, 12))
    expected = Ridge(alpha=0.7, fit_intercept=intercept, solver="svd").fit(X, np.eye(4)[y]).predict(X_test)
    found = exact_joint(X.copy(), y, 0.7, X_test, intercept=intercept)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_an_outcome_is_read_from_the_one_loop():
    stream = rm.streams.digits()
    found = outcome(NearestMean(), stream)
    matrix = rm.evaluate(NearestMean(), stream)
    assert found.accuracy == 1 - rm.metrics.average(matrix) and found.forgetting == rm.metrics.forgetting(matrix)
    X, y = np.concatenate([t.X_test for t in stream]), np.concatenate([t.Y_test for t in stream])
    assert found.plain == pytest.approx(found.learner.score(X, y))
    assert largest_difference(found.learner, X, found.learner.decision_function(X) + 0.5) == pytest.approx(0.5)


def test_class_incremental_card(monkeypatch, tmp_path):
    settings = [
        class_incremental.Setting("MNIST", 0, 400, (5,)),
        class_incremental.Setting("Fashion-MNIST", 50, 400, (10,)),
    ]
    monkeypatch.setattr(class_incremental, "QUICK", settings)
    loaders = {name: (made_up, place) for name, (_, place) in class_incremental.LOADERS.items()}
    monkeypatch.setattr(class_incremental, "LOADERS", loaders)
    card = class_incremental.make(True, tmp_path)
    assert card.holds and len(card.claims) == 8 and [len(table.rows) for table in card.tables] == [6, 6]
    card.write(tmp_path, "command", 1.0)


def test_stress_card(monkeypatch, tmp_path):
    monkeypatch.setattr(data, "fashion_mnist", made_up)
    monkeypatch.setattr(stress, "QUICK", (600, 60, 60, 80, 100))
    card = stress.make(True, tmp_path)
    assert card.holds, [claim for claim in card.claims if not claim.holds]
    assert len(card.tables) == 3


def test_the_explicit_inverse_is_right_where_it_is_easy():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((90, 12)), np.arange(90) % 10
    inverse = stress.ExplicitInverse(12, 1.0, "float64", 25, symmetric=False).learn(X, y)
    expected = exact_joint(X.copy(), y, 1.0, X, intercept=False)
    np.testing.assert_allclose(inverse.decision_function(X), expected, atol=1e-12)
