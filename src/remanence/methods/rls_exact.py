"""RLS at β = 0: every sample is an exact constraint (Lemma 1: the steps of ICL), and a conflict is refused.

minimise ‖W − θ⁰‖²  subject to  yᵢ = Wᵀxᵢ for all i                        (C)
"""

from dataclasses import dataclass

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.memory.root import take_outputs
from remanence.memory.subspace import Subspace, nothing
from remanence.memory.subspace_walk import walk
from remanence.validation import quiet


@dataclass(frozen=True, slots=True)
class Exact:
    """Weights that meet every constraint so far, and the directions the constraints fix."""

    W: Array  # (d, c)
    past: Subspace
    start: Array  # (d, c) θ⁰

    @classmethod
    def begin(cls, start: Array) -> "Exact":
        return cls(start, nothing(len(start), start), start)

    def with_outputs(self, sources: Array) -> "Exact":
        return Exact(take_outputs(self.W, sources), self.past, take_outputs(self.start, sources))


@quiet
def track_exact(state: Exact, X: Array, Y: Array) -> tuple[Exact, Array]:
    """Meet the new constraints too; refused, with nothing changed, where old and new contradict each other."""
    W, past, errors = walk(state.W, state.past, X, Y, 1e-9)
    left = np.abs(Y - X @ W)
    allowed = np.sqrt(np.finfo(W.dtype).eps) * 64 * (np.abs(Y) + np.abs(X) @ np.abs(W))
    if (left > allowed).any():
        row = int(np.argmax((left - allowed).max(axis=1)))
        raise InputError(
            f"forget=0 demands that every sample is met exactly, but row {row} contradicts earlier ones by "
            f"{left[row].max():.2g}; use ICL to let the oldest win, or RLS with forget=1 to average"
        )
    return Exact(W, past, state.start), errors
