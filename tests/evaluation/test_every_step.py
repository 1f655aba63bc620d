"""Evaluation at every step: the same model, the definitions of the metrics, and what the future holds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import remanence as rm
from remanence.evaluation import ErrorCurve, ErrorMatrix


def test_evaluating_more_often_changes_no_number_at_the_ends_of_tasks():
    stream = rm.streams.digits(tasks=3)
    plain, often = (rm.evaluate(rm.ContinualClassifier(), stream, every=k) for k in (None, 60))
    np.testing.assert_array_equal(plain.values, often.values)
    curve = often.curve
    assert plain.curve is None and curve.rows[-1] == sum(len(task.X) for task in stream)
    for j in (1, 2, 3):
        np.testing.assert_array_equal(curve.values[:, np.flatnonzero(curve.tasks == j)[-1]], often.values[:, j])
    again = ErrorMatrix.from_dict(often.to_dict())
    np.testing.assert_array_equal(again.curve.values, curve.values)
    assert "curve" not in plain.to_dict() and curve.plot() is not None


def test_methods_are_evaluated_too_and_least_squares_does_not_dip():
    stream = rm.streams.linear(tasks=3, features=4)
    matrix = rm.evaluate(rm.RLS(), stream, every=5)
    assert matrix.curve.values.shape == (3, len(matrix.curve.rows))
    with pytest.raises(rm.InputError, match="zero_one"):
        rm.metrics.min_accuracy(matrix)


curves = st.integers(1, 4).flatmap(
    lambda T: st.integers(T, 12).flatmap(lambda S: arrays(float, (T, S), elements=st.floats(0, 1)))
)


@settings(max_examples=60, deadline=None)
@given(curves, st.integers(2, 6), st.randoms())
def test_metrics_equal_their_definitions(values, window, random):
    T, S = values.shape
    tasks = np.sort(np.array([*range(1, T + 1), *(random.randint(1, T) for _ in range(S - T))]))
    curve, A = ErrorCurve(values, tasks, np.arange(1, S + 1)), 1 - values
    low = [min(A[i, s] for s in range(S) if tasks[s] > i + 1) for i in range(T - 1)]
    least = sum(low) / (T - 1) if T > 1 else 1.0
    assert rm.metrics.min_accuracy(curve) == pytest.approx(least)
    assert rm.metrics.worst_case_accuracy(curve) == pytest.approx(A[T - 1, -1] / T + (1 - 1 / T) * least)
    pairs = [(a, b) for a in range(S) for b in range(a, min(S, a + window))]
    falls = [max(A[i, a] - A[i, b] for a, b in pairs) for i in range(T)]
    rises = [max(A[i, b] - A[i, a] for a, b in pairs) for i in range(T)]
    assert rm.metrics.windowed_forgetting(curve, window) == pytest.approx(sum(falls) / T)
    assert rm.metrics.windowed_plasticity(curve, window) == pytest.approx(sum(rises) / T)


def test_undefined_errors_give_no_number():
    curve = ErrorCurve([[0.5, np.nan, 0.1], [0.9, 0.4, 0.2]], tasks=[1, 2, 2], rows=[1, 2, 3])
    for metric in vars(rm.metrics).values():
        if getattr(metric, "__name__", "").startswith(("windowed", "min_", "worst")):
            assert np.isnan(metric(curve))


def test_a_matrix_without_a_curve_is_read_task_by_task():
    values = np.array([[1.0, 0.1, 0.3, 0.2], [1.0, 0.8, 0.2, 0.4], [1.0, 1.0, 1.0, 0.0]])
    assert rm.metrics.min_accuracy(values) == pytest.approx((0.7 + 0.6) / 2)
    assert rm.metrics.min_accuracy(ErrorMatrix(values, loss="zero_one")) == pytest.approx(0.65)
    assert rm.metrics.worst_case_accuracy(values) == pytest.approx(1 / 3 + 2 / 3 * 0.65)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 6), st.integers(0, 10**6), st.sampled_from([1.0, 0.5]))
def test_the_prospective_error_is_that_on_tasks_not_yet_met(T, seed, discount):
    values = np.random.default_rng(seed).random((T, T + 1))
    each = []
    for t in range(1, T):
        weights = [discount ** (i - t) for i in range(t, T)]
        each.append(sum(w * values[i, t] for w, i in zip(weights, range(t, T), strict=True)) / sum(weights))
        assert rm.metrics.prospective(values, t, discount) == pytest.approx(each[-1])
    assert rm.metrics.prospective(values, discount=discount) == pytest.approx(np.mean(each))


def test_bad_input_is_refused():
    stream = rm.streams.linear(tasks=2, features=3)
    for every in (0, "a", 2.5):
        with pytest.raises(rm.InputError, match="every"):
            rm.evaluate(rm.RLS(), stream, every=every)
    with pytest.raises(rm.InputError, match="every update is a task"):
        rm.evaluate(rm.Kalman(0.1), stream, every=5)
    for bad in ([[0.1]], "a", np.ones(3)):
        with pytest.raises(rm.InputError):
            rm.metrics.min_accuracy(bad)
    for t in (2, -1):
        with pytest.raises(rm.InputError, match="t "):
            rm.metrics.prospective(np.ones((2, 3)), t)
    with pytest.raises(rm.InputError, match="two tasks"):
        rm.metrics.prospective(np.ones((1, 2)))
    with pytest.raises(rm.InputError, match="window"):
        rm.metrics.windowed_forgetting(np.ones((2, 3)), 0)
    with pytest.raises(rm.InputError, match="in order"):
        ErrorCurve(np.ones((2, 2)), [2, 1], [1, 2])
    with pytest.raises(rm.InputError, match="ErrorCurve"):
        ErrorCurve.from_dict({"values": None})
