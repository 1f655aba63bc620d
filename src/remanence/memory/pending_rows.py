"""Rows at the door of a root: already learned, not folded yet, so that one row costs d² and copies nothing.

    S = F⁻ᵀXᵀ        M = B + g SᵀS = C Cᵀ                    (W1)   F: the root at the door, prior included
    W = W₀ + g F⁻¹ S M⁻¹ (Y − X W₀)                          (W2)   the weights with the waiting rows

B = diag(β, β², …) forgets, g is the weight of a new row where old rows keep theirs. M is a small Gram matrix, so it is
trusted only where it is well conditioned; elsewhere the rows go through the root's own rotations.
"""

import os
from threading import Lock
from typing import Any
from weakref import WeakSet

import numpy as np

from remanence.arrays import Array
from remanence.memory.blas_threads import one_thread
from remanence.memory.forking import unforked
from remanence.memory.root import Root, _lapack

NARROW = 160  # features up to which the compiled step beats LAPACK's calls
LIMITS = {np.dtype(np.float64): 1e4, np.dtype(np.float32): 1e2}  # the condition of M times F's up to which M is trusted


class Store:
    """Storage that successive states share: rows are only ever appended, never changed."""

    __slots__ = (
        "C",
        "S",
        "U",
        "X",
        "Y",
        "__weakref__",
        "base",
        "broken",
        "done",
        "held",
        "high",
        "lock",
        "low",
        "spread",
        "used",
        "usual",
        "weights",
    )

    def __init__(self, capacity: int, weights: Array) -> None:
        self.X = np.empty((capacity, weights.shape[0]), weights.dtype)
        self.Y = np.empty((capacity, weights.shape[1]), weights.dtype)
        self.used = 0
        self.lock = Lock()
        self.base: Root | None = None  # F: the root the rows wait at, prior included; known once someone asked
        self.weights: Array | None = None  # W₀
        self.held = 0.0  # the weight of the prior in it
        self.done = 0  # rows whose image S, C, U is known
        self.broken = False  # M was not to be trusted
        self.usual: tuple[float, float] | None = None  # sums of squares of new rows that need no closer look
        _stores.add(self)

    def __getstate__(self) -> dict[str, object]:
        return {"X": self.X[: self.used], "Y": self.Y[: self.used], "capacity": len(self.X)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy holds the rows; what was worked out for them is worked out again when asked for."""
        X, Y = state["X"], state["Y"]
        self.__init__(state["capacity"], np.empty((X.shape[1], Y.shape[1]), X.dtype))  # type: ignore[misc]
        self.X[: len(X)], self.Y[: len(Y)], self.used = X, Y, len(X)

    def attach(self, base: Root, held: float) -> None:
        """Let the rows wait at this root, in which the prior has the weight `held`."""
        self.held, self.weights = held, base.solve()
        capacity, features = self.X.shape
        self.S = np.empty((features, capacity), self.X.dtype, order="F")
        self.C = np.zeros((capacity, capacity), self.X.dtype, order="F")
        self.U = np.empty((capacity, self.Y.shape[1]), self.X.dtype)
        self.done, self.broken = 0, False
        self.spread, self.low, self.high = base.spread(), np.inf, 0.0  # of F, and the range of M
        self.base = base  # last: a child forked half way finds nothing attached, and begins again
        self.base = base  # last: who finds it without the lock finds all of it


_stores: WeakSet[Store] = WeakSet()


def _open_locks() -> None:
    """In a forked child: the threads that held these locks are not there to open them.

    What they were working on was only appended to, and counts as done by the last assignment.
    """
    for store in list(_stores):
        store.lock = Lock()


if os.name == "posix":
    os.register_at_fork(after_in_child=_open_locks)


class Waiting:
    """The rows that one state has waiting: a prefix of a shared store."""

    __slots__ = ("count", "store")

    def __init__(self, store: Store, count: int = 0) -> None:
        self.store, self.count = store, count

    @property
    def X(self) -> Array:
        return self.store.X[: self.count]

    @property
    def Y(self) -> Array:
        return self.store.Y[: self.count]

    def room(self) -> int:
        return len(self.store.X) - self.count

    def appended(self, X: Array, Y: Array) -> "Waiting":
        """With more rows behind; if another state has appended to the shared store already, on storage of our own."""
        store, first, last = self.store, self.count, self.count + len(X)
        with store.lock:
            ours = store.used == first
            if ours:
                store.used = last
        if not ours:
            store = Store(len(store.X), np.empty((store.X.shape[1], store.Y.shape[1]), store.X.dtype))
            store.X[:first], store.Y[:first] = self.X, self.Y
            store.used = last
            if self.store.base is not None:
                store.attach(self.store.base, self.store.held)
        store.X[first:last], store.Y[first:last] = X, Y
        return Waiting(store, last)

    def weights(self, forget: float, gain: float) -> Array | None:
        """The weights with the waiting rows (W2), or None where only rotations can be trusted."""
        store, k = self.store, self.count
        assert store.base is not None and store.weights is not None
        if not k:
            return store.weights
        if len(store.weights) <= NARROW:
            with store.lock:
                return _in_one_go(store, k, forget, gain)
        with one_thread, unforked:
            with store.lock:
                while store.done < k and not store.broken:
                    _extend(store, forget, gain)
            if store.done < k:
                return None
            V, info = _lapack(store.X.dtype.char)[2](store.C[:k, :k], store.U[:k], lower=1, trans=1)
            step = store.base.unwhitened(np.dot(store.S[:, :k], V))
        return None if info else store.weights + store.X.dtype.type(gain) * step


def _in_one_go(store: Store, k: int, forget: float, gain: float) -> Array | None:
    """The same in one compiled call: for a narrow factor the calls would take longer than the work."""
    from remanence.kernels.compiled_memory import live_rows

    assert store.base is not None and store.weights is not None
    kind = store.X.dtype
    scales = np.array([forget, gain, store.low, store.high, store.spread, LIMITS[kind]], kind)
    W = np.empty_like(store.weights)
    done = live_rows(
        store.base.factor, store.weights, store.X, store.Y, store.S, store.C, store.U, store.done, k, scales, W
    )
    store.low, store.high = float(scales[2]), float(scales[3])
    store.done, store.broken = max(store.done, done), store.broken or done < k
    return W if done == k else None


def _extend(store: Store, forget: float, gain: float) -> None:
    """Add the image of the next row: one column of S, one row of C (W1)."""
    assert store.base is not None and store.weights is not None
    i, x, kind = store.done, store.X[store.done], store.X.dtype
    s = store.S[:, i]
    s[:] = store.base.whitened(x[None])[:, 0]
    own = forget ** (i + 1) + gain * float(np.dot(s, s))
    row = store.C[i, :i]
    if i:
        row = _lapack(kind.char)[2](store.C[:i, :i], kind.type(gain) * np.dot(s, store.S[:, :i]), lower=1)[0]
    pivot = own - float(np.dot(row, row))
    store.low, store.high = min(store.low, pivot), max(store.high, own)  # M's pivots against M's own diagonal
    if not (store.low > 0 and store.high * store.spread <= LIMITS[kind] * store.low < np.inf):  # false for NaN too
        store.broken = True
        return
    root = np.sqrt(pivot)
    store.C[i, :i], store.C[i, i] = row, root
    store.U[i] = (store.Y[i] - np.dot(x, store.weights) - np.dot(row, store.U[:i])) / root
    store.done = i + 1
