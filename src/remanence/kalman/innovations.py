"""How unlikely was this task? The drift test: under the model every square is χ² with as many degrees as answers.

e_t = y_t − X_t θ_{t|t−1}     S_t = R_t + X_t Σ_{t|t−1} X_tᵀ     square_t = e_tᵀ S_t⁻¹ e_t          (D)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.kalman.gains import at
from remanence.kalman.model import LinearGaussian
from remanence.kalman.observations import check_answers
from remanence.kalman.results import Filtered
from remanence.kalman.smoother import check_filtered
from remanence.kernels.constants import CONFLICT, SEEN
from remanence.memory.gaussian import gain


@dataclass(frozen=True, slots=True, eq=False)
class Innovations:
    """What every task brought that the tasks before it did not foretell.

    Attributes
    ----------
    errors : array (T, m)
        y_t less what was foretold; NaN where an answer is missing.
    squares : array (T,)
        Their normalised squares, under the model χ² with `degrees` degrees of freedom; 0 for a task without answers.
    degrees : array (T,)
        The answers that could have been off.
    pvalues : array (T,)
        The chance of a square at least as large, were the model right.
    """

    errors: Array  # (T, m) NaN where missing
    squares: Array  # (T,) normalised; 0 for a task without answers, infinite for one that is impossible
    degrees: Array  # (T,) answers that could have been off
    pvalues: Array  # (T,) the chance of a square at least as large, were the model right


def innovations(model: LinearGaussian, filtered: Filtered, Y: Any) -> Innovations:
    """The errors of one-step prediction and their normalised squares, in the order of Y."""
    from scipy.special import gammaincc

    check_filtered(model, filtered)
    answers = check_answers(model, Y)
    N, T, _ = answers.Y.shape
    many = filtered.many
    mean = filtered.predicted_mean if many else filtered.predicted_mean[None]
    if answers.many != many or mean.shape[:2] != (N, T):
        raise InputError(f"expected the Y that was filtered, {mean.shape[:2]} series and steps, got {(N, T)}")
    errors = answers.Y - expected(model, filtered, mean)
    squares, degrees = np.zeros((N, T)), np.zeros((N, T), np.int64)
    for group in answers.groups:
        cov = filtered.predicted_cov[group[0]] if many else filtered.predicted_cov
        there = answers.present(group)
        for t in range(T):
            if there[t].any():
                squares[group, t], degrees[group, t] = _square(model, cov[t], t, there[t], errors, answers.Y, group)
    pvalues = np.where(degrees > 0, gammaincc(np.maximum(degrees, 1) / 2, squares / 2), np.where(squares > 0, 0.0, 1.0))
    results = (errors, squares, degrees, pvalues)
    return Innovations(*(v if many else v[0] for v in results))


def expected(model: LinearGaussian, filtered: Filtered, mean: Array) -> Array:
    """What the tasks before foretold: f(θ_{t|t−1}) of an extended filter, X θ_{t|t−1} of a linear one."""
    if filtered.expected is not None:
        return filtered.expected[None]
    X = model.steps.X
    return np.asarray(mean @ X[0].T if len(X) == 1 else np.einsum("ntd,tmd->ntm", mean, X))


def _square(
    model: LinearGaussian, cov: Array, t: int, there: Array, errors: Array, Y: Array, group: Array
) -> tuple[Array, int]:
    s = model.steps
    found = gain(cov, at(s.X, t)[there], at(s.R, t)[np.ix_(there, there)], float(at(s.least_R, t)))
    e, y = errors[group, t][:, there], Y[group, t][:, there]
    w = e @ found.W.T
    seen = found.kinds == SEEN
    square = (w[:, seen] ** 2).sum(axis=1)
    impossible = np.abs(w) > found.slack + CONFLICT * (np.abs(y) + np.abs(y - e))
    square[impossible[:, ~seen].any(axis=1)] = np.inf
    return square, int(seen.sum())
