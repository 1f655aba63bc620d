"""Unlearn on a cluster: the model goes from partition to partition, and lets go of the rows of each."""

import copy
from typing import Any

from remanence.scale.blocks import blocks_of, check_pair, count_rows, row_pairs
from remanence.scale.engine import computed
from remanence.scale.learning import check_mergeable
from remanence.scale.naming import naming


def unlearn(model: Any, data: Any, labels: Any = None, *, client: Any = None) -> Any:
    """Remove the rows of a distributed data set from a model.

    Partitions are removed one after the other, on a worker, so that memory is bounded by the largest one.

    Parameters
    ----------
    model : ContinualClassifier or ContinualRegressor
    data, labels, client
        As for `fit`.

    Returns
    -------
    ContinualClassifier or ContinualRegressor
        A copy of `model` that never saw the rows; `model` itself is not changed.

    Examples
    --------
    >>> import dask.array as da
    >>> import remanence as rm
    >>> X = da.random.default_rng(0).standard_normal((300, 4), chunks=(100, 4))
    >>> y = X @ [1.0, 2.0, 3.0, 4.0]
    >>> model = rm.scale.fit(rm.ContinualRegressor(rm.RLS()), X, y)
    >>> rm.scale.unlearn(model, X[:100], y[:100]).n_seen_
    200
    """
    from dask import delayed

    check_mergeable(model)
    remove = delayed(_remove, pure=True)
    left = delayed(model, pure=True, traverse=False)
    for block in blocks_of(model, data, labels):
        left = remove(left, block.X, block.y, block.name)
    return computed(left, client, lambda found: found)


def _remove(model: Any, X: Any, y: Any, name: str) -> Any:
    """On a worker: the model without a block; the one that comes in is not changed, because a task may run twice."""
    left = copy.copy(model)
    with naming(name):
        for rows, labels in row_pairs(X, y):
            check_pair(rows, labels)
            if count_rows(rows):
                left.unlearn(rows, labels)
    return left
