"""Answers to rows of a block that no answering model has learned: leave-one-out, or by an earlier readout.

RLS that weighs all rows alike is asked after it has learned a block: the answer to each row without that row follows
from the fit (leave_one_out.py). That takes a solve, so it is done when enough rows have come (budget.py);
rows in between are answered by the readout of the last solve, before they are learned. All other methods answer the
rows of a block before they learn it. Rows of a class that the answering model does not know are not counted.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.estimators.readouts.assessment import Assessment
from remanence.estimators.readouts.discriminant import Discriminant
from remanence.estimators.readouts.leave_one_out import left_out, left_out_discriminant, leverages
from remanence.estimators.readouts.solution import solve_discriminant
from remanence.memory.posterior import NARROW
from remanence.methods import RLS
from remanence.methods.banks.by_class import ByClassState
from remanence.methods.protocol import Method
from remanence.validation import quiet


@dataclass(frozen=True, slots=True)
class AskedRows:
    """Rows of a block whose answers are counted."""

    design: Any  # (n, d), an array or SparseRows
    labels: Array  # (n,)
    weights: Array  # (n,)

    @classmethod
    def of(cls, design: Any, labels: Array, weights: Array | None, chosen: Array) -> "AskedRows":
        found = np.ones(len(chosen)) if weights is None else weights[chosen]
        return cls(design[chosen], labels[chosen], found)


@dataclass(frozen=True, slots=True)
class Readouts:
    """Readouts as they were at some time, for rows that come later: scores = design @ weights + bias."""

    classes: Array  # (c,) labels, sorted
    offset: Any  # subtracted from the features then
    linear: dict[str, tuple[Array, Any]]  # readout: weights (d, c) and bias
    discriminant: Discriminant | None = None
    factors: Array | None = None  # (c,) what a row of a class counts, where that is decided when solving

    def answers(self, rows: AskedRows) -> tuple[dict[str, Array], Array, Array]:
        """The scores of every readout, and the class and weight of each row, for rows of known classes."""
        place = np.searchsorted(self.classes, rows.labels).clip(max=len(self.classes) - 1)
        known = self.classes[place] == rows.labels
        X = rows.design[known]
        scores = {name: np.asarray(X @ W + bias, np.float64) for name, (W, bias) in self.linear.items()}
        return scores, place[known], self.weighted(rows.weights[known], place[known])

    def weighted(self, weights: Array, positions: Array) -> Array:
        """The weights of rows of these classes."""
        return weights if self.factors is None else weights * self.factors[positions]


@quiet
def count_answers(
    before: Assessment, found: tuple[dict[str, Array], Array, Array], seen: int, classes: int
) -> Assessment:
    """The assessment with these answers, if there are any that say something."""
    answers, positions, weights = found
    if classes < 2 or not len(positions) or not all(np.isfinite(scores).all() for scores in answers.values()):
        return before
    return before.updated(answers, positions, weights, seen, classes)


@quiet
def answers_without(
    method: RLS, state: Any, readouts: Readouts, rows: AskedRows, counts: Array
) -> tuple[dict[str, Array], Array, Array]:
    """The answers of a state of RLS to rows it has learned, each without that row; `counts`: rows by class."""
    state = state.as_least_squares("leaving a row out")
    positions, (W, _) = np.searchsorted(readouts.classes, rows.labels), readouts.linear["ridge"]
    scores = np.asarray(rows.design @ W, np.float64)
    joint = state.joint_root(method._schedule, method.ridge_of(state), keep=len(state.start) <= NARROW)
    # of a row of weight 2 one half is taken out, as if it were two rows
    out = readouts.weighted(np.minimum(rows.weights, 1.0), positions)
    leverage = leverages(joint.whitened(rows.design), out)
    totals = joint.energies()[len(joint.factor) :][counts > 0]  # Σ w of each class
    more = totals[positions] - out > 1e-6 * out  # a row that is alone in its class has no answer without it
    scores, positions, leverage, out = scores[more], positions[more], leverage[more], out[more]
    answers = {"ridge": left_out(scores, positions, leverage)}
    if readouts.discriminant is not None:
        found = readouts.discriminant
        answers["discriminant"] = left_out_discriminant(found, scores, positions, leverage, out)
    return answers, positions, readouts.weighted(rows.weights[more], positions)


@quiet
def readouts_of(
    method: Method[Any], state: Any, classes: Array, counts: Array, offset: Any, discriminant: bool
) -> Readouts:
    """The readouts of a state, of the classes that have rows; `offset` is None where there is no intercept."""
    kept = np.flatnonzero(counts > 0)
    W, factors = method.weights(state), state.factors[kept] if isinstance(state, ByClassState) else None
    linear: dict[str, tuple[Array, Any]] = {"ridge": (W[:, kept], 0.0)}
    if not discriminant or not isinstance(method, RLS):
        return Readouts(classes[kept], offset, linear, None, factors)
    found = solve_discriminant(method, state, W, counts > 0, offset is not None)
    linear["discriminant"] = found.weights[:, kept], 0.0 if found.bias is None else found.bias[kept]
    return Readouts(classes[kept], offset, linear, found.discriminant, factors)


def weighs_all_alike(method: Method[Any]) -> bool:
    """Whether a row can be taken out of a fit of this method: leave-one-out is defined."""
    return isinstance(method, RLS) and method.forget == 1
