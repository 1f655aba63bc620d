"""Evaluate on a cluster: confusion counts or sums of errors per partition, added up in the order of partitions."""

from collections import Counter
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.label_sets import SETS, answers
from remanence.labels import check_same_kind
from remanence.scale.blocks import blocks_of, check_pair, count_rows, row_pairs
from remanence.scale.engine import computed
from remanence.scale.naming import naming
from remanence.store.jobs.evaluate import ErrorSums, Evaluation, SetCounts, confusion_matrix


def evaluate(model: Any, data: Any, labels: Any = None, *, client: Any = None) -> Evaluation:
    """Compare predictions with the true labels or targets of a distributed data set.

    Parameters
    ----------
    model : ContinualClassifier or ContinualRegressor
    data, labels, client
        As for `fit`.

    Returns
    -------
    Evaluation
        Rows and, for a classifier, the confusion matrix and accuracy; for a regressor the errors of each output.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import remanence as rm
    >>> model = rm.ContinualClassifier(rm.RLS()).fit(np.eye(4), [0, 1, 0, 1])
    >>> rm.scale.evaluate(model, da.eye(4, chunks=2), np.array([0, 1, 1, 1])).accuracy
    0.75
    """
    from dask import delayed

    fitted, compare = delayed(model, pure=True, traverse=False), delayed(_compare, pure=True)
    counts = [compare(fitted, b.X, b.y, b.name) for b in blocks_of(model, data, labels)]

    def finish(found: list[tuple[int, Any]]) -> Evaluation:
        rows = sum(n for n, _ in found)
        if not rows:
            raise InputError("expected rows to evaluate on, got none in any partition")
        if hasattr(model, "classes_"):
            if model._sets() is not None:
                return Evaluation(rows, 0, *confusion_matrix({}, []), {}, sets=reduce(add, (part for _, part in found)))
            pairs = sum((part for _, part in found), Counter[tuple[Any, Any]]())
            return Evaluation(rows, 0, *confusion_matrix(pairs, model.classes_.tolist()), {})
        sums = ErrorSums()
        for _, part in found:
            sums.parts += part.parts
        names = [f"output {k}" for k in range(sums.parts[0].shape[1])]
        return Evaluation(rows, 0, *confusion_matrix({}, []), sums.errors(names))

    return computed(delayed(list)(counts), client, finish)  # type: ignore[no-any-return]


def _compare(model: Any, X: Any, y: Any, name: str) -> tuple[int, Any]:
    """On a worker: the rows of a block, and how often each true label was answered by each, or sums of errors."""
    pairs, sums, count = Counter[tuple[Any, Any]](), ErrorSums(), 0
    sets = SetCounts(model.classes_.tolist()) if hasattr(model, "classes_") and model._sets() is not None else None
    with naming(name):
        for rows, labels in row_pairs(X, y):
            check_pair(rows, labels)
            if not count_rows(rows):
                continue
            predicted = model.predict(rows)
            count += len(predicted)
            if sets is not None:
                sets.add(*(as_sets(y, model.classes_) for y in (labels, predicted)))
                continue
            true = np.asarray(labels)
            if hasattr(model, "classes_"):
                true = np.array(true.tolist()) if true.dtype.kind == "O" else true
                check_same_kind(true, model.classes_)
                pairs.update(zip(true.tolist(), predicted.tolist(), strict=True))
            else:
                sums.add(true.reshape(len(true), -1), predicted.reshape(len(true), -1))
    return count, sets if sets is not None else pairs if hasattr(model, "classes_") else sums


def as_sets(y: Any, classes: Array) -> Array:
    """Several labels per row as frozensets, (n,), where they are an indicator too."""
    if getattr(y, "ndim", 1) == 2:
        return answers(np.asarray(y), classes, SETS)
    found = np.empty(len(y), object)
    found[:] = [frozenset(labels) for labels in y]
    return found
