"""Reliability: how often answers are right, by the probability that was given to them.

    log-loss = −Σᵢ log p(yᵢ) / n                                                                       (P1)
    calibration error = Σ_b |right_b − confidence_b| / n                                               (P2)

b runs over bins of equal width of the probability of the answer; right_b counts the rows of a bin that were answered
right, confidence_b sums the probabilities. A class that was never learned has probability 0 and counts as 1e-15.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.readouts.calibration import BINS, calibration_error, reliability_bins

LEAST = 1e-15


@dataclass(frozen=True, eq=False)
class Reliability:
    """Probabilities beside what came true.

    Parameters
    ----------
    bins : array (15, 3)
        By the probability of the answer: rows, the sum of these probabilities, and how many answers were right.
    losses : float
        The sum of −log of the probability of the true class.

    Examples
    --------
    >>> from remanence.evaluation.reliability import Reliability
    >>> found = Reliability.of([[0.8, 0.2], [0.4, 0.6]], [0, 0], classes=[0, 1])
    >>> round(found.log_loss, 3), round(found.error, 3)
    (0.57, 0.4)
    """

    bins: Array
    losses: float

    @classmethod
    def of(cls, probabilities: Any, true: Any, classes: Sequence[Any]) -> "Reliability":
        """From the probabilities (n, classes) of rows and their true labels."""
        probabilities = np.asarray(probabilities, np.float64)
        place = {label: k for k, label in enumerate(classes)}
        positions = np.array([place.get(label, -1) for label in np.asarray(true).tolist()], int)
        rows = np.arange(len(positions))
        given = np.where(positions < 0, 0.0, probabilities[rows, positions])
        answers = probabilities.argmax(axis=1)
        bins = reliability_bins(probabilities[rows, answers], answers == positions)
        return cls(bins, float(-np.log(np.clip(given, LEAST, 1)).sum()))

    def __add__(self, other: "Reliability") -> "Reliability":
        return Reliability(self.bins + other.bins, self.losses + other.losses)

    @property
    def rows(self) -> int:
        """How many rows were answered."""
        return int(self.bins[:, 0].sum())

    @property
    def log_loss(self) -> float:
        """The mean log-loss (P1)."""
        return self.losses / self.rows

    @property
    def error(self) -> float:
        """The expected calibration error (P2)."""
        return calibration_error(self.bins)

    def to_dict(self) -> dict[str, Any]:
        """The sums as a dictionary for JSON, with the figures that follow from them."""
        return {
            "log_loss": self.log_loss,
            "calibration_error": self.error,
            "bins": self.bins.tolist(),
            "losses": self.losses,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Reliability":
        """The sums from a dictionary made by `to_dict`."""
        bins = np.array(data["bins"], float)
        if bins.shape != (BINS, 3) or not np.isfinite(bins).all() or bins.min() < 0 or not bins[:, 0].sum():
            raise InputError(f"expected {BINS} bins of three sums, got {bins.shape}")
        return cls(bins, float(data["losses"]))
