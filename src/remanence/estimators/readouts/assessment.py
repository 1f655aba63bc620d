"""What a classifier knows of its own answers: sums over rows that were answered by models that had not learned them.

It is a value of a few hundred numbers beside the memory, kept in files. It depends on how the rows were cut, as every
estimate from answers along the way does; the memory does not. Where both readouts were asked, the rows that only one of
them got right are counted too, with a the weight of those that the readout in use got right and b that of the others:

    change the readout where  b − a > EVIDENCE √(Σ w²)                                                             (A1)

The sum runs over these rows. If both readouts are equally good, that is the deviation of b − a, whatever the weights
and the decay (C3): McNemar's test. After a change the same evidence is needed against the new one, so that readouts
that are equally good do not alternate.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np

from remanence.arrays import Array
from remanence.estimators.readouts.calibration import BETAS, BINS, EPSILONS, Calibration

KINDS = ("ridge", "discriminant")
EVIDENCE = 2.5  # deviations
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
    discordant: float = 0.0  # Σ w² of the rows that one readout alone got right
    choice: str = "ridge"  # the readout that "auto" uses

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
        discordant = now.discordant
        right = {}
        for readout, scores in answers.items():
            k = KINDS.index(readout)
            found = now.of(readout, classes).updated(scores, positions, weights)
            losses[k], rows[k], bins[k] = found.losses, found.rows, found.bins
            right[readout] = scores.argmax(axis=1) == positions
        if len(right) == len(KINDS):
            for k, (mine, other) in enumerate((KINDS, KINDS[::-1])):
                only = weights[right[mine] & ~right[other]]
                alone[k] += float(only.sum())
                discordant += float(only @ only)
        sums = replace(now, losses=losses, rows=rows, bins=bins, alone=alone, discordant=discordant)
        return replace(sums, seen=seen, classes=classes).decided()

    def decided(self) -> "Assessment":
        """With the other readout as the choice, if there is evidence for it (A1)."""
        chosen = KINDS.index(self.choice)
        lead = float(self.alone[1 - chosen] - self.alone[chosen])
        return replace(self, choice=KINDS[1 - chosen]) if lead > EVIDENCE * self.discordant**0.5 else self

    def scaled(self, by: float) -> "Assessment":
        """With all sums multiplied by a number."""
        if by == 1:
            return self
        sums = {name: getattr(self, name) * by for name in ("losses", "rows", "bins", "alone")}
        return replace(self, **sums, discordant=self.discordant * by**2)

    def outdated(self, seen: int) -> "Assessment":
        """For answers of the model of so many rows: what earlier ones say of its probabilities counts less (C4)."""
        by = min(self.solved / max(seen, 1), 1.0) ** 2 if self.solved else 1.0
        return replace(self, losses=self.losses * by, rows=self.rows * by, bins=self.bins * by)

    def unlearned(self, left: int, before: int) -> "Assessment":
        """After rows were removed. Sums do not know single rows: they shrink by the share of the rows that went.

        The choice stays: there is less evidence now, and none against it.
        """
        now, share = self.scaled(left / before), left / before
        return replace(now, discordant=self.discordant * share, seen=min(now.seen, left), solved=min(now.solved, left))

    def merged(self, other: "Assessment") -> "Assessment":
        """The sums of both; where the choices differ, the readout that was right more often."""
        parts = ("losses", "rows", "bins", "alone", "seen", "solved", "discordant")
        sums = {name: getattr(self, name) + getattr(other, name) for name in parts}
        choice = self.choice if self.choice == other.choice else KINDS[int(sums["alone"].argmax())]
        return replace(self, **sums, classes=max(self.classes, other.classes), choice=choice).decided()

    def _decay(self, seen: int, classes: int) -> float:
        """(C3) of calibration.py."""
        if not (self.seen and self.classes):
            return 1.0
        return min(self.seen / max(seen, 1), 1.0) * min(self.classes / classes, 1.0) ** 2


NOTHING = Assessment()
