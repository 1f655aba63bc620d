"""The ridge of largest evidence (marginal likelihood), from the stored factor alone.

With y ~ N(Xθ⁰, σ²(I + XXᵀ/λ)), σ² at its best value for each λ, and R = U diag(s) Vᵀ, the log evidence is

    −½ Σ_c n log J_c(λ) − ½ c (Σⱼ log(sⱼ² + λ) − d log λ),    J_c(λ) = ρ_c + Σⱼ λ/(sⱼ² + λ) (uⱼᵀ(z − Rθ⁰))²_c     (E)
"""

import numpy as np

from remanence.arrays import Array
from remanence.errors import NumericalError
from remanence.memory.root import Root

SMALLEST = 1e-280  # squared singular value; ridges down to 1e-14 of it are tried
PRECISION = 1e-6  # of log λ


def best_ridge(data: Root, start: Array, unpenalized: int, rows: float) -> float:
    """The ridge λ of largest evidence for the rows behind `data`; `rows` is their (effective) number."""
    penalized = slice(unpenalized, None)  # unpenalized features come first: they are eliminated already
    factor = data.factor[penalized, penalized].astype(np.float64)
    gap = data.target[penalized].astype(np.float64) - factor @ start[penalized]
    U, s, _ = np.linalg.svd(factor)
    return ridge_of_largest_evidence(s, (U.T @ gap) ** 2, data.rest, rows - unpenalized)


def ridge_of_largest_evidence(s: Array, power: Array, rest: Array, rows: float) -> float:
    """The λ that maximises (E) for singular values s (r,), squared targets (r, c) along them and the rest (c,)."""
    largest = float(s.max(initial=0.0))
    if largest == 0 or rows <= 0:
        return 1.0  # no data to choose from
    top = largest**2
    if not top > SMALLEST:
        raise NumericalError(
            f"expected features whose squares can be told from zero, to choose a ridge for them, got features of size "
            f"{largest:.0e}; rescale them"
        )
    outputs = power.shape[1]
    rest = rest + 1e-12 * (rest + power.sum(axis=0)) + np.finfo(float).tiny  # an exact fit must not lead to λ = 0

    def cost(log_ridges: Array) -> Array:  # (k,) to (k,)
        ridges = np.exp(log_ridges)[:, None]
        penalized = s**2 + ridges  # (k, r)
        loss = rest + (ridges / penalized) @ power  # (E)
        determinant = (np.log(penalized) - log_ridges[:, None]).sum(axis=1)
        return np.asarray(rows * np.log(loss).sum(axis=1) + outputs * determinant)

    logs = np.linspace(np.log(top * 1e-14), np.log(top * 1e4), 80)
    while True:  # each grid covers the two cells of the last one that hold its best point
        best = int(np.argmin(cost(logs)))
        low, high = logs[max(best - 1, 0)], logs[min(best + 1, len(logs) - 1)]
        if high - low < PRECISION:
            return float(np.exp(logs[best]))
        logs = np.linspace(low, high, 17)
