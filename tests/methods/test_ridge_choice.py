"""The automatic ridge: its criterion from the rows themselves, how well it predicts, and that it never explodes."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from sklearn.linear_model import RidgeCV
from threadpoolctl import threadpool_info, threadpool_limits

import remanence as rm
from remanence.methods import ridge_choice
from remanence.methods.ridge import left_out_errors as by_rows
from remanence.methods.ridge.general_position import left_out_errors

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the experiments live beside the package, not in it

from experiments.automatic_ridge import problem, ratio


def rotated_error(X, Y, ridge):
    """The leave-one-out error as (G2), by adaptive quadrature over the eigenvalues of the shrinkage of all rows."""
    n = len(X)
    k, U = np.linalg.eigh(np.linalg.inv(np.eye(n) + X @ X.T / ridge))
    power = (U.T @ Y) ** 2

    def integrand(x, j):
        t = np.exp(x)
        return t * t * np.sum(k**2 * power[:, j] / (1 + 2 * k * t)) * np.exp(-0.5 * np.log1p(2 * k * t).sum())

    middle = -np.log(k.sum())
    parts = [(middle - 12, middle), (middle, middle + 5), (middle + 5, middle + 40)]
    return (n - 2) * np.array([sum(quad(integrand, *p, args=(j,))[0] for p in parts) for j in range(Y.shape[1])])


def criteria(X, Y, ridge):
    """Predicted error with the guard, and log evidence, from the hat matrix of all rows."""
    n, d = X.shape
    G = X.T @ X
    inverse = np.linalg.inv(G + ridge * np.eye(d))
    hat = X @ inverse @ X.T
    left = Y - hat @ Y
    noise = np.einsum("ij,ij->j", Y, left) / n
    many = n >= d + ridge_choice.MANY
    error = n * (left**2).sum(axis=0) / (n - np.trace(hat)) ** 2 if many else rotated_error(X, Y, ridge)
    leverage = (G.diagonal() / n * inverse.diagonal()).max()
    variance = (Y**2).sum(axis=0) / n
    cost = (error / variance + ridge_choice.SHARE * np.maximum(noise * leverage / variance - 1, 0)).sum()
    S = np.eye(n) + X @ X.T / ridge
    return cost, -0.5 * (n * np.log(noise).sum() + Y.shape[1] * np.linalg.slogdet(S)[1])


PROBLEMS = [(30, 6, 1, 0.3), (60, 10, 3, 1.0), (25, 20, 2, 0.5), (100, 3, 5, 3.0), (300, 8, 2, 5.0)]


@pytest.mark.parametrize("n, d, c, noise", PROBLEMS)
def test_the_automatic_ridge_has_the_best_criterion(n, d, c, noise):
    rng = np.random.default_rng(n)
    X, start = rng.standard_normal((n, d)), rng.standard_normal((d, c))
    gap = X @ rng.standard_normal((d, c)) + noise * rng.standard_normal((n, c))
    m = rm.RLS("auto")
    state = m.init(d, c, start=start)
    for part in np.array_split(np.arange(n), 4):
        state = m.update(state, X[part], (X @ start + gap)[part])
    found = m.ridge_of(state)
    grid = np.linalg.norm(X, 2) ** 2 * np.logspace(-6, 3, 150)
    cost, evidence = np.array([criteria(X, gap, g) for g in grid]).T
    mine, own = criteria(X, gap, found)
    good = cost <= (1 + 1 / n) * cost.min()
    assert mine <= (1 + 1 / n) * cost.min() * (1 + 1e-4)  # (the criterion is tried at some ridges only)
    assert own >= evidence[good].max() - 0.3  # (the edge of what is as good lies between two points)


@pytest.mark.parametrize("n, spread", [(9, 0.0), (9, 2.0), (14, 1.0)])
def test_rows_in_general_position_have_the_mean_error_of_all_rotated_rows(n, spread):
    rng = np.random.default_rng(n)
    d, ridges = 8, np.array([1e-4, 1e-2, 1.0, 10.0])
    X = rng.standard_normal((n, d)) * np.logspace(0, -spread, d)
    Y = X @ rng.standard_normal((d, 2)) + 0.1 * rng.standard_normal((n, 2))
    U, s, _ = np.linalg.svd(X, full_matrices=False)
    power = (U.T @ Y) ** 2
    rest = np.maximum((Y**2).sum(axis=0) - power.sum(axis=0), 0)
    found = left_out_errors(ridges[:, None] / (s**2 + ridges[:, None]), power, rest, n)
    hats = [X @ np.linalg.solve(X.T @ X + ridge * np.eye(d), X.T) for ridge in ridges]
    for j, hat in enumerate(hats):
        Q = np.linalg.qr(rng.standard_normal((6000, n, n)))[0]
        Q *= rng.choice([-1.0, 1.0], (6000, 1, n))
        leverage = np.einsum("qij,jk,qik->qi", Q, hat, Q, optimize=True)
        errors = (((Q @ (Y - hat @ Y)) / (1 - leverage)[:, :, None]) ** 2).mean(axis=1)
        assert (abs(found[j] - errors.mean(axis=0)) < 5 * errors.std(axis=0) / 6000**0.5).all()


def test_a_fit_through_all_rows_is_not_taken_for_a_good_one():
    rng = np.random.default_rng(4)
    ratios = []
    for _ in range(20):  # as many rows as features, and nothing to learn: one direction tells of a small ridge
        X, y, X_test, y_test = (rng.standard_normal(shape) for shape in ((60, 60), 60, (1000, 60), 1000))
        models = rm.ContinualRegressor(rm.RLS("auto")).fit(X, y), RidgeCV(np.logspace(-10, 5, 61)).fit(X, y)
        ours, theirs = (np.mean((model.predict(X_test) - y_test) ** 2) for model in models)
        ratios.append(ours / theirs)
    assert np.exp(np.log(ratios).mean()) < 1.05  # (generalized cross-validation: 1.63)


def nearly_constant(rng, rows, broken):
    """Columns like those of UCI *elevators*: some are equal but for a trace that helps, until they are not."""
    common = rng.standard_normal((rows, 4))
    trace = rng.standard_normal(rows)
    X = np.column_stack([common, common[:, 0] + 1e-5 * trace, np.zeros(rows), common[:, 1]])
    y = common @ [1.0, -1.0, 0.5, 0.2] + 0.15 * trace + 0.7 * rng.standard_normal(rows)
    X[broken, 4] = rng.standard_normal(len(broken))
    X[broken, 5] = 1.0
    return X, y


def test_columns_that_were_constant_and_then_are_not_do_not_ruin_the_predictions():
    rng = np.random.default_rng(0)
    X, y = nearly_constant(rng, 3000, np.array([], int))
    X_test, y_test = nearly_constant(rng, 1000, rng.choice(1000, 20, replace=False))
    spread = X.std(axis=0)
    scaled, scaled_test = ((A - X.mean(axis=0)) / np.where(spread > 0, spread, 1) for A in (X, X_test))
    for learned, asked in ((X, X_test), (scaled, scaled_test)):
        model = rm.ContinualRegressor(rm.RLS("auto")).fit(learned, y)
        assert model.score(asked, y_test) > 0.7
        tiny = rm.ContinualRegressor(rm.RLS(2.5e-8)).fit(learned, y)  # what the evidence alone prefers
        assert tiny.score(asked, y_test) < -100


@pytest.mark.parametrize("seed", range(12))
def test_the_automatic_ridge_predicts_as_well_as_leave_one_out(seed):
    assert ratio(seed) < 1.05, problem(seed)[0]


@pytest.mark.sweep
def test_on_all_problems():
    found = np.array([ratio(seed) for seed in range(200)])
    assert np.median(found) < 1.001 and np.exp(np.log(found).mean()) < 0.95
    assert (found > 1.05).sum() <= 6 and found.max() < 1.15


@pytest.mark.parametrize(("d", "ridge"), [(300, "auto"), (20, "auto"), (20, "loo")])
def test_a_ridge_is_chosen_on_one_thread_of_blas(d, ridge, monkeypatch):
    """Its small products would wait for each other on a busy machine, and round by the number of threads."""
    seen = []
    for module, name in (
        (ridge_choice, "_without_eigenvectors"),
        (ridge_choice, "chosen_ridge"),
        (by_rows, "_best"),
    ):
        monkeypatch.setattr(module, name, _counting_threads(getattr(module, name), seen))
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((1000, d)), rng.standard_normal((1000, 1))
    with threadpool_limits(2):
        method = rm.RLS(ridge)
        method.weights(method.update(method.init(d, 1), X, y))
    assert set(seen) == {1}


def _counting_threads(function, seen):
    def counting(*values):
        seen.extend(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
        return function(*values)

    return counting
