"""The dictionary of tasks: its codes are lasso solutions, its atoms a ridge solution, and old tasks may change."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import Lasso, Ridge

import remanence as rm
from remanence.methods.dictionary.sparse_code import sparse_code


def tasks(count=8, d=6, k=3, rows=12, noise=0.1, seed=0, c=1):
    rng = np.random.default_rng(seed)
    atoms, found = rng.standard_normal((d, k)), []
    for _ in range(count):
        code = rng.standard_normal((k, c)) * (rng.permutation(k)[:, None] < 2)
        X = rng.standard_normal((rows, d))
        found.append((X, X @ atoms @ code + noise * rng.standard_normal((rows, c))))
    return found


def learned(method, stream):
    state = method.init(stream[0][0].shape[1], stream[0][1].shape[1])
    for X, Y in stream:
        state = method.update(state, X, Y)
    return state


def objective(method, stream, atoms, codes):
    """The batch problem, from the samples themselves."""
    fits = sum(np.sum((Y - X @ atoms @ code) ** 2) for (X, Y), code in zip(stream, codes, strict=True))
    return fits + method.sparsity * np.abs(codes).sum() + method.ridge * np.sum(atoms**2)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1e-6, 1.0, 1e6]), st.floats(1e-4, 10))
def test_codes_are_those_of_the_lasso(seed, scale, penalty):
    rng = np.random.default_rng(seed)
    m, k = int(rng.integers(1, 12)), int(rng.integers(1, 6))
    A, z = scale * rng.standard_normal((m, k)), rng.standard_normal(m)
    s = sparse_code(A, z, penalty * scale)
    slope = 2 * A.T @ (z - A @ s)  # the conditions of a minimum of ‖z − As‖² + μ‖s‖₁
    used = s != 0
    np.testing.assert_allclose(slope[used], penalty * scale * np.sign(s[used]), rtol=1e-7)
    assert (np.abs(slope[~used]) <= penalty * scale * (1 + 1e-7)).all()


def test_codes_of_scikit_learn():
    rng = np.random.default_rng(0)
    A, z = rng.standard_normal((30, 5)), rng.standard_normal(30)
    lasso = Lasso(alpha=2.0 / 60, fit_intercept=False, tol=1e-14, max_iter=10**6).fit(A, z)
    np.testing.assert_allclose(sparse_code(A, z, 2.0), lasso.coef_, atol=1e-9)
    assert not sparse_code(A, z, 1e6).any()
    assert not sparse_code(np.zeros((3, 2)), np.ones(3), 1.0).any()
    same = sparse_code(np.ones((4, 2)), np.ones(4), 0.5)  # columns that are alike
    assert same.sum() == pytest.approx(1 - 0.25 / 4)


@pytest.mark.parametrize("c", [1, 2])
def test_atoms_are_the_ridge_solution_over_all_samples(c):
    method, stream = rm.TaskDictionary(3, sparsity=0.05, ridge=0.2), tasks(c=c)
    state = learned(method, stream)
    rows = [np.kron(s[:, j], X) for (X, _), s in zip(stream, state.codes, strict=True) for j in range(c)]
    targets = [Y[:, j] for _, Y in stream for j in range(c)]
    ridge = Ridge(alpha=0.2, fit_intercept=False, tol=1e-14).fit(np.concatenate(rows), np.concatenate(targets))
    np.testing.assert_allclose(state.atoms.T.ravel(), ridge.coef_, atol=1e-9)
    assert method.loss(state) == pytest.approx(objective(method, stream, state.atoms, state.codes))


def test_refining_ends_where_a_general_optimiser_finds_little_better():
    method, stream = rm.TaskDictionary(3, sparsity=0.3, ridge=0.2), tasks(10)
    state = learned(method, stream)
    losses = [method.loss(state)]
    for _ in range(10):
        state = method.refined(state, 10)
        losses.append(method.loss(state))
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(losses))
    grams = [(X.T @ X, X.T @ Y[:, 0], float(Y[:, 0] @ Y[:, 0])) for X, Y in stream]

    def batch(v):  # s = p − q with p, q ≥ 0, so that the problem is smooth
        L, (p, q) = v[:18].reshape(6, 3), v[18:].reshape(2, 10, 3)
        value, by_L, by_s = 0.2 * np.sum(L**2) + 0.3 * (p + q).sum(), 0.4 * L, np.empty((10, 3))
        for t, (G, b, e) in enumerate(grams):
            w = L @ (p[t] - q[t])
            value, slope = value + w @ G @ w - 2 * w @ b + e, 2 * (G @ w - b)
            by_L, by_s[t] = by_L + np.outer(slope, p[t] - q[t]), L.T @ slope
        return value, np.concatenate([by_L.ravel(), (0.3 + by_s).ravel(), (0.3 - by_s).ravel()])

    S = state.codes[:, :, 0]
    here = np.concatenate([state.atoms.ravel(), np.maximum(S, 0).ravel(), np.maximum(-S, 0).ravel()])
    assert batch(here)[0] == pytest.approx(losses[-1])
    bounds = [(None, None)] * 18 + [(0, None)] * 60
    best = minimize(batch, here, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 5000}).fun
    assert best * (1 - 1e-9) <= losses[-1] <= best * 1.01


def test_models_are_recovered_and_few_rows_are_enough():
    stream = tasks(20, noise=0.0, rows=20, seed=3)
    method = rm.TaskDictionary(3, sparsity=1e-4, ridge=1e-6)
    state = method.refined(learned(method, stream), 5)
    rng = np.random.default_rng(0)
    W = state.atoms @ np.array([[1.0], [-1.0], [0.0]])
    X = rng.standard_normal((3, 6))
    more = method.update(state, X, X @ W)
    np.testing.assert_allclose(method.weights(more), W, atol=1e-2)
    alone = rm.RLS(1e-6).weights(rm.RLS(1e-6).update(rm.RLS(1e-6).init(6, 1), X, X @ W))
    assert np.abs(alone - W).max() > 0.1


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 11), st.sampled_from([1e-3, 1.0, 1e3]))
def test_a_task_in_two_parts_is_the_task(seed, cut, scale):
    stream = [(X * scale, Y) for X, Y in tasks(5, seed=seed)]
    method = rm.TaskDictionary(3, sparsity=0.05 * scale, ridge=0.1 * scale**2)
    (X, Y), before = stream[-1], learned(method, stream[:-1])
    whole = method.update(before, X, Y)
    parts = method.update(method.update(before, X[:cut], Y[:cut]), X[cut:], Y[cut:], task=4)
    close = {"rtol": 1e-6, "atol": 1e-7 * np.abs(method.weights(whole)).max()}
    np.testing.assert_allclose(method.weights(parts), method.weights(whole), **close)
    for t in range(4):
        np.testing.assert_allclose(method.weights(parts, t), method.weights(whole, t), **close)
    back = method.without_task(whole, 4)
    np.testing.assert_allclose(back.atoms, before.atoms, rtol=1e-6, atol=1e-7 * np.abs(before.atoms).max())


def test_rows_of_an_old_task_equal_a_refit_from_the_stored_statistics():
    method, stream = rm.TaskDictionary(3, sparsity=0.05), tasks(6)
    state = learned(method, stream)
    X, Y = tasks(1, seed=9)[0]
    state = method.update(state, X, Y, task=2)
    rows, targets = [], []
    for task, code in zip(state.tasks, state.codes, strict=True):
        rows.append(np.kron(code[:, 0], task.factor)), targets.append(task.target[:, 0])
    ridge = Ridge(alpha=0.1, fit_intercept=False, tol=1e-14).fit(np.concatenate(rows), np.concatenate(targets))
    np.testing.assert_allclose(state.atoms.T.ravel(), ridge.coef_, atol=1e-9)
    gram = stream[2][0].T @ stream[2][0] + X.T @ X
    np.testing.assert_allclose(state.tasks[2].factor.T @ state.tasks[2].factor, gram, atol=1e-10)
    back = method.remove(state, X, Y, task=2)
    np.testing.assert_allclose(back.tasks[2].factor.T @ back.tasks[2].factor, stream[2][0].T @ stream[2][0], atol=1e-9)


def test_old_tasks_are_taken_out_of_the_root_and_put_in_anew_hundreds_of_times():
    """Only their own rows are touched, which `lost` tells of; the atoms are those of all tasks' roots all the same."""
    method, stream, rng = rm.TaskDictionary(3, sparsity=0.05), tasks(8), np.random.default_rng(1)
    state = learned(method, stream)
    for _ in range(300):
        t = int(rng.integers(8))
        W = method.weights(state, t)
        X = rng.standard_normal((3, 6)) * 10 ** rng.uniform(-2, 1)
        state = method.update(state, X, X @ W + 0.1 * rng.standard_normal((3, 1)), task=t)
    assert state.whole.lost is not None
    rows = np.concatenate([np.kron(s[:, 0], r.factor) for r, s in zip(state.tasks, state.codes, strict=True)])
    targets = np.concatenate([r.target[:, 0] for r in state.tasks])
    A = np.vstack([rows, np.sqrt(0.1) * np.eye(18)])
    atoms = np.linalg.lstsq(A, np.append(targets, np.zeros(18)), rcond=None)[0].reshape(3, 6).T
    np.testing.assert_allclose(state.atoms, atoms, atol=1e-9 * np.abs(atoms).max())


@pytest.mark.parametrize("c", [1, 2])
def test_learning_the_same_tasks_again_gives_the_same_bits_and_leaves_old_states_alone(c):
    method, stream = rm.TaskDictionary(3), tasks(6, c=c)
    states = [method.init(6, c)]
    for X, Y in stream:
        states.append(method.update(states[-1], X, Y))
    seen = [method.weights(state).copy() for state in states]
    branch = method.update(method.without_task(states[4], 1), *stream[5], task=2)
    again = learned(method, stream)
    for t in range(6):
        np.testing.assert_array_equal(method.weights(again, t), method.weights(states[-1], t))
    for state, W in zip(states, seen, strict=True):
        np.testing.assert_array_equal(method.weights(state), W)
    assert not np.array_equal(branch.atoms, states[-1].atoms)


def test_the_order_of_tasks_decides_the_atoms_but_not_which_tasks_can_be_solved():
    """Atoms are taken by tasks as they come, so that another order is another local minimum of (T1)."""
    method, stream = rm.TaskDictionary(3, sparsity=1e-3, ridge=1e-3), tasks(20, noise=0.0, rows=20, seed=3)
    order = np.random.default_rng(1).permutation(20)
    one = method.refined(learned(method, stream), 20)
    two = method.refined(learned(method, [stream[i] for i in order]), 20)
    assert np.abs(one.atoms - two.atoms).max() > 0.1
    assert method.loss(two) == pytest.approx(method.loss(one), rel=0.05)
    for place, t in enumerate(order):
        X, Y = stream[t]
        for state, number in ((one, t), (two, place)):
            left = Y - method.predict(state, X, int(number))
            assert np.linalg.norm(left) < 0.01 * np.linalg.norm(Y)


def test_merging_learns_the_tasks_of_both():
    method, stream = rm.TaskDictionary(3), tasks(6, c=2)
    both = method.merge(learned(method, stream[:4]), learned(method, stream[4:]))
    whole = learned(method, stream)
    np.testing.assert_allclose(method.weights(both), method.weights(whole), atol=1e-10)
    with pytest.raises(rm.InputError, match="one shape"):
        method.merge(whole, method.init(2, 1))


def test_hard_data():
    for X, Y in [
        (np.ones((1, 1)), np.ones((1, 1))),
        (np.zeros((3, 2)), np.ones((3, 1))),
        (np.ones((5, 3)), np.zeros((5, 1))),
        (np.array([[1e6, 1e-6]] * 2), np.array([[1e6], [-1e6]])),
    ]:
        method = rm.TaskDictionary(2)
        state = method.update(method.init(X.shape[1], 1), X, Y)
        state = method.update(state, X, Y, task=0)
        assert np.isfinite(method.predict(state, X)).all()


@pytest.mark.parametrize("bad", [{"atoms": 0}, {"sparsity": 0}, {"sparsity": "a"}, {"ridge": -1}, {"ridge": np.nan}])
def test_bad_settings_are_refused(bad):
    with pytest.raises(rm.InputError, match=next(iter(bad))):
        rm.TaskDictionary(**bad)


def test_what_cannot_be_asked_is_refused():
    method = rm.TaskDictionary()
    state = learned(method, tasks(2))
    X, Y = tasks(1)[0]
    for call in (
        lambda: method.weights(state, 2),
        lambda: method.predict(state, X, -1),
        lambda: method.update(state, X, Y, task=3),
        lambda: method.update(state, X, Y, task="a"),
        lambda: method.without_task(state, 5),
    ):
        with pytest.raises(rm.InputError, match="task"):
            call()
    with pytest.raises(rm.InputError, match="learned before"):
        method.remove(state, 100 * X, Y, 0)
    with pytest.raises(rm.InputError, match="float64"):
        method.init(2, 1, dtype=np.float32)


def test_saved_whole(tmp_path):
    method, stream = rm.TaskDictionary(3), tasks(4, c=2)
    state = method.without_task(learned(method, stream), 1)
    rm.save((method, state), tmp_path / "m")
    again, loaded = rm.load(tmp_path / "m")
    assert again == method and len(loaded.tasks) == 4
    np.testing.assert_array_equal(method.weights(loaded, 2), method.weights(state, 2))
    np.testing.assert_allclose(
        method.update(loaded, *stream[1], task=1).atoms, method.update(state, *stream[1], task=1).atoms, atol=1e-12
    )
