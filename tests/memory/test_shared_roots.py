"""Shared roots: the second moments of every column's own rows, one root per history of gaps."""

import numpy as np

from remanence.memory.gaps.shared_roots import shared_roots

rng = np.random.default_rng(0)
ROWS = rng.standard_normal((30, 3))


def test_every_column_has_the_root_of_the_rows_it_has_met():
    there = rng.random((30, 7)) < 0.6
    memory = shared_roots(7, 3, 0.1)
    for a, known in zip(ROWS, there, strict=True):
        memory, gains = memory.with_row(a, known, 0.9)
        assert not gains[~known].any()
    weights = 0.9 ** np.arange(29, -1, -1.0)
    for j in range(7):
        met = ROWS * np.sqrt(weights * there[:, j])[:, None]
        R = memory.roots[memory.owner[j]]
        np.testing.assert_allclose(R.T @ R, met.T @ met + 0.1 * 0.9**30 * np.eye(3), rtol=1e-12, atol=1e-13)
        if known[j]:
            np.testing.assert_allclose(gains[j], np.linalg.solve(R.T @ R, ROWS[-1]), rtol=1e-9)


def test_columns_share_a_root_until_their_gaps_differ():
    memory = shared_roots(6, 3, 1.0)
    memory, _ = memory.with_row(ROWS[0], np.ones(6, bool), 1.0)
    assert len(memory.roots) == 1
    memory, _ = memory.with_row(ROWS[1], np.array([1, 1, 0, 0, 1, 0], bool), 1.0)
    assert len(memory.roots) == 2 and len(set(memory.owner[[2, 3, 5]])) == len(set(memory.owner[[0, 1, 4]])) == 1
    memory, _ = memory.with_row(ROWS[2], np.zeros(6, bool), 1.0)
    assert len(memory.roots) == 3  # the first has met every row, though no column has
    np.testing.assert_allclose(memory.roots[0].T @ memory.roots[0], ROWS[:3].T @ ROWS[:3] + np.eye(3), rtol=1e-12)


def test_a_column_that_was_away_for_long_follows_its_next_rows():
    memory, w = shared_roots(2, 3, 1.0), np.zeros(3)
    true = np.array([1.0, -2.0, 3.0])
    for t in range(5000):
        a = ROWS[t % 30]
        memory, gains = memory.with_row(a, np.array([True, t >= 4990]), 0.5)
        w = w + gains[1] * (a @ true - a @ w)
        assert np.isfinite(gains).all() and np.abs(gains).max() < 1e3
    np.testing.assert_allclose(w, true, atol=1e-10)
