"""Very large and very small numbers give finite predictions or an error; never NaN, and never a warning."""

import warnings
from contextlib import suppress
from itertools import product

import numpy as np
import pytest

import remanence as rm

SIZES = (1e-150, 1.0, 1e150)
REFUSALS = (rm.InputError, rm.NumericalError)


def scales(n, d, c):
    """Factors for X and Y: all of one size, sizes mixed over rows, over columns, and over entries."""
    rng = np.random.default_rng(0)
    for x, y in product(SIZES, SIZES):
        yield f"X {x:g}, Y {y:g}", np.full((n, d), x), np.full((n, c), y)
    for k in range(4):
        rows = rng.choice(SIZES, (n, 1))
        yield f"rows alike {k}", rows * np.ones((n, d)), rows * np.ones((n, c))
        yield f"rows of X {k}", rows * np.ones((n, d)), np.ones((n, c))
        yield f"rows of Y {k}", np.ones((n, d)), rows * np.ones((n, c))
        yield f"columns of X {k}", rng.choice(SIZES, (1, d)) * np.ones((n, d)), np.ones((n, c))
        yield f"entries {k}", rng.choice(SIZES, (n, d)), rng.choice(SIZES, (n, c))
    yield "falling", np.logspace(150, -150, n)[:, None] * np.ones((n, d)), np.ones((n, c))
    yield "rising", np.logspace(-150, 150, n)[:, None] * np.ones((n, d)), np.ones((n, c))


def finite(*answers):
    for a in answers:
        assert not np.isnan(a).any(), "NaN"
        assert np.isfinite(a).all(), "infinite"


@pytest.mark.parametrize("n", [3, 20])
def test_any_magnitude_gives_finite_answers_or_a_refusal(case, n):
    m, d, c = case.method, 5, 2
    stream = case.stream(0, n, d, c, kind=0, start=False)
    wrong = []
    for name, sx, sy in scales(n, d, c):
        X = stream.X * sx
        X = np.clip(X, -1e150, 1e150)
        Y = np.clip(stream.Y * sy, -1e150, 1e150)
        state = m.init(d, c)
        for call in ("update", "track", "rows"):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    warnings.simplefilter("ignore", UserWarning)  # a word on a ridge beside data of such sizes is right
                    if call == "update":
                        new = m.update(state, X, Y)
                    elif call == "track":
                        new, errors = m.track(state, X, Y)
                        finite(errors)
                    else:
                        new = state
                        for x, y in zip(X, Y, strict=True):
                            new = m.update(new, x[None], y[None])
                            m.weights(new)
                    finite(m.weights(new))
                    finite(m.predict(new, X))
                    if isinstance(m, rm.RLS) and not case.consistent:
                        finite(m.variance(new, X), m.loss(new), m.evidence(new))
            except REFUSALS:
                pass
            except Exception as error:
                wrong.append(f"{name}, {call}: {type(error).__name__}: {error}")
        np.testing.assert_array_equal(m.predict(state, np.eye(d)), np.zeros((d, c)))
    assert not wrong, f"{len(wrong)}: " + "; ".join(wrong[:4])


def test_rows_and_targets_of_one_tiny_or_huge_size_are_learned_as_if_they_were_of_size_one():
    """Methods that divide by ‖x‖² see no lengths, so scaling X and Y together by 1e±150 changes no weight."""
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((4, 6)), rng.standard_normal((4, 2))
    for m in (rm.LMS(), rm.LMS(0.4), rm.APA(0), rm.APA(2), rm.APA(None), rm.ICL(), rm.ORFit(), rm.ORFit(3)):
        expected = m.weights(m.update(m.init(6, 2), X, Y))
        for size in (1e-150, 1e-100, 1e100, 1e149):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                W = m.weights(m.update(m.init(6, 2), size * X, size * Y))
            np.testing.assert_allclose(W, expected, rtol=1e-9, atol=1e-11, err_msg=f"{m} {size:g}")


def test_too_large_values_are_refused_without_a_warning():
    m = rm.ICL()
    for value in (1e151, 1e200, 1e308, np.longdouble("1e4000")):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(rm.InputError):
                m.update(m.init(2, 1), np.full((1, 2), value), np.ones((1, 1)))


def test_min_norm_of_any_magnitude_is_finite_or_refused():
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((6, 4)), rng.standard_normal((6, 2))
    for _, sx, sy in scales(6, 4, 2):
        with warnings.catch_warnings(), suppress(*REFUSALS):
            warnings.simplefilter("error")
            finite(rm.min_norm(np.clip(sx * X, -1e150, 1e150), np.clip(sy * Y, -1e150, 1e150)))
