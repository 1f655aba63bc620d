"""The nearest allowed step: a quadratic program over the gradients of a few losses, through its dual.

    minimise over x   ½‖x − Δ‖²   where   G x ≤ b                   (Q1)   G: one gradient per row, (K, D)
    x = Δ − Gᵀv,  v ≥ 0                                             (Q2)   v: the multipliers
    v = u / (1 − cᵀu),  u ≥ 0 minimising ‖[−R; cᵀ] u − [0; 1]‖      (Q3)   c = GΔ − b,  Gᵀ = QR

(Q3) is the least distance problem of Lawson and Hanson (1974): non-negative least squares with K unknowns.
"""

import numpy as np

from remanence.arrays import Array

INCONSISTENT = 1e-8  # of the unit that cannot be reached if the constraints leave anything


def nearest_step(G: Array, step: Array, b: Array) -> tuple[Array, Array]:
    """The step x (D,) of (Q1) and its multipliers v (K,).

    Constraints that contradict each other, because they ask old losses to fall, are replaced by ones that only ask them
    not to rise: G x ≤ max(b, 0), which x = 0 satisfies.
    """
    from scipy.optimize import nnls

    sizes = np.linalg.norm(G, axis=1)
    held = sizes > 0
    v = np.zeros(len(G))
    unit, along = G[held] / sizes[held, None], b[held] / sizes[held]
    for bound in (along, np.maximum(along, 0)):
        excess = unit @ step - bound
        if not (excess > 0).any():
            return step, v
        scale = float(np.abs(excess).max())
        R = np.asarray(np.linalg.qr(unit.T, mode="r"))
        system = np.vstack([-R, excess[None] / scale])
        target = np.append(np.zeros(len(R)), 1.0)
        u = nnls(system, target)[0]
        left = 1 - float(excess @ u) / scale
        if left > INCONSISTENT:
            unscaled = scale * u / left  # (Q3)
            v[held] = unscaled / sizes[held]
            return step - unit.T @ unscaled, v  # (Q2)
    return np.zeros_like(step), v  # (rounding: x = 0 is allowed)
