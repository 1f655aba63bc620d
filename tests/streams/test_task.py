"""A task holds what it was given, asks the training rows when no others exist, and refuses what cannot be learned."""

import numpy as np
import pytest

from remanence.errors import InputError
from remanence.streams import Task, recurring

X = np.arange(6.0).reshape(3, 2)


def test_without_test_rows_the_training_rows_are_asked():
    task = Task("a", X, [0, 1, 1])
    assert task.X_test is task.X and task.Y_test is task.Y
    other = Task("b", X, [0, 1, 1], X[:2] + 10, [1, 0])
    np.testing.assert_array_equal(other.X_test, X[:2] + 10)
    np.testing.assert_array_equal(other.Y_test, [1, 0])
    np.testing.assert_array_equal(other.X, X)


def test_floats_keep_their_type_and_other_numbers_become_float64():
    assert Task("a", X.astype(np.float32), [0, 1, 1]).X.dtype == np.float32
    assert Task("a", X.astype(np.uint8), [0, 1, 1]).X.dtype == np.float64
    assert Task("a", X, [[1], [2], [3]]).Y.dtype == np.float64


def test_labels_from_pandas_become_plain_text():
    pd = pytest.importorskip("pandas")
    task = Task("a", pd.DataFrame(X), pd.Series(["x", "yy", "x"]))
    assert task.Y.dtype.kind == "U" and task.Y.tolist() == ["x", "yy", "x"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X[0], [1]), r"x\[None, :\]"),
        ((X, [0, 1]), "3 rows but Y has 2"),
        ((X[:0], []), "at least one row"),
        ((X * np.nan, [0, 1, 1]), "NaN"),
        ((X * 1j, [0, 1, 1]), "real numbers"),
        ((X, [0.0, np.inf, 1.0]), "NaN or infinity"),
        ((X, np.array([0, None, "a"], dtype=object)), "one kind"),
        ((X, np.array(["2020-01-01"] * 3, dtype="M8[D]")), "dtype"),
        ((X, np.array([["a"], ["b"], ["c"]])), r"ravel\(\)"),
        ((X, np.zeros((3, 2, 2))), "shape"),
        (([[1.0, 2.0], [1.0]], [0, 1]), "unequal length"),
        ((X, [0, 1, 1], X), "together"),
        ((X, [0, 1, 1], X[:, :1], [0, 1, 1]), "shape"),
        ((X, [0, 1, 1], X, ["a", "b", "b"]), "numbers as labels"),
        ((X, [0, 1, 1], X, np.zeros((3, 2))), "labels"),
    ],
)
def test_bad_rows_are_refused_with_advice(arguments, message):
    with pytest.raises(InputError, match=message):
        Task("a", *arguments)


def test_recurring_tasks_repeat_rows_and_answers_with_their_period():
    tasks = [Task(str(k), X + k, [[k], [k], [k]]) for k in range(3)]
    stream = recurring(tasks, 8)
    assert [task.name for task in stream] == ["0", "1", "2", "0", "1", "2", "0", "1"]
    for t in range(3, 8):
        np.testing.assert_array_equal(stream[t].X, stream[t - 3].X)
        np.testing.assert_array_equal(stream[t].Y, stream[t - 3].Y)
    assert len(recurring(tasks, 2)) == 2


@pytest.mark.parametrize(("tasks", "length"), [([], 3), ([X], 3), ([Task("a", X, [0, 1, 1])], 0)])
def test_recurring_refuses_what_cannot_recur(tasks, length):
    with pytest.raises(InputError):
        recurring(tasks, length)
