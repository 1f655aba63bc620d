"""Order updates: a column is added to a least-squares problem whose rows are at hand, without solving it anew.

    R, z: the root of rows X with targets Y and of the prior λ‖W‖²,  W = R⁻¹z,  E = Y − XW
    u = R⁻ᵀXᵀh,  w = R⁻¹u:  what the columns explain of a new one, h                                       (N1)
    ρ² = ‖h − Xw‖² + λ‖w‖² + λ,   ζ = ((h − Xw)ᵀE + λ wᵀW) / ρ                                             (N2)
    R' = [R u; 0 ρ],  z' = [z; ζ];   the least error falls by ‖ζ‖²                                         (N3)

(N2) are sums of squares of what is left, not differences, so that nothing cancels. ‖ζ‖² ranks candidates before any of
them is added (orthogonal least squares).
"""

import numpy as np

from remanence.arrays import Array
from remanence.memory.root import Root


def explained(root: Root, X: Array, Y: Array, H: Array, ridge: float) -> tuple[Array, Array, Array]:
    """u (d, k), ρ (k,) and ζ (k, c) of candidate columns H (n, k) (N1, N2)."""
    W = root.solve()
    u = root.whitened(H.T @ X)
    w = root.unwhitened(u)
    left, residual = H - X @ w, Y - X @ W
    rho = np.sqrt(np.square(left).sum(axis=0) + ridge * np.square(w).sum(axis=0) + ridge)
    zeta = (left.T @ residual + ridge * w.T @ W) / rho[:, None]
    return u, rho, zeta


def error_reductions(root: Root, X: Array, Y: Array, H: Array, ridge: float) -> Array:
    """(k,) By how much the least error, prior included, falls with each candidate column alone (N3)."""
    return np.asarray(np.square(explained(root, X, Y, H, ridge)[2]).sum(axis=1))


def with_column(root: Root, X: Array, Y: Array, h: Array, ridge: float) -> Root:
    """The root with one more column h (n,) of the rows, behind those it has (N3)."""
    u, rho, zeta = explained(root, X, Y, h[:, None], ridge)
    d = len(root.factor)
    factor = np.zeros((d + 1, d + 1), order="F")
    factor[:d, :d], factor[:d, d], factor[d, d] = root.factor, u[:, 0], rho[0]
    target = np.asfortranarray(np.vstack([root.target, zeta]))
    return Root(factor, target, np.maximum(root.rest - zeta[0] ** 2, 0.0))
