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

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.methods.step_sizes.exact_termination import terminating
from remanence.validation import check_count, check_number, check_rows

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
    one, two = (np.asarray(x, dtype=object).shape for x in (x1, x2))
    if one != two or len(one) != 1 or one == (0,):
        raise InputError(f"expected x1 and x2 of one shape (d,), got {one} and {two}; pass two rows of X")
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
    if isinstance(step, (int, float, np.number)):
        why = "a step multiplies the error on the current sample by 1 - step, which grows it outside (0, 2)"
        hint = f"{why}; give larger or negative steps one a sample" if normalized else ""
        return check_number(step, "step", 0, 2 if normalized else np.inf, hint=hint)
    values = _numbers(step)
    if not values.size:
        raise InputError("expected at least one step, got an empty sequence; give one a sample, or a number")
    return tuple(values.tolist())


def resolve(step: Step, first: int, count: int) -> Array:
    """The steps of samples t = first+1 .. first+count, where `first` samples have been seen before."""
    first, count = check_count(first, "first", 0), check_count(count, "count", 0)
    if callable(step):
        return np.array([_rule(step, t) for t in range(first + 1, first + count + 1)], dtype=np.float64)
    if isinstance(step, (int, float, np.number)):
        return np.full(count, check_number(step, "step", -np.inf))
    values: Any = step if isinstance(step, (tuple, list)) else _numbers(step)  # a tuple is sliced, not converted
    if count and len(values) < first + count:
        raise InputError(
            f"step has {len(values)} entries but sample {max(len(values), first) + 1} arrived; "
            f"give one for every sample, or a number or a function of t = 1, 2, ..."
        )
    return _numbers(values[first : first + count])


def _rule(step: Rule, t: int) -> float:
    value: Any = step(t)
    good = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not good or not np.isfinite(value):
        raise InputError(f"expected step({t}) to be a finite real number, got {value!r}; check the function of t")
    return float(value)


def _numbers(step: Any) -> Array:
    """A sequence of steps as a vector; finite, and of any size or sign."""
    try:
        values = np.asarray(step)
    except ValueError:
        values = np.asarray(None)
    if values.ndim != 1 or values.dtype.kind not in "fiu":
        raise InputError(
            f"expected step to be a number, a flat sequence of real numbers or a function of t, got "
            f"{type(step).__name__} of dtype {values.dtype} and shape {values.shape}; pass e.g. 1.0 or [1.0, 0.5]"
        )
    if not np.isfinite(values).all():
        raise InputError("step contains NaN or infinity; every step must be finite")
    return values.astype(np.float64)
