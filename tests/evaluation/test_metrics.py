"""Each metric equals the formula of the paper, errata applied, written out the slow way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from remanence.errors import InputError
from remanence.evaluation import ErrorMatrix, metrics

# rows: tasks 1..3; columns: after 0..3 tasks
HAND = np.array([[1.0, 0.1, 0.3, 0.5], [0.9, 0.8, 0.2, 0.1], [0.7, 0.6, 0.4, 0.0]])


def test_metrics_of_a_matrix_worked_out_by_hand():
    assert metrics.average(HAND) == pytest.approx((0.5 + 0.1 + 0.0) / 3)
    assert metrics.forgetting(HAND) == pytest.approx((0.4 - 0.1) / 2)
    assert metrics.backward_transfer(HAND) == pytest.approx(-(0.4 - 0.1) / 2)
    assert metrics.forward_transfer(HAND) == pytest.approx((0.1 + 0.3) / 2)
    assert metrics.regret(HAND) == pytest.approx(1.0 + 0.8 + 0.4)
    assert metrics.regret(HAND, best=0.7) == pytest.approx(1.5)
    assert metrics.regret(HAND, t=2, best=0.5) == pytest.approx(1.3)


def test_after_one_task_nothing_is_forgotten_or_transferred():
    assert metrics.average(HAND, 1) == pytest.approx(0.1)
    for metric in (metrics.forgetting, metrics.backward_transfer, metrics.forward_transfer):
        assert metric(HAND, 1) == 0.0
    assert metrics.regret(HAND, 1) == 1.0


matrices = st.integers(1, 7).flatmap(lambda n: arrays(float, (n, n + 1), elements=st.floats(0, 1e3)))


@settings(max_examples=100, deadline=None)
@given(matrices, st.data())
def test_metrics_equal_their_formulas_summed_term_by_term(values, data):
    T = len(values)
    t = data.draw(st.integers(1, T))

    def eps(i, j):  # the paper's indices: task i from 1, model j from 0
        return values[i - 1, j]

    E = sum(eps(i, t) for i in range(1, t + 1)) / t
    F = sum(eps(i, t) - eps(i, i) for i in range(1, t)) / max(t - 1, 1)
    forward = sum(eps(i, 0) - eps(i, i - 1) for i in range(2, t + 1)) / max(t - 1, 1)
    R = sum(eps(i, i - 1) for i in range(1, t + 1))
    near = {"rtol": 1e-12, "atol": 1e-9}
    matrix = ErrorMatrix(values)
    np.testing.assert_allclose(metrics.average(matrix, t), E, **near)
    np.testing.assert_allclose(metrics.forgetting(matrix, t), F, **near)
    np.testing.assert_allclose(metrics.backward_transfer(matrix, t), -F, **near)
    np.testing.assert_allclose(metrics.forward_transfer(matrix, t), forward, **near)
    np.testing.assert_allclose(metrics.regret(matrix, t), R, **near)
    assert metrics.average(values) == metrics.average(matrix, T)


@settings(max_examples=100, deadline=None)
@given(matrices.filter(lambda values: len(values) > 1), st.data())
def test_forgetting_is_bounded_by_the_average_error(values, data):
    t = data.draw(st.integers(2, len(values)))
    bound = t / (t - 1) * metrics.average(values, t)
    assert metrics.forgetting(values, t) <= bound + 1e-12 * (1 + bound)


def test_the_bound_on_forgetting_is_reached():
    values = np.array([[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])  # the old task lost, the new one learned
    assert metrics.forgetting(values) == 2 * metrics.average(values) == 1.0


def test_the_printed_regret_is_another_number():
    printed = 3 * HAND[2, 2]  # the sum over i of ε_t, as printed
    assert metrics.regret(HAND) != pytest.approx(printed)


def test_a_run_that_diverged_gives_no_warning_and_no_number(recwarn):
    values = np.full((2, 3), np.inf)
    assert metrics.average(values) == np.inf and np.isnan(metrics.forgetting(values))
    assert np.isnan(metrics.forward_transfer(values))
    assert not recwarn.list


@pytest.mark.parametrize("metric", ["average", "forgetting", "backward_transfer", "forward_transfer", "regret"])
@pytest.mark.parametrize(
    ("matrix", "t"),
    [(HAND, 0), (HAND, 4), (HAND, 1.0), (HAND, True), (HAND[:, 1:], None), (HAND[0], None), ("ab", None)],
)
def test_bad_input_is_refused(metric, matrix, t):
    with pytest.raises(InputError):
        getattr(metrics, metric)(matrix, t)


def test_the_best_fixed_model_must_have_a_finite_loss():
    with pytest.raises(InputError, match="best"):
        metrics.regret(HAND, best=np.nan)
