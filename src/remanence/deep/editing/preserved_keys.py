"""What a layer must go on answering: its keys, and the coordinates in which a change that they do not see is small.

    soft   M = λ C + μ I,   C = KᵀK / n of the absorbed keys K;   a = M^-½ k,   D = M^-½ E                  (K1)
    hard   P = I − U Uᵀ, U the directions of K;                   a = P k / √μ,  D = P E / √μ                (K2)

‖E‖² is then λ/n ‖K D‖² + μ ‖D‖² (soft), or μ ‖D‖² with K D = 0 (hard). C is kept as a square root, or, for wide layers,
as its leading directions; the energy that these leave out counts as spread evenly over all other directions.
"""

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy.linalg import solve_triangular

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.memory import root as roots
from remanence.memory.truncated_svd import Spectrum, no_spectrum

UNSEEN = 1e-20  # of the energy, which moves answers by 1e-10
LEAST_ROWS = 64  # that are absorbed at a time, where the rank is limited
ROUNDING = 64 * np.finfo(np.float64).eps  # of a key, below which a part of it is rounding


class KeyCoordinates(Protocol):
    """Coordinates (K1) or (K2)."""

    def whiten(self, K: Array) -> Array:
        """Keys (n, d) in these coordinates."""

    def unwhiten(self, E: Array) -> Array:
        """The change D (d, c) of the weights that E stands for."""


@dataclass(frozen=True, slots=True)
class TriangularCoordinates:
    """M^-½ as the inverse of a triangular factor."""

    factor: Array  # (d, d) R with RᵀR = M

    def whiten(self, K: Array) -> Array:
        return np.asarray(solve_triangular(self.factor, K.T, trans="T").T)

    def unwhiten(self, E: Array) -> Array:
        return np.asarray(solve_triangular(self.factor, E))


@dataclass(frozen=True, slots=True)
class ProjectedCoordinates:
    """base (I − U Uᵀ); what rounding leaves of a key within U counts as nothing."""

    directions: Array  # (d, r) U
    base: float

    def whiten(self, K: Array) -> Array:
        left = self._projected(K)
        lost = np.linalg.norm(left, axis=1) <= ROUNDING * len(self.directions) ** 0.5 * np.linalg.norm(K, axis=1)
        return np.asarray(self.base * np.where(lost[:, None], 0.0, left))

    def unwhiten(self, E: Array) -> Array:
        return np.asarray(self.base * self._projected(E.T).T)

    def _projected(self, rows: Array) -> Array:
        U = self.directions
        for _ in range(2):  # the second time takes out what rounding has left in the first
            rows = rows - (rows @ U) @ U.T
        return rows


@dataclass(frozen=True, slots=True)
class SpectralCoordinates:
    """M^-½ = base (I − V Vᵀ) + V diag(scales) Vᵀ."""

    directions: Array  # (d, r) V
    scales: Array  # (r,)
    base: float

    def whiten(self, K: Array) -> Array:
        along = K @ self.directions
        return np.asarray(self.base * K + (along * (self.scales - self.base)) @ self.directions.T)

    def unwhiten(self, E: Array) -> Array:
        return self.whiten(E.T).T


@dataclass(frozen=True, slots=True)
class PreservedKeys:
    """The second moment of absorbed keys, as a square root or as its leading directions."""

    moment: Any  # Root, or Spectrum where the rank is limited
    rows: int
    energy: float  # Σ‖k‖²

    @classmethod
    def none(cls, width: int, rank: int | None) -> "PreservedKeys":
        """No keys yet."""
        return cls(roots.empty(width, 1) if rank is None else no_spectrum(width, 1), 0, 0.0)

    def with_keys(self, K: Array, rank: int | None) -> "PreservedKeys":
        """With more keys (n, d)."""
        energy = self.energy + float(np.vdot(K, K))
        if not np.isfinite(energy):
            raise InputError("the squares of these inputs of the layer overflow; nothing was absorbed")
        targets = np.zeros((len(K), 1))
        moment = self.moment
        if rank is None:
            moment = moment.folded(K, targets)
        else:
            for i in range(0, len(K), size := max(rank, LEAST_ROWS)):
                moment = moment.absorbed(K[i : i + size], targets[i : i + size], rank)
        return PreservedKeys(moment, self.rows + len(K), energy)

    def merged(self, other: "PreservedKeys", rank: int | None) -> "PreservedKeys":
        """The keys of both."""
        if rank is None:
            moment = self.moment.merged(other.moment)
        else:
            rows = other.moment.rows()
            moment = self.moment.absorbed(rows, np.zeros((len(rows), 1)), rank)
            moment = replace(moment, dropped=moment.dropped + other.moment.dropped)
        return PreservedKeys(moment, self.rows + other.rows, self.energy + other.energy)

    def directions(self) -> tuple[Array, Array]:
        """Right singular vectors (d, r) of the keys, and their singular values (r,)."""
        if isinstance(self.moment, Spectrum):
            return self.moment.basis, self.moment.strength
        _, s, Vt = np.linalg.svd(self.moment.factor)
        return Vt.T, s

    def kept_energy(self) -> float:
        """The share of the keys' energy that the memory holds."""
        if not isinstance(self.moment, Spectrum) or not self.energy:
            return 1.0
        return min(1.0, self.moment.kept() / self.energy)

    def answers(self, D: Array) -> Array:
        """R D with RᵀR = KᵀK, as the memory has it: as large as K D, and as little apart."""
        if not isinstance(self.moment, Spectrum):
            return np.asarray(self.moment.factor @ D)
        V = self.moment.basis
        outside = np.sqrt(self._left_out()) * (D - V @ (V.T @ D))
        return np.concatenate([self.moment.rows() @ D, outside])

    def _left_out(self) -> float:
        """The energy that a memory of limited rank leaves out, of each direction outside."""
        d, r = self.moment.basis.shape
        return float(self.moment.dropped / max(d - r, 1))

    def answer_norm(self, D: Array) -> float:
        """‖K D‖ (Frobenius): by how much weights (d, c) act on the keys."""
        return norm(self.answers(D))

    def soft(self, strength: float, ridge: float) -> KeyCoordinates:
        """Coordinates (K1): λ = strength, μ = ridge."""
        share = strength / max(self.rows, 1)
        if isinstance(self.moment, Spectrum):
            V, s = self.directions()
            base = share * self._left_out() + ridge
            if not base > (len(V) * np.finfo(float).eps) ** 2 * max(share * s.max(initial=0.0) ** 2, base):
                raise _undetermined()
            return SpectralCoordinates(V, 1 / np.sqrt(share * s**2 + ridge), 1 / np.sqrt(base))
        scaled = replace(self.moment, factor=np.sqrt(share) * self.moment.factor)
        factor = scaled.with_prior(ridge, np.zeros((len(scaled.factor), 1))).factor if ridge else scaled.factor
        diagonal = np.abs(np.diag(factor))
        if not diagonal.min() > len(factor) * np.finfo(float).eps * diagonal.max():
            raise _undetermined()
        return TriangularCoordinates(factor)

    def hard(self, energy: float, ridge: float, eps: float) -> KeyCoordinates:
        """Coordinates (K2): directions that hold this share of the energy, at 1 all but the rounding of the keys.

        `eps` is that of the layer, in whose precision the keys were computed: they span every direction a little.
        """
        V, s = self.directions()
        noise = 4 * eps * np.sqrt(self.energy)
        if isinstance(self.moment, Spectrum) and self.moment.dropped > (1 - energy + UNSEEN) * self.energy + noise**2:
            raise InputError(
                f"expected a memory that holds all that may not change ({energy:.1%} of the energy of the absorbed "
                f"keys), got {self.kept_energy():.1%} in {len(s)} directions; use a larger rank, or a smaller energy"
            )
        if not s.any():
            kept = 0
        elif energy >= 1:
            kept = int(np.sum(s > max(len(V) * np.finfo(float).eps * s[0], noise)))
        else:
            kept = int(np.searchsorted(np.cumsum(s**2), energy * self.energy)) + 1
        return ProjectedCoordinates(V[:, :kept], 1 / np.sqrt(ridge))


def rank_within(max_bytes: int, width: int) -> int:
    """The largest rank with which absorbing takes at most so many bytes beside the batches.

    At most six matrices of a basis or as many rows, and eight of the square that is decomposed with its workspace.
    """

    def needed(rank: int) -> int:
        return 8 * (6 * width * max(rank, LEAST_ROWS) + 8 * (2 * rank) ** 2)

    rank = bisect_right(range(1, width + 1), max_bytes, key=needed)
    if not rank:
        raise InputError(f"expected max_bytes of at least {needed(1)} for a layer of {width} inputs, got {max_bytes}")
    return rank


def norm(M: Array) -> float:
    """‖M‖ (Frobenius), without squares that overflow."""
    largest = float(np.abs(M).max(initial=0.0))
    return largest * float(np.linalg.norm(M / largest)) if largest else 0.0


def _undetermined() -> InputError:
    return InputError(
        "the absorbed keys do not span every direction, so that a change along the others is not bounded; absorb more "
        "batches, or set a ridge above 0"
    )
