"""The variance of every feature, from the root of all rows and a leading column of ones.

    variance  Σ_{i>0} Rᵢⱼ² / R₀₀²                                                                         (V)

R₀₀² is the total weight of the rows, R₀ⱼ/R₀₀ a feature's mean, and what is below R₀ⱼ the centred feature.
"""

import numpy as np

from remanence.arrays import Array
from remanence.memory.root import Root, sums_of_squares

CONSTANT = 64.0  # times the precision: relative to its mean, a deviation that rounding may have made
LOST = 2.0  # times what removals may have taken: their roundings add up by chance to somewhat more


def column_variances(data: Root) -> Array:
    """(d,) The variance of every feature over the rows learned (V); 1 where it is constant."""
    energies, varies = _centred(data)
    return np.where(varies, energies / max(float(data.factor[0, 0]) ** 2, np.finfo(float).tiny), 1.0)


def constant_columns(data: Root) -> Array:
    """(d,) Which features vary by no more than rounding may have left of their mean, or than removals took."""
    return ~_centred(data)[1]


def _centred(data: Root) -> tuple[Array, Array]:
    """The sums of squares of the centred features, and where they are more than rounding."""
    R = data.factor
    energies = sums_of_squares(R[1:])
    floor = (CONSTANT * float(np.finfo(data.dtype).eps) * np.abs(R[0].astype(np.float64))) ** 2
    if data.lost is not None:
        floor = np.maximum(floor, (LOST * data.lost[: len(R)]) ** 2)
    return energies, energies > np.maximum(floor, np.finfo(float).tiny)
