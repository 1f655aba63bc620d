"""What an error matrix says, in one number each; t counts the tasks learned and is all of them unless given.

    E_t = (1/t) Σ_{i≤t} ε_it                      average
    F_t = (1/(t−1)) Σ_{i<t} (ε_it − ε_ii)         forgetting;  F_t ≤ t/(t−1) · E_t
    R_t = Σ_{i≤t} ε_{i,i−1} − best                regret

The paper writes ε² and squares; here the entries are the losses themselves, squared errors or shares of mistakes.
"""

from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.evaluation.matrix import ErrorMatrix
from remanence.validation import check_count, check_number


def average(matrix: ErrorMatrix | Array, t: int | None = None) -> float:
    """The mean error on the tasks learned so far, the paper's E_t."""
    values, t = _read(matrix, t)
    return float(values[:t, t].mean())


def forgetting(matrix: ErrorMatrix | Array, t: int | None = None) -> float:
    """The mean rise of the error on tasks 1..t−1 since each was learned, the paper's F_t; 0 when t is 1."""
    values, t = _read(matrix, t)
    if t == 1:
        return 0.0
    before = np.arange(t - 1)
    with np.errstate(invalid="ignore"):  # a run that diverged forgets an undefined amount, not a warning
        return float((values[before, t] - values[before, before + 1]).mean())


def backward_transfer(matrix: ErrorMatrix | Array, t: int | None = None) -> float:
    """The mean fall of the error on old tasks since each was learned, −F_t: positive when later tasks helped."""
    return 0.0 - forgetting(matrix, t)


def forward_transfer(matrix: ErrorMatrix | Array, t: int | None = None) -> float:
    """The mean fall of the error on tasks 2..t from before anything was learned to just before their turn.

    (1/(t−1)) Σ_{2≤i≤t} (ε_{i,0} − ε_{i,i−1}): positive when earlier tasks helped; 0 when t is 1.
    """
    values, t = _read(matrix, t)
    if t == 1:
        return 0.0
    later = np.arange(1, t)
    with np.errstate(invalid="ignore"):
        return float((values[later, 0] - values[later, later]).mean())


def regret(matrix: ErrorMatrix | Array, t: int | None = None, best: float | None = None) -> float:
    """The sum of a-priori errors: each of tasks 1..t asked just before it is learned, less `best` if given.

    The paper prints Σ_{i≤t} ε_t² and calls it the regret. The index must be i, ε_i = ε_{i,i−1}, and the sum is a
    regret only after subtracting `best`, the same sum for the best fixed model in hindsight; without `best` this is
    the cumulative online loss. Meaningful on rows that are then learned, so evaluate with test=False.
    """
    values, t = _read(matrix, t)
    turn = np.arange(t)
    return float(values[turn, turn].sum()) - (0.0 if best is None else check_number(best, "best", -np.inf))


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
