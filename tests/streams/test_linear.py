"""Synthetic streams obey the model they are named after."""

import numpy as np
import pytest

from remanence.errors import InputError
from remanence.streams import linear, linear_gaussian


def test_rows_have_unit_norm_and_one_model_answers_all_of_them():
    stream = linear(12, 5, outputs=2, rows=3, seed=4)
    X, Y = np.vstack([task.X for task in stream]), np.vstack([task.Y for task in stream])
    assert X.shape == (36, 5) and Y.shape == (36, 2) and np.linalg.matrix_rank(X) == 5
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0, rtol=1e-14)
    W = np.linalg.pinv(X) @ Y
    np.testing.assert_allclose(X @ W, Y, atol=1e-13)
    assert np.linalg.norm(W) > 0.1
    assert all(task.X_test is task.X for task in stream)


def test_given_weights_are_the_model():
    W = np.array([[1.0], [-2.0], [3.0]])
    for task in linear(5, 3, weights=W):
        np.testing.assert_allclose(task.Y, task.X @ W, rtol=1e-14)


def test_directions_are_uniform_on_the_sphere():
    X = np.vstack([task.X for task in linear(1, 3, rows=20000)])
    np.testing.assert_allclose(X.T @ X / len(X), np.eye(3) / 3, atol=0.01)
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=0.02)


def test_noise_has_the_variance_asked_for_and_leaves_the_rows_alone():
    quiet, noisy = linear(1, 4, rows=20000)[0], linear(1, 4, rows=20000, noise=0.25)[0]
    np.testing.assert_array_equal(quiet.X, noisy.X)
    assert np.var(noisy.Y - quiet.Y) == pytest.approx(0.25, rel=0.05)


def test_recurring_repeats_rows_answers_and_noise():
    stream, once = linear(7, 4, noise=0.1, recurring=3), linear(3, 4, noise=0.1)
    assert len(stream) == 7
    for t, task in enumerate(stream):
        np.testing.assert_array_equal(task.X, once[t % 3].X)
        np.testing.assert_array_equal(task.Y, once[t % 3].Y)
    assert len(linear(2, 4, recurring=5)) == 2


def test_a_longer_stream_begins_like_a_shorter_one():
    for make in (linear, linear_gaussian):
        for short, long in zip(make(3, 4, seed=9), make(6, 4, seed=9)[:3], strict=True):
            np.testing.assert_array_equal(short.X, long.X)
            np.testing.assert_array_equal(short.Y, long.Y)
        assert not np.array_equal(make(1, 4, seed=9)[0].X, make(1, 4, seed=8)[0].X)


def models(stream):
    return np.hstack([np.linalg.pinv(task.X_test) @ task.Y_test for task in stream]).T


def test_test_answers_are_those_of_the_true_model_without_noise():
    stream = linear_gaussian(4, 3, rows=5000, noise=0.5, seed=1)
    for task, theta in zip(stream, models(stream), strict=True):
        np.testing.assert_allclose(task.X_test @ theta, task.Y_test.ravel(), atol=1e-12)
        assert np.var(task.Y.ravel() - task.X @ theta) == pytest.approx(0.5, rel=0.1)


def test_models_drift_by_the_transition_and_the_drift_covariance():
    Q = np.array([[0.3, 0.1, 0.0], [0.1, 0.2, -0.1], [0.0, -0.1, 0.5]])
    A = np.array([[0.9, 0.2, 0.0], [-0.2, 0.9, 0.0], [0.1, 0.0, 0.5]])
    theta = models(linear_gaussian(8000, 3, rows=1, drift=Q, transition=A, test_rows=6))
    w = theta[1:] - theta[:-1] @ A.T
    np.testing.assert_allclose(w.T @ w / len(w), Q, atol=0.03)


def test_no_drift_means_one_model_and_a_singular_drift_is_allowed():
    theta = models(linear_gaussian(5, 3, drift=0.0))
    np.testing.assert_allclose(theta, theta[[0] * 5], atol=1e-12)
    theta = models(linear_gaussian(5, 3, drift=0.0, transition=-0.5))
    np.testing.assert_allclose(theta[1:], -0.5 * theta[:-1], atol=1e-12)
    moved = np.diff(models(linear_gaussian(5, 2, drift=np.array([[1.0, 1.0], [1.0, 1.0]]))), axis=0)
    np.testing.assert_allclose(moved[:, 0], moved[:, 1], atol=1e-7)
    assert np.abs(moved).max() > 0.1


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (linear, {"tasks": 0}),
        (linear, {"features": 0}),
        (linear, {"outputs": 0}),
        (linear, {"rows": 1.5}),
        (linear, {"noise": -0.1}),
        (linear, {"recurring": 0}),
        (linear, {"seed": None}),
        (linear, {"weights": np.zeros((4, 1))}),
        (linear_gaussian, {"drift": -0.1}),
        (linear_gaussian, {"drift": np.eye(2)}),
        (linear_gaussian, {"drift": np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1.0]])}),
        (linear_gaussian, {"drift": np.diag([1.0, 1.0, -1.0])}),
        (linear_gaussian, {"transition": np.inf}),
        (linear_gaussian, {"noise": -1}),
        (linear_gaussian, {"test_rows": 0}),
    ],
)
def test_bad_settings_are_refused(make, settings):
    with pytest.raises(InputError):
        make(**({"tasks": 2, "features": 3} | settings))
