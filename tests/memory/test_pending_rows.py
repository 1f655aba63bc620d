"""Pending rows: prefixes of storage that states share, and none sees what another appended."""

import sys
import threading

import numpy as np
import pytest

from remanence.memory import root as roots
from remanence.memory.pending_rows import PendingRows, RowBuffer


def no_rows(d=4, c=2, capacity=16, ridge=0.5, attached=True):
    buffer = RowBuffer(capacity, np.zeros((d, c)))
    if attached:
        buffer.attach(roots.prior(ridge, np.zeros((d, c))), ridge)
    return PendingRows(buffer)


def ridge_solution(X, Y, ridge, forget=1.0):
    w = forget ** np.arange(len(X) - 1.0, -1.0, -1.0)
    A = (X * w[:, None]).T @ X + ridge * forget ** len(X) * np.eye(X.shape[1])
    return np.linalg.solve(A, (X * w[:, None]).T @ Y)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("forget", [0.8, 1.0])
def test_the_weights_with_pending_rows_are_those_of_all_rows(rng, forget):
    X, Y = rng.standard_normal((9, 4)), rng.standard_normal((9, 2))
    pending = no_rows()
    np.testing.assert_array_equal(pending.weights(forget, 1.0), np.zeros((4, 2)))
    for i in range(9):
        pending = pending.appended(X[i : i + 1], Y[i : i + 1])
        W = pending.weights(forget, 1.0)
        np.testing.assert_allclose(W, ridge_solution(X[: i + 1], Y[: i + 1], 0.5, forget), atol=1e-11)
    assert pending.count == 9 and pending.space() == 7
    np.testing.assert_array_equal(pending.X, X)


def test_the_weight_of_new_rows_beside_old_ones_is_the_gain(rng):
    X, Y = rng.standard_normal((5, 4)), rng.standard_normal((5, 2))
    forget, gain = 1.1, 0.3
    w = gain * forget ** -np.arange(1.0, 6.0)
    expected = np.linalg.solve((X * w[:, None]).T @ X + 0.5 * np.eye(4), (X * w[:, None]).T @ Y)
    np.testing.assert_allclose(no_rows().appended(X, Y).weights(forget, gain), expected, atol=1e-12)


def test_appending_twice_to_one_prefix_makes_two_branches(rng):
    X, Y = rng.standard_normal((8, 4)), rng.standard_normal((8, 2))
    for asked in (False, True):
        trunk = no_rows().appended(X[:3], Y[:3])
        if asked:
            trunk.weights(1.0, 1.0)
        left = trunk.appended(X[3:5], Y[3:5])
        right = trunk.appended(X[5:8], Y[5:8])
        assert left.buffer is trunk.buffer and right.buffer is not trunk.buffer
        late = trunk.appended(X[7:], Y[7:])
        for branch, ids in ((right, [0, 1, 2, 5, 6, 7]), (left, range(5)), (trunk, range(3)), (late, [0, 1, 2, 7])):
            ids = list(ids)
            np.testing.assert_array_equal(branch.X, X[ids])
            np.testing.assert_array_equal(branch.Y, Y[ids])
            np.testing.assert_allclose(branch.weights(1.0, 1.0), ridge_solution(X[ids], Y[ids], 0.5), atol=1e-12)


def test_a_prefix_asked_after_its_continuation_answers_for_itself_alone(rng):
    X, Y = rng.standard_normal((8, 4)), rng.standard_normal((8, 2))
    states = [no_rows()]
    for i in range(8):
        states.append(states[-1].appended(X[i : i + 1], Y[i : i + 1]))
    states[-1].weights(1.0, 1.0)
    for k in (3, 8, 1, 5):
        np.testing.assert_allclose(states[k].weights(1.0, 1.0), ridge_solution(X[:k], Y[:k], 0.5), atol=1e-12)


def test_a_random_tree_of_branches_holds_its_rows(rng):
    X, Y = rng.standard_normal((100, 4)), rng.standard_normal((100, 2))
    nodes = [(no_rows(capacity=12), [])]
    for _ in range(300):
        pending, ids = nodes[int(rng.integers(len(nodes)))]
        new = rng.integers(0, 100, int(rng.integers(1, 4)))
        if pending.space() < len(new):
            continue
        if rng.random() < 0.5:
            pending.weights(1.0, 1.0)
        nodes.append((pending.appended(X[new], Y[new]), ids + list(new)))
    for pending, ids in nodes[1:]:
        np.testing.assert_array_equal(pending.X, X[ids])
        np.testing.assert_allclose(pending.weights(1.0, 1.0), ridge_solution(X[ids], Y[ids], 0.5), atol=1e-11)


def test_threads_that_append_to_one_prefix_get_branches_of_their_own(rng):
    X, Y = rng.standard_normal((40, 4)), rng.standard_normal((40, 2))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(40):
            trunk, gate, found = no_rows().appended(X[:3], Y[:3]), threading.Barrier(8), {}

            def run(k, trunk=trunk, gate=gate, found=found):
                gate.wait()
                branch = trunk
                for j in range(4):
                    i = 3 + 4 * k + j
                    branch = branch.appended(X[i : i + 1], Y[i : i + 1])
                found[k] = branch, branch.weights(1.0, 1.0)

            threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            assert len(found) == 8
            for k, (branch, W) in found.items():
                ids = [0, 1, 2, *range(3 + 4 * k, 7 + 4 * k)]
                np.testing.assert_array_equal(branch.X, X[ids])
                np.testing.assert_allclose(W, ridge_solution(X[ids], Y[ids], 0.5), atol=1e-12)
    finally:
        sys.setswitchinterval(interval)


def test_where_the_small_gram_matrix_cannot_be_trusted_it_hands_over():
    """Rows of very different sizes at a weak prior: None, and never a wrong answer."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((6, 4)) * np.logspace(0, 8, 6)[:, None]
    pending = no_rows(ridge=1e-12).appended(X, X @ np.ones((4, 2)))
    assert pending.weights(1.0, 1.0) is None
    assert pending.buffer.ill_conditioned
