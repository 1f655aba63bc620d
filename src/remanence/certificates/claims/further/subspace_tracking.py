"""Claims about subspaces from rows with gaps: what PETRELS solves, and how GROUSE moves.

Both are checked against the basis they had before each row, so that rounding of one row is not blamed on the next.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference, rounding
from remanence.certificates.instances.data import Generator, Instance

RANK, FORGET, RIDGE, STEP = 2, 0.95, 0.1, 0.7


def rows_with_gaps(rng: Generator) -> Iterator[Instance]:
    """Noisy rows near a subspace: without gaps first, then with a share of them missing."""
    missing = 0.0
    while True:
        n, d = int(rng.integers(10, 40)), int(rng.integers(4, 12))
        X = rng.standard_normal((n, RANK)) @ rng.standard_normal((RANK, d)) + 0.1 * rng.standard_normal((n, d))
        yield {"X": np.where(rng.random(X.shape) < missing, np.nan, X)}
        missing = float(rng.uniform(0.1, 0.5))


def _fit(A: Array, b: Array) -> Array:
    return np.asarray(np.linalg.lstsq(A, b, rcond=1e-9)[0])


@claim(
    "PETRELS holds the weighted least-squares solution of every column over the rows in which it was there",
    source="Chi, Eldar and Calderbank (2013), equation 8; subspace tracking in Table 1",
    instances=rows_with_gaps,
)
def petrels_solves_least_squares_per_column(X: Array, method: Any = None) -> Evidence:
    """Row by row; then every column's problem is solved at once, with the coordinates that were used."""
    from remanence.estimators import PETRELS

    tracker = method or PETRELS(RANK, FORGET, RIDGE)
    first = np.linalg.qr(np.random.default_rng(tracker.seed).standard_normal((X.shape[1], RANK)))[0]
    basis, used = first, []
    for t, x in enumerate(X):
        there = ~np.isnan(x)
        used.append(_fit(basis[there], x[there]))
        tracker = (tracker.partial_fit if t else tracker.fit)(x[None])
        basis = tracker.loadings_
    weights, A = FORGET ** np.arange(len(X) - 1, -1, -1.0), np.array(used)
    prior = np.sqrt(RIDGE * FORGET ** len(X))
    expected, kappa = np.empty_like(basis), 1.0
    for j, column in enumerate(X.T):
        met = ~np.isnan(column)
        scale = np.sqrt(weights[met])
        rows = np.vstack([scale[:, None] * A[met], prior * np.eye(RANK)])
        expected[j] = _fit(rows, np.append(scale * column[met], prior * first[j]))
        kappa = max(kappa, float(np.linalg.cond(rows)))
    return Evidence(difference(basis, expected), rounding(kappa**2, 4 * X.size), (f"cond {kappa:.0e}",))


@claim(
    "GROUSE moves its subspace along the geodesic of the gradient of each row's squared error",
    source="Balzano, Nowak and Recht (2010), equation 6",
    instances=rows_with_gaps,
)
def grouse_moves_along_a_geodesic(X: Array, method: Any = None) -> Evidence:
    """Against the geodesic through the singular value decomposition of the tangent, after every row."""
    from remanence.estimators import GROUSE

    tracker, off = (method or GROUSE(RANK, STEP)).fit(X[:1]), 0.0
    for x in X[1:]:
        U, there = tracker.components_.T, ~np.isnan(x)
        w = _fit(U[there], x[there])
        r = np.where(there, np.nan_to_num(x) - U @ w, 0.0)
        left, s, right = np.linalg.svd(np.outer(r, w), full_matrices=False)  # the tangent, left · s · right
        far = STEP * np.arctan2(np.linalg.norm(r), np.linalg.norm(w)) / s[0] if s[0] > 0 else 0.0
        expected = (U @ right.T * np.cos(s * far) + left * np.sin(s * far)) @ right
        off = max(off, difference(tracker.partial_fit(x[None]).components_.T, expected))
    return Evidence(off, rounding(1.0, 4 * X.shape[1] * RANK), (f"{len(X)} rows, {X.shape[1]} columns",))
