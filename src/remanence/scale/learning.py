"""Learn on a cluster: rows become square roots where they are, and merges in a fixed tree make one model of them."""

import copy
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sklearn.base import clone

from remanence.errors import InputError, NumericalError
from remanence.estimators import ContinualClassifier, ContinualRegressor, RandomFeatures
from remanence.methods.least_squares import SoftMethod
from remanence.scale.blocks import DataBlock, blocks_of, check_pair, count_rows, row_batches, row_pairs
from remanence.scale.engine import MARK, computed
from remanence.scale.files import FileBlock, with_kinds
from remanence.scale.naming import naming
from remanence.scale.travel import LearnedPart, blank, pack, unpack
from remanence.scale.tree import reduced

FIRST_BLOCKS = 8  # partitions among which one must have rows, where a scale is set from them or answers are counted


def fit(model: Any, data: Any, labels: Any = None, *, client: Any = None) -> Any:
    """Learn all rows of a distributed data set, as `model.fit` learns an array.

    The weights equal those of a single machine up to rounding, and have the same bits for any number of workers. What
    is estimated by answers to rows before they are learned depends on the partitions, as it does on the blocks that one
    machine is given: calibrated probabilities, intervals, and the choice of `readout="auto"`.

    Parameters
    ----------
    model : ContinualClassifier or ContinualRegressor
        Its method must be able to merge: `RLS(forget=1)` or `LowRankRLS`, whose truncation depends on the partitions.
        It is not changed.
    data : dask Array or DataFrame, list of delayed (X, y) pairs, or names of files
        Partitions may be empty, of unknown sizes, and hold some of the classes only. Files are CSV, Parquet, NPZ and
        whatever else the command learns: names, patterns ("data/*.parquet"), folders, or addresses that fsspec knows
        ("s3://bucket/*.parquet"). Every file is a partition; it is read batch by batch and may be larger than memory.
    labels : dask Array, array or column name
        Targets of a regressor may be a list of column names.
    client : distributed.Client, optional
        By default the active client, or the threads of this process if there is none. With an asynchronous client
        the result is a coroutine.

    Returns
    -------
    ContinualClassifier or ContinualRegressor
        A fitted copy of `model`.

    Examples
    --------
    >>> import dask.array as da
    >>> import remanence as rm
    >>> X = da.random.default_rng(0).standard_normal((1000, 4), chunks=(100, 4))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = rm.scale.fit(rm.ContinualClassifier(rm.RLS()), X, y)
    >>> model.classes_, model.n_seen_
    (array([0, 1]), 1000)

    References
    ----------
    Demmel et al. (2012), "Communication-optimal parallel and sequential QR and LU factorizations".
    """
    return _learned(model, data, labels, client, fresh=True)


def partial_fit(model: Any, data: Any, labels: Any = None, *, client: Any = None) -> Any:
    """Learn more rows of a distributed data set.

    Parameters
    ----------
    model : ContinualClassifier or ContinualRegressor
    data, labels, client
        As for `fit`.

    Returns
    -------
    ContinualClassifier or ContinualRegressor
        A copy of `model` that has learned the rows too; `model` itself is not changed.

    Examples
    --------
    >>> import dask.array as da
    >>> import remanence as rm
    >>> X = da.random.default_rng(0).standard_normal((300, 4), chunks=(100, 4))
    >>> y = X @ [1.0, 2.0, 3.0, 4.0]
    >>> model = rm.scale.fit(rm.ContinualRegressor(rm.RLS(ridge=1e-9)), X, y)
    >>> rm.scale.partial_fit(model, X, y).n_seen_
    600
    """
    return _learned(model, data, labels, client, fresh=False)


def merged(a: Any, b: Any) -> Any:
    """A new model that has learned the rows of both; neither is changed.

    Parameters
    ----------
    a, b : ContinualClassifier or ContinualRegressor
        With the same settings.

    Returns
    -------
    ContinualClassifier or ContinualRegressor

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> a, b = (rm.ContinualRegressor(rm.RLS()).fit(np.eye(3), np.ones(3)) for _ in range(2))
    >>> rm.scale.merged(a, b).n_seen_, a.n_seen_
    (6, 3)
    """
    return copy.copy(a).merge(b)


def check_mergeable(model: Any) -> None:
    """Refuse a model that cannot be learned in parts that are merged."""
    if not isinstance(model, (ContinualClassifier, ContinualRegressor)):
        raise InputError(f"expected a ContinualClassifier or ContinualRegressor, got {type(model).__name__}")
    model._check_settings()
    method = model._method()
    if not isinstance(method, SoftMethod) or getattr(method, "forget", 1.0) != 1.0:
        raise InputError(
            f"expected a method whose states can be merged, RLS with forget=1 or LowRankRLS, got {method}: the result "
            f"of the others depends on the order of the rows; learn on one machine with partial_fit"
        )


def _learned(model: Any, data: Any, labels: Any, client: Any, fresh: bool) -> Any:
    from dask import delayed

    check_mergeable(model)
    blocks = blocks_of(model, data, labels)
    known = not fresh and model.__sklearn_is_fitted__()
    name = f"remanence-{uuid.uuid4().hex[:12]}"
    settings = delayed(model._blank(), name=f"{name}-model", pure=True, traverse=False)
    if isinstance(model.features, RandomFeatures) and model.features.scale == "auto":
        settings = _with_scale(settings, model.features_ if known else model.features, blocks, name)
    learn, merge, count = delayed(_learn, pure=True), delayed(_merge, pure=True), iter(range(1 << 62))
    learn_files = delayed(_learn_files, pure=True)
    first = _maybe_first(blocks)

    def learn_chain(chain: Sequence[DataBlock]) -> Any:
        credit = any(block is one for block in chain for one in first)
        if all(block.is_file for block in chain):  # one task: what is between two files need not be kept
            files, key = [block.X for block in chain], f"{name}-learn-{next(count)}{MARK}{chain[0].name}"
            return learn_files(settings, files, credit, dask_key_name=key)
        learned = None
        for block in chain:
            key = f"{name}-learn-{next(count)}{MARK}{block.name}"
            learned = learn(settings, learned, block.X, block.y, block.name, credit, dask_key_name=key)
        return learned

    def merge_two(a: Any, b: Any) -> Any:
        return merge(settings, a, b, dask_key_name=f"{name}-merge-{next(count)}")

    def finish(learned: LearnedPart | None) -> Any:
        if learned is None:
            raise InputError("expected rows to learn, got none in any partition")
        found = unpack(model, learned)
        if not known:
            return found
        with naming(f"{learned.first} differs from what was learned before"):
            return merged(model, found)

    return computed(reduced(blocks, learn_chain, merge_two), client, finish)


def _maybe_first(blocks: list[DataBlock]) -> list[DataBlock]:
    """The blocks that may be the first with rows: one where their numbers are known, some where they are not."""
    found = list[DataBlock]()
    for block in blocks:
        if block.rows != 0:
            found.append(block)
        if block.rows > 0 or len(found) == FIRST_BLOCKS:  # (unknown is NaN)
            break
    return found


def _with_scale(settings: Any, features: RandomFeatures, blocks: list[DataBlock], name: str) -> Any:
    """Delayed settings in which random features have the automatic scale of the first block that has rows."""
    from dask import delayed

    fitted, fit_features = delayed(features, traverse=False), delayed(_fitted_features, pure=True)
    if not features.has_scale():
        for i, block in enumerate(blocks[:FIRST_BLOCKS]):
            fitted = fit_features(fitted, block.X, block.name, dask_key_name=f"{name}-features-{i}")
    return delayed(_with_features, pure=True)(settings, fitted, dask_key_name=f"{name}-settings")


def _fitted_features(features: RandomFeatures, X: Any, name: str) -> RandomFeatures:
    with naming(name):
        rows = next(iter(row_batches(X)), None) if not features.has_scale() else None
        return features if rows is None or not count_rows(rows) else clone(features).fit(rows)


def _with_features(model: Any, features: RandomFeatures) -> Any:
    if not features.has_scale():
        raise InputError(
            f"expected rows in one of the first {FIRST_BLOCKS} partitions to set the scale of random features, got "
            f"none; fit the features on some rows and pass them"
        )
    return model._with({**model.__dict__, "features": features})


def _learn(
    model: Any, before: LearnedPart | None, X: Any, y: Any, name: str, credit: bool = True
) -> LearnedPart | None:
    """On a worker: what was learned before and a block; None for no rows. Nothing that comes in is changed."""
    with naming(name):
        if isinstance(X, FileBlock):
            model = with_kinds(model, X.columns)
        learner = None
        for rows, labels in row_pairs(X, y):
            check_pair(rows, labels)
            if not count_rows(rows):
                continue
            if learner is None:
                learner = blank(model, credit) if before is None else unpack(model, before)
            with beside(before, model._blank(), rows, labels):
                learner._learn_in_place(rows, labels)
            del rows, labels  # (while the next ones are read, these may be gone)
        return before if learner is None else pack(learner, name if before is None else before.first)


@contextmanager
def beside(before: LearnedPart | None, fresh: Any, rows: Any, labels: Any) -> Iterator[None]:
    """Name the first of the earlier partitions in errors of rows that could be learned but for it."""
    try:
        yield
    except InputError as problem:
        if before is None:
            raise
        try:
            fresh.partial_fit(rows, labels)
        except (InputError, NumericalError):
            raise problem from None
        raise InputError(f"it differs from {before.first}: {problem}") from None


def _learn_files(model: Any, files: Sequence[FileBlock], credit: bool) -> LearnedPart | None:
    """On a worker: what was learned from files, one after the other; None for no rows."""
    learned = None
    for file in files:
        learned = _learn(model, learned, file, None, file.path, credit)
    return learned


def _merge(model: Any, a: LearnedPart | None, b: LearnedPart | None) -> LearnedPart | None:
    if a is None or b is None:
        return b if a is None else a
    with naming(f"{b.first} differs from {a.first}"):
        return pack(unpack(model, a)._merge(unpack(model, b), own=True), a.first)
