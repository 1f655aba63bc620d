"""The test matrix of a sketch: columns that are equally large, and a second moment's inverse root."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from remanence.deep.nn.lowrank.starting_matrix import inverse_root, starting_matrix, whitening  # noqa: E402


@pytest.mark.parametrize("width", [20, 60])
def test_columns_are_orthonormal_on_the_first_rows(width):
    noise = np.random.default_rng(0)
    scales = np.logspace(0, -3, 60)
    X = torch.from_numpy(noise.standard_normal((200, 60)) * scales).float()
    T = (X @ starting_matrix(X, width)).double()
    np.testing.assert_allclose(T.mT @ T, np.eye(width), atol=1e-2)


def test_a_singular_moment_is_whitened_where_it_is_not_zero():
    A = torch.from_numpy(np.random.default_rng(0).standard_normal((5, 3)))
    M = A @ A.mT
    B = whitening(M)
    np.testing.assert_allclose(torch.linalg.eigvalsh(B.mT @ M @ B)[2:], 1, atol=1e-6)
    indefinite = M - 1e-3 * torch.eye(5, dtype=torch.float64)
    assert bool(whitening(indefinite).isfinite().all())


@pytest.mark.parametrize("rank", [3, 8])
def test_inverse_root_where_a_moment_is_not_rounding(rank):
    A = 10 * np.random.default_rng(0).standard_normal((8, rank))
    M = A @ A.T
    B = inverse_root(M)
    np.testing.assert_allclose(np.linalg.eigvalsh(B.T @ M @ B), [0.0] * (8 - rank) + [1.0] * rank, atol=1e-9)
    assert np.linalg.norm(B, 2) <= 10 * (1 + 1e-9), "errors of the sums are not amplified more than tenfold"
