"""Permuted and rotated streams change what is seen and not what is asked."""

import numpy as np
import pytest

from remanence.errors import InputError
from remanence.streams import permuted, rotated

RNG = np.random.default_rng(5)
X, y = RNG.random((40, 36)), np.repeat([0, 1], 20)


def test_each_task_shows_the_first_through_its_own_permutation():
    stream = permuted(X, y, 4, seed=2)
    first = stream[0]
    original = {row.tobytes() for row in X}
    assert all(row.tobytes() in original for row in np.vstack([first.X, first.X_test]))
    found = [tuple(range(36))]
    for task in stream[1:]:
        columns = [int(np.flatnonzero((column[:, None] == first.X).all(axis=0))[0]) for column in task.X.T]
        assert sorted(columns) == list(range(36))
        np.testing.assert_array_equal(task.X_test, first.X_test[:, columns])
        np.testing.assert_array_equal(task.Y, first.Y)
        found.append(tuple(columns))
    assert len(set(found)) == 4


@pytest.mark.parametrize("make", [permuted, rotated])
def test_the_seed_reproduces_the_stream(make):
    for a, b in zip(make(X, y, 3, seed=7), make(X, y, 3, seed=7), strict=True):
        np.testing.assert_array_equal(a.X, b.X)
        np.testing.assert_array_equal(a.X_test, b.X_test)
    assert not np.array_equal(make(X, y, 3, seed=7)[2].X_test, make(X, y, 3, seed=8)[2].X_test)


def test_rotation_by_nothing_is_the_identity_and_by_a_right_angle_is_rot90():
    stream = rotated(X, y, 3, degrees=90, test=0)
    np.testing.assert_allclose(stream[0].X, X, atol=1e-12)
    images = X.reshape(-1, 6, 6)
    np.testing.assert_allclose(stream[1].X.reshape(-1, 6, 6), np.rot90(images, 1, axes=(1, 2)), atol=1e-12)
    np.testing.assert_allclose(stream[2].X.reshape(-1, 6, 6), np.rot90(images, 2, axes=(1, 2)), atol=1e-12)
    assert [task.name for task in stream] == ["0°", "90°", "180°"]


def test_angles_grow_and_test_rows_turn_with_the_training_rows():
    stream = rotated(X, y, 3, degrees=20, X_test=X, y_test=y)
    for task in stream:
        np.testing.assert_array_equal(task.X, task.X_test)
    distance = [np.linalg.norm(task.X - X) for task in stream]
    assert distance[0] < 1e-9 < distance[1] < distance[2]


def test_an_image_that_is_not_square_needs_its_shape():
    stream = rotated(X, y, 2, degrees=180, shape=(4, 9), test=0)
    np.testing.assert_allclose(stream[1].X, X[:, ::-1], atol=1e-12)
    with pytest.raises(InputError, match="height"):
        rotated(X[:, :35], y, 2)
    with pytest.raises(InputError, match="= 36"):
        rotated(X, y, 2, shape=(5, 7))
    with pytest.raises(InputError, match="height, width"):
        rotated(X, y, 2, shape=6)


@pytest.mark.parametrize("make", [permuted, rotated])
def test_regression_targets_stay_with_their_rows(make):
    Y = X[:, :2] + 1
    task = make(X, Y, 1, test=0.3)[0]
    np.testing.assert_allclose(task.Y, task.X[:, :2] + 1, atol=1e-12)
    np.testing.assert_allclose(task.Y_test, task.X_test[:, :2] + 1, atol=1e-12)
    assert len(task.X_test) == 12 and len(task.X) == 28


@pytest.mark.parametrize("make", [permuted, rotated])
def test_bad_input_is_refused(make):
    for arguments in [(X, y, 0), (X.reshape(40, 6, 6), y, 2), (X, y[:-1], 2), (X[:1], y[:1], 2)]:
        with pytest.raises(InputError):
            make(*arguments)
    with pytest.raises(InputError):
        make(X, y, 2, test=1.5)
    with pytest.raises(InputError, match="degrees"):
        rotated(X, y, 2, degrees=np.nan)
