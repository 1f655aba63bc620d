"""Sparse codes: the lasso over a few columns, to rounding.

    minimise over s   ‖z − A s‖² + μ‖s‖₁                                                                  (L1)
    sⱼ ← S(aⱼᵀ(z − A s) + ‖aⱼ‖² sⱼ, μ/2) / ‖aⱼ‖²,   S(v, m) = sign(v) max(|v| − m, 0)                     (L2)
    on the columns P that are in use, with their signs σ:   A_PᵀA_P s = A_Pᵀz − (μ/2) σ                   (L3)

Coordinate descent (L2) finds which columns are used; solving (L3) by QR then takes the remaining digits in one step.
"""

import numpy as np

from remanence.arrays import Array

SWEEPS = 2_000  # at most; a few dozen are usual
BETWEEN = 10  # sweeps between attempts to solve for the columns in use


def sparse_code(A: Array, z: Array, penalty: float) -> Array:
    """(k,) The solution s of (L1) for columns A (m, k) and a target z (m,)."""
    size = float(np.abs(A).max(initial=0.0))
    if not size:
        return np.zeros(A.shape[1])
    A = A / size  # (s is scaled back at the end: no square overflows)
    gram, along, half = A.T @ A, A.T @ z, penalty / size / 2
    s = np.zeros(A.shape[1])
    used = np.flatnonzero(np.diag(gram) > 0)
    for sweep in range(1, SWEEPS + 1):
        before = s.copy()
        for j in used:
            v = along[j] - gram[j] @ s + gram[j, j] * s[j]
            s[j] = np.sign(v) * max(abs(v) - half, 0.0) / gram[j, j]  # (L2)
        still = np.abs(s - before).max() <= 1e-15 * np.abs(s).max()
        if still or sweep % BETWEEN == 0:
            solved = _solved(A, z, half, np.sign(s))
            if solved is not None:
                return np.asarray(solved / size)
        if still:
            break
    return np.asarray(s / size)


def _solved(A: Array, z: Array, half: float, signs: Array) -> Array | None:
    """The solution of (L3) if it has these signs and no other column wants to be used; else None."""
    s, chosen = np.zeros(A.shape[1]), signs != 0
    if chosen.any():
        Q, R = np.linalg.qr(A[:, chosen])
        diagonal = np.abs(np.diag(R))
        if R.shape[0] < R.shape[1] or diagonal.min() <= 1e-12 * diagonal.max():
            return None
        s[chosen] = np.linalg.solve(R, Q.T @ z - half * np.linalg.solve(R.T, signs[chosen]))  # (L3)
    slope = A.T @ (z - A @ s)
    rounding = 1e-12 * (half + np.abs(A).T @ np.abs(z))
    fits = (np.sign(s) == signs).all() and (np.abs(slope[~chosen]) <= half + rounding[~chosen]).all()
    return s if fits else None
