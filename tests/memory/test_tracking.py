"""Tracker: rows folded into a root, with each row's error before it, by the narrow loop and by blocks alike."""

import numpy as np
import pytest

from remanence.memory import root as roots
from remanence.memory.tracking import NARROW, Tracker, rows_per_call


def textbook(X, Y, ridge, start, forget):
    """Errors and final objective by solving anew before every row; weights 1/βⁱ (β < 1: scaled by βᵗ)."""
    n, d = X.shape
    errors = np.empty_like(Y)
    for t in range(n + 1):
        i = np.arange(1, t + 1)
        w, p = (forget ** (t - i), ridge * forget**t) if forget < 1 else (forget ** -i.astype(float), ridge)
        A = np.vstack([np.sqrt(w)[:, None] * X[:t], np.sqrt(p) * np.eye(d)])
        B = np.vstack([np.sqrt(w)[:, None] * Y[:t], np.sqrt(p) * start])
        W = np.linalg.lstsq(A, B, rcond=None)[0]
        if t < n:
            errors[t] = Y[t] - X[t] @ W
    return errors, W, A, B


WIDTHS = [1, 2, 7, NARROW, NARROW + 1, 130]


@pytest.mark.parametrize("forget", [0.9, 1.0, 1.05])
@pytest.mark.parametrize("d", WIDTHS)
def test_errors_and_root_are_those_of_solving_anew_before_every_row(forget, d):
    rng = np.random.default_rng(d)
    X, Y, start = rng.standard_normal((41, d)), rng.standard_normal((41, 3)), rng.standard_normal((d, 3))
    errors, W, A, B = textbook(X, Y, 0.5, start, forget)
    for cuts in ([41], [1, 40], [20, 1, 20], [1] * 41):
        tracker, parts, seen = Tracker(roots.prior(0.5, start), forget), [], 0
        for n in cuts:
            gain = 1.0 if forget <= 1 else forget**-seen
            parts.append(tracker.fold(X[seen : seen + n], Y[seen : seen + n], gain))
            seen += n
        root = tracker.result()
        np.testing.assert_allclose(np.concatenate(parts), errors, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(root.solve(), W, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(root.factor.T @ root.factor, A.T @ A, atol=1e-9 * np.linalg.norm(A) ** 2)
        np.testing.assert_allclose(root.rest, np.sum((B - A @ W) ** 2, axis=0), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("forget", [0.9, 1.0, 1.05])
@pytest.mark.parametrize("d", [5, 130])
def test_the_size_it_keeps_along_is_that_of_its_root(forget, d):
    """What counts as a faded prior is measured by it, so it must not depend on how the rows were cut."""
    rng = np.random.default_rng(5)
    X, Y = rng.standard_normal((60, d)), rng.standard_normal((60, 1))
    for size in (1, 7, 60):
        tracker = Tracker(roots.prior(0.5, np.zeros((d, 1))), forget)
        for i in range(0, 60, size):
            tracker.fold(X[i : i + size], Y[i : i + size], 1.0 if forget <= 1 else forget**-i)
        square = tracker.square
        assert square == pytest.approx(tracker.result().size() ** 2, rel=1e-9)


@pytest.mark.parametrize("d", [5, 130])
def test_outputs_beyond_the_narrow_loop_are_no_different(d):
    rng = np.random.default_rng(0)
    X, Y, start = rng.standard_normal((20, d)), rng.standard_normal((20, 40)), np.zeros((d, 40))
    errors, W, _, _ = textbook(X, Y, 0.5, start, 0.95)
    tracker = Tracker(roots.prior(0.5, start), 0.95)
    np.testing.assert_allclose(tracker.fold(X, Y, 1.0), errors, atol=1e-9)
    np.testing.assert_allclose(tracker.result().solve(), W, atol=1e-9)


@pytest.mark.parametrize("d", [5, 130])
def test_rows_that_weigh_nothing_are_measured_and_leave_no_trace(d):
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((7, d)), rng.standard_normal((7, 2))
    root = roots.prior(0.5, rng.standard_normal((d, 2))).folded(X, Y)
    W = root.solve()
    tracker = Tracker(root.copy(), 1.5)
    errors = tracker.fold(X, Y, 0.0)  # g = 0
    np.testing.assert_allclose(errors, Y - X @ W, atol=1e-11)
    np.testing.assert_allclose(tracker.result().solve(), W, rtol=1e-12)


@pytest.mark.parametrize("d", [5, 130])
def test_zero_rows_and_zero_entries_are_rows_like_any_other(d):
    rng = np.random.default_rng(2)
    X, Y, start = rng.standard_normal((12, d)), rng.standard_normal((12, 2)), np.zeros((d, 2))
    X[[0, 5, 11]] = 0
    X[:, 2] = 0
    errors, W, _, _ = textbook(X, Y, 0.5, start, 0.9)
    tracker = Tracker(roots.prior(0.5, start), 0.9)
    np.testing.assert_allclose(tracker.fold(X, Y, 1.0), errors, atol=1e-10)
    np.testing.assert_allclose(tracker.result().solve(), W, atol=1e-10)


@pytest.mark.parametrize("d", [5, 130])
def test_the_narrow_loop_and_the_blocks_agree_in_float32(d):
    rng = np.random.default_rng(3)
    X, Y, start = rng.standard_normal((30, d)), rng.standard_normal((30, 2)), np.zeros((d, 2))
    errors, W, _, _ = textbook(X, Y, 0.5, start, 0.95)
    tracker = Tracker(roots.prior(0.5, start, dtype=np.float32), 0.95)
    got = tracker.fold(X.astype(np.float32), Y.astype(np.float32), 1.0)
    root = tracker.result()
    assert got.dtype == np.float32 and root.factor.dtype == np.float32
    np.testing.assert_allclose(got, errors, atol=3e-4 * np.abs(errors).max())
    np.testing.assert_allclose(root.solve(), W, atol=3e-4 * np.abs(W).max())


@pytest.mark.parametrize("d", [5, 130])
def test_a_prior_that_faded_out_of_sight_can_be_put_back(d):
    rng = np.random.default_rng(4)
    start = rng.standard_normal((d, 1))
    tracker = Tracker(roots.prior(1.0, start), 0.5)
    x = np.zeros((1, d))
    x[0, 0] = 1.0
    for _ in range(300):
        tracker.fold(x, np.ones((1, 1)), 1.0)
    tracker.renew_prior(1e-22 * tracker.square, start, 0)
    W = tracker.result().solve()
    np.testing.assert_allclose(W[0], 1.0, rtol=1e-12)
    np.testing.assert_allclose(W[1:], start[1:], rtol=1e-6)


def test_a_rows_per_call_is_never_faded_to_nothing():
    for forget in (0.01, 0.3, 0.9, 0.99, 0.9999):
        for shape in ((5, 1), (5, 40), (200, 1), (2000, 1)):
            rows = rows_per_call(np.zeros(shape), forget)
            assert rows >= 1 and (rows == 1 or forget**rows > 1e-30)
    assert rows_per_call(np.zeros((5, 1)), 1.0) >= 100


def test_no_thread_forks_during_the_products_of_a_block(monkeypatch):
    from remanence.memory import tracking
    from remanence.parallel.forking import unforked

    inside, reflect = [], tracking.reflect_rows
    monkeypatch.setattr(tracking, "reflect_rows", lambda *given: inside.append(unforked.depth) or reflect(*given))
    rng = np.random.default_rng(0)
    tracker = tracking.Tracker(roots.prior(1.0, np.zeros((200, 1))), 1.0)
    tracker.fold(rng.standard_normal((3, 200)), rng.standard_normal((3, 1)), 1.0)
    assert inside == [1] and not unforked.depth
