"""The ridge solution from panels is that of the normal problem, stacked and solved by NumPy."""

import numpy as np
import pytest

from remanence.errors import NumericalError
from remanence.memory.ridge_solve import solve_with_prior
from remanence.memory.root import empty

TILE = 64  # features of a tile where there are many


def stacked(X, Y, ridge, start, unpenalized=0):
    """Least squares over the rows and the prior as further rows."""
    rows = np.sqrt(ridge) * np.eye(X.shape[1])[unpenalized:]
    return np.linalg.lstsq(np.vstack([X, rows]), np.vstack([Y, rows @ start]), rcond=None)[0]


@pytest.mark.parametrize("d", [1, 5, TILE - 1, TILE, TILE + 1, 2 * TILE, 3 * TILE + 7])
@pytest.mark.parametrize(("dtype", "allowed"), [(np.float64, 1e-12), (np.float32, 1e-4)])
def test_it_solves_the_stacked_problem(d, dtype, allowed):
    rng = np.random.default_rng(d)
    for n, unpenalized in ((d + 20, 0), (max(d // 2, 1), 0), (d + 20, min(d, 2))):
        X, Y, start = (rng.standard_normal(shape) for shape in ((n, d), (n, 3), (d, 3)))
        data = empty(d, 3, dtype).folded(X.astype(dtype), Y.astype(dtype))
        before = data.copy()
        W = solve_with_prior(data, 0.5, start, unpenalized)
        assert W.dtype == dtype and W.flags.c_contiguous
        np.testing.assert_allclose(W, stacked(X, Y, 0.5, start, unpenalized), atol=allowed * max(1, np.abs(W).max()))
        np.testing.assert_array_equal(data.factor, before.factor)
        np.testing.assert_array_equal(data.target, before.target)


def test_an_ill_conditioned_problem_keeps_the_digits_of_rotations():
    """Columns of sizes 1 to 1e-6, a ridge of 1e-14: the normal equations would have no digit left."""
    rng = np.random.default_rng(0)
    d = TILE + 30
    X = rng.standard_normal((3 * d, d)) * np.logspace(0, -6, d)
    Y, start = X @ np.ones((d, 1)), np.zeros((d, 1))
    data = empty(d, 1).folded(X, Y)
    W, V = solve_with_prior(data, 1e-14, start), data.with_prior(1e-14, start).solve()
    np.testing.assert_allclose(X @ W, X @ V, atol=1e-13)
    np.testing.assert_allclose(W, stacked(X, Y, 1e-14, start), rtol=1e-6)


def test_a_solution_that_overflows_is_refused():
    data = empty(3, 1).folded(np.eye(3) * 1e-200, np.full((3, 1), 1e150))
    with pytest.raises(NumericalError, match="singular in this precision"), np.errstate(all="ignore"):
        solve_with_prior(data, 0.0, np.zeros((3, 1)))
