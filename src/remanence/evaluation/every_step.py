"""Metrics of continual evaluation: what happens between the ends of tasks, from the errors at every step.

    min-ACC = 1/(k−1) Σ_{i<k} min over steps after task i was learned of Aᵢ             worst accuracy since then
    WC-ACC  = 1/k · A_k now + (1 − 1/k) · min-ACC                                       a guarantee so far
    WF_Δ    = mean over tasks of the largest fall of Aᵢ within Δ steps                  WP_Δ: the largest rise

A is 1 − error; k is the number of tasks learned. Without the errors at every step, those after every task are used.
"""

from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.evaluation.curve import ErrorCurve
from remanence.evaluation.matrix import ErrorMatrix
from remanence.validation import check_count


def min_accuracy(matrix: Any) -> float:
    """Mean over old tasks of the lowest accuracy since each was learned (min-ACC); 1 if there is one task.

    Parameters
    ----------
    matrix : ErrorMatrix, ErrorCurve or array (T, T + 1)
        Best with the errors at every step: rm.evaluate(learner, stream, every=k).

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> errors = [[0.5, 0.1, 0.6, 0.2], [1.0, 1.0, 0.4, 0.3]]
    >>> curve = rm.evaluation.ErrorCurve(errors, tasks=[1, 1, 2, 2], rows=[5, 10, 15, 20])
    >>> rm.metrics.min_accuracy(curve)
    0.4

    References
    ----------
    De Lange, van de Ven and Tuytelaars (2023), "Continual evaluation for lifelong learning: identifying the stability
    gap", ICLR.
    """
    accuracy, tasks = _read(matrix)
    old = [float(accuracy[i, tasks > i + 1].min()) for i in range(int(tasks.max()) - 1)]
    return float(np.mean(old)) if old else 1.0


def worst_case_accuracy(matrix: Any) -> float:
    """The accuracy on the last task and the lowest ones on those before, by their number (WC-ACC).

    Parameters
    ----------
    matrix : ErrorMatrix, ErrorCurve or array (T, T + 1)
        Best with the errors at every step: rm.evaluate(learner, stream, every=k).

    Returns
    -------
    float

    Examples
    --------
    >>> import remanence as rm
    >>> errors = [[0.5, 0.1, 0.6, 0.2], [1.0, 1.0, 0.4, 0.3]]
    >>> curve = rm.evaluation.ErrorCurve(errors, tasks=[1, 1, 2, 2], rows=[5, 10, 15, 20])
    >>> round(rm.metrics.worst_case_accuracy(curve), 3)
    0.55

    References
    ----------
    De Lange, van de Ven and Tuytelaars (2023), "Continual evaluation for lifelong learning", ICLR.
    """
    accuracy, tasks = _read(matrix)
    k = int(tasks.max())
    return float(accuracy[k - 1, -1] / k + (1 - 1 / k) * min_accuracy(matrix))


def windowed_forgetting(matrix: Any, window: int = 10) -> float:
    """Mean over the tasks met of the largest fall of the accuracy within `window` steps (WF).

    Parameters
    ----------
    matrix : ErrorMatrix, ErrorCurve or array (T, T + 1)
    window : int
        Steps of the curve.

    Returns
    -------
    float

    Examples
    --------
    >>> import remanence as rm
    >>> errors = [[0.5, 0.1, 0.6, 0.2], [1.0, 1.0, 0.4, 0.3]]
    >>> curve = rm.evaluation.ErrorCurve(errors, tasks=[1, 1, 2, 2], rows=[5, 10, 15, 20])
    >>> rm.metrics.windowed_forgetting(curve, window=2)
    0.25

    References
    ----------
    De Lange, van de Ven and Tuytelaars (2023), "Continual evaluation for lifelong learning", ICLR.
    """
    return _windowed(matrix, window, -1.0)


def windowed_plasticity(matrix: Any, window: int = 10) -> float:
    """Mean over the tasks met of the largest rise of the accuracy within `window` steps (WP).

    Parameters
    ----------
    matrix : ErrorMatrix, ErrorCurve or array (T, T + 1)
    window : int
        Steps of the curve.

    Returns
    -------
    float

    Examples
    --------
    >>> import remanence as rm
    >>> errors = [[0.5, 0.1, 0.6, 0.2], [1.0, 1.0, 0.4, 0.3]]
    >>> curve = rm.evaluation.ErrorCurve(errors, tasks=[1, 1, 2, 2], rows=[5, 10, 15, 20])
    >>> round(rm.metrics.windowed_plasticity(curve, window=2), 3)
    0.5

    References
    ----------
    De Lange, van de Ven and Tuytelaars (2023), "Continual evaluation for lifelong learning", ICLR.
    """
    return _windowed(matrix, window, 1.0)


def _windowed(matrix: Any, window: int, sign: float) -> float:
    accuracy, tasks = _read(matrix)
    width = check_count(window, "window", hint="steps of the curve")
    gains = []
    for row in sign * accuracy[: int(tasks.max())]:
        apart = [row[gap:] - row[:-gap] for gap in range(1, min(width, len(row)))]
        gains.append(np.max([0.0, *(part.max() for part in apart)]))  # (NaN where one is undefined)
    return float(np.mean(gains))


def _read(matrix: Any) -> tuple[Array, Array]:
    """Accuracies (T, S) and the task of every step."""
    if isinstance(matrix, ErrorMatrix):
        if matrix.loss != "zero_one":
            raise InputError(f"expected errors of loss 'zero_one', got {matrix.loss!r}")
        if matrix.curve is None:
            matrix = matrix.values
        else:
            matrix = matrix.curve
    if isinstance(matrix, ErrorCurve):
        return 1 - matrix.values, matrix.tasks
    values = np.asarray(matrix)
    if values.dtype.kind not in "fiu" or values.ndim != 2 or not len(values) or values.shape[1] != len(values) + 1:
        raise InputError(f"expected an ErrorMatrix, an ErrorCurve or errors of shape (T, T + 1), got {values.shape}")
    return 1 - values[:, 1:], np.arange(1, len(values) + 1)
