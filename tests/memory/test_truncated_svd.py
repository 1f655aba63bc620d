"""Spectrum: the leading singular directions of all rows, and an honest account of what was dropped."""

import numpy as np
import pytest

from remanence.memory.truncated_svd import no_spectrum


def absorb(X, rank, block, outputs=0):
    s = no_spectrum(X.shape[1], outputs)
    for i in range(0, len(X), block):
        s = s.absorbed(X[i : i + block], np.zeros((len(X[i : i + block]), outputs)), rank)
    return s


@pytest.mark.parametrize("block", [1, 4, 30])
@pytest.mark.parametrize(("n", "d"), [(30, 6), (5, 12), (30, 30), (9, 1)])
def test_with_full_rank_it_is_the_singular_value_decomposition(n, d, block):
    rng = np.random.default_rng([n, d])
    X = rng.standard_normal((n, d))
    s = absorb(X, d + 5, block)
    values, V = np.linalg.svd(X, full_matrices=False)[1:]
    assert s.rank == min(n, d)
    np.testing.assert_allclose(s.strength, values, rtol=1e-11)
    np.testing.assert_allclose((s.basis * s.strength**2) @ s.basis.T, X.T @ X, atol=1e-10 * np.linalg.norm(X) ** 2)
    np.testing.assert_allclose(s.basis.T @ s.basis, np.eye(s.rank), atol=1e-12)
    assert s.dropped <= 1e-20 * np.linalg.norm(X) ** 2
    assert V.shape == (s.rank, d)


@pytest.mark.parametrize("block", [1, 3, 40])
def test_kept_and_dropped_energy_add_up_to_all_of_it(block):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 10)) * np.logspace(0, -2, 10)
    s = absorb(X, 4, block)
    total = np.sum(X**2)
    assert s.rank == 4
    assert np.sum(s.strength**2) + s.dropped == pytest.approx(total, rel=1e-12)
    best = np.sum(np.linalg.svd(X, compute_uv=False)[4:] ** 2)
    assert s.dropped >= best * (1 - 1e-12)
    if block == 40:
        assert s.dropped == pytest.approx(best, rel=1e-10)


def test_each_absorption_is_the_truncated_decomposition_of_what_was_kept_and_what_came():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((20, 7))
    s, M = no_spectrum(7, 0), np.zeros((0, 7))
    for x in X:
        s = s.absorbed(x[None], np.zeros((1, 0)), 3)
        _, values, V = np.linalg.svd(np.vstack([M, x[None]]), full_matrices=False)
        M = values[:3, None] * V[:3]
        np.testing.assert_allclose(s.strength, values[:3], rtol=1e-11)
        np.testing.assert_allclose((s.basis * s.strength).T.T @ (s.basis * s.strength).T, M.T @ M, atol=1e-11)


@pytest.mark.parametrize("d", [1, 3, 8])
def test_repeated_dependent_and_zero_rows_add_no_direction(d):
    rng = np.random.default_rng(3)
    pool = rng.standard_normal((min(3, d), d))
    X = pool[rng.integers(0, len(pool), 60)] * rng.uniform(-2, 2, (60, 1))
    X[::7] = 0
    s = absorb(X, d + 2, 1)
    assert np.linalg.norm(s.basis.T @ s.basis - np.eye(s.basis.shape[1])) < 1e-12, "not orthonormal"
    assert s.basis.shape[1] <= d
    seen = s.strength > 1e-10 * s.strength[0]
    assert seen.sum() == len(pool)
    np.testing.assert_allclose((s.basis * s.strength**2) @ s.basis.T, X.T @ X, atol=1e-10 * np.linalg.norm(X) ** 2)


def test_it_is_pure_and_keeps_float32():
    X = np.random.default_rng(4).standard_normal((6, 5)).astype(np.float32)
    s = no_spectrum(5, 0, np.float32).absorbed(X[:3], np.zeros((3, 0), np.float32), 2)
    before = s.basis.copy(), s.strength.copy()
    t = s.absorbed(X[3:], np.zeros((3, 0), np.float32), 2)
    np.testing.assert_array_equal(s.basis, before[0])
    np.testing.assert_array_equal(s.strength, before[1])
    assert t.basis.dtype == t.strength.dtype == np.float32


def test_targets_are_remembered_as_least_squares_needs_them():
    rng = np.random.default_rng(5)
    X, Y = rng.standard_normal((40, 6)), rng.standard_normal((40, 2))
    s = no_spectrum(6, 2)
    for i in range(0, 40, 7):
        s = s.absorbed(X[i : i + 7], Y[i : i + 7], 6)
    W = s.basis @ (s.target / s.strength[:, None])
    best = np.linalg.lstsq(X, Y, rcond=None)[0]
    np.testing.assert_allclose(W, best, rtol=1e-10)
    np.testing.assert_allclose(s.rest, np.sum((Y - X @ best) ** 2, axis=0), rtol=1e-10)
    assert s.kept() == pytest.approx(np.sum(X**2), rel=1e-12)
    swapped = s.with_outputs(np.array([1, -1, 0]))
    np.testing.assert_array_equal(swapped.target[:, [0, 2]], s.target[:, [1, 0]])
    assert not swapped.target[:, 1].any() and swapped.rest[1] == 0
