"""Outputs are independent: they may be permuted, learned separately or added late; weights scale with the targets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

SIZES = {"seed": st.integers(0, 10**6), "n": st.integers(1, 60), "d": st.integers(1, 12), "c": st.integers(1, 4)}


@pytest.mark.outputs
@given(**SIZES)
def test_permuting_the_outputs_commutes_with_learning(case, seed, n, d, c):
    stream, m = case.stream(seed, n, d, c), case.method
    order = np.random.default_rng(seed).permutation(c)
    renamed = type(stream)(stream.X, stream.Y[:, order], stream.start[:, order])
    permuted = m.with_outputs(case.learned(stream), order)
    case.same(case.model(permuted, stream.X), case.model(case.learned(renamed), stream.X))
    again = m.update(permuted, *renamed)
    case.same(case.model(again, stream.X), case.model(m.update(case.learned(renamed), *renamed), stream.X))


@pytest.mark.outputs
@given(**SIZES)
def test_each_output_learned_alone_equals_all_learned_together(case, seed, n, d, c):
    if case.shared:
        return  # one ridge is fitted to all outputs
    stream, m = case.stream(seed, n, d, c), case.method
    together, errors = m.track(case.fresh(stream), *stream)
    scale = np.linalg.norm(errors) + np.linalg.norm(stream.Y)
    for j in range(c):
        own = type(stream)(stream.X, stream.Y[:, j : j + 1], stream.start[:, j : j + 1])
        alone, own_errors = m.track(case.fresh(own), *own)
        case.same(case.model(alone, stream.X), case.model(together, stream.X)[:, j : j + 1])
        case.same(own_errors, errors[:, j : j + 1], scale=scale)
        case.same(case.model(m.with_outputs(together, np.array([j])), stream.X), case.model(alone, stream.X))


@pytest.mark.outputs
@given(**SIZES, more=st.integers(1, 3))
def test_an_output_added_late_was_taught_zeros_so_far(case, seed, n, d, c, more):
    stream, m = case.stream(seed, 2 * n, d, c + more), case.method
    rng = np.random.default_rng(seed)
    sources = rng.permutation([*range(c), *[-1] * more])
    old = type(stream)(stream.X[:n], stream.Y[:n, :c], stream.start[:, :c])
    padded = type(stream)(
        stream.X[:n],
        np.where(sources >= 0, old.Y[:, sources], 0.0),
        np.where(sources >= 0, old.start[:, sources], 0.0),
    )
    grown, expected = m.with_outputs(case.learned(old), sources), case.learned(padded)
    case.same(case.model(grown, padded.X), case.model(expected, padded.X))
    if case.consistent:  # (zeros so far, something else now: that would be a contradiction)
        return
    X, Y = stream.X[n:], stream.Y[n:]
    grown, expected = m.update(grown, X, Y), m.update(expected, X, Y)
    if getattr(grown, "used", None) == getattr(expected, "used", None):  # (which member of a bank may hang on rounding)
        case.same(case.model(grown, X), case.model(expected, X))
    before = m.weights(case.learned(old))
    assert np.isfinite(before).all()


@pytest.mark.outputs
@given(**SIZES, factor=st.sampled_from([-1.0, 2.0**40, 2.0**-40, 7.3, 1e5, -1e-3]))
def test_scaling_the_targets_scales_the_weights(case, seed, n, d, c, factor):
    if case.shared:
        n = n + d + 2  # with fewer rows than unknowns every ridge fits: the evidence is all but flat
    stream, m = case.stream(seed, n, d, c, start=False), case.method
    scaled = type(stream)(stream.X, factor * stream.Y, stream.start)
    case.same(case.model(case.learned(scaled), stream.X), factor * case.model(case.learned(stream), stream.X))
    if case.shared:
        return
    _, errors = m.track(case.fresh(stream), *stream)
    _, large = m.track(case.fresh(scaled), *scaled)
    case.same(large, factor * errors, scale=abs(factor) * (np.linalg.norm(errors) + np.linalg.norm(stream.Y)))


@given(**SIZES)
def test_a_start_is_only_a_shift_of_the_targets(case, seed, n, d, c):
    """Learning Y from θ⁰ is learning Y − Xθ⁰ from 0, plus θ⁰: every method here is affine in its targets."""
    stream = case.stream(seed, n, d, c)
    shifted = type(stream)(stream.X, stream.Y - stream.X @ stream.start, np.zeros((d, c)))
    offset = case.model(case.fresh(stream), stream.X)
    from_start, from_zero = case.model(case.learned(stream), stream.X), case.model(case.learned(shifted), stream.X)
    case.same(from_start, offset + from_zero, scale=np.linalg.norm(from_start) + np.linalg.norm(offset))
