"""The batch problem that ICL, APA over all samples and ORFit solve one sample at a time.

minimise ‖W − θ⁰‖²  among all W that minimise ‖Y − XW‖²                    (Min-Norm)
"""

from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.validation import check_block, check_numbers, check_start


def min_norm(X: Any, Y: Any, start: Any = None) -> Array:
    """The least-squares solution of X W = Y nearest to `start`.

    Parameters
    ----------
    X : array (n, d)
        One sample per row.
    Y : array (n, c)
        Their targets.
    start : array (d, c), optional
        θ⁰, by default 0: then it is the solution of smallest norm.

    Returns
    -------
    W : array (d, c)

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> rm.min_norm(np.array([[1.0, 1.0]]), np.array([[4.0]])).ravel().round(6).tolist()
    [2.0, 2.0]
    >>> rm.min_norm(np.array([[1.0, 1.0]]), np.array([[4.0]]), start=[[2.0], [0.0]]).ravel().round(6).tolist()
    [3.0, 1.0]
    """
    from scipy.linalg import lstsq

    X, Y = check_numbers(X, "X", np.float64), check_numbers(Y, "Y", np.float64)
    if X.ndim != 2 or Y.ndim != 2:
        raise InputError(f"expected X (rows, features) and Y (rows, outputs), got {X.shape} and {Y.shape}")
    X, Y = check_block(X, Y, np.zeros((X.shape[1], Y.shape[1])))
    W = check_start(start, X.shape[1], Y.shape[1])
    return W + lstsq(X, Y - X @ W, lapack_driver="gelsd", cond=max(X.shape) * np.finfo(float).eps)[0]  # type: ignore[no-any-return]
