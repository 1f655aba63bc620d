"""The steps of LMS: constant, one a sample, or a rule of t; and the two rules that end exactly.

    c = (x₁ᵀx₂)² / (‖x₁‖²‖x₂‖²)                        (S1)
    γ_t = 1 for odd t, 1/(1 − c) for even t            (S2)   Theorem 3: two recurring tasks are solved at t = 3
    θ ← θ + γ_t (y − xᵀθ) x/‖x‖²                       (S3)   multiplies the error on the sample by 1 − γ_t

A constant step must lie in (0, 2), where (S3) shrinks the error of the moment. Steps given per sample need not:
(S2) exceeds 2 as soon as c > 1/2, and errs now in order to be right later. For more than two tasks see `terminating`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from remanence.checks import Array, check_count, check_finite, check_number, check_rows
from remanence.errors import InputError
from remanence.methods.terminating import terminating

__all__ = ["Alternating", "Rule", "Step", "alternating", "check_step", "resolve", "terminating"]

Rule = Callable[[int], float]
Step = float | Sequence[float] | Rule  # constant; one a sample; a function of t = 1, 2, ...


@dataclass(frozen=True, slots=True)
class Alternating:
    """The steps of Theorem 3 for two recurring tasks whose squared cosine is c."""

    c: float

    def __post_init__(self) -> None:
        check_number(self.c, "c", 0, 1, closed=True, hint="c = 1 means parallel inputs, which no steps can separate")

    def __call__(self, t: int) -> float:
        return 1.0 if t % 2 else 1 / (1 - self.c)  # (S2)


def alternating(x1: Any, x2: Any) -> Alternating:
    """The alternating steps for tasks with inputs x1 and x2, of any norm: LMS is at the solution after sample 3."""
    if np.ndim(x1) != 1 or np.shape(x1) != np.shape(x2) or not np.size(x1):
        raise InputError(f"expected x1 and x2 of one shape (d,), got {np.shape(x1)} and {np.shape(x2)}; pass two rows")
    X = check_rows([x1, x2], len(x1))
    largest = np.abs(X).max(axis=1, keepdims=True)
    if not largest.all():
        raise InputError("expected x1 and x2 that are not zero; a zero input teaches nothing, leave that task out")
    X = X / largest
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    c = min(float(X[0] @ X[1]) ** 2, 1.0)  # (S1)
    if 1 - c <= max(16, len(x1)) * np.finfo(float).eps:
        raise InputError(
            "expected x1 and x2 of different directions, got parallel ones (c = 1 within rounding); "
            "they are one task: a constant step of 1 solves it at once"
        )
    return Alternating(c)


def check_step(step: Any, normalized: bool = True) -> float | tuple[float, ...] | Rule:
    """The step setting in the form it is kept: a float, a tuple of floats, or the callable itself."""
    if callable(step):
        return cast(Rule, step)
    if np.ndim(step) == 0 if isinstance(step, np.ndarray) else _is_number(step):
        return _constant(step, normalized)
    return tuple(_numbers(step).tolist())
