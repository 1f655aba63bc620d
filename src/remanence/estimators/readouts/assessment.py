"""What a classifier knows of its own answers: sums over rows that were answered by models that had not learned them.

It is a value of a few hundred numbers beside the memory, kept in files. It depends on how the rows were cut, as every
estimate from answers along the way does; the memory does not. Where both readouts were asked, the rows that only one of
them got right are counted too, so that they can be compared.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np

from remanence.arrays import Array
from remanence.estimators.readouts.calibration import BETAS, BINS, EPSILONS, Calibration

KINDS = ("ridge", "discriminant")
SHAPE = (len(KINDS), len(BETAS["ridge"]), len(EPSILONS))


@dataclass(frozen=True, slots=True)
class Assessment:
    """Sums over answered rows, by readout."""

    losses: Annotated[Array, "k b e float64"] = field(default_factory=lambda: np.zeros(SHAPE))
    rows: Annotated[Array, "k float64"] = field(default_factory=lambda: np.zeros(len(KINDS)))
    bins: Annotated[Array, "k m n float64"] = field(default_factory=lambda: np.zeros((len(KINDS), BINS, 3)))
    alone: Annotated[Array, "k float64"] = field(default_factory=lambda: np.zeros(len(KINDS)))  # only this one right
    seen: int = 0  # rows learned when answers were last counted
    classes: int = 0  # and classes
    solved: int = 0  # rows learned when a readout was last solved for the sake of answers

    def of(self, readout: str, classes: int) -> Calibration:
        """The sums of one readout, for a model of so many classes."""
        k = KINDS.index(readout)
        return Calibration(readout, classes, self.losses[k], float(self.rows[k]), self.bins[k])

    def updated(
        self, answers: dict[str, Array], positions: Array, weights: Array, seen: int, classes: int
    ) -> "Assessment":
        """With answers to rows: the scores (n, c) of each readout that was asked, and the class of each row."""
        now = self.scaled(self._decay(seen, classes))
        losses, rows, bins, alone = now.losses.copy(), now.rows.copy(), now.bins.copy(), now.alone.copy()
        right = {}
        for readout, scores in answers.items():
            k = KINDS.index(readout)
            found = now.of(readout, classes).updated(scores, positions, weights)
            losses[k], rows[k], bins[k] = found.losses, found.rows, found.bins
            right[readout] = scores.argmax(axis=1) == positions
        if len(right) == len(KINDS):
            for k, (mine, other) in enumerate((KINDS, KINDS[::-1])):
                alone[k] += float(weights @ (right[mine] & ~right[other]))
        return replace(now, losses=losses, rows=rows, bins=bins, alone=alone, seen=seen, classes=classes)

    def scaled(self, by: float) -> "Assessment":
        """With all sums multiplied by a number."""
        if by == 1:
            return self
        return replace(self, losses=self.losses * by, rows=self.rows * by, bins=self.bins * by, alone=self.alone * by)

    def unlearned(self, left: int, before: int) -> "Assessment":
        """After rows were removed. Sums do not know single rows: they shrink by the share of the rows that went."""
        now = self.scaled(left / before)
        return replace(now, seen=min(now.seen, left), solved=min(now.solved, left))

    def merged(self, other: "Assessment") -> "Assessment":
        """The sums of both."""
        parts = ("losses", "rows", "bins", "alone", "seen", "solved")
        sums = {name: getattr(self, name) + getattr(other, name) for name in parts}
        return replace(self, **sums, classes=max(self.classes, other.classes))

    def _decay(self, seen: int, classes: int) -> float:
        """(C3) of calibration.py."""
        if not (self.seen and self.classes):
            return 1.0
        return min(self.seen / max(seen, 1), 1.0) * min(self.classes / classes, 1.0) ** 2


NOTHING = Assessment()
