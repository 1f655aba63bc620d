"""What an answer tells of the weights: rows of unit noise, whatever the loss.

    squared   y = f(θ) + N(0, R)        X = R^−½ J                    w = R^−½ (y − f)               (V1)
    softmax   y ~ p = softmax f(θ)      X = diag(√p)(J − 1 pᵀJ)/√r    w = (y − p)/√(r p)             (V2)

(V2) is the filter that observes the mean p, whose noise is V = diag(p) − ppᵀ and whose derivative is VJ, scaled by r:
V is singular along 1, where y − p and VJ say nothing either, and with R = r(V + εI), ε → 0, the information
(VJ)ᵀR⁻¹VJ tends to JᵀVJ/r = XᵀX and the score (VJ)ᵀR⁻¹(y − p) to Jᵀ(y − p)/r = Xᵀw. So nothing has to be inverted, and
an answer that was thought impossible (p → 0) moves the weights by a bounded amount.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from remanence.arrays import Array
from remanence.deep.online.learner import check_targets
from remanence.errors import InputError
from remanence.validation import check_number, check_numbers

SMALLEST = 1e-30  # of a probability whose root is divided by


class Observation(ABC):
    """How answers are read."""

    @abstractmethod
    def read(self, outputs: Array, J: Array, y: Any) -> tuple[Array, Array, Array]:
        """The errors (n, c), and the rows X (n·c, D) and w (n·c,) of unit noise that they come to."""


@dataclass(frozen=True, slots=True)
class SquaredObservation(Observation):
    """Answers that are numbers, each output with its own noise."""

    noise: Array  # () or (c,)

    def read(self, outputs: Array, J: Array, y: Any) -> tuple[Array, Array, Array]:
        n, c, D = J.shape
        if self.noise.ndim and len(self.noise) != c:
            raise InputError(f"expected noise for {c} outputs, got {len(self.noise)}; one number fits any")
        errors = check_targets(y, (n, c)) - outputs
        scale = 1 / np.sqrt(np.broadcast_to(self.noise, c))
        return errors, (J * scale[:, None]).reshape(n * c, D), (errors * scale).ravel()  # (V1)


@dataclass(frozen=True, slots=True)
class SoftmaxObservation(Observation):
    """Answers that are classes, or shares of classes that sum to one."""

    noise: float  # r: how many times an answer is less sure than it claims

    def read(self, outputs: Array, J: Array, y: Any) -> tuple[Array, Array, Array]:
        n, c, D = J.shape
        shares = class_probabilities(y, n, c)
        p = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        root = np.sqrt(np.maximum(p, SMALLEST))
        errors, scale = shares - p, 1 / np.sqrt(self.noise)
        X = root[:, :, None] * (J - (p[:, None, :] @ J))
        return errors, scale * X.reshape(n * c, D), scale * (errors / root).ravel()  # (V2)


def class_probabilities(y: Any, n: int, c: int) -> Array:
    """Labels (n,) in 0..c−1, or shares (n, c) that sum to one, as shares."""
    if c < 2:
        raise InputError(f"expected a network with an output for each of two or more classes, got {c} output")
    given = y.numpy(force=True) if isinstance(y, Tensor) else np.asarray(y)
    if given.ndim == 1 and given.dtype.kind in "iu":
        if len(given) != n:
            raise InputError(f"x has {n} samples but y has {len(given)} labels; they must pair one by one")
        if given.min() < 0 or given.max() >= c:
            wrong = given[(given < 0) | (given >= c)][0]
            raise InputError(f"expected labels 0 … {c - 1}, one an output, got {wrong}; give the network more outputs")
        return np.asarray(np.eye(c)[given])
    if given.ndim != 2:
        raise InputError(
            f"expected y as integer labels ({n},) or as one-hot rows ({n}, {c}), got {given.dtype} {given.shape}"
        )
    shares = check_targets(given, (n, c))
    if (shares < 0).any() or (np.abs(shares.sum(axis=1) - 1) > 1e-6).any():
        raise InputError("expected every row of y to hold shares of the classes that sum to 1, got others; use one-hot")
    return shares


def observation(loss: Any, noise: Any) -> tuple[Observation, float | list[float]]:
    """The reading that the settings `loss` and `noise` ask for; and the noise as a plain value."""
    hint = "the variance of an answer, like 1.0"
    if loss not in ("squared", "softmax"):
        raise InputError(f'expected loss to be "squared" or "softmax", got {loss!r}')
    if np.ndim(noise) == 0:
        value = check_number(noise, "noise", hint=hint)
        return (SquaredObservation(np.array(value)) if loss == "squared" else SoftmaxObservation(value)), value
    variances = np.array(check_numbers(noise, "noise", np.float64))
    if loss == "softmax" or variances.ndim != 1 or not (np.isfinite(variances) & (variances > 0)).all():
        one = "" if loss == "softmax" else " or one an output"
        raise InputError(f"expected noise to be a positive number{one}, got shape {variances.shape}; {hint}")
    return SquaredObservation(variances), variances.tolist()
