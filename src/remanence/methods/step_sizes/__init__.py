"""Step sizes of LMS: constant, one per sample, or a function of t; and two rules that converge in finitely many steps.

    c = (x₁ᵀx₂)² / (‖x₁‖²‖x₂‖²)                        (S1)
    γ_t = 1 for odd t, 1/(1 − c) for even t            (S2)   Theorem 3: two recurring tasks are solved at t = 3
    θ ← θ + γ_t (y − xᵀθ) x/‖x‖²                       (S3)   multiplies the error on the sample by 1 − γ_t

A constant step must lie in (0, 2), where (S3) reduces the error on the current sample. Steps given per sample need not:
(S2) exceeds 2 if c > 1/2, which increases that error for a while. For more than two tasks see `terminating`.
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
Step = float | Sequence[float] | Rule  # constant; one per sample; a function of t = 1, 2, ...


@dataclass(frozen=True, slots=True)
class Alternating:
    """The steps of Theorem 3 for two recurring tasks whose squared cosine is c.

    Parameters
    ----------
    c : float
        (x₁ᵀx₂)² / (‖x₁‖²‖x₂‖²), in [0, 1).

    Examples
    --------
    >>> import remanence as rm
    >>> rule = rm.steps.Alternating(0.5)
    >>> rule(1), rule(2), rule(3)
    (1.0, 2.0, 1.0)

    References
    ----------
    Peng and Vidal (2025), "Mathematics of continual learning", Theorem 3.
    """

    c: float

    def __post_init__(self) -> None:
        check_number(self.c, "c", 0, 1, closed=True, hint="c = 1 means parallel inputs, which no steps can separate")

    def __call__(self, t: int) -> float:
        return 1.0 if t % 2 else 1 / (1 - self.c)  # (S2)


def alternating(x1: Any, x2: Any) -> Alternating:
    """Alternating steps for two recurring tasks: LMS reaches the solution after sample 3.

    Parameters
    ----------
    x1, x2 : array (d,)
        The inputs of the two tasks, of any norm.

    Returns
    -------
    Alternating
        A rule for the argument `step` of `LMS`.

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> X = np.array([[1.0, 0.0], [0.8, 0.6], [1.0, 0.0]])
    >>> lms = rm.LMS(rm.steps.alternating(X[0], X[1]))
    >>> state = lms.update(lms.init(2, 1), X, X @ [[1.0], [-1.0]])
    >>> lms.weights(state).round(12).ravel()
    array([ 1., -1.])

    References
    ----------
    Peng and Vidal (2025), "Mathematics of continual learning", Theorem 3.
    """
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
    """Validate a step setting and return it as a float, a tuple of floats, or the callable itself.

    Parameters
    ----------
    step : float, sequence of float, or function of t
        The setting.
    normalized : bool
        Whether the step is that of normalized LMS, which must lie in (0, 2) if it is constant.

    Returns
    -------
    float, tuple of float, or callable

    Examples
    --------
    >>> import remanence as rm
    >>> rm.steps.check_step([1, 0.5])
    (1.0, 0.5)
    """
    if callable(step):
        return cast(Rule, step)
    if isinstance(step, (int, float, np.number)):
        why = "a step multiplies the error on the current sample by 1 - step, which grows it outside (0, 2)"
        hint = f"{why}; give larger or negative steps as a sequence, one per sample" if normalized else ""
        return check_number(step, "step", 0, 2 if normalized else np.inf, hint=hint)
    values = _numbers(step)
    if not values.size:
        raise InputError("expected at least one step, got an empty sequence; give one per sample, or a number")
    return tuple(values.tolist())


def resolve(step: Step, first: int, count: int) -> Array:
    """Return the steps of the samples t = first + 1 … first + count.

    Parameters
    ----------
    step : float, sequence of float, or function of t
        The setting.
    first : int
        The number of samples seen before.
    count : int
        The number of steps to return.

    Returns
    -------
    array (count,)

    Examples
    --------
    >>> import remanence as rm
    >>> rm.steps.resolve(lambda t: 1 / t, 1, 2)
    array([0.5       , 0.33333333])
    """
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


def twice(step: Any) -> Any:
    """The steps of two rows for every sample."""
    if callable(step):
        return lambda t: step((t + 1) // 2)
    return step if isinstance(step, float) else tuple(value for value in step for _ in range(2))


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
