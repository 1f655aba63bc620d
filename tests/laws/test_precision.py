"""A float32 state stays float32, whatever it is fed, and agrees with float64 on data that are well conditioned."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.float32
@given(seed=st.integers(0, 10**6), d=st.integers(1, 6), c=st.integers(1, 3), cut=st.integers(1, 59))
def test_float32_stays_float32_and_agrees_with_float64(case, seed, d, c, cut):
    if case.name == "orfit-3":
        d = min(d, 3)  # with a fourth direction it must drop one, and which one is decided by the last digits
    stream, m = case.stream(seed, 60, d, c, kind=0), case.method
    if case.consistent or case.name in {"icl", "orfit", "orfit-3", "ogd", "ogd-rule", "apa-3", "apa-3-half"}:
        # these solve the first d samples (or few at a time) exactly: give them samples far from dependent
        Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]
        X = Q[np.arange(60) % d] * np.random.default_rng(seed).uniform(0.5, 2, (60, 1))
        stream = type(stream)(X, X @ np.ones((d, c)) if case.consistent else stream.Y, stream.start)
    single, double = case.fresh(stream, np.float32), case.fresh(stream)
    for X, Y in case.pieces(stream, [cut]):
        single, double = m.update(single, X, Y), m.update(double, X, Y)
        W = m.weights(single)
        assert W.dtype == np.float32
        assert m.predict(single, X).dtype == np.float32
        assert np.linalg.norm(W - m.weights(double)) <= 1e-3 * np.linalg.norm(m.weights(double))
    final, errors = m.track(case.fresh(stream, np.float32), *stream)
    wanted, expected = m.track(case.fresh(stream), *stream)
    assert errors.dtype == np.float32 and m.weights(final).dtype == np.float32
    assert np.linalg.norm(errors - expected) <= 1e-3 * (np.linalg.norm(expected) + np.linalg.norm(stream.Y))
    assert np.linalg.norm(m.weights(final) - m.weights(wanted)) <= 1e-3 * np.linalg.norm(m.weights(wanted))


@pytest.mark.float32
def test_the_dtype_of_the_state_rules_over_the_dtype_of_the_data(case):
    m, stream = case.method, case.stream(0, 20, 3, 2, kind=0)
    for dtype in (np.float32, np.float64):
        state = case.fresh(stream, dtype)
        for kind in (np.float32, np.float64, np.longdouble, np.float16):
            state = (
                m.update(state, stream.X[:1].astype(kind), stream.Y[:1].astype(kind).astype(kind))
                if not case.consistent
                else state
            )
            assert m.weights(state).dtype == dtype
            assert m.predict(state, stream.X.astype(kind)).dtype == dtype


def test_whole_numbers_and_booleans_are_numbers(case):
    m = case.method
    X, Y = np.array([[1, 0], [0, 1], [1, 1]]), np.array([[1], [0], [1]])
    expected = m.weights(m.update(m.init(2, 1), X.astype(float), Y.astype(float)))
    for kind in (bool, np.int8, np.uint16, np.int64):
        case.same(m.weights(m.update(m.init(2, 1), X.astype(kind), Y.astype(kind))), expected)


@pytest.mark.float32
@given(exponent=st.floats(-22, 14), seed=st.integers(0, 10**6))
def test_the_size_of_float32_samples_does_not_matter_to_methods_that_divide_by_it(case, exponent, seed):
    """Scaling a stream (X and Y alike) leaves the weights: LMS, APA, ICL and ORFit see directions, not lengths."""
    m = case.method
    if case.name not in {"lms", "lms-0.3", "apa-0", "apa-3", "apa-all", "icl", "orfit", "orfit-3", "rls-exact"}:
        return
    stream = case.stream(seed, 3, 4, 1, kind=0, start=False)
    X, Y = np.linalg.qr(stream.X.T)[0].T, stream.Y
    size = 10.0**exponent
    W = m.weights(m.update(m.init(4, 1, dtype=np.float32), size * X, size * Y))
    expected = m.weights(m.update(m.init(4, 1), X, Y))
    assert np.linalg.norm(W - expected) <= 1e-3 * np.linalg.norm(expected)
