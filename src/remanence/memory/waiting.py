"""Rows at the door of a root: already learned, not folded yet, so that one row costs d² and copies nothing.

    S = F⁻ᵀXᵀ        M = B + g SᵀS = C Cᵀ                    (W1)   F: the root at the door, prior included
    W = W₀ + g F⁻¹ S M⁻¹ (Y − X W₀)                          (W2)   the weights with the waiting rows
    errors = diag(C) C⁻¹ (Y − X W₀)                          (W3)   each row's error before it was learned

B = diag(β, β², …) forgets, g is the weight of a new row where old rows keep theirs. M is a small Gram matrix, so it is
trusted only where it is well conditioned; elsewhere the rows go through the root's own rotations.
"""

from threading import Lock

import numpy as np

from remanence.checks import Array
from remanence.memory.root import Root, _lapack


class Store:
    """Storage that successive states share: rows are only ever appended, never changed."""

    __slots__ = ("C", "S", "U", "X", "Y", "base", "broken", "done", "held", "lock", "used", "weights")

    def __init__(self, capacity: int, features: int, outputs: int, dtype: np.dtype) -> None:  # type: ignore[type-arg]
        self.X = np.empty((capacity, features), dtype)
        self.Y = np.empty((capacity, outputs), dtype)
        self.used = 0
        self.lock = Lock()
        self.base: Root | None = None  # F: the root the rows wait at, prior included; known once someone asked
        self.weights: Array | None = None  # W₀
        self.held = 0.0  # the weight of the prior in it
        self.done = 0  # rows whose image S, C, U is known
        self.broken = False  # M was not to be trusted

    def attach(self, base: Root, held: float) -> None:
        """Let the rows wait at this root, in which the prior has the weight `held`."""
        self.base, self.held, self.weights = base, held, base.solve()
        capacity, features = self.X.shape
        self.S = np.empty((features, capacity), self.X.dtype, order="F")
        self.C = np.zeros((capacity, capacity), self.X.dtype, order="F")
        self.U = np.empty((capacity, self.Y.shape[1]), self.X.dtype)
        self.done, self.broken = 0, False


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
            store = Store(*store.X.shape, store.Y.shape[1], store.X.dtype)
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
        with store.lock:
            while store.done < k and not store.broken:
                _extend(store, forget, gain)
        if store.done < k:
            return None
        trtrs = _lapack(store.X.dtype.char)[2]
        V, info = trtrs(store.C[:k, :k], store.U[:k], lower=1, trans=1)
        step = store.base.unwhitened(store.S[:, :k] @ V)
        return None if info else store.weights + store.X.dtype.type(gain) * step


def _extend(store: Store, forget: float, gain: float) -> None:
    """Add the image of the next row: one column of S, one row of C (W1)."""
    assert store.base is not None and store.weights is not None
    i = store.done
    x = store.X[i]
    s = store.S[:, i]
    s[:] = store.base.whitened(x[None])[:, 0]
    with np.errstate(over="ignore", invalid="ignore"):
        g = store.X.dtype.type(gain)
        own = forget ** (i + 1) + float(g * (s @ s))
        row = _lapack(store.X.dtype.char)[2](store.C[:i, :i], g * (store.S[:, :i].T @ s), lower=1)[0] if i else s[:0]
        pivot = own - float(row @ row)
        low, high = pivot, pivot
        if i:
            diagonal = np.diagonal(store.C)[:i]
            low, high = min(low, float(diagonal.min()) ** 2), max(high, float(diagonal.max()) ** 2)
        limit = 1e4 if store.X.dtype == np.float64 else 1e2
        if not (low > 0 and np.isfinite(high) and high / low * store.base.spread() <= limit):
            store.broken = True
            return
    root = np.sqrt(pivot)
    store.C[i, :i], store.C[i, i] = row, root
    store.U[i] = (store.Y[i] - x @ store.weights - row @ store.U[:i]) / root
    store.done = i + 1


def errors_before(base: Root, X: Array, Y: Array, forget: float, gain: float) -> tuple[Array, bool]:
    """Every row's error before it was learned, for rows that arrive at `base` (W3), and whether to trust them."""
    from scipy.linalg import get_lapack_funcs

    R = Y - X @ base.solve()
    if len(X) == 1:
        return R, True
    S = base.whitened(X)
    with np.errstate(over="ignore", invalid="ignore"):
        M = np.asfortranarray(S.T @ S)
        if gain != 1.0:
            M *= M.dtype.type(gain)
        M.flat[:: len(M) + 1] += forget ** np.arange(1, len(M) + 1)
    (potrf,) = get_lapack_funcs(("potrf",), dtype=M.dtype)
    C, info = potrf(M, lower=1, clean=0, overwrite_a=1)
    diagonal = np.diagonal(C)
    if info:
        return R, False
    U = _lapack(M.dtype.char)[2](C, R, lower=1)[0]
    low, high = float(diagonal.min()), float(diagonal.max())
    trusted = np.isfinite(high) and (high / low) ** 2 * base.spread() <= (1e6 if M.dtype == np.float64 else 1e3)
    return diagonal[:, None] * U, bool(trusted)
