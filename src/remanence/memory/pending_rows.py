"""Rows that are learned but not folded into a root yet, so that learning one row costs d² and copies nothing.

    S = F⁻ᵀXᵀ        M = B + g SᵀS = C Cᵀ                    (W1)   F: the base, a root that includes the prior
    W = W₀ + g F⁻¹ S M⁻¹ (Y − X W₀)                          (W2)   the weights with the pending rows

B = diag(β, β², …) forgets, g is the weight of a new row where old rows keep theirs. M is a small Gram matrix, so it is
used only where it is well conditioned; elsewhere the rows are rotated into the root.
"""

import os
from threading import Lock
from typing import Any
from weakref import WeakSet

import numpy as np

from remanence.arrays import Array
from remanence.kernels.rotations import live_rows
from remanence.memory.root import Root, triangular_solver
from remanence.parallel.blas_threads import one_thread
from remanence.parallel.forking import unforked

NARROW = 160  # features up to which the compiled step beats LAPACK's calls
LIMITS = {np.dtype(np.float64): 1e4, np.dtype(np.float32): 1e2}  # condition of M times that of F up to which M is used


class RowBuffer:
    """Append-only storage of rows that successive states share; rows are never changed."""

    __slots__ = (
        "C",
        "S",
        "U",
        "X",
        "Y",
        "__weakref__",
        "base",
        "base_condition",
        "base_weights",
        "ill_conditioned",
        "largest_diagonal",
        "lock",
        "prior_weight",
        "smallest_pivot",
        "transformed",
        "used",
        "usual_energy",
    )

    def __init__(self, capacity: int, like: Array) -> None:
        self.X = np.empty((capacity, like.shape[0]), like.dtype)
        self.Y = np.empty((capacity, like.shape[1]), like.dtype)
        self.used = 0
        self.lock = Lock()
        self.base: Root | None = None  # F, once weights were asked for
        self.base_weights: Array | None = None  # W₀
        self.prior_weight = 0.0  # in F
        self.transformed = 0  # rows whose columns and rows of S, C, U are computed
        self.ill_conditioned = False  # M may not be used
        self.usual_energy: tuple[float, float] | None = None  # sums of squares of X, Y that need no closer look
        _buffers.add(self)

    def __getstate__(self) -> dict[str, object]:
        return {"X": self.X[: self.used], "Y": self.Y[: self.used], "capacity": len(self.X)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy holds the rows; what was computed for them is computed again when needed."""
        X, Y = state["X"], state["Y"]
        self.__init__(state["capacity"], np.empty((X.shape[1], Y.shape[1]), X.dtype))  # type: ignore[misc]
        self.X[: len(X)], self.Y[: len(Y)], self.used = X, Y, len(X)

    def attach(self, base: Root, prior_weight: float) -> None:
        """Set the base that the rows are added to, in which the prior has weight `prior_weight`."""
        self.prior_weight, self.base_weights = prior_weight, base.solve()
        capacity, features = self.X.shape
        self.S = np.empty((features, capacity), self.X.dtype, order="F")
        self.C = np.zeros((capacity, capacity), self.X.dtype, order="F")
        self.U = np.empty((capacity, self.Y.shape[1]), self.X.dtype)
        self.transformed, self.ill_conditioned = 0, False
        self.base_condition, self.smallest_pivot, self.largest_diagonal = base.cond_lower_bound(), np.inf, 0.0
        self.base = base  # last: a thread without the lock, or a forked child, finds all of it or nothing


_buffers: WeakSet[RowBuffer] = WeakSet()


def _renew_locks() -> None:
    """In a forked child: replace locks whose holders are threads of the parent.

    What those threads were working on was only appended to, and counts as done by the last assignment.
    """
    for buffer in list(_buffers):
        buffer.lock = Lock()


if os.name == "posix":
    os.register_at_fork(after_in_child=_renew_locks)


class PendingRows:
    """The pending rows of one state: a prefix of a shared buffer."""

    def __init__(self, buffer: RowBuffer, count: int = 0) -> None:
        self.buffer, self.count = buffer, count

    @property
    def X(self) -> Array:
        return self.buffer.X[: self.count]

    @property
    def Y(self) -> Array:
        return self.buffer.Y[: self.count]

    def space(self) -> int:
        """How many more rows the buffer can hold."""
        return len(self.buffer.X) - self.count

    def appended(self, X: Array, Y: Array) -> "PendingRows":
        """With more rows; in a buffer of its own if another state has appended to the shared one already."""
        buffer, first, last = self.buffer, self.count, self.count + len(X)
        with buffer.lock:
            at_end = buffer.used == first
            if at_end:
                buffer.used = last
        if not at_end:
            buffer = RowBuffer(len(buffer.X), np.empty((buffer.X.shape[1], buffer.Y.shape[1]), buffer.X.dtype))
            buffer.X[:first], buffer.Y[:first] = self.X, self.Y
            buffer.used = last
            if self.buffer.base is not None:
                buffer.attach(self.buffer.base, self.buffer.prior_weight)
        buffer.X[first:last], buffer.Y[first:last] = X, Y
        return PendingRows(buffer, last)

    def weights(self, forget: float, gain: float) -> Array | None:
        """The weights with the pending rows (W2), or None where M is ill conditioned."""
        buffer, k = self.buffer, self.count
        assert buffer.base is not None and buffer.base_weights is not None
        if not k:
            return buffer.base_weights
        if len(buffer.base_weights) <= NARROW:
            with buffer.lock:
                return _compiled_weights(buffer, k, forget, gain)
        with one_thread, unforked:
            with buffer.lock:
                while buffer.transformed < k and not buffer.ill_conditioned:
                    _transform_next(buffer, forget, gain)
            if buffer.transformed < k:
                return None
            V, info = triangular_solver(buffer.X.dtype.char)(buffer.C[:k, :k], buffer.U[:k], lower=1, trans=1)
            step = buffer.base.unwhitened(np.dot(buffer.S[:, :k], V))
        return None if info else buffer.base_weights + buffer.X.dtype.type(gain) * step


def _compiled_weights(buffer: RowBuffer, k: int, forget: float, gain: float) -> Array | None:
    """The same in one compiled call: for few features the calls of LAPACK would take longer than the work."""
    assert buffer.base is not None and buffer.base_weights is not None
    dtype = buffer.X.dtype
    condition = [buffer.smallest_pivot, buffer.largest_diagonal, buffer.base_condition]
    scales = np.array([forget, gain, *condition, LIMITS[dtype]], dtype)
    W = np.empty(buffer.base_weights.shape, dtype)
    images = (buffer.S, buffer.C, buffer.U, buffer.transformed)
    done = live_rows(buffer.base.factor, buffer.base_weights, buffer.X, buffer.Y, *images, k, scales, W)
    buffer.smallest_pivot, buffer.largest_diagonal = float(scales[2]), float(scales[3])
    buffer.transformed = max(buffer.transformed, done)
    buffer.ill_conditioned = buffer.ill_conditioned or done < k
    return W if done == k else None


def _transform_next(buffer: RowBuffer, forget: float, gain: float) -> None:
    """Compute one more column of S and row of C (W1)."""
    assert buffer.base is not None and buffer.base_weights is not None
    i, x, dtype = buffer.transformed, buffer.X[buffer.transformed], buffer.X.dtype
    s = buffer.S[:, i]
    s[:] = buffer.base.whitened(x[None])[:, 0]
    diagonal = forget ** (i + 1) + gain * float(np.dot(s, s))
    row = buffer.C[i, :i]
    if i:
        row = triangular_solver(dtype.char)(buffer.C[:i, :i], dtype.type(gain) * np.dot(s, buffer.S[:, :i]), lower=1)[0]
    pivot = diagonal - float(np.dot(row, row))
    low, high = min(buffer.smallest_pivot, pivot), max(buffer.largest_diagonal, diagonal)
    buffer.smallest_pivot, buffer.largest_diagonal = low, high
    if not (low > 0 and high * buffer.base_condition <= LIMITS[dtype] * low < np.inf):  # false for NaN too
        buffer.ill_conditioned = True
        return
    root = np.sqrt(pivot)
    buffer.C[i, :i], buffer.C[i, i] = row, root
    buffer.U[i] = (buffer.Y[i] - np.dot(x, buffer.base_weights) - np.dot(row, buffer.U[:i])) / root
    buffer.transformed = i + 1
