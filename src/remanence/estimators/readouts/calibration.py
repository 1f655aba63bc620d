"""Probabilities out of scores, calibrated by answers to rows that the answering model had not learned.

    p_k = (1 − ε) softmax(β f(s))_k + ε/c         f(s) = sign(s) |s|^⅔ for ridge scores, s for a discriminant     (C1)
    L(β, ε) = Σᵢ −log p_yᵢ                         on a fixed grid of β and ε                                     (C2)

β is the reciprocal of a temperature; ε keeps a share for the answers that no temperature explains. Both keep the order
of the scores. Only the sums L are kept: 126 numbers per readout, however many rows and classes there are. The smallest
of them, interpolated in log β, gives β and ε; before there are rows they have usual values. The exponent is fixed:
ridge scores estimate probabilities by a linear function, which is too flat near 0 and 1 for a softmax.

Rows that came when the model had fewer rows or classes were answered by another model than today's. So with every
addition the earlier sums are multiplied by n_before/n_now · (c_before/c_now)².                                   (C3)

Rows in between were answered by the readout of the last solve, with n_solved rows. At the next solve the answers are
those of the model as it is, each row left out, and sums of before are multiplied by                (n_solved/n)² (C4)
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from remanence.arrays import Array

BETAS = {"ridge": 2.0 ** (np.arange(-2, 19) / 2), "discriminant": 2.0 ** (np.arange(-16, 5) / 2)}
EPSILONS = 4.0 ** -np.arange(1.0, 7.0)
BINS = 15  # of confidence, in reliability
AT_ONCE = 1 << 18  # numbers
PRIOR = 2.0  # added to L per squared factor 2 of β and 4 of ε away from what is usual: some tens of rows


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is known of one readout's answers to rows before they were learned."""

    readout: str
    classes: int
    losses: Array  # (betas, epsilons) L (C2)
    rows: float = 0.0  # counted in L, decayed as it is
    bins: Array | None = None  # (BINS, 3): rows, Σ confidence, Σ right, by the confidence in the answer

    def updated(self, scores: Array, positions: Array, weights: Array) -> "Calibration":
        """With answers to more rows: scores (n, c), the class of each row, and its weight."""
        linked = link(self.readout, scores)
        behind = linked - np.take_along_axis(linked, positions[:, None], axis=1)
        losses, betas, c = self.losses.copy(), BETAS[self.readout], scores.shape[1]
        size = max(AT_ONCE // (2 * c), 1)
        for i in range(0, len(behind), size):
            shares, part = _shares(behind[i : i + size], betas), weights[i : i + size]
            for j, epsilon in enumerate(EPSILONS):
                losses[:, j] -= np.log((1 - epsilon) * shares + epsilon / c) @ part
        new = replace(self, losses=losses, rows=self.rows + float(weights.sum()))
        confidence, right = answered(new.probabilities(scores), positions)
        return replace(new, bins=self._bins() + reliability_bins(confidence, right, weights))

    @property
    def setting(self) -> tuple[float, float]:
        """β and ε."""
        sums = self.losses + usual(self.readout, self.classes)
        i, j = np.unravel_index(int(sums.argmin()), sums.shape)
        position = float(i)
        if 0 < i < len(sums) - 1:
            before, here, after = sums[i - 1 : i + 2, j]
            position += 0.5 * float((before - after) / (before - 2 * here + after))
        return float(BETAS[self.readout][0] * 2 ** (position / 2)), float(EPSILONS[j])

    @property
    def log_loss(self) -> float | None:
        """The mean log-loss of the answers, at the best β and ε; None before there are any."""
        return float(self.losses.min() / self.rows) if self.rows > 0 else None

    @property
    def error(self) -> float | None:
        """The expected calibration error of the answers, each as calibrated when it was counted."""
        return calibration_error(self._bins()) if self.rows > 0 else None

    @property
    def accuracy(self) -> float | None:
        """The share of right answers."""
        return float(self._bins()[:, 2].sum() / self._bins()[:, 0].sum()) if self.rows > 0 else None

    def probabilities(self, scores: Array) -> Array:
        """(n, c) The probabilities of all classes (C1), in float64."""
        beta, epsilon = self.setting
        linked = beta * link(self.readout, scores)
        linked -= linked.max(axis=1, keepdims=True)
        shares = np.exp(linked)
        shares /= shares.sum(axis=1, keepdims=True)
        if shares.shape[1] == 1:
            return shares
        return np.asarray((1 - epsilon) * shares + epsilon / shares.shape[1])

    def _bins(self) -> Array:
        return np.zeros((BINS, 3)) if self.bins is None else self.bins


def _shares(behind: Array, betas: Array) -> Array:
    """(betas, n) The softmax at the true class, for scores less that of the true class (n, c).

    Every other β is twice as large, so the exponentials of all are squares of those of the first two.
    """
    totals = np.empty((len(betas), len(behind)))
    with np.errstate(over="ignore"):  # an infinite sum is a share of zero
        powers = np.exp(betas[0] * behind), np.exp(betas[1] * behind)
        for b in range(len(betas)):
            if b >= 2:
                np.square(powers[b % 2], out=powers[b % 2])
            powers[b % 2].sum(axis=1, out=totals[b])
    return np.divide(1, totals, out=totals)


def usual(readout: str, classes: int) -> Array:
    """(betas, epsilons) What is added to the losses so that few rows do not lead far from usual values."""
    beta, epsilon = (3 + 10 / 3 * np.log(max(classes, 2)) if readout == "ridge" else 0.3), 4.0**-4
    steps = np.log2(BETAS[readout] / beta)[:, None], np.log(EPSILONS / epsilon) / np.log(4)
    return np.asarray(PRIOR * (steps[0] ** 2 + steps[1] ** 2))


def link(readout: str, scores: Array) -> Array:
    """f(s) (C1), in float64; ridge scores that do not sum to one, as with LMS, are shifted so that they do."""
    scores = np.array(scores, np.float64)
    if readout == "ridge":
        scores += (1 - scores.sum(axis=1, keepdims=True)) / scores.shape[1]
        scores = np.cbrt(scores) * np.cbrt(np.abs(scores))
    return scores


def answered(probabilities: Array, positions: Array) -> tuple[Array, Array]:
    """The confidence in the answer to every row, and whether it was right."""
    best = probabilities.argmax(axis=1)
    return probabilities[np.arange(len(best)), best], best == positions


def reliability_bins(confidence: Array, right: Array, weights: Any = None) -> Array:
    """(BINS, 3) Rows, Σ confidence and Σ right of answers, in bins of equal width by their confidence."""
    confidence = np.asarray(confidence, np.float64)
    weights = np.ones(len(confidence)) if weights is None else np.asarray(weights, np.float64)
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    columns = (weights, weights * confidence, weights * np.asarray(right, np.float64))
    return np.stack([np.bincount(place, column, BINS) for column in columns], axis=1)


def calibration_error(bins: Array) -> float:
    """The expected calibration error: the mean of |share right − mean confidence| over the bins, by their rows."""
    return float(np.abs(bins[:, 2] - bins[:, 1]).sum() / bins[:, 0].sum())
