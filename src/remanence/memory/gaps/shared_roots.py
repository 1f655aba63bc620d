"""Triangular roots of weighted rows, one for all columns that have met the same rows.

    R'ᵀR' = β RᵀR + aaᵀ  where a column has an entry,  β RᵀR  where it has a gap                                (S1)
    k = R'⁻¹u,  R'ᵀu = a:  w ← w + k (x − aᵀw)  keeps the least-squares solution of every such column         (S2)

The rotations that make (S1) also give u = Q(0, …, 0, 1)ᵀ, which stays accurate where a root has all but faded.
The first root has met every row, whether a column without gaps is left or not.
"""

from dataclasses import dataclass

import numpy as np

from remanence.arrays import Array

FAINTEST = 1e-100  # a root that has faded to this fades no further, so that it never becomes singular


@dataclass(frozen=True, slots=True)
class SharedRoots:
    """The roots (g, r, r) and which of them belongs to each of d columns."""

    roots: Array  # (g, r, r)
    owner: Array  # (d,) integers below g

    def with_row(self, a: Array, there: Array, forget: float) -> tuple["SharedRoots", Array]:
        """With the row a (r,) in the columns that are there (d,), and the gains k (d, r) of (S2), zero elsewhere."""
        roots, owner, met = self.roots, self.owner, np.ones(len(self.roots), bool)
        if not there.all():
            names, places = np.unique(np.append(0, 2 * owner + ~there), return_inverse=True)
            roots, owner, met = roots[names // 2], places[1:], names % 2 == 0
        strongest = np.abs(np.diagonal(roots, axis1=1, axis2=2)).max(axis=1)
        roots = roots * np.where(strongest > FAINTEST, np.sqrt(forget), 1.0)[:, None, None]
        gains = np.zeros((len(roots), len(a)))
        roots[met], gains[met] = _rotated(roots[met], a)
        return SharedRoots(roots, owner), np.where(there[:, None], gains[owner], 0.0)


def shared_roots(columns: int, width: int, ridge: float) -> SharedRoots:
    """The roots of columns that have met nothing but a prior of this precision."""
    return SharedRoots(np.sqrt(ridge) * np.eye(width)[None], np.zeros(columns, np.int64))


def _rotated(roots: Array, a: Array) -> tuple[Array, Array]:
    """Roots (g, r, r) with the row a (r,) rotated into each (S1), and the gains (g, r) of (S2)."""
    R, count, width = roots.copy(), len(roots), len(a)
    v, left = np.tile(a, (count, 1)), np.ones(count)
    u = np.empty((count, width))
    for j in range(width):
        length = np.hypot(R[:, j, j], v[:, j])
        cos, sin = R[:, j, j] / length, v[:, j] / length
        row = R[:, j].copy()
        R[:, j] = cos[:, None] * row + sin[:, None] * v
        v = cos[:, None] * v - sin[:, None] * row
        u[:, j], left = sin * left, cos * left
        R[:, j, :j], v[:, j] = 0.0, 0.0
    k = np.empty_like(u)
    for j in reversed(range(width)):
        k[:, j] = (u[:, j] - np.einsum("gi,gi->g", R[:, j, j + 1 :], k[:, j + 1 :])) / R[:, j, j]  # (S2)
    return R, k
