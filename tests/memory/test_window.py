"""Window: the last few samples. Everything: all of them, in the fewest numbers that decide a fit."""

import numpy as np
import pytest

from remanence.memory.subspace import nothing
from remanence.memory.window import Window, correction, nothing_seen


@pytest.mark.parametrize("size", [0, 1, 3, 10])
def test_a_window_holds_the_last_samples_oldest_first(size):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((25, 3)), rng.standard_normal((25, 2))
    window, seen = Window(np.zeros((0, 3)), np.zeros((0, 2))), 0
    while seen < 25:
        n = min(int(rng.integers(1, 6)), 25 - seen)
        window = window.pushed(X[seen : seen + n], Y[seen : seen + n], size)
        seen += n
        np.testing.assert_array_equal(window.X, X[max(0, seen - size) : seen])
        np.testing.assert_array_equal(window.Y, Y[max(0, seen - size) : seen])


def test_a_window_keeps_copies_and_its_outputs_can_change():
    X, Y = np.ones((4, 3)), np.arange(8.0).reshape(4, 2)
    for size in (2, 4, 9):
        window = Window(np.zeros((0, 3)), np.zeros((0, 2))).pushed(X, Y, size)
        assert not np.shares_memory(window.X, X) and not np.shares_memory(window.Y, Y)
        wide = window.with_outputs(np.array([1, -1, 0]))
        np.testing.assert_array_equal(wide.Y[:, [0, 2]], window.Y[:, ::-1])
        assert not wide.Y[:, 1].any()


@pytest.mark.parametrize("kind", ["plain", "repeated", "zero", "square", "tall", "one", "one-zero"])
def test_the_correction_is_the_smallest_change_that_comes_nearest(kind):
    rng = np.random.default_rng(1)
    Z = rng.standard_normal({"tall": (9, 4), "square": (4, 4), "one": (1, 4), "one-zero": (1, 4)}.get(kind, (3, 6)))
    if kind == "repeated":
        Z[2] = Z[0]
    elif kind in ("zero", "one-zero"):
        Z[0] = 0
    R = rng.standard_normal((len(Z), 2))
    D = correction(Z, R)
    np.testing.assert_allclose(D, np.linalg.pinv(Z, rcond=1e-12) @ R, atol=1e-11)


def test_the_correction_of_tiny_and_huge_samples_meets_both():
    rng = np.random.default_rng(2)
    Z = rng.standard_normal((3, 5)) * np.array([[1e-20], [1.0], [1e20]])
    R = Z @ rng.standard_normal((5, 1))
    np.testing.assert_allclose(Z @ correction(Z, R), R, rtol=1e-8)


def everything(X, Y, block):
    memory = nothing_seen(np.zeros((X.shape[1], Y.shape[1])), nothing(X.shape[1], X))
    for i in range(0, len(X), block):
        memory = memory.absorbed(X[i : i + block], Y[i : i + block], 1e-9)
    return memory


@pytest.mark.parametrize("block", [1, 4, 50])
@pytest.mark.parametrize(("n", "d", "rank"), [(3, 8, 3), (50, 8, 8), (50, 8, 3), (1, 1, 1)])
def test_everything_gives_the_least_squares_solution_nearest_to_any_weights(n, d, rank, block):
    rng = np.random.default_rng([n, d, rank])
    X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d))
    Y, W = rng.standard_normal((n, 2)), rng.standard_normal((d, 2))
    memory = everything(X, Y, block)
    assert memory.span.rank == min(rank, n)
    expected = W + np.linalg.pinv(X, rcond=1e-11) @ (Y - X @ W)
    np.testing.assert_allclose(memory.nearest(W), expected, rtol=1e-8, atol=1e-9)


def test_everything_is_pure_and_empty_at_first():
    W = np.ones((4, 2))
    memory = nothing_seen(W, nothing(4, W))
    np.testing.assert_array_equal(memory.nearest(W), W)
    X, Y = np.eye(4)[:2], np.ones((2, 2))
    one = memory.absorbed(X, Y, 1e-9)
    factor = one.inside.factor.copy()
    two = one.absorbed(3 * np.eye(4), np.zeros((4, 2)), 1e-9)
    np.testing.assert_array_equal(one.inside.factor, factor)
    assert (memory.span.rank, one.span.rank, two.span.rank) == (0, 2, 4)
    zero = memory.absorbed(np.zeros((3, 4)), np.ones((3, 2)), 1e-9)
    np.testing.assert_array_equal(zero.nearest(W), W)


def test_everything_can_change_its_outputs():
    rng = np.random.default_rng(3)
    X, Y = rng.standard_normal((10, 4)), rng.standard_normal((10, 2))
    wide = everything(X, Y, 3).with_outputs(np.array([1, -1, 0]))
    padded = everything(X, np.column_stack([Y[:, 1], np.zeros(10), Y[:, 0]]), 10)
    np.testing.assert_allclose(wide.nearest(np.zeros((4, 3))), padded.nearest(np.zeros((4, 3))), atol=1e-12)
