"""Kernel recursive least squares: RLS in the space of a kernel, over a dictionary of samples that grows.

    minimise over f   Σ ‖yᵢ − f(xᵢ)‖² + λ ‖f‖²,   f = Σ αⱼ k(xⱼ, ·) over the dictionary                (K)
    R, z the root of the rows k(xᵢ):   minimise ‖Rα − z‖² + λ ‖Tα‖²,   TᵀT = K + νI                    (K1)
    a sample joins:  T ← [T u; 0 √δ],   R ← [R Ra; 0 0],   a the nearest combination of the others       (K2)
    forget < 1: before each sample the model returns a little to its prior                              (K3)
    more samples than the budget: the one that f needs least is dropped                                  (K4)

The published recursion multiplies inverses of the kernel matrix and breaks down when samples are nearly dependent.
Here neither K nor the rows' information RᵀR is formed: both are only kept as triangular factors, and a nugget ν of
1e-12 keeps T accurate. A tolerance below 4ν counts as 4ν.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array, read_only
from remanence.errors import InputError
from remanence.memory.kernel.dictionary import BLOCK, KernelDictionary, no_points
from remanence.memory.kernel.functions import KERNELS, kernel_matrix
from remanence.memory.kernel.return_to_prior import joint, marginal, returned
from remanence.memory.root import Root, empty, sums_of_squares, take_outputs
from remanence.memory.tracking import Tracker, rows_per_call
from remanence.methods.protocol import Method
from remanence.parallel.blas_threads import one_thread
from remanence.validation import (
    check_block,
    check_count,
    check_number,
    check_result,
    check_rows,
    check_start,
    check_word,
    quiet,
)


@dataclass(frozen=True, slots=True)
class KernelRLSState:
    """The dictionary and the root of all rows in its coordinates; their targets are what `start` does not explain."""

    dictionary: Annotated[KernelDictionary, "m d"]
    data: Annotated[Root, "m c"]
    start: Annotated[Array, "d c"]
    count: int


@dataclass(frozen=True, slots=True)
class KernelRLS(Method[KernelRLSState]):
    """Recursive least squares in the space of a kernel, in square-root form: it does not break down.

    `weights` are the coefficients (m, c) of the kernels at the m samples of the dictionary, `points(state)`. A `start`
    is a linear model to which the kernels are added.

    Parameters
    ----------
    kernel : "rbf" or "laplace", default="rbf"
        exp(−‖x − y‖²/(2 width²)) or exp(−‖x − y‖/width).
    width : float, default=1.0
        The distance at which samples are similar.
    tolerance : float, default=1e-4
        A sample joins the dictionary when its squared distance from the span of those in it is larger, 0 to 1.
    budget : int or None, default=None
        At most this many samples in the dictionary: the one that matters least is dropped. None lets it grow.
    forget : float, default=1.0
        β: below 1 the model returns to its prior, zero (or `start`), while it learns, as a Gaussian process does whose
        function drifts. Then, and with a budget, a sample costs m³ operations.
    ridge : float, default=1e-8
        λ: the weight of ‖f‖² beside the squared errors, the variance of the noise of a Gaussian process.

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> method = rm.KernelRLS(width=1.0, tolerance=1e-6)
    >>> state = method.update(method.init(features=1, outputs=1), X, np.sin(X))
    >>> len(method.points(state)) < 30, bool(np.abs(method.predict(state, X) - np.sin(X)).max() < 1e-3)
    (True, True)

    References
    ----------
    Engel, Mannor and Meir (2004), "The kernel recursive least-squares algorithm", IEEE Trans. Signal Processing.
    Van Vaerenbergh, Lázaro-Gredilla and Santamaría (2012), "Kernel recursive least-squares tracker for time-varying
    regression", IEEE Trans. Neural Networks and Learning Systems.
    """

    kernel: str = "rbf"
    width: float = 1.0
    tolerance: float = 1e-4
    budget: int | None = None
    forget: float = 1.0
    ridge: float = 1e-8

    linear = False
    summary = "RLS in the space of a kernel, over a growing dictionary of m samples"
    cost = "m² + mc"
    memory = "m² + md + mc"

    def __post_init__(self) -> None:
        check_word(self.kernel, "kernel", KERNELS)
        object.__setattr__(self, "width", check_number(self.width, "width", hint="the distance of similar samples"))
        hint = "the squared distance from the dictionary that still counts as new, like 1e-4"
        object.__setattr__(
            self, "tolerance", check_number(self.tolerance, "tolerance", high=1.0, closed=True, hint=hint)
        )
        if self.budget is not None:
            object.__setattr__(self, "budget", check_count(self.budget, "budget", hint="None lets the dictionary grow"))
        forget = check_number(self.forget, "forget", hint="1 keeps everything, 0.999 fades")
        if forget > 1:
            raise InputError(f"expected forget to be at most 1, got {forget:g}; 1 keeps everything, 0.999 fades")
        object.__setattr__(self, "forget", forget)
        object.__setattr__(self, "ridge", check_number(self.ridge, "ridge", hint="the variance of the noise"))

    def init(self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64) -> KernelRLSState:
        start = check_start(start, features, outputs, dtype)
        if start.dtype != np.float64:
            raise InputError(
                f"expected dtype float64 for KernelRLS, got {start.dtype}: kernels of near samples need more digits; "
                f"use float64, or RLS on random features"
            )
        return KernelRLSState(no_points(features, start), empty(0, outputs, start.dtype), start, 0)

    @quiet
    def update(self, state: KernelRLSState, X: Any, Y: Any, donate: bool = False) -> KernelRLSState:
        X, Y = check_block(X, Y, state.start)
        if self._bounded():
            return self._track_bounded(state, X, Y)[0]
        dictionary, data, Z = state.dictionary, state.data, Y - X @ state.start
        for i in range(0, len(X), BLOCK):
            dictionary, data, rows = self._grown(dictionary, data, X[i : i + BLOCK])
            data = data.folded(rows, Z[i : i + BLOCK])
        check_result(data.factor, data.target)
        return KernelRLSState(dictionary, data, state.start, state.count + len(X))

    @quiet
    def track(self, state: KernelRLSState, X: Any, Y: Any, donate: bool = False) -> tuple[KernelRLSState, Array]:
        X, Y = check_block(X, Y, state.start)
        if self._bounded():
            return self._track_bounded(state, X, Y)
        dictionary, data, Z, errors = state.dictionary, state.data, Y - X @ state.start, np.empty_like(Y)
        for i in range(0, len(X), BLOCK):
            dictionary, data, rows = self._grown(dictionary, data, X[i : i + BLOCK])
            tracker, size = Tracker(joint(data, dictionary.factor, self.ridge), 1.0), rows_per_call(data.target, 1.0)
            for j in range(i, i + len(rows), size):
                part = slice(j, min(j + size, i + len(rows)))
                errors[part] = tracker.fold(rows[part.start - i : part.stop - i], Z[part], 1.0)
            data = data.folded(rows, Z[i : i + BLOCK])
        check_result(errors, data.factor, data.target)
        return KernelRLSState(dictionary, data, state.start, state.count + len(X)), errors

    def _grown(self, dictionary: KernelDictionary, data: Root, X: Array) -> tuple[KernelDictionary, Root, Array]:
        """The dictionary with what is new in the rows, the root over all of it, and the kernels of the rows."""
        grown, change, rows = dictionary.grown(self.kernel, self.width, self.tolerance, X)
        if grown is dictionary:
            return dictionary, data, rows
        data = data.with_features(rows.shape[1])
        data.factor[: len(change)] = data.factor[: len(change), : len(change)] @ change  # (K2)
        return grown, data, rows

    def _bounded(self) -> bool:
        return self.forget < 1 or self.budget is not None

    def _track_bounded(self, state: KernelRLSState, X: Array, Y: Array) -> tuple[KernelRLSState, Array]:
        """Row by row: predict, forget, learn, and drop a sample where there are too many."""
        dictionary, data, errors = state.dictionary, state.data, np.empty_like(Y)
        with one_thread:
            for i in range(len(X)):
                rest = Y[i : i + 1] - X[i : i + 1] @ state.start
                dictionary, data, row = self._grown(dictionary, data, X[i : i + 1])
                errors[i] = (rest - row @ self._solved(dictionary, data))[0]
                data = returned(data, dictionary.factor, self.forget, self.ridge).folded(row, rest)  # (K3)
                if self.budget is not None and len(dictionary.points) > self.budget:
                    least = int(np.argmin(dictionary.cost_of_removal(self._solved(dictionary, data))))
                    dictionary, alone = dictionary.without(least)  # (K4)
                    data = marginal(data, least, alone, self.ridge)
        check_result(data.factor, data.target, errors)
        return KernelRLSState(dictionary, data, state.start, state.count + len(X)), errors

    @quiet
    def weights(self, state: KernelRLSState) -> Array:
        """The coefficients (m, c) of the kernels at `points(state)`."""
        found = self._solved(state.dictionary, state.data)
        check_result(found)
        return read_only(found)

    @quiet
    def predict(self, state: KernelRLSState, X: Any) -> Array:
        """f(x) at the rows of X, (n, c)."""
        X = check_rows(X, len(state.start), state.start.dtype)
        found = X @ state.start + self._kernels(state, X) @ self._solved(state.dictionary, state.data)
        check_result(found)
        return np.asarray(found)

    def points(self, state: KernelRLSState) -> Array:
        """The samples of the dictionary, (m, d)."""
        return read_only(state.dictionary.points)

    @quiet
    def variance(self, state: KernelRLSState, X: Any) -> Array:
        """The variance of the Gaussian process at the rows of X, noise of variance λ included, (n, 1)."""
        X = check_rows(X, len(state.start), state.start.dtype)
        rows, T = self._kernels(state, X), state.dictionary.factor
        known = sums_of_squares(joint(state.data, T, self.ridge).whitened(rows)) if len(T) else np.zeros(len(X))
        found = self.ridge * (1 + known) + np.maximum(state.dictionary.distances(rows), 0)
        check_result(found)
        return np.asarray(found)[:, None]

    def template(self, state: KernelRLSState) -> Array:
        return state.start

    def with_outputs(self, state: KernelRLSState, sources: Array) -> KernelRLSState:
        data, start = state.data.with_outputs(sources), take_outputs(state.start, sources)
        return KernelRLSState(state.dictionary, data, start, state.count)

    def _kernels(self, state: KernelRLSState, X: Array) -> Array:
        return kernel_matrix(self.kernel, self.width, X, state.dictionary.points)

    def _solved(self, dictionary: KernelDictionary, data: Root) -> Array:
        """α (m, c) (K1)."""
        return joint(data, dictionary.factor, self.ridge).solve() if len(data.factor) else data.target
