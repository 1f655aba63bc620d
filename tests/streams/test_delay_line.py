"""Delay lines: rows of past samples, real and complex."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import remanence as rm


@given(st.integers(1, 30), st.integers(1, 12), st.booleans(), st.integers(0, 10**6))
def test_rows_times_taps_are_the_convolution(n, taps, complex_numbers, seed):
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal(n), rng.standard_normal(taps)
    if complex_numbers:
        x = x + 1j * rng.standard_normal(n)
    rows = rm.streams.delay_line(x, taps)
    assert rows.shape == (n, taps) and rows.dtype == (np.complex128 if complex_numbers else np.float64)
    np.testing.assert_allclose(rows @ w, np.convolve(x, w)[:n], atol=1e-12)
    if n >= taps:
        np.testing.assert_array_equal(rm.streams.delay_line(x, taps, "drop"), rows[taps - 1 :])


def test_rows_are_a_copy():
    x = np.arange(4.0)
    rows = rm.streams.delay_line(x, 2)
    rows[:] = 7
    np.testing.assert_array_equal(x, np.arange(4.0))


def test_bad_signals_are_refused():
    for signal in ([], [[1.0, 2.0]], 3.0, [1.0, np.nan], ["a"], [1.0, np.inf], [[1.0], [1.0, 2.0]]):
        with pytest.raises(rm.InputError):
            rm.streams.delay_line(signal, 2)
    for taps in (0, -1, 1.5, None, 10**12, 10**30):
        with pytest.raises(rm.InputError):
            rm.streams.delay_line([1.0], taps)
    with pytest.raises(rm.InputError, match="at least 3 samples"):
        rm.streams.delay_line([1.0, 2.0], 3, "drop")
    with pytest.raises(rm.InputError, match="beginning"):
        rm.streams.delay_line([1.0, 2.0], 1, "ones")
