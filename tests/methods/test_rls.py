"""RLS against the least-squares problem that defines it, solved at once from all rows in extended precision."""

import copy

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import remanence as rm


def extended_lstsq(A, B):
    """min ‖B − AW‖² by Householder reflections in extended precision: the oracle must not be the limit."""
    A, B = np.array(A, np.longdouble), np.array(B, np.longdouble)
    d = A.shape[1]
    for k in range(d):
        v = A[k:, k].copy()
        v[0] += np.copysign(np.sqrt(v @ v), v[0])
        square = v @ v
        if square == 0:
            continue
        A[k:] -= np.outer(2 * v / square, v @ A[k:])
        B[k:] -= np.outer(2 * v / square, v @ B[k:])
    W = np.zeros((d, B.shape[1]), np.longdouble)
    for k in range(d - 1, -1, -1):
        W[k] = (B[k] - A[k, k + 1 :] @ W[k + 1 :]) / A[k, k]
    return W


def weights_of(forget, n):
    """1/βⁱ for i = 1..n and the weight 1 of the prior, all multiplied by min(1, βⁿ) so that nothing overflows."""
    i = np.arange(1, n + 1)
    b = np.longdouble(forget)
    return (b ** (n - i), b**n) if forget < 1 else (b**-i, np.longdouble(1))


def oracle(X, Y, ridge, forget=1.0, start=None, free=0):
    """minimise λ‖W − θ⁰‖² + Σ ‖yᵢ − Wᵀxᵢ‖²/βⁱ from all rows at once; the first `free` features carry no penalty."""
    (n, d), c = X.shape, Y.shape[1]
    start = np.zeros((d, c)) if start is None else start
    w, p = weights_of(forget, n)
    root = np.sqrt(w)[:, None]
    prior = np.sqrt(p * np.longdouble(ridge)) * np.eye(d, dtype=np.longdouble)[free:]
    return extended_lstsq(np.vstack([root * X, prior]), np.vstack([root * Y, prior @ start])).astype(float)


def objective(W, X, Y, ridge, forget, start):
    """The value of (RLS)."""
    i = np.arange(1, len(X) + 1)
    return ridge * np.sum((W - start) ** 2) + np.sum(((Y - X @ W) ** 2).sum(axis=1) / forget**i)


def conditioned(rng, n, d, cond):
    """Rows whose singular values run from 1 to 1/cond."""
    U, V = np.linalg.qr(rng.standard_normal((n, d)))[0], np.linalg.qr(rng.standard_normal((d, d)))[0]
    return U * np.logspace(0, -np.log10(cond), d) @ V.T


def in_pieces(m, state, X, Y, rng, ask=True, track=False):
    """Learn the rows in random blocks, asking now and then."""
    i = 0
    while i < len(X):
        j = i + int(rng.choice([1, 1, 1, 2, 7, 40]))
        if track and rng.random() < 0.3:
            state = m.track(state, X[i:j], Y[i:j])[0]
        else:
            state = m.update(state, X[i:j], Y[i:j])
        if ask and rng.random() < 0.5:
            m.predict(state, X[:2])
        i = j
    return state


def relative(a, b):
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


# ---------------------------------------------------------------- the solution


@pytest.mark.parametrize("forget", [0.5, 0.9, 0.99, 1.0, 1.01, 2.0])
@pytest.mark.parametrize(("n", "d"), [(1, 4), (6, 9), (30, 5), (150, 12), (60, 40), (300, 110)])
def test_it_is_the_weighted_ridge_solution_of_all_rows(forget, n, d):
    rng = np.random.default_rng([n, d])
    X, start = rng.standard_normal((n, d)), rng.standard_normal((d, 2))
    Y = X @ rng.standard_normal((d, 2)) + 0.1 * rng.standard_normal((n, 2))
    expected = oracle(X, Y, 0.7, forget, start)
    m = rm.RLS(0.7, forget)
    for track in (False, True):
        state = in_pieces(m, m.init(d, 2, start=start), X, Y, rng, track=track)
        if (
            forget < 0.7 and n > d
        ):  # little is left of old rows: what they decided is rounding, answers at new ones are not
            assert relative(m.predict(state, X[-3:]), X[-3:] @ expected) < 1e-11
        else:
            assert relative(m.weights(state), expected) < 1e-10
    if forget >= 0.9 and n <= 150:
        assert relative(m.weights(state), expected) < 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_condition_1e3_is_solved_to_1e_minus_12(seed):
    rng = np.random.default_rng(seed)
    X, start = conditioned(rng, 200, 12, 1e3), rng.standard_normal((12, 2))
    Y = X @ rng.standard_normal((12, 2))
    m = rm.RLS(1e-8)
    state = in_pieces(m, m.init(12, 2, start=start), X, Y, rng, track=seed % 2)
    assert relative(m.weights(state), oracle(X, Y, 1e-8, start=start)) <= 1e-12


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ask", [False, True])
def test_condition_1e7_with_ridge_1e_minus_12_is_solved_to_1e_minus_9(seed, ask):
    rng = np.random.default_rng(seed)
    d = (8, 20, 120)[seed % 3]
    X, start = conditioned(rng, 3 * d + 40, d, 1e7), rng.standard_normal((d, 2))
    Y = X @ rng.standard_normal((d, 2))
    m = rm.RLS(1e-12)
    state = in_pieces(m, m.init(d, 2, start=start), X, Y, rng, ask=ask, track=ask and seed % 2)
    assert relative(m.weights(state), oracle(X, Y, 1e-12, start=start)) <= 1e-9


@pytest.mark.parametrize("small", [1e-4, 1e-3, 7e-3, 3e-2, 0.3])
@pytest.mark.parametrize("ridge", [1e-10, 1e-8, 1e-6, 1e-4])
@pytest.mark.parametrize("d", [1, 3])
def test_small_rows_before_larger_ones_cost_no_digits(small, ridge, d):
    """All rows together are well conditioned, so the order and the sizes in which they came must not be seen."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((25, d)) * np.r_[[small] * d, np.ones(25 - d)][:, None]
    Y, start = X @ rng.standard_normal((d, 1)) + 0.3 * rng.standard_normal((25, 1)), rng.standard_normal((d, 1))
    expected = oracle(X, Y, ridge, start=start)
    m = rm.RLS(ridge)
    block, live = m.update(m.init(d, 1, start=start), X, Y), m.init(d, 1, start=start)
    for x, y in zip(X, Y, strict=True):
        m.predict(live, x[None])
        live = m.update(live, x[None], y[None])
    for state in (block, live):
        error = relative(m.weights(state), expected)
        assert error <= 1e-11


@pytest.mark.parametrize("offset", [0.0, 10.0, 1e4])
@pytest.mark.parametrize("ridge", [1e-3, 1.0, 100.0])
def test_a_free_first_column_of_ones_is_the_intercept_of_scikit_learn(offset, ridge):
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(3)
    X = rng.standard_normal((80, 5)) + offset
    Y = X @ rng.standard_normal((5, 2)) + 7 + rng.standard_normal((80, 2))
    theirs = Ridge(alpha=ridge, solver="svd").fit(X, Y)
    m = rm.RLS(ridge)
    ones = np.column_stack([np.ones(80), X])
    state = in_pieces(m, m.init(6, 2, free=1), ones, Y, rng)
    W = m.weights(state)
    assert relative(W[1:], theirs.coef_.T) < 1e-8
    np.testing.assert_allclose(ones @ W, theirs.predict(X), rtol=1e-9)
    assert relative(W, oracle(ones, Y, ridge, free=1)) < 1e-9


def test_free_columns_with_forgetting_and_a_start_are_unpenalised():
    rng = np.random.default_rng(4)
    X, start = rng.standard_normal((50, 6)), rng.standard_normal((6, 2))
    Y = X @ rng.standard_normal((6, 2)) + rng.standard_normal((50, 2))
    for forget in (0.95, 1.0, 1.05):
        m = rm.RLS(5.0, forget)
        state = in_pieces(m, m.init(6, 2, start=start, free=2), X, Y, rng, track=True)
        assert relative(m.weights(state), oracle(X, Y, 5.0, forget, start, free=2)) < 1e-10


@pytest.mark.parametrize(("d", "goes_along"), [(380, False), (384, False), (400, True)])
def test_a_known_solution_goes_along_only_where_folding_it_too_is_cheaper(d, goes_along):
    """128 new rows: a second fold of them costs less than joining data and prior again where 3 · 128 < d."""
    rng = np.random.default_rng(d)
    X, Y = rng.standard_normal((d + 228, d)), rng.standard_normal((d + 228, 1))
    m = rm.RLS(0.5)
    state = m.update(m.init(d, 1), X[: d + 100], Y[: d + 100])
    m.weights(state)
    state = m.update(state, X[d + 100 :], Y[d + 100 :])
    assert (state.pending.buffer.base is not None) == goes_along
    expected = np.linalg.solve(X.T @ X + 0.5 * np.eye(d), X.T @ Y)
    assert relative(m.weights(state), expected) < 1e-9


def test_before_any_row_the_weights_are_the_start():
    start = np.random.default_rng(5).standard_normal((4, 2))
    for m in (rm.RLS(), rm.RLS("auto"), rm.RLS(forget=0.9), rm.RLS(forget=1.1), rm.RLS(forget=0), rm.RLS(1e-12)):
        np.testing.assert_allclose(m.weights(m.init(4, 2, start=start)), start, rtol=1e-13)


def test_the_floor_is_a_prior_that_never_fades():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 6))  # half of the directions are never seen
    Y, start = X @ rng.standard_normal((6, 1)), rng.standard_normal((6, 1))
    m = rm.RLS(1.0, 0.9, floor=0.05)
    for n in (5, 20, 28, 29, 200):
        state = in_pieces(m, m.init(6, 1, start=start), X[:n], Y[:n], rng, track=True)
        held = max(0.9**n, 0.05)  # the weight of the prior beside a newest row of weight 1
        assert relative(m.weights(state), oracle(X[:n], Y[:n], held / 0.9**n, 0.9, start)) < 1e-9
    assert rm.RLS(1.0, 1.0, floor=0.0) == rm.RLS()


# ---------------------------------------------------------------- removing and merging


@pytest.mark.parametrize("seed", range(4))
def test_removing_half_of_the_rows_leaves_the_solution_of_the_others(seed):
    rng = np.random.default_rng(seed)
    X, start = rng.standard_normal((400, 15)), rng.standard_normal((15, 2))
    Y = X @ rng.standard_normal((15, 2)) + 0.3 * rng.standard_normal((400, 2))
    gone = rng.permutation(400)[:200]
    keep = np.setdiff1d(np.arange(400), gone)
    m = rm.RLS(0.5)
    full = in_pieces(m, m.init(15, 2, start=start), X, Y, rng)
    before = m.weights(full).copy()
    for state in (m.remove(full, X[gone], Y[gone]), _one_by_one(m, full, X[gone], Y[gone])):
        assert state.count == 200
        assert relative(m.weights(state), oracle(X[keep], Y[keep], 0.5, start=start)) <= 1e-9
        assert m.loss(state) == pytest.approx(objective(m.weights(state), X[keep], Y[keep], 0.5, 1.0, start), rel=1e-8)
        back = m.update(state, X[gone], Y[gone])
        assert relative(m.weights(back), oracle(X, Y, 0.5, start=start)) <= 1e-9
        assert m.loss(back) == pytest.approx(m.loss(full), rel=1e-8)
    np.testing.assert_array_equal(m.weights(full), before)


def _one_by_one(m, state, X, Y):
    for i in range(len(X)):
        state = m.remove(state, X[i : i + 1], Y[i : i + 1])
    return state


@pytest.mark.parametrize(("n", "d"), [(40, 6), (3, 6), (6, 6), (1, 6)])
def test_removing_everything_leaves_the_start(n, d):
    rng = np.random.default_rng(n)
    X, Y, start = rng.standard_normal((n, d)), rng.standard_normal((n, 2)), rng.standard_normal((d, 2))
    m = rm.RLS(1.0)
    state = m.remove(m.update(m.init(d, 2, start=start), X, Y), X, Y)
    assert state.count == 0
    assert relative(m.weights(state), start) <= 1e-6
    again = m.update(state, X, Y)
    assert relative(m.weights(again), oracle(X, Y, 1.0, start=start)) <= 1e-6


def test_removing_the_only_rows_of_a_direction_leaves_the_prior_there():
    rng = np.random.default_rng(7)
    X = np.vstack([rng.standard_normal((50, 4)) * [1, 1, 1, 0], [[0.3, 0.1, 0.2, 2.0]]])
    Y = X @ np.ones((4, 1)) + 0.1 * rng.standard_normal((51, 1))
    m = rm.RLS(0.5)
    state = m.remove(m.update(m.init(4, 1), X, Y), X[50:], Y[50:])
    assert relative(m.weights(state), oracle(X[:50], Y[:50], 0.5)) <= 1e-7


def test_rows_that_were_never_learned_are_refused_and_nothing_changes():
    rng = np.random.default_rng(8)
    X, Y = rng.standard_normal((30, 5)), rng.standard_normal((30, 1))
    m = rm.RLS(0.5)
    state = m.update(m.init(5, 1), X, Y)
    before, loss, expected = m.weights(state).copy(), m.loss(state), m.weights(m.update(state, X, Y))
    strange = [
        (10 * X[:1], Y[:1]),  # more information than there is
        (X[:1], Y[:1] + 100),  # more energy than there is
        (np.vstack([X, X[:1]]), np.vstack([Y, Y[:1]])),  # more rows than there are
        (np.vstack([X[:29], X[:1]]), np.vstack([Y[:29], Y[:1]])),  # one row twice
    ]
    for rows in strange:
        with pytest.raises(rm.InputError):
            m.remove(state, *rows)
        np.testing.assert_array_equal(m.weights(state), before)
        assert m.loss(state) == loss
    np.testing.assert_array_equal(m.weights(m.update(state, X, Y)), expected)
    narrow = m.update(m.init(5, 1), X * [1, 1, 1, 1, 0], Y)
    with pytest.raises(rm.InputError):  # a direction in which nothing was ever learned
        m.remove(narrow, np.eye(5)[4:], np.ones((1, 1)))
    with pytest.raises(rm.InputError):
        m.remove(m.init(5, 1), X[:1], Y[:1])


@pytest.mark.parametrize("cond", [10.0, 1e4])
def test_64_parts_merged_in_any_order_are_one_learner_of_everything(cond):
    rng = np.random.default_rng(9)
    d = 10
    X, start = conditioned(rng, 64 * 7, d, cond), rng.standard_normal((d, 2))
    Y = X @ rng.standard_normal((d, 2)) + 1e-3 / cond * rng.standard_normal((64 * 7, 2))
    m = rm.RLS(1e-4)
    parts = [m.update(m.init(d, 2, start=start), X[i::64], Y[i::64]) for i in range(64)]
    expected = oracle(X, Y, 1e-4, start=start)
    whole = m.update(m.init(d, 2, start=start), X, Y)
    for _ in range(3):
        pool = [parts[k] for k in rng.permutation(64)]
        while len(pool) > 1:  # a random tree
            a, b = pool.pop(int(rng.integers(len(pool)))), pool.pop(int(rng.integers(len(pool))))
            pool.append(m.merge(a, b))
        merged = pool[0]
        assert merged.count == len(X)
        assert relative(m.weights(merged), expected) <= 1e-11
        assert m.loss(merged) == pytest.approx(m.loss(whole), rel=1e-9)
        assert m.evidence(merged) == pytest.approx(m.evidence(whole), rel=1e-9)


def test_merging_counts_the_prior_once_and_leaves_both_alone():
    rng = np.random.default_rng(10)
    X, Y = rng.standard_normal((20, 4)), rng.standard_normal((20, 1))
    m = rm.RLS(3.0)
    a, b = m.update(m.init(4, 1), X[:8], Y[:8]), m.update(m.init(4, 1), X[8:], Y[8:])
    weights = m.weights(a).copy(), m.weights(b).copy()
    assert relative(m.weights(m.merge(a, b)), oracle(X, Y, 3.0)) < 1e-13
    assert relative(m.weights(m.merge(a, m.init(4, 1))), weights[0]) < 1e-13
    np.testing.assert_array_equal(m.weights(a), weights[0])
    np.testing.assert_array_equal(m.weights(b), weights[1])
    more = m.update(m.merge(a, b), X, Y)
    assert relative(m.weights(more), oracle(np.vstack([X, X]), np.vstack([Y, Y]), 3.0)) < 1e-12


# ---------------------------------------------------------------- what it says about itself


@pytest.mark.parametrize("forget", [0.9, 1.0, 1.1])
def test_the_loss_is_the_minimum_of_the_objective(forget):
    rng = np.random.default_rng(11)
    X, Y, start = rng.standard_normal((25, 6)), rng.standard_normal((25, 3)), rng.standard_normal((6, 3))
    m = rm.RLS(0.4, forget)
    for n in (0, 1, 4, 25):
        state = in_pieces(m, m.init(6, 3, start=start), X[:n], Y[:n], rng)
        W = oracle(X[:n], Y[:n], 0.4, forget, start) if n else start
        assert m.loss(state) == pytest.approx(objective(W, X[:n], Y[:n], 0.4, forget, start), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("forget", [0.9, 1.0, 1.1])
def test_the_evidence_is_the_gaussian_density_of_the_targets(forget):
    rng = np.random.default_rng(12)
    X, Y, start = rng.standard_normal((15, 4)), rng.standard_normal((15, 3)), rng.standard_normal((4, 3))
    m = rm.RLS(0.6, forget)
    for n in (1, 3, 15):
        state = in_pieces(m, m.init(4, 3, start=start), X[:n], Y[:n], rng)
        cov = np.diag(forget ** np.arange(1.0, n + 1)) + X[:n] @ X[:n].T / 0.6
        mean = X[:n] @ start
        direct = sum(multivariate_normal(mean[:, j], cov).logpdf(Y[:n, j]) for j in range(3))
        assert m.evidence(state) == pytest.approx(direct, rel=1e-10)
    assert m.evidence(m.init(4, 3)) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("forget", [0.9, 1.0, 1.1])
def test_the_evidence_is_the_sum_of_the_log_predictive_densities_along_the_stream(forget):
    rng = np.random.default_rng(13)
    X, y = rng.standard_normal((30, 5)), rng.standard_normal((30, 1))
    m = rm.RLS(0.8, forget)
    state, errors = m.track(m.init(5, 1), X, y)
    Phi, theta, total = np.eye(5) / 0.8, np.zeros((5, 1)), 0.0
    for t in range(30):  # the textbook recursion
        x, S = X[t], forget ** (t + 1) + X[t] @ Phi @ X[t]
        e = y[t] - x @ theta
        np.testing.assert_allclose(errors[t], e, atol=1e-9)
        total -= 0.5 * (np.log(2 * np.pi * S) + e.item() ** 2 / S)
        theta = theta + np.outer(Phi @ x / S, e)
        Phi = Phi - np.outer(Phi @ x, Phi @ x) / S
    assert m.evidence(state) == pytest.approx(total, rel=1e-9)
    assert relative(m.weights(state), theta) < 1e-8


def test_the_variance_is_that_of_the_predictive_distribution():
    rng = np.random.default_rng(14)
    X, start, new = rng.standard_normal((40, 5)), rng.standard_normal((5, 2)), rng.standard_normal((9, 5))
    Y = X @ rng.standard_normal((5, 2)) + rng.standard_normal((40, 2)) * [0.1, 2.0]
    m = rm.RLS(0.5)
    for n in (6, 40):
        state = m.update(m.init(5, 2, start=start), X[:n], Y[:n])
        W = oracle(X[:n], Y[:n], 0.5, start=start)
        J = 0.5 * np.sum((W - start) ** 2, axis=0) + np.sum((Y[:n] - X[:n] @ W) ** 2, axis=0)
        Phi = np.linalg.inv(0.5 * np.eye(5) + X[:n].T @ X[:n])
        expected = (1 + np.einsum("ij,jk,ik->i", new, Phi, new))[:, None] * (J / n)
        np.testing.assert_allclose(m.variance(state, new), expected, rtol=1e-10)


@pytest.mark.parametrize("forget", [0.9, 1.1])
def test_the_variance_of_a_direction_relative_to_another_knows_the_forgetting(forget):
    rng = np.random.default_rng(15)
    X, Y, new = rng.standard_normal((20, 4)), rng.standard_normal((20, 1)), rng.standard_normal((6, 4))
    m = rm.RLS(0.5, forget)
    state = m.update(m.init(4, 1), X, Y)
    i = np.arange(1, 21)
    Phi = np.linalg.inv(0.5 * np.eye(4) + (X / forget ** i[:, None]).T @ X) / forget**20  # in units of today's noise
    expected = 1 + np.einsum("ij,jk,ik->i", new, Phi, new)
    got = m.variance(state, new)[:, 0]
    np.testing.assert_allclose(got / got[0], expected / expected[0], rtol=1e-10)
    assert (got > 0).all()


@pytest.mark.parametrize("forget", [0.95, 1.0, 1.05])
def test_changing_the_ridge_afterwards_is_having_learned_with_it(forget):
    rng = np.random.default_rng(16)
    X, Y, start = rng.standard_normal((50, 6)), rng.standard_normal((50, 2)), rng.standard_normal((6, 2))
    m = rm.RLS(1.0, forget)
    state = in_pieces(m, m.init(6, 2, start=start), X[:40], Y[:40], rng, track=True)
    for ridge in (1e-6, 0.1, 100.0):
        other = rm.RLS(ridge, forget)
        changed = m.with_ridge(state, ridge)
        assert relative(m.weights(changed), oracle(X[:40], Y[:40], ridge, forget, start)) < 1e-9
        assert m.ridge_of(changed) == ridge
        assert m.loss(changed) == pytest.approx(other.loss(other.update(other.init(6, 2, start), X[:40], Y[:40])))
        later = m.update(changed, X[40:], Y[40:])
        assert relative(m.weights(later), oracle(X, Y, ridge, forget, start)) < 1e-9
    assert m.ridge_of(state) == 1.0


def test_the_loss_of_a_faded_stream_is_a_number():
    """Zero targets from a zero start: the loss is 0, however far βᵗ has gone."""
    m = rm.RLS(1.0, 0.5)
    X = np.random.default_rng(17).standard_normal((3000, 2))
    state = m.update(m.init(2, 1), X, np.zeros((3000, 1)))
    assert m.loss(state) == 0
    assert not np.isnan(m.evidence(state))


# ---------------------------------------------------------------- the ridge that the data choose


def test_the_automatic_ridge_recovers_the_one_the_weights_were_drawn_with():
    rng = np.random.default_rng(18)
    d, c, noise, ridge = 30, 40, 0.7, 5.0
    X = rng.standard_normal((200, d))
    Y = X @ (noise * rng.standard_normal((d, c)) / np.sqrt(ridge)) + noise * rng.standard_normal((200, c))
    m = rm.RLS("auto")
    assert m.ridge_of(m.update(m.init(d, c), X, Y)) == pytest.approx(ridge, rel=0.15)


def test_the_automatic_ridge_predicts_better_than_none_and_than_too_much():
    rng = np.random.default_rng(19)
    truth, X = rng.standard_normal((40, 5)) * 0.2, rng.standard_normal((60, 40))
    Y, new = X @ truth + rng.standard_normal((60, 5)), rng.standard_normal((2000, 40))
    errors = {}
    for ridge in ("auto", 1e-6, 1e6):
        m = rm.RLS(ridge)
        errors[ridge] = np.mean((m.predict(m.update(m.init(40, 5), X, Y), new) - new @ truth) ** 2)
    assert errors["auto"] < 0.7 * errors[1e-6] and errors["auto"] < errors[1e6]


# ---------------------------------------------------------------- forget = 0


@pytest.mark.parametrize(("n", "d"), [(3, 8), (8, 8), (40, 8)])
def test_forgetting_everything_is_icl_on_consistent_data(n, d):
    rng = np.random.default_rng(n)
    X, start = rng.standard_normal((n, d)), rng.standard_normal((d, 2))
    Y = X @ rng.standard_normal((d, 2))
    m, icl = rm.RLS(forget=0), rm.ICL()
    W = m.weights(in_pieces(m, m.init(d, 2, start=start), X, Y, rng))
    assert relative(W, icl.weights(icl.update(icl.init(d, 2, start=start), X, Y))) < 1e-10
    assert relative(W, start + np.linalg.pinv(X) @ (Y - X @ start)) < 1e-10
    if n < d:  # the limit β → 0 of the objective itself
        small = rm.RLS(1e-9, 0.05)
        assert relative(small.weights(small.update(small.init(d, 2, start=start), X, Y)), W) < 1e-3


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
def test_a_conflict_is_refused_with_advice_and_changes_nothing(size):
    rng = np.random.default_rng(20)
    X, Y = rng.standard_normal((5, 4)), size * rng.standard_normal((5, 1))
    m = rm.RLS(forget=0)
    state = m.update(m.init(4, 1), X[:4], Y[:4])
    before = m.weights(state).copy()
    for call in (m.update, m.track):
        with pytest.raises(rm.InputError, match="ICL") as caught:
            call(state, X[4:], Y[4:])
        assert "forget=1" in str(caught.value)
        with pytest.raises(rm.InputError):
            call(m.init(4, 1), X, Y)
    np.testing.assert_array_equal(m.weights(state), before)
    good = m.update(state, X[4:], X[4:] @ before)
    assert relative(m.weights(good), before) < 1e-9


def test_a_zero_row_must_have_a_zero_target_to_be_met_exactly():
    m = rm.RLS(forget=0)
    m.update(m.init(3, 1), np.zeros((1, 3)), np.zeros((1, 1)))
    with pytest.raises(rm.InputError):
        m.update(m.init(3, 1), np.zeros((1, 3)), np.ones((1, 1)))


@pytest.mark.parametrize("rows", [1, 3, 300])
@pytest.mark.parametrize("by_class", [False, True])
def test_donating_to_merge_changes_no_number(rows, by_class):
    rng, rls = np.random.default_rng(0), rm.RLS(0.1)

    def learned(seed):
        X, y = np.random.default_rng(seed).standard_normal((rows, 6)), rng.integers(0, 2, rows)
        state = rls.init(6, 2)
        return rls.update(rls.by_class(state) if by_class else state, X, np.eye(2)[y])

    a, b = learned(1), learned(2)
    W, twice = rls.weights(rls.merge(a, b)), rls.weights(rls.merge(a, a))
    kept = rls.update(a, np.ones((1, 6)), np.eye(2)[:1]) if rows == 1 else None  # shares the arrays of a
    before = None if kept is None else rls.weights(kept).copy()
    assert (rls.weights(rls.merge(copy.deepcopy(a), copy.deepcopy(b), donate=True)) == W).all()
    one = copy.deepcopy(a)
    assert (rls.weights(rls.merge(one, one, donate=True)) == twice).all()
    assert (rls.weights(rls.merge(a, b, donate=True)) == W).all()
    assert kept is None or (rls.weights(kept) == before).all()
