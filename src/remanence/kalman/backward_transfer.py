"""Positive backward transfer, measured: what is left unknown of task i once task t has been learned (Theorem 7).

    J_{i,t} = L_i L_{i+1} ⋯ L_{t−1}     Σ_{i|t} = Σ_{i|t−1} − J_{i,t} G_t G_tᵀ J_{i,t}ᵀ                (B)

so no later task can make it larger, under a correct model and in expectation.
"""

import numpy as np

from remanence.arrays import Array
from remanence.kalman.forecast import check_length
from remanence.kalman.gains import compute
from remanence.kalman.model import LinearGaussian
from remanence.kalman.smoother import backward_gains


def backward_transfer(model: LinearGaussian, T: int) -> Array:
    """(T, T): entry [i, t] is trace Σ_{i|t}, the expected squared error on task i after task t; NaN for i > t."""
    T = check_length(model, T)
    s, d = model.steps, model.features
    rows = s.rows if len(s.rows) > 1 else np.repeat(s.rows, T)
    there = np.arange(s.X.shape[1]) < rows[:T, None]
    found = compute(model, there, "covariance")
    L = backward_gains(model, found.filtered, found.predicted)
    values = np.full((T, T), np.nan)
    J = np.empty((T, d, d))
    for t in range(T):
        if t:
            J[:t] = (J[:t].reshape(-1, d) @ L[t - 1]).reshape(t, d, d)
            gone = ((J[:t].reshape(-1, d) @ found.G[t].T) ** 2).reshape(t, -1).sum(axis=1)
            values[:t, t] = np.maximum(values[:t, t - 1] - gone, 0.0)  # (B)
        J[t] = np.eye(d)
        values[t, t] = np.trace(found.filtered[t])
    return values
