"""What a model is, and what it refuses: every message says what was expected, what came and what to try."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from remanence import kalman
from remanence.errors import InputError, NumericalError

GOOD = {
    "A": np.eye(2), "Q": np.eye(2), "X": np.ones((3, 2)), "R": np.eye(3), "mean": np.zeros(2), "cov": np.eye(2),
}  # fmt: skip


@pytest.mark.parametrize(
    "change, words",
    [
        ({"A": np.eye(3)}, r"A of shape \(2, 2\).*got \(3, 3\)"),
        ({"A": 1.0}, "np.eye"),
        ({"Q": np.ones((2, 3))}, "Q of shape"),
        ({"Q": [[1.0, 0.5], [0.0, 1.0]]}, "Q to be symmetric"),
        ({"Q": [[1.0, 2.0], [2.0, 1.0]]}, "Q to be positive semidefinite, got an eigenvalue -1"),
        ({"R": -np.eye(3)}, "R to be positive semidefinite"),
        ({"R": np.eye(2)}, r"R of shape \(3, 3\)"),
        ({"R": np.triu(np.ones((3, 3)))}, "R to be symmetric"),
        ({"cov": [[1.0, 0], [0, -1e-3]]}, "cov to be positive"),
        ({"cov": np.ones((4, 2, 2))}, "first step alone"),
        ({"X": np.ones((3, 3))}, "X of shape"),
        ({"X": np.ones(2)}, "x\\[None, :\\]"),
        ({"X": [np.ones((1, 2)), np.ones((2, 2))]}, "pass a list"),
        ({"X": [np.ones((1, 2)), np.ones((2, 3))], "R": [np.eye(1), np.eye(2)]}, "every X"),
        ({"X": [np.ones((1, 2)), np.ones((2, 2))], "R": [np.eye(2), np.eye(1)]}, r"R\[0\]"),
        ({"X": [np.ones((1, 2)), np.ones((2, 2))], "R": [np.eye(1), -np.eye(2)]}, r"R\[1\] to be positive"),
        ({"A": np.tile(np.eye(2), (4, 1, 1)), "Q": np.tile(np.eye(2), (5, 1, 1))}, "one length"),
        ({"X": np.ones((0, 3, 2))}, "at least 1"),
        ({"mean": np.zeros((2, 1))}, r"mean of shape \(features,\)"),
        ({"mean": []}, "mean"),
        ({"A": np.full((2, 2), np.nan)}, "A contains NaN"),
        ({"X": np.full((3, 2), np.inf)}, "X contains NaN or infinity"),
        ({"Q": "drift"}, "Q to hold real numbers"),
        ({"mean": [0.0, np.nan]}, "mean contains NaN"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(change, words):
    with pytest.raises(InputError, match=words):
        kalman.LinearGaussian(**(GOOD | change))


@pytest.mark.parametrize(
    "Y, words",
    [
        (np.zeros((0, 3)), "at least one step"),
        (np.zeros((0, 4, 3)), "at least one step"),
        (np.zeros((4, 2)), "3 entries"),
        (np.zeros(3), "y\\[:, None\\]"),
        ([np.zeros(3), np.zeros(2)], "NaN"),
        (np.full((4, 3), np.inf), "within"),
        ("abc", "real numbers"),
    ],
)
def test_answers_that_do_not_fit_are_refused(Y, words):
    with pytest.raises(InputError, match=words):
        kalman.filter(kalman.LinearGaussian(**GOOD), Y)


def test_answers_must_have_as_many_steps_as_the_model():
    model = kalman.LinearGaussian(**(GOOD | {"X": np.ones((4, 3, 2))}))
    for T in (3, 5):
        with pytest.raises(InputError, match="4 steps"):
            kalman.filter(model, np.zeros((T, 3)))
    ragged = kalman.LinearGaussian(**(GOOD | {"X": [np.ones((1, 2)), np.ones((2, 2))], "R": [np.eye(1), np.eye(2)]}))
    for Y in (np.zeros((2, 2)), [np.zeros(1)], [np.zeros(2), np.zeros(2)], [np.zeros(1), ["a", "b"]]):
        with pytest.raises(InputError, match="expected Y"):
            kalman.filter(ragged, Y)


def test_other_settings_are_refused():
    model = kalman.LinearGaussian(**GOOD)
    f = kalman.filter(model, np.zeros((4, 3)))
    other = kalman.LinearGaussian(np.eye(3), np.eye(3), np.ones((1, 3)), np.eye(1), np.zeros(3), np.eye(3))
    for call in (
        lambda: kalman.filter(model, np.zeros((4, 3)), form="information"),
        lambda: kalman.filter(model, np.zeros((4, 3)), form=np.zeros(2)),
        lambda: kalman.filter(model, np.zeros((4, 3)), keep=[np.zeros(2)]),
        lambda: kalman.learn(model, np.zeros((4, 3)), parts=np.zeros(2)),
        lambda: kalman.filter("model", np.zeros((4, 3))),
        lambda: kalman.smooth(model, np.zeros((4, 3))),
        lambda: kalman.smooth(other, f),
        lambda: kalman.forecast(model, f, 0),
        lambda: kalman.sample(model, 0),
        lambda: kalman.sample(model, 3, seed=-1),
        lambda: kalman.backward_transfer(model, 0),
        lambda: kalman.backward_transfer(kalman.LinearGaussian(**(GOOD | {"A": np.ones((3, 2, 2))})), 4),
        lambda: kalman.innovations(model, f, np.zeros((5, 3))),
        lambda: kalman.innovations(model, f, np.zeros((2, 4, 3))),
        lambda: kalman.linearized(lambda v: v[0], [1.0], start=[0.0], method="icl"),
        lambda: kalman.linearized(lambda v: v[0], [], start=[0.0]),
        lambda: kalman.linearized(lambda v: v, [1.0], start=[0.0, 1.0]),
    ):
        with pytest.raises(InputError, match="expected"):
            call()
    for call in (kalman.forecast, kalman.sample, kalman.backward_transfer):
        for steps in (10**13, 2**80):
            with pytest.raises(InputError, match="GB of memory"):
                call(model, *((f, steps) if call is kalman.forecast else (steps,)))


def test_growth_without_bound_is_said():
    model = kalman.LinearGaussian(1e10 * np.eye(1), np.eye(1), np.zeros((1, 1)), np.eye(1), np.ones(1), np.eye(1))
    with pytest.raises(NumericalError, match="grow"):
        kalman.filter(model, np.zeros((100, 1)))


def test_a_model_is_a_value_of_its_own():
    A = np.eye(2)
    model = kalman.LinearGaussian(**(GOOD | {"A": A}))
    A[:] = 7
    np.testing.assert_array_equal(model.A, np.eye(2))
    with pytest.raises(FrozenInstanceError):
        model.A = A
    assert model.length is None and model.features == 2
    Y = np.random.default_rng(0).standard_normal((5, 3))
    Y.flags.writeable = False
    before = kalman.filter(model, Y)
    kalman.smooth(model, before)
    np.testing.assert_array_equal(before.mean, kalman.filter(model, Y.tolist()).mean)
    with pytest.raises(FrozenInstanceError):
        before.mean = Y
    known = GOOD | {
        "X": [np.ones((1, 2)), np.ones((2, 2))],
        "R": [np.eye(1), np.eye(2)],
        "B": np.eye(2),
        "u": np.ones(2),
    }
    ragged = kalman.LinearGaussian(**known)
    turning = kalman.LinearGaussian(**(GOOD | {"A": 1j * np.eye(2)}))
    for array in (model.A, model.Q, model.R, model.mean, model.cov, ragged.X[1], ragged.B, ragged.u, turning.A):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_the_first_transition_is_not_used():
    A, Q = np.random.default_rng(0).standard_normal((2, 4, 2, 2))
    Q = Q @ Q.transpose(0, 2, 1)
    Y = np.ones((4, 3))
    first = kalman.filter(kalman.LinearGaussian(**(GOOD | {"A": A, "Q": Q})), Y)
    A, Q = A.copy(), Q.copy()
    A[0], Q[0] = 5, np.eye(2)
    np.testing.assert_array_equal(kalman.filter(kalman.LinearGaussian(**(GOOD | {"A": A, "Q": Q})), Y).mean, first.mean)
