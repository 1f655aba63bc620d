"""Candidate units: random ones, trained to lower the error as much as a unit can.

    h = tanh(Φ v),   maximise over v   g = ‖Eᵀh⊥‖² / (‖h⊥‖² + λ),   h⊥ = h − QQᵀh                          (U1)
    ∂ log g / ∂h = 2 (I − QQᵀ) (E Eᵀh⊥ / ‖Eᵀh⊥‖² − h⊥ / (‖h⊥‖² + λ))                                       (U2)

Q is an orthonormal basis of the columns that the output layer has, E what they leave of the targets. Ascent with the
steps of Adam, for all candidates at once; the arrays are small, so that NumPy is faster than a graph. Inputs are
standardized for it, so that their units and offsets do not matter.
"""

import numpy as np

from remanence.arrays import Array

STEPS, RATE, TINY = 150, 0.1, 1e-300


def trained_units(inputs: Array, columns: Array, residual: Array, count: int, ridge: float, seed: int) -> Array:
    """(count, p) Incoming weights of units over inputs Φ (n, p), the first of them 1, each trained by itself."""
    rng = np.random.default_rng(seed)
    mean, scale = inputs.mean(axis=0), inputs.std(axis=0)
    scale[scale <= 1e-12 * np.abs(mean)] = 1.0
    mean[0] = 0.0
    v = _ascended((inputs - mean) / scale, columns, residual, rng.standard_normal((inputs.shape[1], count)), ridge)
    v /= scale[:, None]
    v[0] -= mean @ v
    return np.ascontiguousarray(v.T)


def _ascended(inputs: Array, columns: Array, residual: Array, v: Array, ridge: float) -> Array:
    """v (p, count) after (U1) by (U2)."""
    Q = np.linalg.qr(columns)[0]
    mean, square = np.zeros_like(v), np.zeros_like(v)
    for t in range(1, STEPS + 1):
        h = np.tanh(inputs @ v)
        left = h - Q @ (Q.T @ h)
        along = residual.T @ left  # (c, k)
        slope = residual @ (along / (np.square(along).sum(axis=0) + TINY))
        slope -= left / (np.square(left).sum(axis=0) + ridge)
        slope -= Q @ (Q.T @ slope)  # (U2)
        gradient = inputs.T @ (slope * (1 - h * h))
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        v = v + RATE * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
    return v
