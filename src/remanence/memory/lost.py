"""Bounds of the rounding errors that removals left in a root, kept with it so that they can be reported and limited.

A sum over the rows, an entry of RᵀR or Rᵀz, keeps the rounding errors it had before rows were taken out of it:

    |error of Σ aᵢbᵢ| ≤ ℓ_a ℓ_b,    ℓ_a⁴ ← ℓ_a⁴ + (ROUNDING·eps·Σaᵢ² before)²                                   (D)

ℓ has one entry for every feature and every target, in their units, so that features of any scale cost nothing.
Roundings of different removals are independent, so their squares add.
"""

import numpy as np

from remanence.arrays import Array

ROUNDING = 16.0  # roundings of a sum that one removal may leave in it (measured: 1 to 16, whatever the sizes)


def after_removal(before: Array | None, energies: Array, eps: float) -> Array:
    """ℓ (d + c,) after a removal from sums of squares `energies` (D)."""
    squares = ROUNDING * eps * energies
    return np.sqrt(squares if before is None else np.hypot(squares, before**2))


def merged(mine: Array | None, theirs: Array | None) -> Array | None:
    """ℓ of the sums of two roots together."""
    if mine is None or theirs is None:
        return theirs if mine is None else mine
    return np.hypot(mine, theirs)


def shifted(lost: Array | None, by: Array) -> Array | None:
    """ℓ after `by` times feature 0 was added to features 1, 2, …"""
    if lost is not None:
        lost = lost.copy()
        lost[1 : 1 + len(by)] += np.abs(by) * lost[0]
    return lost
