"""Unlearn on a cluster: workers read the rows, and the model, which is in one place, lets go of them."""

import copy
from functools import partial
from typing import Any

from remanence.scale.blocks import DataBlock, blocks_of, check_pair
from remanence.scale.engine import computed
from remanence.scale.learning import check_mergeable
from remanence.scale.naming import naming


def unlearn(model: Any, data: Any, labels: Any = None, *, client: Any = None) -> Any:
    """Remove the rows of a distributed data set from a model.

    Partitions are brought one after the other, so that memory is bounded by the largest one.

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
    check_mergeable(model)
    return _without(copy.copy(model), blocks_of(data, labels), client)


def _without(model: Any, blocks: list[DataBlock], client: Any) -> Any:
    from dask import delayed

    pair = delayed(_pair, pure=True)
    for k, block in enumerate(blocks):
        done = computed(pair(block.X, block.y, block.name), client, partial(_remove, model, block.name))
        if done is not model:  # a coroutine: the other blocks follow in it
            return _without_later(done, model, blocks[k + 1 :], client)
    return model


async def _without_later(first: Any, model: Any, blocks: list[DataBlock], client: Any) -> Any:
    await first
    rest = _without(model, blocks, client)
    return rest if rest is model else await rest


def _pair(X: Any, y: Any, name: str) -> tuple[Any, Any]:
    with naming(name):
        check_pair(X, y)
        return X, y


def _remove(model: Any, name: str, pair: tuple[Any, Any]) -> Any:
    with naming(name):
        if len(pair[0]):
            model.unlearn(*pair)
    return model
