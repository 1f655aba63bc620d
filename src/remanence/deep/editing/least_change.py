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
MET = 1e-6  # by how much, relative to the largest change, an exact edit may be missed before it counts as a conflict


def least_change(A: Array, T: Array, weights: Array) -> Array:
    """E (d, c) of edits with keys A (n, d), changes T (n, c) and weights (n,), infinite where they are exact (E1)."""
    if not len(A):
        return np.zeros((A.shape[1], T.shape[1]))
    B = 1 / weights
    return _exact(A, T, B) if (B == 0).any() else _weighted(A, T, B)


def effects(A: Array, T: Array, weights: Array, groups: Sequence[Array]) -> Iterator[tuple[Array, Array]]:
    """Two factors, (d, k) and (k, c), of E minus what it were without each group of rows (E2)."""
    B = 1 / weights
    if (B == 0).any():  # P need not exist
        whole = least_change(A, T, weights)
        for rows in groups:
            others = np.setdiff1d(np.arange(len(A)), rows)
            yield whole - least_change(A[others], T[others], weights[others]), np.eye(T.shape[1])
        return
    from scipy.linalg import cho_solve

    factor, alpha = _solved(A, T, B)
    P = cho_solve(factor, np.eye(len(A)))
    for rows in groups:
        yield A.T @ P[:, rows], np.linalg.solve(P[np.ix_(rows, rows)], alpha[rows])


def _weighted(A: Array, T: Array, B: Array) -> Array:
    return np.asarray(A.T @ _solved(A, T, B)[1])


def _solved(A: Array, T: Array, B: Array) -> tuple[tuple[Array, bool], Array]:
    """The Cholesky factor of A Aᵀ + B, and α."""
    from scipy.linalg import cho_factor, cho_solve

    gram = A @ A.T
    gram[np.diag_indices_from(gram)] += B
    factor = cho_factor(gram, lower=True, overwrite_a=True)
    alpha = cho_solve(factor, T)
    for _ in range(REFINEMENTS):
        left = T - A @ (A.T @ alpha) - B[:, None] * alpha
        alpha += cho_solve(factor, left)
    return factor, alpha


def _exact(A: Array, T: Array, B: Array) -> Array:
    """Some edits are met exactly; rows that are combinations of others are allowed where they agree.

    Edits with a weight get a slack variable of their own: [A √B] [E; s] = T has the least-norm solution wanted.
    """
    from scipy.linalg import lstsq

    soft = np.flatnonzero(B)
    slack = np.zeros((len(A), len(soft)))
    slack[soft, np.arange(len(soft))] = np.sqrt(B[soft])
    found = lstsq(np.hstack([A, slack]), T, cond=len(A) * np.finfo(float).eps, lapack_driver="gelsd")[0]
    E = np.asarray(found[: A.shape[1]])
    exact = B == 0
    missed = np.linalg.norm(A[exact] @ E - T[exact], axis=1)
    if (missed > MET * np.linalg.norm(T, axis=1).max()).any():
        raise InputError(
            "these exact edits contradict each other, or ask for a change along keys that are preserved exactly: their "
            "keys depend on each other and their values do not fit; undo one of them, give a weight, or use "
            'preserve="soft"'
        )
    return E
