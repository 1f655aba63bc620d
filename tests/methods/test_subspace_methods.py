"""ICL, OGD and ORFit against slow solutions of what defines them: who is met, what may not move, what is let go."""

import numpy as np
import pytest

import remanence as rm


def accepted(X, tolerance=1e-8):
    """The rows that are not in the span of the rows accepted before them."""
    kept = []
    for i in range(len(X)):
        rows = X[[*kept, i]]
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
        if X[i].any() and np.linalg.svd(rows, compute_uv=False)[-1] > tolerance and len(rows) <= X.shape[1]:
            kept.append(i)
    return kept


def oldest_first(X, Y, start):
    """Lexicographic least squares: each sample is solved as well as all earlier ones allow; nearest to the start."""
    rows = accepted(X)
    if not rows:
        return start
    size = np.linalg.norm(X[rows], axis=1, keepdims=True)  # constraints that can all be met may be scaled
    A, B = X[rows] / size, Y[rows] / size
    return start + np.linalg.pinv(A) @ (B - A @ start)


def stream(kind, seed, n, d, c=2, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    if kind == "repeated":
        X = X[rng.integers(0, max(2, n // 3), n)]
    elif kind == "zero":
        X[rng.random(n) < 0.4] = 0
    elif kind == "dependent":
        r = max(1, d // 2)
        X = X[:, :r] @ rng.standard_normal((r, d))
    elif kind == "scaled":
        X = X * 10.0 ** rng.uniform(-6, 6, (n, 1))
    return X, X @ rng.standard_normal((d, c)) + noise * rng.standard_normal((n, c)), rng.standard_normal((d, c))


KINDS = ["plain", "repeated", "zero", "dependent", "scaled"]


@pytest.mark.parametrize("method", [rm.ICL(), rm.ORFit()], ids=["icl", "orfit"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "d"), [(4, 9), (9, 9), (40, 9), (10, 1), (300, 5)])
def test_on_inconsistent_data_the_oldest_win(method, kind, n, d):
    X, Y, start = stream(kind, n + d, n, d)
    state = method.update(method.init(d, 2, start=start), X, Y)
    expected = oldest_first(X, Y, start)
    W = method.weights(state)
    assert np.linalg.norm(W - expected) <= 1e-9 * np.linalg.norm(expected) * np.linalg.cond(
        X[accepted(X)] / np.linalg.norm(X[accepted(X)], axis=1, keepdims=True)
    )
    assert state.past.rank == len(accepted(X)) <= d


def test_the_oldest_win_and_not_the_newest_and_not_the_average():
    X, Y = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), np.array([[1.0], [5.0], [3.0]])
    m = rm.ICL()
    np.testing.assert_allclose(m.weights(m.update(m.init(2, 1), X, Y)), [[1.0], [2.0]], atol=1e-14)


@pytest.mark.parametrize("step", [1e-3, 0.3, 1.0, 50.0])
@pytest.mark.parametrize("kind", ["plain", "repeated", "zero", "dependent"])
def test_ogd_follows_the_slow_recursion_and_never_moves_an_old_answer(step, kind):
    X, Y, W = stream(kind, 1, 15, 8)
    m = rm.OGD(step)
    state = m.init(8, 2, start=W)
    answers = np.zeros((0, 2))
    for t in range(len(X)):
        past = X[:t]
        P = np.eye(8) - np.linalg.pinv(past, rcond=1e-9) @ past if t else np.eye(8)
        new = P @ X[t]
        if np.linalg.norm(new) > 1e-9 * np.linalg.norm(X[t]):
            W = W + step * np.outer(new, Y[t] - X[t] @ W)
        state = m.update(state, X[t : t + 1], Y[t : t + 1])
        size = np.abs(W).max()
        np.testing.assert_allclose(m.weights(state), W, atol=1e-10 * size)
        np.testing.assert_allclose(m.predict(state, past), answers, atol=1e-11 * size)
        answers = m.predict(state, X[: t + 1])


def test_ogd_with_the_right_steps_is_icl():
    X, Y, start = stream("plain", 2, 6, 9)
    steps, past = [], np.zeros((0, 9))
    for x in X:
        new = x - np.linalg.pinv(past) @ (past @ x) if len(past) else x
        steps.append(1 / (new @ new))
        past = np.vstack([past, x])
    a, b = rm.OGD(steps), rm.ICL()
    np.testing.assert_allclose(
        a.weights(a.update(a.init(9, 2, start), X, Y)), b.weights(b.update(b.init(9, 2, start), X, Y)), rtol=1e-10
    )


def bounded(X, Y, W, rank):
    """Textbook ORFit: solve along what is new, then keep the `rank` leading singular directions of [U diag(s), x]."""
    d = X.shape[1]
    U, s, path = np.zeros((d, 0)), np.zeros(0), []
    for x, y in zip(X, Y, strict=True):
        new = x - U @ (U.T @ x)
        new = new - U @ (U.T @ new)
        if np.linalg.norm(new) > 1e-9 * np.linalg.norm(x):
            W = W + np.outer(new, y - x @ W) / (new @ new)
        if x.any():
            U, s, _ = np.linalg.svd(np.column_stack([U * s, x]), full_matrices=False)
            keep = min(rank, int(np.sum(s > 1e-12 * s[0])))
            U, s = U[:, :keep], s[:keep]
        path.append(W)
    return path, U, s


@pytest.mark.parametrize("kind", KINDS[:-1])
@pytest.mark.parametrize("d", [1, 3, 9])
def test_orfit_of_bounded_rank_follows_the_slow_recursion_and_its_bound(kind, d):
    for rank in (1, 2, 3, 5, 9, 20):
        X, Y, start = stream(kind, rank + d, 25, d)
        m = rm.ORFit(rank)
        state = m.init(d, 2, start=start)
        path, U, s = bounded(X, Y, start, rank)
        for t, W in enumerate(path):
            state = m.update(state, X[t : t + 1], Y[t : t + 1])
            basis = state.past.basis
            assert basis.shape[1] <= min(rank, d), f"rank {rank}: {basis.shape[1]} directions at row {t}"
            skew = np.linalg.norm(basis.T @ basis - np.eye(basis.shape[1]))
            assert skew < 1e-12, f"rank {rank}: the basis is not orthonormal at row {t}: {skew:.1e}"
            error = np.linalg.norm(m.weights(state) - W) / np.linalg.norm(W)
            assert error <= 1e-7, f"rank {rank}: the weights differ by {error:.1e} at row {t}"
        np.testing.assert_allclose(state.past.strength, s, rtol=1e-9)
        np.testing.assert_allclose(basis @ basis.T, U @ U.T, atol=1e-6)


def test_orfit_whose_rank_is_never_reached_is_icl():
    for kind in ("plain", "repeated", "dependent", "zero"):
        X, Y, start = stream(kind, 7, 30, 8)
        a, b = rm.ORFit(8), rm.ICL()
        np.testing.assert_allclose(
            a.weights(a.update(a.init(8, 2, start), X, Y)),
            b.weights(b.update(b.init(8, 2, start), X, Y)),
            rtol=1e-8,
            atol=1e-9,
            err_msg=kind,
        )


def test_each_new_sample_is_solved_by_orfit_however_small_its_memory():
    X, Y, _ = stream("plain", 8, 40, 9)
    m = rm.ORFit(2)
    state = m.init(9, 2)
    for x, y in zip(X, Y, strict=True):
        state = m.update(state, x[None], y[None])
        np.testing.assert_allclose(m.predict(state, x[None])[0], y, atol=1e-10)


def test_a_sample_the_past_decides_changes_nothing_at_all():
    rng = np.random.default_rng(9)
    X = rng.standard_normal((4, 7))
    for m in (rm.ICL(), rm.ORFit(), rm.OGD(0.2)):
        state = m.update(m.init(7, 1), X, rng.standard_normal((4, 1)))
        again = m.update(state, rng.standard_normal((50, 4)) @ X, 100 * rng.standard_normal((50, 1)))
        np.testing.assert_array_equal(m.weights(again), m.weights(state))
        assert again.past.rank == 4


def test_the_tolerance_decides_what_is_new():
    X, Y = np.array([[1.0, 0.0], [1.0, 1e-5]]), np.array([[1.0], [2.0]])
    for tolerance, rank in ((1e-9, 2), (1e-6, 2), (1e-4, 1)):
        for m in (rm.ICL(tolerance), rm.ORFit(tolerance=tolerance), rm.OGD(1.0, tolerance)):
            assert m.update(m.init(2, 1), X, Y).past.rank == rank


@pytest.mark.parametrize(("tolerance", "new"), [(1e-9, True), (1e-5, True), (1e-3, False), (0.1, False)])
def test_the_tolerance_of_icl_decides_what_counts_as_new(tolerance, new):
    """The second sample points 1e-4 out of the direction of the first."""
    X, Y = np.array([[1.0, 0.0], [1.0, 1e-4]]), np.array([[1.0], [2.0]])
    m = rm.ICL(tolerance=tolerance)
    state = m.update(m.init(2, 1), X, Y)
    assert state.past.rank == 1 + new
    np.testing.assert_allclose(m.weights(state)[:, 0], [1.0, 1e4] if new else [1.0, 0.0], rtol=1e-9)
