"""The Lorenz attractor one step ahead: no tolerance breaks kernel RLS, and it comes as near as random features do."""

import numpy as np
import pytest
from experiments.lorenz import ROWS, TOLERANCES, attractor, decibels, fourier, kernel_rls, split, textbook

SIGNAL = attractor(ROWS + 500)


def test_smaller_tolerances_bring_kernel_rls_below_minus_90_db():
    found = [kernel_rls(SIGNAL, tolerance) for tolerance in (*TOLERANCES, 0.0)]
    kept, errors = map(list, zip(*found, strict=True))
    assert kept == sorted(kept) and errors == sorted(errors, reverse=True)
    assert errors[3] < -35 and errors[9] < -80 and errors[-1] < -90  # (tolerances 1e-4, 1e-10 and none)


def test_the_textbook_recursion_breaks_at_small_tolerances():
    (X, y), (at, target) = split(SIGNAL)
    with np.errstate(all="ignore"):
        coarse, fine = (decibels(textbook(X, y, at, tolerance), target) for tolerance in (1e-4, 1e-5))
    assert coarse == pytest.approx(kernel_rls(SIGNAL, 1e-4)[1], abs=1)
    assert not fine < kernel_rls(SIGNAL, 1e-5)[1] + 10


def test_random_fourier_features_come_as_near():
    assert fourier(SIGNAL, 100) < -90
