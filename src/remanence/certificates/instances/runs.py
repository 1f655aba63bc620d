"""Runs through the public calls: the path of models a method walks, and how many roundings lie on it."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.certificate import Evidence, rounding
from remanence.methods.protocol import Method


def walked(method: Method[Any], X: Array, Y: Array, start: Array | None = None) -> Array:
    """The models θ⁰, θ¹, …, θᵀ of a method that learns row by row, (T + 1, d, c)."""
    state = method.init(X.shape[1], Y.shape[1], start)
    path = [np.array(method.weights(state))]
    for t in range(len(X)):
        state = method.update(state, X[t : t + 1], Y[t : t + 1])
        path.append(np.array(method.weights(state)))
    return np.array(path)


def learned(method: Method[Any], X: Array, Y: Array, start: Array | None = None) -> Array:
    """The model after all rows, learned in one block, (d, c)."""
    return np.array(method.weights(method.update(method.init(X.shape[1], Y.shape[1], start), X, Y)))


def operations(rows: int, features: int) -> int:
    """How many operations in a row a weight goes through while a method takes this many steps.

    A step is two inner products of length d and at most four operations more; the oracle it is compared with goes
    through as many again.
    """
    return rows * (4 * features + 8)


def tightest(sides: Iterable[tuple[float, float]], slack: float = 0.0, *conditions: str) -> Evidence:
    """Of several inequalities left ≤ right the one that is nearest to failing; `slack` is what rounding may add."""
    left, right = max(((a, b + slack) for a, b in sides), key=_strain)
    return Evidence(left, right, conditions)


def _strain(pair: tuple[float, float]) -> float:
    left, right = pair
    return float("inf") if not left <= right else left / max(right, float(np.finfo(float).tiny))


def worst_of(*values: float) -> float:
    """The largest of several numbers; NaN if one is, which Python's max would pass over."""
    return float(np.max(values))


def largest(values: Array) -> float:
    """The largest magnitude; NaN if there is one."""
    return float(np.max(np.abs(values), initial=0.0))


def within(measured: float, kappa: float, size: float, what: str, *conditions: str) -> Evidence:
    """The evidence of an identity whose condition number `kappa` is called `what`."""
    return Evidence(measured, rounding(kappa, size), (f"{what} {kappa:.0e}", *conditions))
