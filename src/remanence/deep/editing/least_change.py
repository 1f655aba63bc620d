"""The smallest change of a matrix that meets edits, in coordinates in which small means: preserved answers stay.

    minimise ‖E‖² + Σᵢ wᵢ ‖aᵢᵀE − tᵢ‖²          aᵢ: a key in these coordinates, tᵢ: by how much its answer changes
    E = Aᵀ α,   (A Aᵀ + B) α = T,   B = diag(1/wᵢ), 0 for an edit that is met exactly                      (E1)

It depends on the edits in force alone. So an edit is undone by leaving it out, with nothing left to be subtracted.
What leaving out the rows J changes follows from the whole problem:

    E − E without J = Aᵀ P[:, J] P[J, J]⁻¹ α[J],   P = (A Aᵀ + B)⁻¹                                           (E2)
"""

from collections.abc import Iterator, Sequence

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError

REFINEMENTS = 2  # steps that win back the digits which forming A Aᵀ has cost
SEEN = 1e-8  # the least share of a row that those before it may leave, before A Aᵀ has too few digits for it
MET = 1e-6  # by how much, relative to the largest change, an exact edit may be missed before it counts as a conflict


def least_change(A: Array, T: Array, weights: Array) -> Array:
    """E (d, c) of edits with keys A (n, d), changes T (n, c) and weights (n,), infinite where they are exact (E1)."""
    if not len(A):
        return np.zeros((A.shape[1], T.shape[1]))
    B = 1 / weights
    solved = _solved(A, T, B)
    return _orthogonal(A, T, B) if solved is None else np.asarray(A.T @ solved[1])


def effects(A: Array, T: Array, weights: Array, groups: Sequence[Array]) -> Iterator[tuple[Array, Array]]:
    """Two factors, (d, k) and (k, c), of E minus what it were without each group of rows (E2)."""
    solved = _solved(A, T, 1 / weights)
    if solved is None:  # P need not exist
        whole = least_change(A, T, weights)
        for rows in groups:
            others = np.setdiff1d(np.arange(len(A)), rows)
            yield whole - least_change(A[others], T[others], weights[others]), np.eye(T.shape[1])
        return
    from scipy.linalg import cho_solve

    factor, alpha = solved
    P = cho_solve(factor, np.eye(len(A)))
    for rows in groups:
        yield A.T @ P[:, rows], np.linalg.solve(P[np.ix_(rows, rows)], alpha[rows])


def _solved(A: Array, T: Array, B: Array) -> tuple[tuple[Array, bool], Array] | None:
    """The Cholesky factor of A Aᵀ + B, and α; None where rows are too dependent for their weights."""
    from scipy.linalg import cho_factor, cho_solve

    if (B == 0).any():
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        gram = A @ A.T
    gram[np.diag_indices_from(gram)] += B
    size = np.diag(gram).copy()
    if not np.isfinite(gram).all():
        return None
    try:
        factor = cho_factor(gram, lower=True, overwrite_a=True)
    except np.linalg.LinAlgError:
        return None
    if (np.diag(factor[0]) ** 2 < SEEN * size).any():
        return None
    alpha = cho_solve(factor, T)
    for _ in range(REFINEMENTS):
        left = T - A @ (A.T @ alpha) - B[:, None] * alpha
        alpha += cho_solve(factor, left)
    return factor, alpha


def _orthogonal(A: Array, T: Array, B: Array) -> Array:
    """Some edits are met exactly, or nearly; rows that are combinations of others are allowed where they agree.

    Edits with a weight get a slack variable of their own: [A √B] [E; s] = T has the least-norm solution wanted. Rows
    are scaled alike first, so that none counts as rounding because its key is small or its weight tiny.
    """
    from scipy.linalg import lstsq

    soft = np.flatnonzero(B)
    size = np.maximum(np.abs(A).max(axis=1), np.sqrt(B))
    size = np.where(size > 0, size, 1.0)[:, None]
    slack = np.zeros((len(A), len(soft)))
    slack[soft, np.arange(len(soft))] = np.sqrt(B[soft]) / size[soft, 0]
    found = lstsq(np.hstack([A / size, slack]), T / size, cond=len(A) * np.finfo(float).eps, lapack_driver="gelsd")[0]
    E = np.asarray(found[: A.shape[1]])
    exact = B == 0
    unit = np.abs(T).max() or 1.0  # no square overflows
    missed = np.linalg.norm((A[exact] @ E - T[exact]) / unit, axis=1)
    if (missed > MET * np.linalg.norm(T / unit, axis=1).max()).any():
        raise InputError(
            "these exact edits contradict each other, or ask for a change along keys that are preserved exactly: their "
            "keys depend on each other and their values do not fit; undo one of them, give a weight, or use "
            'preserve="soft"'
        )
    return E
