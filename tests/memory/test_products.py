"""Scores in one pass over X: right to rounding with any offset, and NaN and infinity never get through."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import remanence as rm
from remanence.memory import products
from remanence.memory.products import scores_of

RNG = np.random.default_rng(0)


def exact(X, W, offset, intercept):
    """(X − o)W + b in rational arithmetic."""
    numbers = [[[Fraction(float(v)) for v in row] for row in A] for A in (X, W.T)]
    shift, b = [Fraction(float(v)) for v in offset], [Fraction(float(v)) for v in intercept]
    return np.array(
        [
            [
                float(sum((x - o) * w for x, o, w in zip(row, shift, w, strict=True)) + b[k])
                for k, w in enumerate(numbers[1])
            ]
            for row in numbers[0]
        ]
    )


@pytest.mark.parametrize("level", [0.0, 1.0, 1e3, 1e9, 1e12])
@pytest.mark.parametrize("rows, dtype", [(3, "float64"), (70, "float64"), (70, "float32")])
def test_scores_keep_their_digits_however_far_the_offset_is(level, rows, dtype, monkeypatch):
    monkeypatch.setattr(products, "BLOCK", 16 * 5)  # several blocks
    offset = np.full(5, level)
    X = (RNG.standard_normal((rows, 5)) + offset).astype(dtype)
    W, b = RNG.standard_normal((5, 2)), np.array([0.5, -0.25])
    np.testing.assert_allclose(scores_of(X, W, offset, b), exact(X, W, offset, b), atol=1e-14 * (64 if level else 1))


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 3), st.booleans(), st.booleans(), st.integers(0, 99))
def test_scores_are_the_product(n, d, c, single, centred, seed):
    rng = np.random.default_rng(seed)
    X, W = rng.standard_normal((n, d)).astype("f4" if single else "f8"), rng.standard_normal((d, c))
    offset, b = (rng.standard_normal(d), rng.standard_normal(c)) if centred else (None, None)
    expected = (X - offset) @ W + b if centred else X @ W
    np.testing.assert_allclose(scores_of(X, W, offset, b), expected, atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", [0, 2])
@pytest.mark.parametrize("rows", [1, 9, 500])
def test_rows_that_are_not_finite_are_refused_even_where_the_weight_is_zero(bad, column, rows, monkeypatch):
    monkeypatch.setattr(products, "BLOCK", 64)
    X, W = RNG.standard_normal((rows, 3)), RNG.standard_normal((3, 2))
    W[2] = 0
    X[-1, column] = bad
    for args in ((X, W), (X, W, np.ones(3), np.zeros(2)), (X.astype("f4"), W)):
        with pytest.raises(rm.InputError, match="NaN or infinity"):
            scores_of(*args)
    with pytest.raises(rm.InputError, match="NaN or infinity"):
        scores_of(X, np.zeros((3, 1)))


def test_scores_that_overflow_are_an_error_of_arithmetic_or_of_the_rows():
    with pytest.raises(rm.NumericalError), np.errstate(over="ignore"):
        scores_of(np.full((2, 2), 1e140), np.full((2, 1), 1e200))
    with pytest.raises(rm.InputError, match="within"), np.errstate(over="ignore"):
        scores_of(np.full((2, 2), 1e200), np.full((2, 1), 1e200))
    with pytest.raises(rm.InputError, match="infinity"), np.errstate(over="ignore"):
        scores_of(np.full((2, 2), 1e300), np.ones((2, 1), np.float32))


def test_rows_far_from_zero_are_predicted_to_all_digits():
    """Times in seconds since 1970, for which X @ coef_ + intercept_ has seven digits less."""
    t = 1.7e9 + np.arange(40_000.0)
    y = 1e-3 * (t - 1.7e9)
    model = rm.ContinualRegressor(rm.RLS(ridge=1e-9)).fit(t[:, None], y)
    np.testing.assert_allclose(model.predict(t[:, None]), y, atol=1e-10)


def test_rows_of_another_precision_are_multiplied_as_if_converted():
    X = RNG.standard_normal((3000, 60)) + 3
    y = X @ RNG.standard_normal(60)
    for dtype, other in (("float64", "f4"), ("float32", "f8")):
        model = rm.ContinualRegressor(dtype=dtype).fit(X, y)
        rows = X.astype(other)
        found = model.predict(rows)
        assert found.dtype == dtype
        tolerance = 1e-12 if dtype == "float64" else 1e-4
        np.testing.assert_allclose(found, model.predict(rows.astype(dtype)), atol=tolerance)
