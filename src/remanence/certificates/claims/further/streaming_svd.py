"""Claims about the streaming singular value decomposition: blocks of rows give what all rows at once give.

The singular values and the mean square of the rows determine ‖X v‖ for every direction v; the projector VᵀV of all
directions determines which ones were seen.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference, rounding
from remanence.certificates.instances.data import Generator, Instance


def blocks_of_rows(rng: Generator) -> Iterator[Instance]:
    """Rows with a mean, more or fewer than columns, columns of scales from 1e-3 to 1e3, and a place to cut them."""
    while True:
        n, d = int(rng.integers(4, 60)), int(rng.integers(2, 20))
        X = (rng.standard_normal((n, d)) + rng.standard_normal(d)) * 10 ** rng.uniform(-3, 3, d)
        yield {"X": X, "cuts": sorted(rng.integers(1, n, 3).tolist())}


def _second_moment(svd: Any) -> Array:
    return np.asarray((svd.components_.T * svd.singular_values_**2) @ svd.components_)


def _evidence(svd: Any, X: Array) -> Evidence:
    """Mean, singular values and second moment of the components, each relative to its size."""
    centred = X - X.mean(axis=0)
    s = np.linalg.svd(centred, compute_uv=False)
    found = np.zeros_like(s)
    found[: min(len(s), len(svd.singular_values_))] = svd.singular_values_[: len(s)]
    off = (
        difference(found, s),
        difference(_second_moment(svd), centred.T @ centred),
        difference(svd.mean_, X.mean(axis=0)),
    )
    return Evidence(max(off), rounding(1.0, 4 * X.size), (f"{len(X)} rows, {X.shape[1]} columns",))


def _new() -> Any:
    from remanence.estimators import StreamingSVD

    return StreamingSVD()


@claim(
    "The streaming SVD of blocks of rows is the SVD of all rows around their mean",
    source="Brand (2002); Ross et al. (2008); subspace tracking in Table 1",
    instances=blocks_of_rows,
    conditions=("full rank",),
)
def streaming_svd_is_the_svd_of_all_rows(X: Array, cuts: list[int], method: Any = None) -> Evidence:
    """Learned block by block, against NumPy's SVD of all rows."""
    from sklearn.base import clone

    svd = clone(method or _new())
    for part in np.split(X, cuts):
        if len(part):
            svd.partial_fit(part)
    return _evidence(svd, X)


@claim(
    "Merging two streaming SVDs is learning the rows of both",
    source="Brand (2002)",
    instances=blocks_of_rows,
    conditions=("full rank",),
)
def merged_svds_are_the_svd_of_all_rows(X: Array, cuts: list[int], method: Any = None) -> Evidence:
    """Two halves learned apart and merged, against NumPy's SVD of all rows."""
    from sklearn.base import clone

    one, other = (clone(method or _new()).fit(part) for part in np.split(X, cuts[:1]))
    return _evidence(one.merge(other), X)
