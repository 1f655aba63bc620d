"""Cutting a stream into other blocks changes nothing, and tracking is predicting and then learning, row by row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

SIZES = {
    "seed": st.integers(0, 10**6),
    "n": st.one_of(st.integers(1, 12), st.integers(13, 80)),
    "d": st.integers(1, 12),
    "c": st.integers(1, 4),
}
CUTS = st.lists(st.integers(1, 79), max_size=30)


@pytest.mark.cutting
@given(**SIZES, cuts=CUTS)
def test_cutting_the_stream_anywhere_changes_nothing(case, seed, n, d, c, cuts):
    stream = case.stream(seed, n, d, c)
    state = case.fresh(stream)
    for X, Y in case.pieces(stream, cuts):
        state = case.method.update(state, X, Y)
    case.same(case.model(state, stream.X), case.model(case.learned(stream), stream.X))


@pytest.mark.cutting
@given(**SIZES)
def test_learning_row_by_row_equals_learning_a_block(case, seed, n, d, c):
    stream = case.stream(seed, n, d, c)
    state = case.fresh(stream)
    for X, Y in case.pieces(stream, range(n)):
        state = case.method.update(state, X, Y)
    case.same(case.model(state, stream.X), case.model(case.learned(stream), stream.X))


@pytest.mark.cutting
@given(**SIZES, cuts=CUTS)
def test_mixing_update_and_track_changes_nothing(case, seed, n, d, c, cuts):
    stream = case.stream(seed, n, d, c)
    state = case.fresh(stream)
    for k, (X, Y) in enumerate(case.pieces(stream, cuts)):
        state = case.method.track(state, X, Y)[0] if (seed >> k) % 2 else case.method.update(state, X, Y)
    case.same(case.model(state, stream.X), case.model(case.learned(stream), stream.X))


@pytest.mark.cutting
@given(**SIZES)
def test_track_is_predict_then_update_row_by_row(case, seed, n, d, c):
    stream = case.stream(seed, n, d, c)
    state, expected = case.fresh(stream), []
    for x, y in zip(*stream, strict=True):
        expected.append(y - case.method.predict(state, x[None])[0])
        state = case.method.update(state, x[None], y[None])
    final, errors = case.method.track(case.fresh(stream), *stream)
    assert errors.shape == (n, c)
    largest = np.linalg.norm(expected) + np.linalg.norm(stream.Y)
    case.same(errors, np.array(expected), scale=largest)
    case.same(case.model(final, stream.X), case.model(state, stream.X))


@pytest.mark.cutting
@given(**SIZES, cuts=CUTS)
def test_the_errors_of_track_do_not_depend_on_the_cuts(case, seed, n, d, c, cuts):
    stream = case.stream(seed, n, d, c)
    state, parts = case.fresh(stream), []
    for X, Y in case.pieces(stream, cuts):
        state, errors = case.method.track(state, X, Y)
        parts.append(errors)
    final, errors = case.method.track(case.fresh(stream), *stream)
    case.same(np.concatenate(parts), errors, scale=np.linalg.norm(errors) + np.linalg.norm(stream.Y))
    case.same(case.model(final, stream.X), case.model(case.learned(stream), stream.X))


@given(**SIZES)
def test_predictions_are_x_times_the_weights(case, seed, n, d, c):
    if not case.method.linear:
        return
    stream = case.stream(seed, n, d, c)
    state = case.learned(stream)
    W = case.method.weights(state)
    assert W.shape == (d, c) and W.dtype == np.float64
    case.same(case.method.predict(state, stream.X), stream.X @ W, rounding=1e-12)
    assert case.method.predict(state, np.zeros((0, d))).shape == (0, c)


@pytest.mark.cutting
def test_wide_states_with_few_rows_at_a_time_are_cut_exactly_too(case):
    """Wide enough that RLS carries its solution along instead of solving anew, and that tracking works in blocks."""
    for d, n, seed in ((40, 90, 0), (130, 160, 4)):
        stream = case.stream(seed, n, d, 2)
        whole = case.learned(stream)
        for width in (1, 3, 17):
            state = case.fresh(stream)
            for k, (X, Y) in enumerate(case.pieces(stream, range(0, n, width))):
                if k % 3 == 0:
                    case.method.predict(state, X)
                state = case.method.update(state, X, Y)
            case.same(case.model(state, stream.X), case.model(whole, stream.X))
        tracked, errors = case.method.track(case.fresh(stream), *stream)
        case.same(case.model(tracked, stream.X), case.model(whole, stream.X))
        assert np.isfinite(errors).all()
        if case.shared:
            return
