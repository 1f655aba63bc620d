"""The ridge by leave-one-out, from the factor of all rows and those rows that are at hand.

With FᵀF = V diag(s²) Vᵀ for the penalized columns, and a row x̃ of them, the unpenalized ones eliminated:

    h(λ) = h₀ + Σⱼ (x̃ᵀvⱼ)² / (sⱼ² + λ)                       (L1)   leverage; h₀ is that of the unpenalized columns
    e(λ) = (y − ŷ(λ)) / (1 − h(λ))                            (L2)   error of the row if it had not been learned
    λ = argmin Σ ‖e(λ)‖²                                      (L3)   "loo"
    λ = argmax Σ ‖y‖² [argmax (y − e(λ)) = argmax y]          (L4)   "loo-accuracy"; as good: by (L3)

One eigendecomposition serves all ridges. The rows at hand are the latest block; the fit is that of all rows, so (L2) is
exact for them. Equal choices are decided for the larger ridge.
"""

import numpy as np

from remanence.arrays import Array
from remanence.memory.root import Root, triangular_solver
from remanence.memory.variances import column_variances
from remanence.methods.rls_state import RLSState

LOO = ("loo", "loo-accuracy")
LOWEST, HIGHEST, POINTS = -12.0, 4.0, 65  # the ridges tried, as powers of ten of the largest squared singular value
MOST_ROWS = 4096  # of a block, evenly spread, whose errors are looked at
AT_ONCE = 1 << 22  # numbers
EVEN = 1e-9  # relative difference of errors that decides nothing


def chosen(kind: str, state: RLSState, data: Root, X: Array, Y: Array) -> float | None:
    """The ridge for a state with these rows among all of `data`; None where they do not determine one."""
    free = state.unpenalized
    rows = slice(None) if len(X) <= MOST_ROWS else np.unique(np.linspace(0, len(X) - 1, MOST_ROWS).astype(int))
    X, Y = X[rows].astype(np.float64), Y[rows].astype(np.float64)
    gaps = Y - X @ state.start
    factor, target = data.factor.astype(np.float64), data.target.astype(np.float64) - data.factor @ state.start
    leverage = np.zeros(len(X))
    if free:  # what the unpenalized columns explain, and the other columns without their part in them
        corner = np.asfortranarray(factor[:free, :free])
        if not np.diag(corner).all():
            return None
        white = triangular_solver("d")(corner, np.asfortranarray(X[:, :free].T), trans=1)[0].T  # (n, free)
        gaps, leverage = gaps - white @ target[:free], (white**2).sum(axis=1)
        X = X[:, free:] - white @ factor[:free, free:]
    F, gap = factor[free:, free:], target[free:]
    if state.scaled:
        scales = np.sqrt(column_variances(data))[free:]
        F, X = F / scales, X / scales
    unit = float(np.abs(F).max(initial=0.0))
    if not unit > 0 or not np.isfinite(unit * unit) or unit * unit < 1e-280:
        return None
    F, X = F / unit, X / unit
    squares, V = np.linalg.eigh(F.T @ F)
    squares = np.maximum(squares, 0.0)
    along, pull = X @ V, V.T @ (F.T @ gap)
    ridges = squares.max() * np.logspace(HIGHEST, LOWEST, POINTS)
    scores = np.zeros((POINTS, 2))
    size = max(AT_ONCE // (len(squares) + Y.shape[1]), 1)
    for i in range(0, len(X), size):
        part = slice(i, i + size)
        scores += _scores(kind, ridges, squares, along[part], pull, gaps[part], leverage[part], Y[part])
    return _best(scores, ridges) * unit**2


def _scores(
    kind: str, ridges: Array, squares: Array, along: Array, pull: Array, gaps: Array, free: Array, Y: Array
) -> Array:
    """(k, 2) Minus the weight of right answers (0 for squared errors), and the squared errors, of every ridge."""
    found, energy = np.zeros((len(ridges), 2)), along**2
    truth, weight = Y.argmax(axis=1), np.einsum("ij,ij->i", Y, Y)
    for k, ridge in enumerate(ridges):
        shrunk = 1 / (squares + ridge)
        rest = np.maximum(1 - free - energy @ shrunk, np.finfo(float).eps)  # (L1)
        errors = (gaps - along @ (shrunk[:, None] * pull)) / rest[:, None]  # (L2)
        found[k, 1] = float((errors**2).sum())
        if kind == "loo-accuracy":
            found[k, 0] = -float(weight @ ((Y - errors).argmax(axis=1) == truth))
    return found


def _best(scores: Array, ridges: Array) -> float:
    """The ridge of (L3) or (L4), between the points of the grid where the errors say so."""
    right, errors = scores.T
    good = right <= right.min() + EVEN * abs(right.min())
    low = errors[good].min()
    best = int(np.flatnonzero(good & (errors <= (1 + EVEN) * low))[0])  # (the largest ridge comes first)
    if not 0 < best < len(ridges) - 1 or not good[best - 1 : best + 2].all():
        return float(ridges[best])
    before, here, after = np.log(np.maximum(errors[best - 1 : best + 2], np.finfo(float).tiny))
    bend = before - 2 * here + after
    step = min(max(0.5 * (before - after) / bend, -1.0), 1.0) if bend > 0 else 0.0
    return float(ridges[best] * (ridges[1] / ridges[0]) ** step)
