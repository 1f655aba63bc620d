"""RLS at β = 0: every sample is an exact constraint (Lemma 1: the steps of ICL), and a conflict is refused.

minimise ‖W − θ⁰‖²  subject to  yᵢ = Wᵀxᵢ for all i                        (C)
"""

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.memory.forgetting import WeightSchedule
from remanence.memory.root import take_outputs
from remanence.memory.subspace import Subspace, nothing
from remanence.memory.subspace_walk import walk


@dataclass(frozen=True, slots=True)
class ExactState:
    """Weights that meet every constraint so far, and the directions the constraints fix; see rls_state.py."""

    W: Array  # (d, c)
    past: Subspace
    start: Array  # (d, c) θ⁰

    @classmethod
    def from_start(cls, start: Array) -> "ExactState":
        return cls(start, nothing(len(start), start), start)

    def as_least_squares(self, call: str) -> NoReturn:
        raise InputError(f"{call} needs a soft memory, got forget=0 (exact constraints); use forget=1 for it")

    def learned(
        self, schedule: WeightSchedule, X: Array, Y: Array, donate: bool = False, scratch: bool = False
    ) -> "ExactState":
        return self.tracked(schedule, X, Y)[0]

    def tracked(self, schedule: WeightSchedule, X: Array, Y: Array, donate: bool = False) -> tuple["ExactState", Array]:
        """Meet the new constraints too; InputError where old and new contradict each other."""
        W, past, errors = walk(self.W, self.past, X, Y, 1e-9)
        left = np.abs(Y - X @ W)
        allowed = np.sqrt(np.finfo(W.dtype).eps) * 64 * (np.abs(Y) + np.abs(X) @ np.abs(W))
        if (left > allowed).any():
            row = int(np.argmax((left - allowed).max(axis=1)))
            raise InputError(
                f"forget=0 demands that every sample is met exactly, but row {row} contradicts earlier ones by "
                f"{left[row].max():.2g}; use ICL to let the oldest win, or RLS with forget=1 to average"
            )
        return ExactState(W, past, self.start), errors

    def weights(self, schedule: WeightSchedule) -> Array:
        return self.W

    def folded_state(self, schedule: WeightSchedule) -> "ExactState":
        return self

    def with_outputs(self, schedule: WeightSchedule, sources: Array) -> "ExactState":
        return ExactState(take_outputs(self.W, sources), self.past, take_outputs(self.start, sources))

    def precision_loss(self, schedule: WeightSchedule) -> float:
        return 0.0

    def representative_rows(self, schedule: WeightSchedule) -> None:
        return None
