"""Kernel least mean squares, quantised: a step of gradient descent in the space of a kernel.

    e = y − f(x),   f ← f + γ e k(x, ·)                                                                  (Q1)
    ‖φ(x) − φ(nearest)‖² ≤ tolerance:  f ← f + γ e k(nearest, ·),  no new centre                         (Q2)

k(x, x) = 1, so that γ is the share of the error that a step corrects, as in normalized LMS.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array, read_only
from remanence.memory.kernel.functions import KERNELS, kernel_matrix
from remanence.memory.root import take_outputs
from remanence.methods.protocol import Method
from remanence.validation import check_block, check_number, check_result, check_rows, check_start, check_word, quiet


@dataclass(frozen=True, slots=True)
class KernelLMSState:
    """Centres, their coefficients, and the linear model that they are added to."""

    points: Annotated[Array, "m d"]
    W: Annotated[Array, "m c"]
    start: Annotated[Array, "d c"]


@dataclass(frozen=True, slots=True)
class KernelLMS(Method[KernelLMSState]):
    """Kernel least mean squares: each sample's error is corrected by a kernel there, or at the nearest centre.

    `weights` are the coefficients (m, c) of the kernels at the m centres. A `start` is a linear model to which the
    kernels are added.

    Parameters
    ----------
    step : float, default=0.5
        γ: the share of a sample's error that is corrected, between 0 and 2.
    kernel : "rbf" or "laplace", default="rbf"
        As in KernelRLS.
    width : float, default=1.0
        The distance at which samples are similar.
    tolerance : float, default=0.01
        A sample within this squared distance of a centre, 2 − 2k(x, centre), moves that one's coefficient instead of
        becoming a centre: quantisation, 0 to 2.

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> method = rm.KernelLMS(step=1.0)
    >>> X, Y = np.array([[0.0], [0.0], [9.0]]), np.array([[1.0], [1.0], [2.0]])
    >>> state, errors = method.track(method.init(features=1, outputs=1), X, Y)
    >>> errors.round(6).ravel().tolist(), len(method.points(state))
    ([1.0, 0.0, 2.0], 2)

    References
    ----------
    Liu, Pokharel and Príncipe (2008), "The kernel least-mean-square algorithm", IEEE Trans. Signal Processing.
    Chen, Zhao, Zhu and Príncipe (2012), "Quantized kernel least mean square algorithm", IEEE Trans. Neural Networks and
    Learning Systems.
    """

    step: float = 0.5
    kernel: str = "rbf"
    width: float = 1.0
    tolerance: float = 0.01

    linear = False
    summary = "LMS in the space of a kernel; samples near one of m centres share it"
    cost = "md + mc"
    memory = "md + mc"

    def __post_init__(self) -> None:
        hint = "the share of the error that is corrected"
        object.__setattr__(self, "step", check_number(self.step, "step", high=2.0, hint=hint))
        check_word(self.kernel, "kernel", KERNELS)
        object.__setattr__(self, "width", check_number(self.width, "width", hint="the distance of similar samples"))
        hint = "0 makes every sample a centre"
        object.__setattr__(
            self, "tolerance", check_number(self.tolerance, "tolerance", high=2.0, closed=True, hint=hint)
        )

    def init(self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64) -> KernelLMSState:
        start = check_start(start, features, outputs, dtype)
        return KernelLMSState(np.zeros((0, features), start.dtype), np.zeros((0, outputs), start.dtype), start)

    @quiet
    def track(self, state: KernelLMSState, X: Any, Y: Any, donate: bool = False) -> tuple[KernelLMSState, Array]:
        X, Y = check_block(X, Y, state.start)
        m, n = len(state.points), len(X)
        points, W = (np.concatenate([old, np.zeros((n, old.shape[1]), X.dtype)]) for old in (state.points, state.W))
        errors = np.empty_like(Y)
        rest = Y - X @ state.start
        for i in range(n):
            k = kernel_matrix(self.kernel, self.width, points[:m], X[i : i + 1])[:, 0]
            errors[i] = rest[i] - k @ W[:m]
            nearest = int(np.argmax(k)) if m else 0
            if not m or 2 - 2 * k[nearest] > self.tolerance:
                points[m], nearest = X[i], m
                m += 1
            W[nearest] += self.step * errors[i]  # (Q1), (Q2)
        check_result(W[:m], errors)
        return KernelLMSState(points[:m].copy(), W[:m].copy(), state.start), errors

    def weights(self, state: KernelLMSState) -> Array:
        """The coefficients (m, c) of the kernels at `points(state)`."""
        return read_only(state.W)

    @quiet
    def predict(self, state: KernelLMSState, X: Any) -> Array:
        """f(x) at the rows of X, (n, c)."""
        X = check_rows(X, len(state.start), state.start.dtype)
        found = X @ state.start + kernel_matrix(self.kernel, self.width, X, state.points) @ state.W
        check_result(found)
        return np.asarray(found)

    def points(self, state: KernelLMSState) -> Array:
        """The centres, (m, d)."""
        return read_only(state.points)

    def template(self, state: KernelLMSState) -> Array:
        return state.start

    def with_outputs(self, state: KernelLMSState, sources: Array) -> KernelLMSState:
        return KernelLMSState(state.points, take_outputs(state.W, sources), take_outputs(state.start, sources))
