"""Sparse rows with a few dense ones added, and the truncated decomposition of them."""

import numpy as np
import pytest
import scipy.sparse as sparse

from remanence.memory.sparse.absorbing import absorbed_sparse, eliminated_sparse
from remanence.memory.sparse.sparse_rows import SparseRows, centred_rows, plain_rows
from remanence.memory.truncated_svd import eliminated, no_spectrum

RNG = np.random.default_rng(0)
S = sparse.random_array((20, 50), density=0.1, rng=RNG, format="csr")
A = SparseRows(S, RNG.standard_normal((20, 2)), RNG.standard_normal((2, 50)))


def test_products_are_those_of_the_dense_rows():
    D, M, N = A.dense(), RNG.standard_normal((50, 3)), RNG.standard_normal((20, 3))
    np.testing.assert_allclose(A @ M, D @ M, atol=1e-12)
    np.testing.assert_allclose(A.transposed_product(N), D.T @ N, atol=1e-12)
    np.testing.assert_allclose(A.gram(), D @ D.T, atol=1e-12)
    np.testing.assert_allclose(A[3:7].dense(), D[3:7])
    by = np.arange(20.0)
    np.testing.assert_allclose(A.scaled(by).dense(), D * by[:, None], atol=1e-14)
    offset = RNG.standard_normal(50)
    np.testing.assert_allclose(centred_rows(S, offset).dense(), np.c_[np.ones(20), S.toarray() - offset])


def test_eliminating_an_intercept_is_that_of_dense_rows():
    rows, Y = centred_rows(S, RNG.standard_normal(50)), RNG.standard_normal((20, 2))
    border = RNG.standard_normal((1, 53))
    thin = eliminated_sparse(border, rows, Y)
    for a, b in zip((thin[0], thin[1].dense(), thin[2]), eliminated(border, rows.dense(), Y), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("rank", [5, 12, 60])
def test_a_decomposition_is_that_of_dense_rows(rank):
    Y = RNG.standard_normal((20, 2))
    first = no_spectrum(50, 2).absorbed(RNG.standard_normal((8, 50)), RNG.standard_normal((8, 2)), rank)
    thin, thick = first.absorbed(A, Y, rank), first.absorbed(A.dense(), Y, rank)
    np.testing.assert_allclose(thin.strength, thick.strength, rtol=1e-12)
    np.testing.assert_allclose(thin.basis.T @ thin.basis, np.eye(thin.rank), atol=1e-13)
    np.testing.assert_allclose(thin.rows().T @ thin.target, thick.rows().T @ thick.target, atol=1e-10)
    np.testing.assert_allclose([thin.dropped, *thin.rest], [thick.dropped, *thick.rest], rtol=1e-10, atol=1e-12)


def test_rows_that_depend_on_each_other_have_to_be_dense():
    twice = plain_rows(sparse.vstack([S, S]).tocsr(), np.float64)
    spectrum = no_spectrum(50, 1)
    assert absorbed_sparse(spectrum.basis, spectrum.strength, twice, 50) is None
    found = spectrum.absorbed(twice, np.ones((40, 1)), 50)
    np.testing.assert_allclose(found.strength, np.linalg.svd(twice.dense())[1][: found.rank], rtol=1e-12)


def test_nearly_dependent_rows_are_decomposed_again_or_refused():
    D = RNG.standard_normal((10, 200)) * (RNG.random((10, 200)) < 0.2)
    for gap in (1e-1, 1e-2, 1e-3, 1e-5, 1e-7):
        D[1] = D[0]
        D[1, :40] += gap * (RNG.random(40) < 0.5)
        rows = plain_rows(sparse.csr_array(D), np.float64)
        spectrum = no_spectrum(200, 1).absorbed(rows, np.ones((10, 1)), 10)
        np.testing.assert_allclose(spectrum.strength, np.linalg.svd(D)[1], rtol=1e-11 / gap * 1e-2)
        np.testing.assert_allclose(spectrum.basis.T @ spectrum.basis, np.eye(10), atol=1e-13)
