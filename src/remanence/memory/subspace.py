"""Hard memory: an orthonormal basis U of directions that must not move.

    v̄ = v − U Uᵀv                       (S1)   the part that may move; taken twice, it is orthogonal to rounding
    U ← [U, v̄/‖v̄‖]                      (S2)   only where v̄ is more than rounding of v

The same code serves NumPy arrays and torch tensors; the d × d projector is never formed.
"""

import sys
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from remanence.validation import check_number


def namespace(array: Any) -> Any:
    """The module whose functions work on this array: numpy or torch."""
    return np if isinstance(array, np.ndarray) else sys.modules["torch"]


def rounding(array: Any) -> float:
    """Machine precision of the array's numbers."""
    return float(namespace(array).finfo(array.dtype).eps)


@dataclass(frozen=True, slots=True)
class Subspace:
    """Directions that must not move, as the orthonormal columns of a basis."""

    basis: Annotated[Any, "d r unit"]

    @property
    def features(self) -> int:
        return int(self.basis.shape[0])

    @property
    def rank(self) -> int:
        return int(self.basis.shape[1])

    def away(self, V: Any) -> Any:
        """The part of V, (d,) or (d, n), orthogonal to the subspace (S1)."""
        for _ in range(2):
            V = V - self.basis @ (self.basis.T @ V)
        return V

    def extended(self, V: Any, tolerance: float = 1e-9) -> "Subspace":
        """With the directions of the columns of V, oldest first, that the subspace lacks (S2)."""
        xp = namespace(V)
        tolerance = effective_tolerance(tolerance, V)
        basis = self.basis
        length = xp.linalg.norm(V, axis=0)
        rest = self.away(V)
        for j in range(V.shape[1]):
            if basis.shape[1] == self.features:
                break
            v = rest[:, j]
            v = v - basis @ (basis.T @ v)
            size = float(xp.linalg.norm(v))
            if size > tolerance * float(length[j]):
                u = v / size
                u = u - basis @ (basis.T @ u)
                u = (u / xp.linalg.norm(u))[:, None]
                basis = xp.concatenate([basis, u], axis=1)
                rest = rest - u @ (u.T @ rest)
        return Subspace(basis)

    def extended_to(self, V: Any, energy: float, tolerance: float = 0.0, decomposed: bool = False) -> "Subspace":
        """With the fewest leading directions of V that leave at most 1 − energy of ‖V‖² outside the subspace.

        Energy 1 keeps every direction of V that stands above `tolerance`·‖V‖ (never finer than rounding). The columns
        of a `decomposed` V are orthogonal, the strongest first.
        """
        check_number(energy, "energy", high=np.nextafter(1.0, 2.0), hint="1 keeps every direction")
        xp = namespace(V)
        if decomposed and not self.rank:
            strength = xp.linalg.norm(V, axis=0)
            left = V / xp.where(strength > 0, strength, 1.0)
        else:
            left, strength, _ = xp.linalg.svd(self.away(V), full_matrices=False)
        total = float((V**2).sum())
        if energy == 1.0:
            kept = int((strength > effective_tolerance(tolerance, V) * total**0.5).sum())
        else:
            missing = [float(m) for m in xp.flip(xp.cumsum(xp.flip(strength**2, (0,)), 0), (0,))] + [0.0]
            kept = next(k for k, m in enumerate(missing) if m <= (1 - energy) * total)
        return self._joined(left[:, : min(kept, self.features - self.rank)]) if kept else self

    def _joined(self, V: Any) -> "Subspace":
        """With orthonormal columns that are new up to rounding; a small one may contain old directions (S1)."""
        if not self.rank:
            return Subspace(V)
        xp = namespace(V)
        for _ in range(2):
            V = self.away(V)
            V = xp.linalg.qr(V[:, xp.linalg.norm(V, axis=0) > 0.5])[0]
        return Subspace(xp.concatenate([self.basis, V], axis=1))


def nothing(features: int, like: Any) -> Subspace:
    """The subspace that holds no direction yet, in the arithmetic of `like`."""
    if isinstance(like, np.ndarray):
        return Subspace(np.zeros((features, 0), like.dtype))
    return Subspace(like.new_zeros((features, 0)))


def effective_tolerance(tolerance: float, like: Any) -> float:
    """No tolerance can be finer than what rounding leaves behind."""
    return max(tolerance, 64 * rounding(like))
