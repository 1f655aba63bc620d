"""Leaky LMS: a complete method in one screen, to copy for the next one.

θᵗ = (1 − μ) θᵗ⁻¹ + μ θ⁰ + γ x (y − xᵀθᵗ⁻¹) / ‖x‖²                        (LL)   a pull μ back to the start
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array, read_only
from remanence.memory.root import take_outputs
from remanence.methods.protocol import Method
from remanence.validation import check_block, check_number, check_result, check_start, quiet


@dataclass(frozen=True, slots=True)
class LeakyState:
    """What was learned: the weights, and the model they are pulled back to."""

    W: Array  # (d, c)
    start: Array  # (d, c)


@dataclass(frozen=True, slots=True)
class LeakyLMS(Method[LeakyState]):
    """LMS whose weights drift back to the start, so that what is not repeated fades."""

    step: float = 1.0
    leak: float = 0.01

    summary = "LMS whose weights drift back to the start"
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
        W, errors = state.W.copy(), np.empty_like(Y)
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            errors[i] = y - x @ W
            W += self.leak * (state.start - W) + self.step * np.outer(x, errors[i]) / max(x @ x, 1e-300)  # (LL)
        check_result(W, errors)
        return LeakyState(W, state.start), errors

    def weights(self, state: LeakyState) -> Array:
        return read_only(state.W)

    def with_outputs(self, state: LeakyState, sources: Array) -> LeakyState:
        return LeakyState(take_outputs(state.W, sources), take_outputs(state.start, sources))
