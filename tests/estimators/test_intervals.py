"""Intervals of the regressor: they cover what they say, under drift too, and are stored with the model."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

import remanence as rm
from remanence.estimators.conformal import STEP, WINDOW, PastErrors

RNG = np.random.default_rng(0)


def stream(kind, n=3000, d=6, seed=1):
    rng = np.random.default_rng(seed)
    X, W, noise, t = rng.standard_normal((n, d)), rng.standard_normal(d), rng.standard_normal(n), np.arange(n)
    y = {
        "normal": lambda: X @ W + noise,
        "heavy": lambda: X @ W + rng.standard_t(2.5, n),
        "skewed": lambda: X @ W + rng.exponential(2, n),
        "uneven": lambda: X @ W + noise * (0.3 + X[:, 0] ** 2),
        "curved": lambda: np.sin(X @ W) + 0.3 * noise,
        "louder": lambda: X @ W + noise * (1 + 9 * t / n),
        "in turns": lambda: X @ W + noise * np.where(t // 500 % 2, 5, 1),
        "wandering": lambda: (X * (W + 0.03 * np.cumsum(rng.standard_normal((n, d)), axis=0))).sum(axis=1) + noise,
    }[kind]()
    return X, y


def coverage(model, X, y, level, block, warm=200):
    hits = []
    for i in range(0, len(X), block):
        part = slice(i, i + block)
        if i >= warm:
            _, low, high = model.predict(X[part], interval=level)
            hits.append((low <= y[part]) & (y[part] <= high))
        model.partial_fit(X[part], y[part])
    return np.concatenate(hits).mean()


@pytest.mark.parametrize("kind", ["normal", "heavy", "skewed", "uneven", "curved"])
def test_they_cover_what_they_say(kind):
    assert coverage(rm.ContinualRegressor(intervals=True), *stream(kind), 0.9, 5) == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize("kind", ["normal", "heavy", "curved"])
@pytest.mark.parametrize("n", [50, 300, 2000])
@pytest.mark.parametrize("method", [None, rm.RLS(forget=0.999)], ids=str)
def test_they_cover_after_one_fit(kind, n, method):
    """A single block gives errors, and none before them to rank them among."""
    inside = []
    for seed in range(8):
        X, y = stream(kind, n + 500, seed=seed)
        _, low, high = rm.ContinualRegressor(method).fit(X[:n], y[:n]).predict(X[n:], interval=0.9)
        inside.append(((low <= y[n:]) & (y[n:] <= high)).mean())
    assert np.mean(inside) == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize("kind", ["normal", "curved"])
@pytest.mark.parametrize("block", [1, 50])
def test_as_it_comes_a_part_of_the_rows_is_measured_and_the_share_holds(kind, block):
    model = rm.ContinualRegressor()
    assert coverage(model, *stream(kind), 0.9, block, warm=1000) == pytest.approx(0.9, abs=0.05)
    assert 100 < len(model.errors_.sizes) < WINDOW + 1


@pytest.mark.parametrize(("features", "block"), [(300, 60), (600, 200), (600, 1800)])
def test_a_wide_model_as_it_comes_covers_for_what_it_has_become(features, block):
    """Errors of its first rows, fewer than features, are those of another model."""
    n, rng = 3 * features, np.random.default_rng(0)
    X = rng.standard_normal((n + 2000, features))
    y = X @ rng.standard_normal(features) / features**0.5 + 0.3 * rng.standard_normal(n + 2000)
    model = rm.ContinualRegressor()
    for first in range(0, n, block):
        model.partial_fit(X[first : first + block], y[first : first + block])
    _, low, high = model.predict(X[n:], interval=0.9)
    assert 0.86 <= ((low <= y[n:]) & (y[n:] <= high)).mean() <= 0.95


@pytest.mark.parametrize("level", [0.5, 0.8, 0.97])
def test_every_level_has_its_own(level):
    model = rm.ContinualRegressor(intervals=True)
    assert coverage(model, *stream("normal"), level, 5) == pytest.approx(level, abs=0.015)


@pytest.mark.parametrize("kind", ["louder", "in turns", "wandering"])
@pytest.mark.parametrize("method", [None, rm.RLS(forget=0.98)], ids=str)
def test_they_go_on_covering_under_drift(kind, method):
    model = rm.ContinualRegressor(method, intervals=True)
    assert coverage(model, *stream(kind), 0.9, 5) == pytest.approx(0.9, abs=0.02)


def test_the_normal_form_does_not_cover_under_drift():
    """What the errors of the past are for."""
    X, y = stream("louder")
    model = rm.ContinualRegressor().fit(X[:2500], y[:2500])
    mean, std = model.predict(X[2500:], return_std=True)
    assert np.mean(np.abs(y[2500:] - mean) <= 1.645 * std) < 0.85


@pytest.mark.parametrize("weights", [None, RNG.uniform(0.1, 3, 80)], ids=["plain", "weighted"])
def test_fitting_measures_rows_as_if_each_were_left_out(weights):
    X, y = stream("normal", 80)
    model = rm.ContinualRegressor(rm.RLS(ridge=0.7)).fit(X, y, sample_weight=weights)
    errors = []
    for i in range(80):
        keep = np.arange(80) != i
        ridge = Ridge(alpha=0.7).fit(X[keep], y[keep], None if weights is None else weights[keep])
        errors.append(abs(y[i] - ridge.predict(X[i : i + 1])[0]))
    np.testing.assert_allclose(model.errors_.sizes[:, 0], errors, rtol=1e-3)


@pytest.mark.parametrize(
    "method", [None, rm.RLS(forget=0.95), rm.LMS(0.1), rm.LowRankRLS(3), rm.APA(2), rm.Kalman(0.1)]
)
def test_later_rows_are_measured_before_they_are_learned(method):
    X, y = stream("normal", 60)
    model = rm.ContinualRegressor(method, intervals=True).fit(X[:40], y[:40])
    known, expected = len(model.errors_.sizes), np.abs(y[40:] - model.predict(X[40:]))
    model.partial_fit(X[40:], y[40:])
    np.testing.assert_allclose(model.errors_.sizes[known:, 0], expected, rtol=1e-3)
    assert len(model.errors_.sizes) == known + 20


def test_what_is_learned_does_not_depend_on_them():
    for method in (None, rm.LMS(0.1), rm.RLS(forget=0.9), rm.RLS("auto"), rm.Kalman(0.1)):
        X, y = stream("normal", 50)
        for kind in ("with", "without"):
            model = rm.ContinualRegressor(method, intervals=kind == "with").partial_fit(X[:30], y[:30])
            model.partial_fit(X[30:], y[30:])
            if kind == "with":
                expected = model.predict(X)
        np.testing.assert_allclose(model.predict(X), expected, rtol=1e-9)
        assert not hasattr(model, "errors_")
        with pytest.raises(rm.InputError, match="intervals=True"):
            model.predict(X, interval=0.9)


def test_shapes_and_dtypes():
    X, y = stream("normal", 100)
    for Y, shape in ((y, (100,)), (np.column_stack([y, 2 * y]), (100, 2))):
        found = rm.ContinualRegressor(dtype="float32").fit(X, Y).predict(X, interval=0.9)
        assert [part.shape for part in found] == [shape] * 3 and {part.dtype for part in found} == {np.dtype("f4")}
    mean, low, high = found
    np.testing.assert_allclose(high - mean, mean - low, rtol=1e-3)
    np.testing.assert_allclose((high - low)[:, 1], 2 * (high - low)[:, 0], rtol=1e-3)


def test_few_rows_have_the_normal_form_or_none():
    X, y = stream("normal", 8)
    model = rm.ContinualRegressor().fit(X, y)
    mean, _, high = model.predict(X, interval=0.9)
    _, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(high - mean, 1.6448536 * std, rtol=1e-6)
    assert np.isinf(rm.ContinualRegressor(rm.LMS(0.1)).fit(X, y).predict(X, interval=0.9)[2]).all()
    one = rm.ContinualRegressor().fit(X[:1], y[:1])
    assert (one.predict(X, interval=0.5)[1] <= one.predict(X)).all()


def test_a_stream_of_single_rows_is_measured_from_its_second_row_on():
    X, y = stream("normal", 30)
    model = rm.ContinualRegressor(intervals=True)
    for i in range(30):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    assert len(model.errors_.sizes) == 29


@pytest.mark.parametrize("level", [0, 1, 1.5, -0.1, np.nan, "0.9", True])
def test_bad_levels_are_refused(level):
    X, y = stream("normal", 30)
    model = rm.ContinualRegressor().fit(X, y)
    with pytest.raises(rm.InputError, match="between 0 and 1"):
        model.predict(X, interval=level)
    with pytest.raises(rm.InputError, match="ask twice"):
        model.predict(X, interval=0.9, return_std=True)


def test_they_are_saved_copied_and_go_on_the_same(tmp_path):
    X, y = stream("normal", 200)
    model = rm.ContinualRegressor(intervals=True).fit(X[:100], y[:100]).partial_fit(X[100:150], y[100:150])
    rm.save(model, tmp_path / "m")
    twins = [rm.load(tmp_path / "m"), copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for twin in twins:
        for part in (model, twin):
            part = part.partial_fit(X[150:], y[150:]) if part is twin else copy.copy(part).partial_fit(X[150:], y[150:])
            found = part.predict(X, interval=0.8)
            if part is not twin:
                expected = found
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    with pytest.raises(ValueError, match="read-only"):
        model.errors_.sizes[0] = 0


def test_merging_keeps_the_newest_errors_of_both():
    X, y = stream("normal", 2000)
    a = rm.ContinualRegressor(intervals=True).fit(X[:900], y[:900]).partial_fit(X[900:1200], y[900:1200])
    b = rm.ContinualRegressor(intervals=True).fit(X[1200:1600], y[1200:1600]).partial_fit(X[1600:], y[1600:])
    both = a.errors_.merged(b.errors_)
    assert len(both.sizes) == WINDOW
    np.testing.assert_array_equal(np.sort(both.sizes, axis=0), np.sort(b.errors_.merged(a.errors_).sizes, axis=0))
    assert set(b.errors_.sizes[-200:, 0]) | set(a.errors_.sizes[-200:, 0]) <= set(both.sizes[:, 0])
    assert a.merge(b).errors_.sizes.shape == (WINDOW, 1)


def test_bad_settings_are_refused():
    for intervals in ("yes", 1, None):
        with pytest.raises(rm.InputError, match="intervals"):
            rm.ContinualRegressor(intervals=intervals).fit(*stream("normal", 9))


def test_unlearning_everything_clears_them():
    X, y = stream("normal", 40)
    model = rm.ContinualRegressor().fit(X, y)
    model.unlearn(X[:20], y[:20])
    assert len(model.errors_.sizes) == 40  # errors of rows that are gone fade with new rows, as documented
    model.unlearn(X[20:], y[20:])
    assert not hasattr(model, "errors_")
    assert len(model.partial_fit(X, y).errors_.sizes) == 40


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 700), st.sampled_from([0.1, 0.5, 0.9]))
def test_the_radius_is_the_recursion_of_the_paper(seed, n, level):
    """Against a plain loop over all errors, each predicted, ranked and remembered on its own."""
    errors = np.random.default_rng(seed).standard_cauchy((n, 1))
    past = PastErrors.empty(errors)
    for cut in np.array_split(errors, max(1, n // 7)):
        past = past.extended(cut)
    sizes, ranks = [], []
    fraction, exponent = np.frexp(np.abs(errors[:, 0]))
    for cut in np.array_split(np.ldexp(np.round(fraction * 1024) / 1024, exponent), max(1, n // 7)):
        ranks += [sum(s < e for s in sizes) / (len(sizes) + 1) if sizes else None for e in cut]
        sizes, ranks = (sizes + list(cut))[-WINDOW:], ranks[-WINDOW:]
    alpha = 1 - level
    for rank in (rank for rank in ranks if rank is not None):
        alpha += STEP * (1 - level - (rank >= 1 - alpha))
    k = len(sizes)
    if np.ceil((k + 1) * level) > k:
        assert past.radius(level) is None
    else:
        place = min(max(int(np.ceil((k + 1) * (1 - alpha))), 1), k)
        assert past.radius(level)[0] == sorted(sizes)[place - 1]
