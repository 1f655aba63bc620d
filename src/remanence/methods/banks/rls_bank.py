"""What RLS(forget="auto") has learned: one model per forgetting factor, and how well each has predicted.

    Vₖ  ←  δ Vₖ + e²         the squared errors of member k before learning, per output, fading               (B1)
    Lₖ  =  ½ m Σ log Vₖ      minus its log-likelihood over m = 1 + δ + … rows, the noise profiled out          (B2)
    another member is used once its L is smaller than that of the one in use by EVIDENCE                     (B3)

The members learn every row; what is reported and predicted comes from the one in use before that row.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.memory.forgetting import WeightSchedule
from remanence.memory.root import take_outputs
from remanence.methods.rls_state import RLSState

BANK = (1.0, 0.999, 0.997, 0.99, 0.97, 0.9, 0.7)  # β of the members: memories of 3 to 1000 rows, and of all
FADING = 0.998  # δ
EVIDENCE = 3.0  # the logarithm of a likelihood ratio of 20
STRIDE = 256  # rows over which the powers of δ are harmless
SCHEDULES = tuple(WeightSchedule(forget) for forget in BANK)
LARGEST = 1e300  # of a squared error


@dataclass(frozen=True, slots=True)
class BankState:
    """States of RLS with different forgetting factors, and their fading squared errors; see rls_state.py."""

    members: Annotated[tuple[RLSState, ...], "d c"]
    squares: Annotated[Array, "k c float64"]  # V
    used: int  # the member in use

    @classmethod
    def from_members(cls, members: tuple[RLSState, ...]) -> "BankState":
        return cls(members, np.zeros((len(members), members[0].start.shape[1])), 0)

    @property
    def forget(self) -> float:
        """The forgetting factor in use."""
        return BANK[self.used]

    @property
    def best(self) -> RLSState:
        """The member in use."""
        return self.members[self.used]

    @property
    def start(self) -> Array:
        return self.members[0].start

    @property
    def count(self) -> int:
        return self.members[0].count

    def as_least_squares(self, call: str) -> RLSState:
        raise InputError(f'{call} needs one forgetting factor, got forget="auto"; give a number')

    def each(self, change: Callable[[WeightSchedule, RLSState], RLSState]) -> "BankState":
        """With every member changed."""
        members = (change(schedule, member) for schedule, member in zip(SCHEDULES, self.members, strict=True))
        return replace(self, members=tuple(members))

    def learned(
        self, schedule: WeightSchedule, X: Array, Y: Array, donate: bool = False, scratch: bool = False
    ) -> "BankState":
        return self.tracked(schedule, X, Y, donate)[0]

    def tracked(self, schedule: WeightSchedule, X: Array, Y: Array, donate: bool = False) -> tuple["BankState", Array]:
        """With the rows X, Y, and the error of every row before it was learned, by the member in use then."""
        pairs = zip(SCHEDULES, self.members, strict=True)
        members, errors = zip(*(member.tracked(own, X, Y, donate) for own, member in pairs), strict=True)
        found = np.stack(errors)  # (k, n, c)
        squares, used, chosen = self.squares, self.used, np.empty(len(X), int)
        for i in range(0, len(X), STRIDE):
            part = slice(i, i + STRIDE)
            faded = _faded(squares, found[:, part])
            chosen[part], used = _switched(_losses(squares, faded, self.count + i), used)
            squares = faded[:, -1]
        return BankState(tuple(members), squares, used), np.ascontiguousarray(found[chosen, np.arange(len(X))])

    def weights(self, schedule: WeightSchedule) -> Array:
        return self.best.weights(SCHEDULES[self.used])

    def folded_state(self, schedule: WeightSchedule) -> "BankState":
        return self  # tracked rows are folded in at once

    def with_outputs(self, schedule: WeightSchedule, sources: Array) -> "BankState":
        changed = self.each(lambda own, member: member.with_outputs(own, sources))
        return replace(changed, squares=take_outputs(self.squares, sources))

    def precision_loss(self, schedule: WeightSchedule) -> float:
        return 0.0  # nothing can be removed

    def representative_rows(self, schedule: WeightSchedule) -> tuple[Array, Array]:
        return self.members[0].representative_rows(SCHEDULES[0])  # that of all rows


def _faded(squares: Array, errors: Array) -> Array:
    """V after each row (k, n, c)."""
    powers = FADING ** np.arange(1.0, errors.shape[1] + 1)[:, None]
    with np.errstate(over="ignore"):
        new = np.minimum(errors.astype(np.float64) ** 2, LARGEST)
    return np.asarray(powers * (squares[:, None] + np.cumsum(new / powers, axis=1)))  # (B1)


def _losses(squares: Array, faded: Array, count: int) -> Array:
    """L of every member before each row, and after the last (n + 1, k)."""
    rows = (1 - FADING ** np.arange(count, count + faded.shape[1] + 1.0)) / (1 - FADING)  # m
    V = np.concatenate([squares[:, None], faded], axis=1)
    floor = np.maximum(V.max(axis=0) * np.finfo(float).eps, np.finfo(float).tiny)  # a perfect fit is one to rounding
    return np.asarray(0.5 * rows[:, None] * np.log(np.maximum(V, floor)).sum(axis=2).T)  # (B2)


def _switched(losses: Array, used: int) -> tuple[Array, int]:
    """The member in use before each row, and after the last."""
    chosen, i, best = np.empty(len(losses), int), 0, losses.min(axis=1)
    while i < len(losses):
        wins = np.flatnonzero(best[i:] < losses[i:, used] - EVIDENCE)  # (B3)
        end = i + int(wins[0]) if len(wins) else len(losses)
        chosen[i:end] = used
        if len(wins):
            used = int(losses[end].argmin())
            chosen[end] = used
            end += 1
        i = end
    return chosen[:-1], used


def ask(rls: Any, state: BankState, call: str, *arguments: Any) -> Any:
    """What a call of RLS with the forgetting factor in use gives for its member."""
    return getattr(replace(rls, forget=state.forget), call)(state.best, *arguments)
