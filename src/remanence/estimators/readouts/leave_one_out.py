"""The answers of a classifier to rows it has learned, as if it had learned all rows but the one in question.

A row at hand with residual e = y − s and leverage h = v xᵀΦx is taken out of least squares, with the weight v, by

    s′ = s − h/(1−h) e                             ridge scores                                                 (O1)
    E′ = E − v e eᵀ/(1−h)                          what ridge regression leaves unexplained, see discriminant.py (O2)
    K′ = K + v K e eᵀK / (1 − h − v eᵀKe)          its inverse, by Sherman and Morrison                          (O3)

so that no model is fitted again: a row costs d² for its leverage and c² for (O3). The scores of the discriminant are
exact but for κ, which is that of all rows. A row that is the only one of its class has no answer without it. Of a row
of weight 2 one half is taken out, as if it were two rows: v is at most 1.
"""

import numpy as np

from remanence.arrays import Array
from remanence.estimators.readouts.discriminant import Discriminant
from remanence.memory.root import sums_of_squares


def left_out(scores: Array, positions: Array, leverage: Array) -> Array:
    """(n, c) The ridge scores of rows without each row itself (O1)."""
    residual = _residual(scores, positions)
    return np.asarray(scores - (leverage / _rest(leverage))[:, None] * residual)


def left_out_discriminant(
    found: Discriminant, scores: Array, positions: Array, leverage: Array, weights: Array
) -> Array:
    """(n, c) The scores of the discriminant without each row itself; every class must keep a row."""
    e, rest = _residual(scores, positions), _rest(leverage)
    Ke = found.inverse.apply(e)
    gain = weights / np.maximum(rest - weights * np.einsum("ij,ij->i", e, Ke), np.finfo(float).tiny)  # (O3)
    without = left_out(scores, positions, leverage)
    mapped = found.inverse.apply(without) + (gain * np.einsum("ij,ij->i", without, Ke))[:, None] * Ke
    diagonal = found.inverse.distances + 1 / found.counts + gain[:, None] * Ke**2
    counts = np.tile(found.counts, (len(e), 1))
    counts[np.arange(len(e)), positions] -= weights
    total = counts.sum(axis=1, keepdims=True)
    return np.asarray(total / found.kappa * (mapped - 0.5 * diagonal + 0.5 / counts) + np.log(counts / total))


def leverages(whitened: Array, weights: Array) -> Array:
    """h of rows, from R⁻ᵀXᵀ (d, n)."""
    return np.asarray(weights * sums_of_squares(whitened))


def _residual(scores: Array, positions: Array) -> Array:
    residual = np.negative(scores)
    residual[np.arange(len(scores)), positions] += 1
    return np.asarray(residual)


def _rest(leverage: Array) -> Array:
    """1 − h, which rounding must not make negative."""
    return np.asarray(np.maximum(1 - leverage, 64 * np.finfo(float).eps))
