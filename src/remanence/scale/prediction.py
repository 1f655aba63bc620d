"""Predict on a cluster: one delayed array per partition."""

import uuid
from typing import Any

import numpy as np

from remanence.estimators.label_sets import answers
from remanence.scale.blocks import blocks_of, count_rows, row_batches
from remanence.scale.naming import naming


def predict(model: Any, data: Any) -> Any:
    """Predictions for a distributed data set, computed when asked for.

    Parameters
    ----------
    model : ContinualClassifier or ContinualRegressor
        Fitted.
    data : dask Array or DataFrame, list of delayed X, or names of files
        Columns as they were learned, without labels; further columns of files are ignored if the model knows names.

    Returns
    -------
    dask Array (n,) or (n, outputs)
        With the partitions of `data`.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import remanence as rm
    >>> model = rm.ContinualClassifier(rm.RLS()).fit(np.eye(4), ["a", "b", "a", "b"])
    >>> rm.scale.predict(model, da.eye(4, chunks=2)).compute()
    array(['a', 'b', 'a', 'b'], dtype='<U1')
    """
    import dask.array as da
    from dask import delayed
    from dask.highlevelgraph import HighLevelGraph

    like, blocks = _like(model), blocks_of(model, data, labelled=False)
    fitted = delayed(model, pure=True, traverse=False)
    ask = delayed(_predict, pure=True)
    parts = [ask(fitted, block.X, block.name, like) for block in blocks]
    # (not da.concatenate, which leaves out empty partitions)
    name, further = f"remanence-predict-{uuid.uuid4().hex[:12]}", (0,) * (like.ndim - 1)
    graph = HighLevelGraph.from_collections(
        name, {(name, i, *further): part.key for i, part in enumerate(parts)}, dependencies=parts
    )
    return da.Array(graph, name, (tuple(block.rows for block in blocks), *((n,) for n in like.shape[1:])), meta=like)


def _like(model: Any) -> Any:
    """Predictions for no rows: their dtype and number of outputs."""
    now = model._now()
    if hasattr(now, "classes_"):
        form = now._sets()
        none = np.empty((0, len(now.classes_)))
        return np.empty(0, now.classes_.dtype) if form is None else answers(none, now.classes_, form)
    template = now._method().template(now.state_)
    return np.empty(0 if now._flat else (0, template.shape[1]), template.dtype)


def _predict(model: Any, X: Any, name: str, like: Any) -> Any:
    with naming(name):
        found = [model.predict(rows) for rows in row_batches(X) if count_rows(rows)]
        return np.concatenate(found) if len(found) > 1 else found[0] if found else like
