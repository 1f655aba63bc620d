"""Leaky LMS: a complete method, to copy for the next one (see CONTRIBUTING.md).

θᵗ = (1 − μ) θᵗ⁻¹ + μ θ⁰ + γ x (y − xᵀθᵗ⁻¹) / ‖x‖²                        (LL)   leak μ towards the start
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array, read_only
from remanence.memory.root import take_outputs
from remanence.methods.protocol import Method
from remanence.validation import check_block, check_number, check_result, check_start, quiet


@dataclass(frozen=True, slots=True)
class LeakyState:
    """The weights and the start; model files are checked against the annotations."""

    W: Annotated[Array, "d c"]
    start: Annotated[Array, "d c"]


@dataclass(frozen=True, slots=True)
class LeakyLMS(Method[LeakyState]):
    """LMS whose weights decay towards the start.

    Parameters
    ----------
    step : float
        γ, the fraction of a sample's error that is corrected.
    leak : float
        μ, the fraction of the distance to the start that is removed at every sample.
    """

    step: float = 1.0
    leak: float = 0.01

    summary = "LMS whose weights decay towards the start"
    cost = "3dc"
    memory = "2dc"

    def __post_init__(self) -> None:
        check_number(self.step, "step", high=2.0, hint="1 solves each sample exactly")
        check_number(self.leak, "leak", high=1.0, closed=True, hint="0 is LMS")

    def init(self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64) -> LeakyState:
        W = check_start(start, features, outputs, dtype)
        return LeakyState(W, W)

    @quiet
    def track(self, state: LeakyState, X: Any, Y: Any, donate: bool = False) -> tuple[LeakyState, Array]:
        X, Y = check_block(X, Y, state.W)
        W, errors, tiny = state.W.copy(), np.empty_like(Y), float(np.finfo(X.dtype).tiny)
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            errors[i] = y - x @ W
            W += self.leak * (state.start - W) + self.step * np.outer(x, errors[i]) / max(x @ x, tiny)  # (LL)
        check_result(W, errors)
        return LeakyState(W, state.start), errors

    def weights(self, state: LeakyState) -> Array:
        return read_only(state.W)

    def with_outputs(self, state: LeakyState, sources: Array) -> LeakyState:
        return LeakyState(take_outputs(state.W, sources), take_outputs(state.start, sources))
