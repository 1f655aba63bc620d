"""How far removals may have moved the predictions: what rounding left behind, relative to the targets that are left.

    F δW = F⁻ᵀ(δb − δG(W + δW))      |δG| ≤ ℓℓᵀ, |δb| ≤ ℓm                                                (P1)
    ‖F δW‖ ≤ q (‖diag(ℓ)W‖ + m) / (1 − q²),      q = ‖diag(ℓ)F⁻¹‖ < 1                                     (P2)

F: all rows and the prior; ℓ, m: what removals took from the sums of features and of a target, see memory/lost.py
(roundings are independent, so squares add). ‖F δW‖ is the change of the predictions at all rows that are left, the
prior's included. Scales of columns cancel in it, and rows that are learned later make F larger and the loss smaller.
q ≥ 1 means that in some direction rounding may be all that is left.
"""

import warnings
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import NumericalError
from remanence.memory.lost import ROUNDING
from remanence.memory.root import Root, sums_of_squares

PROMISED = {
    np.dtype(np.float64): 1e-6,
    np.dtype(np.float32): 1e-1,
}  # bounds; the true error is mostly below a hundredth
LARGE = 1e6  # how many times larger than all before rows may be without a warning
SIGNIFICANT = 64.0  # an energy counts as data where it is more than this many times a possible rounding error


def precision_loss(posterior: Root, lost: Array) -> float:
    """The error of the predictions that removals may have left (P2), relative to the size of the targets left."""
    d = len(posterior.factor)
    features, targets = lost[:d], lost[d:]
    q = float(np.sqrt(features**2 @ posterior.inverse_diagonal()))
    if not q < 1:
        return max(q**2, 1.0)
    left = sums_of_squares(posterior.target) + posterior.rest
    significant = left > SIGNIFICANT * targets**2
    size = np.sqrt(left)
    if significant.any():
        size[~significant] = size[significant].min()  # an output of which nothing is left, beside others
    else:  # all targets that are left are zero: relative to what they were before the removals
        size[:] = targets / np.sqrt(ROUNDING * float(np.finfo(posterior.dtype).eps))
    errors = q * (np.sqrt(sums_of_squares(features[:, None] * posterior.solve())) + targets) / (1 - q**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(errors > 0, errors / size, 0.0).max(initial=0.0))


def check_loss(loss: float, dtype: np.dtype[Any]) -> None:
    """Refuse a removal that leaves more loss than promised."""
    if not loss <= PROMISED[dtype]:
        raise NumericalError(
            f"expected a removal after which predictions are right to {PROMISED[dtype]:.0e}, got rows so much larger "
            f"than what is left of the data that rounding may have moved them by {loss:.0e}; learn the remaining rows "
            f"anew, or pass accept_loss=True to go on with fewer digits"
        )


def usual_energy(data: Root, prior: float) -> tuple[float, float]:
    """Sums of squares of X and of Y up to which no row can be too large beside these data: a cheap lower bound."""
    x = float(np.abs(data.factor.diagonal()).min()) ** 2 + prior
    y = float((np.einsum("ij,ij->j", data.target, data.target) + data.rest).min())
    return LARGE**2 * x, LARGE**2 * y


def warn_of_large_rows(data: Root, X: Array, Y: Array, prior: float) -> None:
    """Warn of rows that, once folded in, can hardly be taken out again: much larger than all rows before.

    Where less than the prior, or than rounding, was known of a column, no digits can be lost.
    """
    new = np.append(sums_of_squares(X), sums_of_squares(Y))
    d = len(data.factor)
    seen = np.append(np.diag(data.factor).astype(np.float64) ** 2, sums_of_squares(data.target) + data.rest)
    suspect = np.flatnonzero(new > LARGE**2 * seen)  # (the diagonal is a part of the column, and cheap)
    features = suspect[suspect < d]
    seen[features] = sums_of_squares(data.factor[:, features])
    floor = np.append(np.full(d, prior), np.zeros(len(new) - d))
    significant = (seen > np.finfo(float).eps * seen[:d].max()) | (np.arange(len(new)) >= d) & (seen > 0)
    if data.lost is not None:
        significant &= seen > SIGNIFICANT * data.lost**2
    suspect = suspect[significant[suspect] & (new[suspect] > LARGE**2 * (seen + floor)[suspect])]
    if len(suspect):
        times = float(np.sqrt((new[suspect] / seen[suspect]).max()))
        warnings.warn(
            f"these rows are {times:.0e} times larger than all rows before, in {len(suspect)} of {len(new)} columns "
            f"of X and Y. If that is a mistake, go back to a copy from before: taking them out again loses the digits "
            f"of smaller rows, and will be refused or leave a less precise model",
            UserWarning,
            stacklevel=2,
        )
