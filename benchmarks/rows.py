"""The result of a benchmark: our number, that of another library, the goal for their ratio, and the machine's limit."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on the ratio: "at least" compares theirs to ours (times faster), "at most" ours to theirs (times it)."""

    sense: Literal["at least", "at most"]
    bound: float | None = None  # None: shown for information

    def ratio(self, ours: float, theirs: float) -> float:
        return theirs / ours if self.sense == "at least" else ours / theirs

    def met(self, ratio: float) -> bool | None:
        if self.bound is None:
            return None
        return ratio >= self.bound if self.sense == "at least" else ratio <= self.bound

    def __str__(self) -> str:
        return "–" if self.bound is None else f"{'≥' if self.sense == 'at least' else '≤'} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Limit:
    """A lower bound for any program on this machine, in the unit of the row."""

    what: str
    value: float


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison. Numbers are per row of data where the unit says so, so sides may see different amounts."""

    name: str
    what: str
    ours: float
    peer: str
    theirs: float
    goal: Goal
    limit: Limit | None = None
    unit: str = "seconds per row"
    accuracy: dict[str, float] = field(default_factory=dict)  # what was checked: the number found
    note: str = ""
    rounds: tuple[tuple[float, float], ...] = ()  # ours and theirs in every round: how noisy was it?

    @property
    def ratio(self) -> float:
        return self.goal.ratio(self.ours, self.theirs)

    @property
    def reached(self) -> bool | None:
        """Whether the goal is met; None where there is none."""
        return self.goal.met(self.ratio)

    @property
    def spread(self) -> tuple[float, float] | None:
        """The smallest and the largest ratio of a single round."""
        ratios = [self.goal.ratio(ours, theirs) for ours, theirs in self.rounds]
        return (min(ratios), max(ratios)) if ratios else None

    @property
    def above_limit(self) -> float | None:
        """Our number as a multiple of the machine's limit."""
        return None if self.limit is None else self.ours / self.limit.value

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "what": self.what,
            "unit": self.unit,
            "ours": self.ours,
            "peer": self.peer,
            "theirs": self.theirs,
            "ratio": self.ratio,
            "spread": self.spread,
            "rounds": len(self.rounds),
            "goal": None if self.goal.bound is None else {"sense": self.goal.sense, "bound": self.goal.bound},
            "sense": self.goal.sense,
            "reached": self.reached,
            "limit": None if self.limit is None else {"what": self.limit.what, "value": self.limit.value},
            "above_limit": self.above_limit,
            "accuracy": self.accuracy,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to spend on a benchmark."""

    share: float = 1.0  # of the rows of the full benchmark
    widest: int = 1 << 20  # features at most
    rounds: int = 15  # at most, of interleaved measurement
    seconds: float = 14.0  # after which no further round is begun

    def rows(self, full: int, least: int = 8) -> int:
        return min(full, max(least, int(full * self.share)))

    def features(self, full: int) -> int:
        return min(full, self.widest)


FULL = Effort()
QUICK = Effort(rounds=3, seconds=1.0)  # fewer rounds, not fewer rows: short streams pay for their beginning
SMOKE = Effort(share=0.002, widest=24, rounds=1, seconds=0.0)  # only: does it run?

Benchmark = Callable[[Effort], tuple[Row, ...]]


class PeerMissing(ImportError):
    """A library to compare with is not installed."""


class NotTheSame(AssertionError):
    """Two sides of a comparison did not compute the same thing, so their ratio would mean nothing."""


def distance(ours: Any, theirs: Any) -> float:
    """The largest difference, relative to the largest entry of theirs."""
    ours, theirs = np.asarray(ours, float).ravel(), np.asarray(theirs, float).ravel()
    if ours.shape != theirs.shape:
        raise NotTheSame(f"expected results of one size, got {ours.size} and {theirs.size}")
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def agree(ours: Any, theirs: Any, allowed: float, what: str) -> float:
    """The distance of two results; raises NotTheSame above `allowed`."""
    found = distance(ours, theirs)
    if not found <= allowed:  # true for NaN as well
        raise NotTheSame(f"{what}: expected the two sides to agree to {allowed:.0e}, got {found:.1e}")
    return found
