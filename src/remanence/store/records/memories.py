"""Memories whose stored form differs from their fields: the triangle of a root, and pending rows.

A root's factor is upper triangular, so its d(d + 1)/2 numbers are stored, column by column. With pending rows
everything is stored that was computed for them: predicting before saving must not change the numbers afterwards.
"""

from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.store.format.record import Lengths, PartValues

MOST_PENDING = 1024  # rows; more than any method keeps pending


def triangle(factor: Array) -> Array:
    """The upper triangle, column by column."""
    return np.concatenate([factor[: j + 1, j] for j in range(len(factor))] or [factor.reshape(-1)])


def square(packed: Array, d: int) -> Array:
    """The upper triangular matrix (d, d), column-major, of such columns."""
    if packed.shape != (d * (d + 1) // 2,):
        raise ValueError(f"expected a triangle of {d * (d + 1) // 2} numbers, got {packed.shape}")
    factor = np.zeros((d, d), packed.dtype, order="F")
    start = 0
    for j in range(d):
        factor[: j + 1, j] = packed[start : start + j + 1]
        start += j + 1
    return factor


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


def waiting_to_parts(waiting: Any) -> dict[str, Any]:
    store, k = waiting.store, waiting.count
    with store.lock:
        done = min(store.done, k)
        image = store.base is not None
        return {
            "X": waiting.X,
            "Y": waiting.Y,
            "room": len(store.X),
            "taken": 0 < k < store.used,  # another state's rows are stored after ours
            "base": store.base,
            "held": store.held,
            "broken": store.broken,
            "S": store.S[:, :done] if image else None,
            "C": store.C[:done, :done] if image else None,
            "U": store.U[:done] if image else None,
            "low": float(store.low) if image else 0.0,
            "high": float(store.high) if image else 0.0,
        }


def waiting_from_parts(cls: Any, parts: dict[str, Any]) -> Any:
    from remanence.memory.pending_rows import Store

    X, Y, room = parts["X"], parts["Y"], parts["room"]
    k = len(X)
    if not max(k + parts["taken"], 1) <= room <= MOST_PENDING:
        raise ValueError(f"expected room for {k} to {MOST_PENDING} rows, got {room}")
    store = Store(room, np.empty((X.shape[1], Y.shape[1]), X.dtype))
    store.X[:k], store.Y[:k], store.used = X, Y, k + parts["taken"]
    if parts["base"] is not None:
        store.attach(parts["base"], parts["held"])
        done = len(parts["U"])
        if done > k:
            raise ValueError(f"expected the images of at most {k} rows, got {done}")
        store.S[:, :done], store.C[:done, :done], store.U[:done] = parts["S"], parts["C"], parts["U"]
        store.done, store.low, store.high = done, parts["low"], parts["high"]
    store.broken = parts["broken"]
    return cls(store, k)


def waiting_check(parts: PartValues, lengths: Lengths) -> str:
    types = [type(parts[name]) for name in ("room", "taken", "broken", "held")]
    if types != [int, bool, bool, float]:
        return f"expected a number of rows, two booleans and a weight, got {[t.__name__ for t in types]}"
    images = [parts[name] is None for name in ("base", "S", "C", "U")]
    if len(set(images)) != 1:
        return "expected a root with the images of the rows, or neither"
    if not images[0] and not (parts["C"].diagonal() > 0).all():
        return "expected a positive diagonal of C"
    return ""
