"""Learned parts: tasks may run twice, and few roots are in memory at a time."""

import pickle
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import remanence as rm
from remanence.scale.learning import _learn, _merge
from remanence.scale.travel import pack, unpack

dask = pytest.importorskip("dask")
import dask.array as da  # noqa: E402

X = np.random.default_rng(0).standard_normal((300, 20))
LABELS = np.abs(X[:, :3]).argmax(axis=1)
MODELS = {
    "classifier": (rm.ContinualClassifier(), LABELS),
    "scaled": (rm.ContinualClassifier(scale="standard", fit_intercept=True), LABELS),
    "balanced": (rm.ContinualClassifier(class_weight="balanced"), LABELS),
    "discriminant": (rm.ContinualClassifier(readout="discriminant"), LABELS),
    "label sets": (rm.ContinualClassifier(), (X[:, :3] > 0).astype(int)),
    "regressor": (rm.ContinualRegressor(), X[:, :2] @ np.ones((2, 2))),
    "low rank": (rm.ContinualClassifier(rm.LowRankRLS(4)), LABELS),
}


@pytest.fixture(params=MODELS)
def case(request):
    return MODELS[request.param]


def test_tasks_run_twice_with_the_same_bits_and_change_nothing(case, digest):
    model, y = case
    a, b = (_learn(model, None, X[i : i + 140], y[i : i + 140], "part") for i in (0, 140))
    before = pickle.dumps((a, b))
    few, many = slice(280, 283), slice(200, 300)  # (few rows wait in a buffer)
    for again in (
        lambda: _learn(model, a, X[few], y[few], "part"),
        lambda: _learn(model, _learn(model, a, X[few], y[few], "part"), X[many], y[many], "part"),
        lambda: _merge(model, a, b),
        lambda: _merge(model, _learn(model, a, X[few], y[few], "part"), _learn(model, b, X[few], y[few], "part")),
    ):
        first, second = again(), again()
        assert digest(unpack(model, first)) == digest(unpack(model, second))
        assert pickle.dumps((a, b)) == before


def test_parts_have_the_bits_of_learning_and_merging_here(case, digest):
    model, y = case
    here = [model._blank().partial_fit(X[i : i + 150], y[i : i + 150]) for i in (0, 150)]
    there = [_learn(model, None, X[i : i + 150], y[i : i + 150], "part") for i in (0, 150)]
    assert digest(unpack(model, _merge(model, *there))) == digest(here[0].merge(here[1]))


def test_a_part_says_how_large_it_is_and_a_root_is_half_a_square():
    wide = np.random.default_rng(0).standard_normal((100, 300))
    part = pack(rm.ContinualRegressor().fit(wide, wide[:, 0]))
    assert 0.5 < part.__sizeof__() / (8 * 301**2) < 0.6


@pytest.mark.parametrize(("fan", "roots"), [(16, 3.0), (2, 4.0)])
def test_a_worker_that_does_everything_holds_few_roots(fan, roots, monkeypatch):
    """One level of merges, and three; beside the roots there are buffers of 128 rows."""
    monkeypatch.setattr("remanence.scale.tree.FAN", fan)
    d, partitions = 1000, 8
    rows = da.random.default_rng(0).standard_normal((2 * partitions, d), chunks=(2, d))
    model = rm.ContinualRegressor(intervals=False)
    rm.scale.fit(model, rows[:2], rows[:2, 0])  # (what is imported at first)
    with ThreadPoolExecutor(1) as pool, dask.config.set(pool=pool):
        tracemalloc.start()
        rm.scale.fit(model, rows, rows[:, 0])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    buffers = (roots + 3) * 128 / d
    assert peak / (8 * (d + 1) ** 2) < roots + buffers + 0.2


@pytest.mark.parametrize("known", [True, False])
def test_answers_are_counted_although_the_first_partitions_have_no_rows(known):
    """With many features solving for answers is not paid for by few rows: the first partition with rows does so."""
    rng = np.random.default_rng(0)
    rows, labels, sizes = rng.standard_normal((60, 820)), rng.integers(0, 2, 60), (0, 0, 30, 30)
    parts = [da.from_array(rows, chunks=(sizes, 820)), da.from_array(labels, chunks=(sizes,))]
    if not known:
        ends = np.cumsum(sizes)
        parts = [[dask.delayed((rows[e - n : e], labels[e - n : e])) for e, n in zip(ends, sizes, strict=True)]]
    found = rm.scale.fit(rm.ContinualClassifier(), *parts)
    assert 0 < found.assessment_.rows.max() <= (30 if known else 60)
