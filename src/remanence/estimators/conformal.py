"""Prediction intervals from the errors of rows before they were learned: adaptive conformal inference.

    radius  =  the ⌈(k + 1)(1 − αₜ)⌉-th smallest of the last k errors |e|                                     (C1)
    αₜ₊₁    =  αₜ + γ (α − [uₜ ≥ 1 − αₜ]),   uₜ = (errors before that were smaller than |eₜ|) / (k + 1)         (C2)

(C1) covers a share 1 − α of new rows if they are like the last k. (C2) makes up for rows that are not: after a miss the
intervals grow, after a hit they shrink, so that the share of misses stays near α under any drift. The ranks uₜ are kept
beside the errors, and (C2) is run over them when an interval is asked for: so every level α has its own αₜ and none has
to be known beforehand. The first errors have none before them to be ranked among, so (C2) starts after them. What is
kept are 2k numbers per output, no rows.

References
----------
Gibbs and Candès (2021), "Adaptive conformal inference under distribution shift", NeurIPS.
"""

from dataclasses import dataclass

import numpy as np

from remanence.arrays import Array, read_only
from remanence.errors import InputError

WINDOW = 500  # k, the number of errors kept per output
STEP = 0.02  # γ
DIGITS = 1024.0  # errors are rounded to one part in so many
FEWEST = 50  # of them that are kept in any case
SAMPLE = 250  # rows of a block that are measured, evenly spaced
UNRANKED = -1.0  # in place of u for errors with none before them


@dataclass(frozen=True, slots=True)
class PastErrors:
    """The sizes of the latest errors and their ranks among those before, oldest first."""

    sizes: Array  # (k, c) |e|
    ranks: Array  # (k, c) u
    credit: float = 0.0  # microseconds of learning since errors were measured last

    @classmethod
    def empty(cls, like: Array) -> "PastErrors":
        """None yet, of as many outputs and in the precision of these targets."""
        return cls(np.empty((0, like.shape[1]), like.dtype), np.empty((0, like.shape[1]), like.dtype))

    def extended(self, errors: Array) -> "PastErrors":
        """With the errors (n, c) of a block, each ranked among the errors before the block."""
        new = np.abs(errors, dtype=self.sizes.dtype)
        if not np.isfinite(new).all():
            return self
        fraction, exponent = np.frexp(new)  # three digits are enough for an interval, and reveal no target
        new = np.ldexp(np.round(fraction * DIGITS) / DIGITS, exponent)
        known = len(self.sizes)
        if not known:
            ranks = np.full(new.shape, UNRANKED)
        elif len(new) <= 4:
            ranks = np.array([(self.sizes < row).sum(axis=0) for row in new]) / (known + 1.0)
        else:
            order = np.sort(self.sizes, axis=0)
            below = [np.searchsorted(order[:, j], new[:, j]) for j in range(new.shape[1])]
            ranks = np.stack(below, axis=1) / (known + 1.0)
        sizes, ranks = (np.concatenate(pair)[-WINDOW:] for pair in ((self.sizes, new), (self.ranks, ranks)))
        return PastErrors(read_only(sizes), read_only(ranks.astype(sizes.dtype)))

    def outgrown(self, growth: float, more: int) -> "PastErrors":
        """The newest errors, a share that falls with the growth of the rows since they were measured.

        Earlier errors are those of a model of fewer rows. At least FEWEST are kept, with so many more to come.
        """
        kept = max(int(len(self.sizes) / growth**2), FEWEST - more, 0)
        first = max(len(self.sizes) - kept, 0)
        return PastErrors(self.sizes[first:], self.ranks[first:], self.credit)

    def merged(self, other: "PastErrors") -> "PastErrors":
        """Both, the newest of each last; the oldest are dropped."""
        ages = np.concatenate([np.arange(len(part.sizes), 0, -1) for part in (self, other)])
        order = np.argsort(-ages, kind="stable")[-WINDOW:]
        sizes, ranks = (np.concatenate(pair)[order] for pair in ((self.sizes, other.sizes), (self.ranks, other.ranks)))
        return PastErrors(read_only(sizes), read_only(ranks))

    def radius(self, level: float) -> Array | None:
        """Half the width of intervals of this level, (c,); None where there are too few errors for it."""
        k, alpha = len(self.sizes), 1 - level
        if np.ceil((k + 1) * level) > k:
            return None
        order = np.sort(self.sizes, axis=0)
        adapted = np.array([_adapted(ranks.tolist(), alpha) for ranks in self.ranks.T])
        place = np.clip(np.ceil((k + 1) * (1 - adapted)).astype(int), 1, k)
        return np.asarray(order[place - 1, np.arange(len(place))])  # (C1)


def _adapted(ranks: list[float], alpha: float) -> float:
    adapted = alpha
    for rank in ranks:
        if rank == UNRANKED:
            continue
        adapted += STEP * (alpha - (rank >= 1 - adapted))  # (C2)
    return adapted


def check_level(level: object) -> float:
    """The level of an interval: a number between 0 and 1."""
    real = isinstance(level, (int, float, np.integer, np.floating)) and not isinstance(level, bool)
    if not (real and 0 < float(level) < 1):  # type: ignore[arg-type]
        raise InputError(f"expected interval to be a share between 0 and 1, like 0.9, got {level!r:.60}")
    return float(level)  # type: ignore[arg-type]


def sample_places(rows: int) -> Array:
    """Rows of a block to measure, evenly spaced, the newest among them."""
    count = min(rows, SAMPLE)
    return rows - 1 - (np.arange(count)[::-1] * rows) // count
