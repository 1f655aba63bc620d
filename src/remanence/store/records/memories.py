"""Memories whose stored form differs from their fields: the triangle of a root, and pending rows.

A root's factor is upper triangular, so its d(d + 1)/2 numbers are stored, column by column. With pending rows
everything is stored that was computed for them: predicting before saving must not change the numbers afterwards.
"""

from typing import Any

import numpy as np

from remanence.arrays import square, triangle
from remanence.store.format.record import Lengths, PartValues

MOST_PENDING = 1024  # rows; more than any method keeps pending


def root_to_parts(root: Any) -> dict[str, Any]:
    parts = {"triangle": triangle(root.factor), "target": root.target, "rest": root.rest}
    return parts if root.lost is None else {**parts, "lost": root.lost}


def root_from_parts(cls: Any, parts: dict[str, Any]) -> Any:
    target = parts["target"]
    return cls(square(parts["triangle"], len(target)), np.asfortranarray(target), parts["rest"], lost=parts.get("lost"))


def root_check(parts: PartValues, lengths: Lengths) -> str:
    """Models from which nothing was removed have no `lost`, nor have files written before there was one."""
    lost, width = parts.get("lost"), lengths["d"] + lengths["c"]
    if lost is None or (lost.shape == (width,) and np.isfinite(lost).all() and (lost >= 0).all()):
        return ""
    return f"expected {width} finite numbers of at least 0 as `lost`, got {lost.shape}"


def pending_to_parts(pending: Any) -> dict[str, Any]:
    buffer, k = pending.buffer, pending.count
    with buffer.lock:
        done = min(buffer.transformed, k)
        attached = buffer.base is not None
        extremes = (buffer.smallest_pivot, buffer.largest_diagonal) if done else (np.inf, 0.0)  # not those of a branch
        return {
            "X": pending.X,
            "Y": pending.Y,
            "room": len(buffer.X),
            "taken": 0 < k < buffer.used,  # another state's rows are stored after ours
            "base": buffer.base,
            "held": buffer.prior_weight,
            "broken": buffer.ill_conditioned,
            "S": buffer.S[:, :done] if attached else None,
            "C": buffer.C[:done, :done] if attached else None,
            "U": buffer.U[:done] if attached else None,
            "low": float(extremes[0]) if attached else 0.0,
            "high": float(extremes[1]) if attached else 0.0,
        }


def pending_from_parts(cls: Any, parts: dict[str, Any]) -> Any:
    from remanence.memory.pending_rows import RowBuffer

    X, Y, capacity = parts["X"], parts["Y"], parts["room"]
    k = len(X)
    if not max(k + parts["taken"], 1) <= capacity <= MOST_PENDING:
        raise ValueError(f"expected room for {k} to {MOST_PENDING} rows, got {capacity}")
    buffer = RowBuffer(capacity, np.empty((X.shape[1], Y.shape[1]), X.dtype))
    buffer.X[:k], buffer.Y[:k], buffer.used = X, Y, k + parts["taken"]
    if parts["base"] is not None:
        buffer.attach(parts["base"], parts["held"])
        done = len(parts["U"])
        if done > k:
            raise ValueError(f"expected the images of at most {k} rows, got {done}")
        buffer.S[:, :done], buffer.C[:done, :done], buffer.U[:done] = parts["S"], parts["C"], parts["U"]
        if done:
            buffer.transformed, buffer.smallest_pivot, buffer.largest_diagonal = done, parts["low"], parts["high"]
    buffer.ill_conditioned = parts["broken"]
    return cls(buffer, k)


def pending_check(parts: PartValues, lengths: Lengths) -> str:
    types = [type(parts[name]) for name in ("room", "taken", "broken", "held")]
    if types != [int, bool, bool, float]:
        return f"expected a number of rows, two booleans and a weight, got {[t.__name__ for t in types]}"
    images = [parts[name] is None for name in ("base", "S", "C", "U")]
    if len(set(images)) != 1:
        return "expected a root with the images of the rows, or neither"
    if not images[0] and not (parts["C"].diagonal() > 0).all():
        return "expected a positive diagonal of C"
    return ""
