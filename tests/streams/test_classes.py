"""Splitting by class loses no row, shows no class twice, and is a function of the seed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remanence.errors import InputError
from remanence.streams import digits, split_classes


def rows_of(task):
    return np.vstack([task.X, task.X_test])


@settings(max_examples=30, deadline=None)
@given(
    labels=st.sampled_from([[3, 1, 2, 7], ["cat", "dog", "a longer name"], [True, False], [0.5, 1.5, 2.5]]),
    tasks=st.integers(1, 4),
    seed=st.integers(0, 99),
    test=st.sampled_from([0.1, 0.25, 0.5]),
)
def test_every_row_appears_once_and_every_class_in_one_task(labels, tasks, seed, test):
    tasks = min(tasks, len(labels))
    y = np.repeat(np.array(labels), 12)[np.random.default_rng(seed).permutation(12 * len(labels))]
    X = np.arange(2.0 * len(y)).reshape(-1, 2)
    stream = split_classes(X, y, tasks, test=test, seed=seed)
    assert len(stream) == tasks
    everything = np.vstack([rows_of(task) for task in stream])
    np.testing.assert_array_equal(everything[np.argsort(everything[:, 0])], X)
    seen = [set(np.concatenate([task.Y, task.Y_test]).tolist()) for task in stream]
    assert sum(map(len, seen)) == len(set(labels)) and set.union(*seen) == set(labels)
    assert max(map(len, seen)) - min(map(len, seen)) <= 1
    for task in stream:
        np.testing.assert_array_equal(task.Y, y[(task.X[:, 0] / 2).astype(int)])
        np.testing.assert_array_equal(task.Y_test, y[(task.X_test[:, 0] / 2).astype(int)])
        assert (np.diff(task.X[:, 0]) > 0).all()
        for label in set(task.Y.tolist()):
            assert (task.Y_test == label).sum() == max(round(test * 12), 1)


def test_the_seed_chooses_the_test_rows_and_nothing_else_does():
    a, b, c = digits(seed=1), digits(seed=1), digits(seed=2)
    for first, second, third in zip(a, b, c, strict=True):
        np.testing.assert_array_equal(first.X, second.X)
        np.testing.assert_array_equal(first.X_test, second.X_test)
        assert not np.array_equal(first.X_test, third.X_test)


def test_streams_leave_the_global_generator_alone():
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.random()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    digits()
    assert np.random.random() == expected  # noqa: NPY002


def test_digits_are_all_there_scaled_and_in_order():
    stream = digits(tasks=5)
    assert [task.name for task in stream] == ["0, 1", "2, 3", "4, 5", "6, 7", "8, 9"]
    assert sum(len(rows_of(task)) for task in stream) == 1797
    everything = np.vstack([rows_of(task) for task in stream])
    assert everything.shape[1] == 64 and everything.min() == 0.0 and everything.max() == 1.0
    share = sum(len(task.X_test) for task in stream) / 1797
    assert 0.24 < share < 0.26
    assert [len(np.unique(task.Y)) for task in digits(tasks=3)] == [4, 3, 3]


def test_order_says_which_classes_come_first():
    order = [9, 0, 8, 1, 7, 2, 6, 3, 5, 4]
    stream = digits(tasks=5, order=order)
    assert [set(task.Y.tolist()) for task in stream] == [{9, 0}, {8, 1}, {7, 2}, {6, 3}, {5, 4}]
    words = split_classes(np.eye(6), list("aabbcc"), 3, order=["c", "a", "b"])
    assert [task.name for task in words] == ["c", "a", "b"]


def test_given_test_rows_are_used_as_they_are():
    X, y = np.eye(4), np.array([0, 0, 1, 1])
    stream = split_classes(X, y, 2, X_test=X[[1, 2]] * 5, y_test=[0, 1])
    np.testing.assert_array_equal(stream[0].X, X[:2])
    np.testing.assert_array_equal(stream[0].X_test, X[[1]] * 5)
    np.testing.assert_array_equal(stream[1].X_test, X[[2]] * 5)


def test_no_fraction_set_aside_tests_on_the_training_rows():
    for task in split_classes(np.eye(4), [0, 1, 0, 1], 2, test=0):
        np.testing.assert_array_equal(task.X, task.X_test)
        assert len(task.X) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tasks": 3}, "at most 2 tasks"),
        ({"tasks": 0}, "tasks"),
        ({"tasks": 2.0}, "tasks"),
        ({"test": 1.0}, "fraction"),
        ({"test": -0.1}, "fraction"),
        ({"seed": -1}, "seed"),
        ({"order": [0]}, "permutation"),
        ({"order": [0, 0]}, "permutation"),
        ({"order": ["0", "1"]}, "permutation"),
        ({"y": np.eye(4)[:, :2]}, "argmax"),
        ({"y": [0, 0, 0, 1]}, "two rows or more"),
        ({"y": [0, 1, 2, 3]}, "two rows of some class"),
        ({"X_test": np.eye(4)}, "together"),
        ({"X_test": np.eye(4), "y_test": [0, 1, 1, 2]}, r"also \[2\]"),
        ({"X_test": np.eye(4)[:1], "y_test": [0]}, "test rows for the classes 1"),
        ({"X_test": np.eye(3), "y_test": [0, 1, 1]}, "shape"),
    ],
)
def test_bad_settings_are_refused(change, message):
    good = {"X": np.eye(4), "y": [0, 0, 1, 1], "tasks": 2}
    with pytest.raises(InputError, match=message):
        split_classes(**(good | change))
