"""The automatic ridge: its criterion from the rows themselves, how well it predicts, and that it never explodes."""

import sys
from pathlib import Path

import numpy as np
import pytest

import remanence as rm
from remanence.methods import ridge_choice

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the experiments live beside the package, not in it

from experiments.automatic_ridge import problem, ratio


def criteria(X, Y, ridge):
    """Predicted error with the guard, and log evidence, from the hat matrix of all rows."""
    n, d = X.shape
    G = X.T @ X
    inverse = np.linalg.inv(G + ridge * np.eye(d))
    hat = X @ inverse @ X.T
    left = Y - hat @ Y
    noise = np.einsum("ij,ij->j", Y, left) / n
    error = n * (left**2).sum(axis=0) / (n - np.trace(hat)) ** 2
    leverage = (G.diagonal() / n * inverse.diagonal()).max()
    cost = ((error + ridge_choice.SHARE * noise * leverage) * n / (Y**2).sum(axis=0)).sum()
    S = np.eye(n) + X @ X.T / ridge
    return cost, -0.5 * (n * np.log(noise).sum() + Y.shape[1] * np.linalg.slogdet(S)[1])


@pytest.mark.parametrize("n, d, c, noise", [(30, 6, 1, 0.3), (60, 10, 3, 1.0), (25, 20, 2, 0.5), (100, 3, 5, 3.0)])
def test_the_automatic_ridge_has_the_best_criterion(n, d, c, noise):
    rng = np.random.default_rng(n)
    X, start = rng.standard_normal((n, d)), rng.standard_normal((d, c))
    gap = X @ rng.standard_normal((d, c)) + noise * rng.standard_normal((n, c))
    m = rm.RLS("auto")
    state = m.init(d, c, start=start)
    for part in np.array_split(np.arange(n), 4):
        state = m.update(state, X[part], (X @ start + gap)[part])
    found = m.ridge_of(state)
    grid = np.linalg.norm(X, 2) ** 2 * np.logspace(-8, 4, 400)
    cost, evidence = np.array([criteria(X, gap, g) for g in grid]).T
    mine, own = criteria(X, gap, found)
    good = cost <= (1 + ridge_choice.FLAT) * cost.min()
    assert mine <= (1 + ridge_choice.FLAT) * cost.min() * (1 + 1e-6)
    assert own >= evidence[good].max() - 0.3  # (the edge of what is as good lies between two points)


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
    assert (found > 1.05).sum() <= 8 and found.max() < 1.6
