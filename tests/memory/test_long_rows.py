"""The strongest directions of few long rows, against the singular values of all of them."""

import numpy as np
import pytest

from remanence.memory.long_rows import absorbed_rows, orthonormal_rows
from remanence.memory.truncated_svd import no_spectrum

STREAMS = {
    "plain": lambda k, X, seen: X,
    "fading": lambda k, X, seen: X * 10.0 ** (-2 * k),
    "growing": lambda k, X, seen: X * 10.0 ** (2 * k - 6),
    "nearly dependent": lambda k, X, seen: np.vstack([X[:2], X[0] + 1e-8 * X[2], X[1] + 1e-6 * X[3], 1e-7 * X[4]]),
    "old rows again": lambda k, X, seen: seen[0] + 1e-9 * X if k else X,
    "nothing new": lambda k, X, seen: (seen[0] if k % 2 else 0 * X) if k else X,
}  # fmt: skip


@pytest.mark.parametrize("features", [40, 400], ids=["short", "long"])
@pytest.mark.parametrize("name", STREAMS)
def test_without_a_bound_every_direction_is_kept_whatever_its_strength(name, features):
    rng = np.random.default_rng(0)
    spectrum, seen = no_spectrum(features, 0), []
    for k in range(5):
        seen.append(STREAMS[name](k, rng.standard_normal((5, features)), seen))
        spectrum = absorbed_rows(spectrum, seen[-1], features)
    U, A = spectrum.basis, np.vstack(seen)
    lengths = np.linalg.norm(A, axis=1, keepdims=True)
    unit = A / np.where(lengths > 0, lengths, 1)
    np.testing.assert_allclose(U.T @ U, np.eye(spectrum.rank), rtol=0, atol=1e-14)
    np.testing.assert_allclose(unit @ U @ U.T, unit, rtol=0, atol=1e-13)
    exact = np.linalg.svd(A, compute_uv=False)
    np.testing.assert_allclose(
        np.sort(spectrum.strength)[::-1], exact[: spectrum.rank], rtol=1e-6, atol=1e-13 * exact[0]
    )
    assert spectrum.rank == np.linalg.matrix_rank(A, tol=1e-13 * exact[0])
    assert spectrum.dropped <= 1e-20 * exact[0] ** 2


@pytest.mark.parametrize("features", [40, 400], ids=["short", "long"])
def test_a_bound_keeps_the_strongest_and_what_is_let_go_bounds_what_is_missing(features):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, features)) * np.geomspace(1, 1e-3, features)
    spectrum = no_spectrum(features, 0)
    for rows in np.split(A, 6):
        spectrum = absorbed_rows(spectrum, rows, 8)
    assert spectrum.rank == 8
    missing = A - A @ spectrum.basis @ spectrum.basis.T
    exact = np.linalg.svd(A, compute_uv=False)
    assert (exact[8:] ** 2).sum() <= (missing**2).sum() <= spectrum.dropped * (1 + 1e-12)
    np.testing.assert_allclose(spectrum.kept() + spectrum.dropped, (A**2).sum())
    # letting go cannot be undone later, so it is not the best, but near it
    assert (missing**2).sum() < 1.3 * (exact[8:] ** 2).sum()


def test_rows_that_are_almost_orthonormal_become_so_in_their_own_span():
    rng = np.random.default_rng(0)
    exact = np.linalg.qr(rng.standard_normal((50, 6)))[0].T
    B = exact + 1e-5 * rng.standard_normal((6, 6)) @ exact
    found = orthonormal_rows(B)
    np.testing.assert_allclose(found @ found.T, np.eye(6), rtol=0, atol=1e-14)
    np.testing.assert_allclose(found.T @ found, exact.T @ exact, rtol=0, atol=1e-14)
    assert orthonormal_rows(np.zeros((0, 5))).shape == (0, 5)
