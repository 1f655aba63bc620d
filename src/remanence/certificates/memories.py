"""The memory of a method as one matrix, and how much of it a later state lacks.

information   G = RᵀR                    nothing is lost if G_t − G_{t−1} ⪰ 0           (RLS)
covariance    Σ                          nothing is lost if Σ_{t−1} − Σ_t ⪰ 0           (Kalman)
directions    U, orthonormal             nothing is lost if U_{t−1} ∈ span U_t          (ICL, OGD, ORFit, APA†)
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from remanence.arrays import Array
from remanence.kalman import Kalman
from remanence.memory.window import Everything
from remanence.methods import APA, ICL, OGD, RLS, ORFit
from remanence.methods.protocol import Method


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """A copy of the memory of a method in one state."""

    kind: Literal["information", "covariance", "directions"]
    matrix: Array  # (d, d), or (d, r) directions


def memory_of(method: Method[Any], state: Any) -> MemorySnapshot | None:
    """The memory in a state, copied; None if the method keeps none that could be compared."""
    if isinstance(method, Kalman):
        return MemorySnapshot("covariance", np.array(state.best.known.cov))
    if isinstance(method, RLS) and method.forget != 0:
        factor = method.data(state).factor.astype(float)
        return MemorySnapshot("information", factor.T @ factor)
    if isinstance(method, (ICL, OGD, ORFit, RLS)):
        return MemorySnapshot("directions", np.array(state.past.basis, dtype=float))
    if isinstance(method, APA) and isinstance(state.past, Everything):
        return MemorySnapshot("directions", np.array(state.past.span.basis, dtype=float))
    return None


def lost(before: MemorySnapshot, after: MemorySnapshot) -> float:
    """How much of the older memory the newer one lacks, relative to the larger of the two; at most 0 if nothing."""
    old, new = before.matrix, after.matrix
    if before.kind == "directions":
        return float(np.linalg.norm(old - new @ (new.T @ old)))
    return shortfall(new - old if before.kind == "information" else old - new, max(size(old), size(new)))


def shortfall(difference: Array, scale: float) -> float:
    """How far a symmetric matrix is from having no negative eigenvalue, relative to `scale`."""
    smallest = float(np.linalg.eigvalsh((difference + difference.T) / 2)[0])
    return -smallest / max(scale, float(np.finfo(float).tiny))


def size(matrix: Array) -> float:
    """The largest singular value."""
    return float(np.linalg.norm(matrix, 2))
