"""Metrics of an error matrix; t is the number of tasks learned, by default all.

    E_t = (1/t) Σ_{i≤t} ε_it                      average
    F_t = (1/(t−1)) Σ_{i<t} (ε_it − ε_ii)         forgetting;  F_t ≤ t/(t−1) · E_t
    R_t = Σ_{i≤t} ε_{i,i−1} − best                regret

The paper writes ε² and squares; here the entries are the losses themselves, squared errors or error rates.
"""

from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.evaluation.every_step import (
    min_accuracy,
    windowed_forgetting,
    windowed_plasticity,
    worst_case_accuracy,
)
from remanence.evaluation.matrix import ErrorMatrix
from remanence.validation import check_count, check_number

__all__ = [
    "average",
    "backward_transfer",
    "forgetting",
    "forward_transfer",
    "min_accuracy",
    "prospective",
    "regret",
    "windowed_forgetting",
    "windowed_plasticity",
    "worst_case_accuracy",
]


def average(matrix: ErrorMatrix | Array, t: int | None = None) -> float:
    """Mean error on the tasks learned so far, the paper's E_t.

    Parameters
    ----------
    matrix : ErrorMatrix or array (T, T + 1)
        Entry [i, j] is the error on task i after j tasks.
    t : int, optional
        The number of tasks learned; default: all.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> matrix = np.array([[1.0, 0.1, 0.3], [1.0, 0.8, 0.2]])  # two tasks; columns: 0, 1 and 2 tasks learned
    >>> rm.metrics.average(matrix)
    0.25

    References
    ----------
    Peng and Vidal (2025), "Mathematics of continual learning".
    """
    values, t = _read(matrix, t)
    return float(values[:t, t].mean())


def forgetting(matrix: ErrorMatrix | Array, t: int | None = None) -> float:
    """Mean rise of the error on tasks 1..t−1 since each was learned, the paper's F_t; 0 if t is 1.

    Parameters
    ----------
    matrix : ErrorMatrix or array (T, T + 1)
        Entry [i, j] is the error on task i after j tasks.
    t : int, optional
        The number of tasks learned; default: all.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> matrix = np.array([[1.0, 0.1, 0.3], [1.0, 0.8, 0.2]])  # two tasks; columns: 0, 1 and 2 tasks learned
    >>> round(rm.metrics.forgetting(matrix), 3)
    0.2

    References
    ----------
    Peng and Vidal (2025), "Mathematics of continual learning".
    """
    values, t = _read(matrix, t)
    if t == 1:
        return 0.0
    before = np.arange(t - 1)
    with np.errstate(invalid="ignore"):  # a run that diverged forgets an undefined amount, not a warning
        return float((values[before, t] - values[before, before + 1]).mean())


def backward_transfer(matrix: ErrorMatrix | Array, t: int | None = None) -> float:
    """Mean fall of the error on old tasks since each was learned, −F_t: positive if later tasks helped.

    Parameters
    ----------
    matrix : ErrorMatrix or array (T, T + 1)
        Entry [i, j] is the error on task i after j tasks.
    t : int, optional
        The number of tasks learned; default: all.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> matrix = np.array([[1.0, 0.1, 0.3], [1.0, 0.8, 0.2]])  # two tasks; columns: 0, 1 and 2 tasks learned
    >>> round(rm.metrics.backward_transfer(matrix), 3)
    -0.2

    References
    ----------
    Lopez-Paz and Ranzato (2017), "Gradient episodic memory for continual learning", NeurIPS.
    """
    return 0.0 - forgetting(matrix, t)


def forward_transfer(matrix: ErrorMatrix | Array, t: int | None = None) -> float:
    """Mean fall of the error on tasks 2..t from before any training to just before each was learned.

    (1/(t−1)) Σ_{2≤i≤t} (ε_{i,0} − ε_{i,i−1}): positive if earlier tasks helped; 0 if t is 1.

    Parameters
    ----------
    matrix : ErrorMatrix or array (T, T + 1)
        Entry [i, j] is the error on task i after j tasks.
    t : int, optional
        The number of tasks learned; default: all.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> matrix = np.array([[1.0, 0.1, 0.3], [1.0, 0.8, 0.2]])  # two tasks; columns: 0, 1 and 2 tasks learned
    >>> round(rm.metrics.forward_transfer(matrix), 3)
    0.2

    References
    ----------
    Lopez-Paz and Ranzato (2017), "Gradient episodic memory for continual learning", NeurIPS.
    """
    values, t = _read(matrix, t)
    if t == 1:
        return 0.0
    later = np.arange(1, t)
    with np.errstate(invalid="ignore"):
        return float((values[later, 0] - values[later, later]).mean())


def regret(matrix: ErrorMatrix | Array, t: int | None = None, best: float | None = None) -> float:
    """Sum of the a-priori errors, each of a task just before it is learned, minus `best` if given.

    The paper prints Σ_{i≤t} ε_t² and calls it the regret. The index must be i, ε_i = ε_{i,i−1}, and the sum is a
    regret only after subtracting `best`, the same sum for the best fixed model in hindsight; without `best` this is
    the cumulative online loss. It is meaningful for rows that are then learned, so evaluate with test=False.

    Parameters
    ----------
    matrix : ErrorMatrix or array (T, T + 1)
        Entry [i, j] is the error on task i after j tasks.
    t : int, optional
        The number of tasks learned; default: all.
    best : float, optional
        The same sum for the best fixed model in hindsight.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> matrix = np.array([[1.0, 0.1, 0.3], [1.0, 0.8, 0.2]])  # two tasks; columns: 0, 1 and 2 tasks learned
    >>> rm.metrics.regret(matrix), rm.metrics.regret(matrix, best=0.5)
    (1.8, 1.3)

    References
    ----------
    Peng and Vidal (2025), "Mathematics of continual learning".
    """
    values, t = _read(matrix, t)
    turn = np.arange(t)
    return float(values[turn, turn].sum()) - (0.0 if best is None else check_number(best, "best", -np.inf))


def prospective(matrix: ErrorMatrix | Array, t: int | None = None, discount: float = 1.0) -> float:
    """Mean error on the tasks that have not been met yet, of the model after t tasks.

    Σ_{i>t} γ^{i−t−1} ε_{it} / Σ_{i>t} γ^{i−t−1}: how well the future is predicted. Without t it is the mean of this
    over t = 1 … T − 1.

    Parameters
    ----------
    matrix : ErrorMatrix or array (T, T + 1)
        Entry [i, j] is the error on task i after j tasks.
    t : int, optional
        The number of tasks learned, below T; default: the mean over all.
    discount : float
        γ: the weight of a task beside that of the one before it.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> matrix = np.array([[1.0, 0.1, 0.3, 0.3], [1.0, 0.8, 0.2, 0.2], [1.0, 0.6, 0.4, 0.1]])
    >>> rm.metrics.prospective(matrix, 1), rm.metrics.prospective(matrix, 2)
    (0.7, 0.4)

    References
    ----------
    De Silva, Ramesh, Yang, Yu, Vogelstein and Chaudhari (2023), "Prospective learning: principled extrapolation to the
    future", CoLLAs.
    """
    values, last = _read(matrix, None)
    factor = check_number(discount, "discount")
    if last < 2:
        raise InputError("expected at least two tasks, got one: there is no future to predict")
    if t is None:
        return float(np.mean([prospective(matrix, k, factor) for k in range(1, last)]))
    if check_count(t, "t", low=0, hint="the number of tasks learned") >= last:
        raise InputError(f"expected t below {last}, the number of tasks, got {t}: there is no future left")
    weights = factor ** np.arange(last - t, dtype=float)
    return float(weights @ values[t:, t] / weights.sum())


def _read(matrix: Any, t: int | None) -> tuple[Array, int]:
    values = np.asarray(matrix.values if isinstance(matrix, ErrorMatrix) else matrix)
    if values.dtype.kind not in "fiu" or values.ndim != 2 or not len(values) or values.shape[1] != len(values) + 1:
        raise InputError(
            f"expected an ErrorMatrix or numbers of shape (T, T + 1), got {type(matrix).__name__} of shape "
            f"{values.shape}; column 0 is the model before any task"
        )
    t = len(values) if t is None else check_count(t, "t", hint="it counts the tasks learned")
    if t > len(values):
        raise InputError(f"expected t of at most {len(values)}, the number of tasks, got {t}")
    return values, t
