"""Delay lines: the rows of past samples from which a filter predicts."""

from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.validation import check_count, check_finite, check_memory, check_numbers, check_word


def delay_line(signal: Any, taps: int, beginning: str = "zeros") -> Array:
    """Rows of the latest samples of a signal: row t is x_t, x_{t−1}, …, x_{t−taps+1}.

    Parameters
    ----------
    signal : array (n,)
        The samples in time order, real or complex.
    taps : int
        How many samples a row has.
    beginning : "zeros" or "drop"
        "zeros" takes samples before the first for zero, so that there are n rows; "drop" leaves rows out that would
        need them, so that there are n − taps + 1.

    Returns
    -------
    array (n, taps) or (n − taps + 1, taps)

    Examples
    --------
    >>> import remanence as rm
    >>> rm.streams.delay_line([1.0, 2.0, 3.0], taps=2)
    array([[1., 0.],
           [2., 1.],
           [3., 2.]])
    >>> rm.streams.delay_line([1.0, 2.0, 3.0], taps=2, beginning="drop")
    array([[2., 1.],
           [3., 2.]])
    """
    try:
        complex_too = np.iscomplexobj(signal)
    except ValueError:  # (rows of unequal length, which the next line says)
        complex_too = False
    x = check_numbers(signal, "signal", np.complex128 if complex_too else np.float64)
    if x.ndim != 1 or not len(x):
        raise InputError(
            f"expected a signal of shape (samples,), at least one, got {x.shape}; pass one channel at a time"
        )
    check_finite(x, "signal")
    taps, beginning = check_count(taps, "taps"), check_word(beginning, "beginning", ("zeros", "drop"))
    if beginning == "drop" and len(x) < taps:
        raise InputError(f'expected at least {taps} samples for {taps} taps, got {len(x)}; use beginning="zeros"')
    check_memory(
        float(min(x.itemsize * len(x) * taps, 10**300)), f"{taps:.3g} taps of {len(x)} samples", "use BlockLMS"
    )
    if beginning == "zeros":
        x = np.concatenate([np.zeros(taps - 1, x.dtype), x])
    return np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(x, taps)[:, ::-1])
