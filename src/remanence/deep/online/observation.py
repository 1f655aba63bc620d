"""Observation models: convert outputs and targets of either loss to rows of unit noise.

    squared   y = f(θ) + N(0, R)        X = R^−½ J                    w = R^−½ (y − f)               (V1)
    softmax   y ~ p = softmax f(θ)      X = diag(√p)(J − 1 pᵀJ)/√r    w = (y − p)/√(r p)             (V2)

(V2) is the filter that observes the mean p, with noise V = diag(p) − ppᵀ scaled by r and derivative VJ. V is singular
along 1, where y − p and VJ vanish too, and with R = r(V + εI), ε → 0, the information (VJ)ᵀR⁻¹VJ tends to
JᵀVJ/r = XᵀX and the score (VJ)ᵀR⁻¹(y − p) to Jᵀ(y − p)/r = Xᵀw. So nothing has to be inverted, and a target that was
considered impossible (p → 0) changes the weights by a bounded amount.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.deep.nn.tensors import as_numbers
from remanence.deep.online.learner import check_targets
from remanence.errors import InputError
from remanence.validation import check_number, check_numbers

SMALLEST = 1e-30  # lower bound of a probability whose root is a divisor


class Observation(ABC):
    """How targets are related to the network's outputs."""

    @abstractmethod
    def read(self, outputs: Array, J: Array, y: Any) -> tuple[Array, Array, Array]:
        """Return the errors (n, c), and the equivalent rows X (n·c, D) and w (n·c,) of unit noise."""


@dataclass(frozen=True, slots=True)
class SquaredObservation(Observation):
    """Real-valued targets, each output with its own noise."""

    noise: Array  # () or (c,)

    def read(self, outputs: Array, J: Array, y: Any) -> tuple[Array, Array, Array]:
        n, c, D = J.shape
        if self.noise.ndim and len(self.noise) != c:
            raise InputError(f"expected noise for {c} outputs, got {len(self.noise)}; a single number applies to all")
        errors = check_targets(y, (n, c)) - outputs
        scale = 1 / np.sqrt(np.broadcast_to(self.noise, c))
        return errors, (J * scale[:, None]).reshape(n * c, D), (errors * scale).ravel()  # (V1)


@dataclass(frozen=True, slots=True)
class SoftmaxObservation(Observation):
    """Class targets: labels, or class probabilities that sum to one."""

    noise: float  # r: factor of the class covariance

    def read(self, outputs: Array, J: Array, y: Any) -> tuple[Array, Array, Array]:
        n, c, D = J.shape
        probabilities = class_probabilities(y, n, c)
        p = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        root = np.sqrt(np.maximum(p, SMALLEST))
        errors, scale = probabilities - p, 1 / np.sqrt(self.noise)
        X = root[:, :, None] * (J - (p[:, None, :] @ J))
        return errors, scale * X.reshape(n * c, D), scale * (errors / root).ravel()  # (V2)


def class_probabilities(y: Any, n: int, c: int) -> Array:
    """Return labels (n,) in 0..c−1, or probabilities (n, c) that sum to one, as probabilities."""
    if c < 2:
        raise InputError(f"expected a network with an output for each of two or more classes, got {c} output")
    given = np.asarray(as_numbers(y))
    if given.ndim == 1 and given.dtype.kind in "iu":
        if len(given) != n:
            raise InputError(f"x has {n} samples but y has {len(given)} labels; they must pair one by one")
        if given.min() < 0 or given.max() >= c:
            wrong = given[(given < 0) | (given >= c)][0]
            raise InputError(f"expected labels 0 … {c - 1}, one per output, got {wrong}; give the network more outputs")
        return np.asarray(np.eye(c)[given])
    if given.ndim != 2:
        raise InputError(
            f"expected y as integer labels ({n},) or as one-hot rows ({n}, {c}), got {given.dtype} {given.shape}"
        )
    probabilities = check_targets(given, (n, c))
    if (probabilities < 0).any() or (np.abs(probabilities.sum(axis=1) - 1) > 1e-6).any():
        raise InputError("expected every row of y to be class probabilities that sum to 1; use one-hot rows")
    return probabilities


def observation(loss: Any, noise: Any) -> tuple[Observation, float | list[float]]:
    """Return the observation model for the settings `loss` and `noise`, and the noise as a plain value."""
    hint = "the variance of an observation, like 1.0"
    if loss not in ("squared", "softmax"):
        raise InputError(f'expected loss to be "squared" or "softmax", got {loss!r}')
    if np.ndim(noise) == 0:
        value = check_number(noise, "noise", hint=hint)
        return (SquaredObservation(np.array(value)) if loss == "squared" else SoftmaxObservation(value)), value
    variances = np.array(check_numbers(noise, "noise", np.float64))
    if loss == "softmax" or variances.ndim != 1 or not (np.isfinite(variances) & (variances > 0)).all():
        one = "" if loss == "softmax" else " or one per output"
        raise InputError(f"expected noise to be a positive number{one}, got shape {variances.shape}; {hint}")
    return SquaredObservation(variances), variances.tolist()
