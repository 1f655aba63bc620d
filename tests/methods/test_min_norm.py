"""The batch problem: among all least-squares solutions, the one nearest the start."""

import numpy as np
import pytest

import remanence as rm


@pytest.mark.parametrize(("n", "d"), [(3, 8), (8, 8), (30, 8), (1, 1), (5, 1)])
@pytest.mark.parametrize("rank", [1, 2, 8])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_it_is_a_least_squares_solution_and_the_nearest_one(n, d, rank, noise):
    rng = np.random.default_rng([n, d, rank])
    X = rng.standard_normal((n, min(rank, d))) @ rng.standard_normal((min(rank, d), d))
    Y, start = X @ rng.standard_normal((d, 2)) + noise * rng.standard_normal((n, 2)), rng.standard_normal((d, 2))
    W = rm.min_norm(X, Y, start)
    scale = np.linalg.norm(X) ** 2 * np.linalg.norm(W) + np.linalg.norm(X.T @ Y)
    assert np.linalg.norm(X.T @ (Y - X @ W)) <= 1e-12 * scale  # the normal equations
    null = np.linalg.svd(X)[2][np.linalg.matrix_rank(X) :]
    assert np.linalg.norm(null @ (W - start)) <= 1e-10  # the change has no part that X cannot see
    np.testing.assert_allclose(rm.min_norm(X, Y), np.linalg.pinv(X, rcond=1e-11) @ Y, rtol=1e-8, atol=1e-9)


def test_it_leaves_its_arguments_alone():
    X, Y, start = np.ones((3, 2)), np.ones((3, 1)), np.zeros((2, 1))
    rm.min_norm(X, Y, start)
    assert (X == 1).all() and (Y == 1).all() and (start == 0).all()


def test_small_singular_values_of_ill_conditioned_data_are_not_thrown_away():
    rng = np.random.default_rng(0)
    U, V = np.linalg.qr(rng.standard_normal((20, 6)))[0], np.linalg.qr(rng.standard_normal((6, 6)))[0]
    X, truth = U * np.logspace(0, -9, 6) @ V.T, rng.standard_normal((6, 1))
    np.testing.assert_allclose(rm.min_norm(X, X @ truth), truth, rtol=1e-5)
