"""Positive backward transfer: the uncertainty about task i after task t was observed (Theorem 7).

    J_{i,t} = L_i L_{i+1} ⋯ L_{t−1}     Σ_{i|t} = Σ_{i|t−1} − J_{i,t} G_t G_tᵀ J_{i,t}ᵀ                (B)

so under a correct model no later task increases it, in expectation.
"""

import numpy as np

from remanence.arrays import Array
from remanence.kalman.forecast import check_length
from remanence.kalman.gains import compute
from remanence.kalman.model import LinearGaussian
from remanence.kalman.smoother import backward_gains


def backward_transfer(model: LinearGaussian, T: int) -> Array:
    """Compute the expected squared error on each task after each later task.

    Parameters
    ----------
    model : LinearGaussian
        The model of the tasks.
    T : int
        The number of tasks.

    Returns
    -------
    array (T, T)
        Entry [i, t] is trace Σ_{i|t}, the expected squared error on task i after task t; NaN for i > t.

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> model = kalman.LinearGaussian(A=np.eye(1), Q=np.eye(1), X=np.eye(1), R=np.eye(1), mean=[0.0], cov=np.eye(1))
    >>> kalman.backward_transfer(model, 3).round(2)
    array([[0.5 , 0.4 , 0.38],
           [ nan, 0.6 , 0.46],
           [ nan,  nan, 0.62]])

    References
    ----------
    Peng and Vidal (2025), "Mathematics of continual learning", Theorem 7.
    """
    T = check_length(model, T)
    if model.pairs is not None:
        return backward_transfer(model.pairs, T)
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
