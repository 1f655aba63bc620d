"""What a model file gives away: sums over rows, but no row as it was, and nothing of a row that was unlearned."""

import json

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import remanence as rm
from remanence.store.format.safetensors_file import parse

from .conftest import content_of, through_a_file

METHODS = {
    "rls": rm.RLS(0.1),
    "auto": rm.RLS("auto"),
    "forget": rm.RLS(0.1, 0.99),
    "lowrank": rm.LowRankRLS(300, 0.1),
}


def table(seed, n, d):
    """Rows of numbers that occur nowhere else: far from zero, each of them once."""
    rng = np.random.default_rng([seed, n, d])
    return 50 + 30 * rng.random((n, d)), 500 + 100 * rng.random(n)


def present(content, values):
    """Those of the values whose bytes stand anywhere in the file."""
    size = values.dtype.itemsize
    bits = np.dtype(f"u{size}")
    there = np.zeros(len(values), bool)
    for offset in range(size):
        seen = np.frombuffer(content, bits, (len(content) - offset) // size, offset)
        there |= np.isin(values.view(bits), seen)
    return values[there]


def traces(content, values, rows=()):
    """Where these numbers stand in a file: as bytes of either precision, in arrays to eleven digits, or as text."""
    words, arrays = parse(content)
    values = np.asarray(values, float).ravel()
    found = [f"{v} as float64" for v in present(content, values)]
    single = values.astype(np.float32)
    if len(values) < 50:
        found += [f"{v} as float32" for v in present(content, single)]
    else:  # of so many one is there by chance: two in a row
        pairs = np.stack([single[:-1], single[1:]], axis=1).view(np.uint64).ravel()
        found += ["two values in a row as float32"] * len(present(content, pairs))
    told = json.dumps(words)
    found += [f"{v} as text" for v in values if repr(float(v)) in told]
    ordered = np.sort(values)
    for name, array in arrays.items():
        if array.dtype.kind != "f":
            continue
        numbers = np.abs(array.astype(float).ravel())
        if array.dtype == np.float64:
            place = np.searchsorted(ordered, numbers).clip(1, len(ordered) - 1) if len(ordered) > 1 else 0
            near = np.minimum(np.abs(ordered[place] - numbers), np.abs(ordered[place - 1] - numbers))
            found += [f"{numbers[i]} in {name}" for i in np.flatnonzero(near <= 1e-11 * numbers)]
        for row in rows:  # a whole row, in whatever precision
            row = np.abs(row)
            starts = np.flatnonzero(np.abs(numbers[: 1 - len(row) or None] - row[0]) <= 1e-5 * row[0])
            whole = [i for i in starts if (np.abs(numbers[i : i + len(row)] - row) <= 1e-5 * row).all()]
            found += [f"a row in {name}"] * (len(row) > 2) * len(whole)
    return found


def test_the_search_finds_what_is_there():
    X, y = table(0, 3, 4)
    one = rm.ContinualRegressor(fit_intercept=False).fit(X[:1], y[:1])  # one row is all this model is
    assert traces(content_of(one), X[0], X[:1])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("d", [1, 2, 3, 20, 200])
def test_no_row_is_in_the_file(d, name, intercept, dtype):
    """Twelve rows, in blocks of which the first is a single row: all of them would wait, or be the offset."""
    X, y = table(1, 12, d)
    model = rm.ContinualRegressor(METHODS[name], fit_intercept=intercept, dtype=dtype)
    labels = rm.ContinualClassifier(METHODS[name], fit_intercept=intercept, dtype=dtype)
    for part in (slice(0, 1), slice(1, 2), slice(2, 12)):
        model.partial_fit(X[part], y[part])
        labels.partial_fit(X[part], np.arange(12)[part] % 2)
    model.predict(X[:1])
    assert traces(content_of(model), np.r_[X.ravel(), y], X) == []
    assert traces(content_of(labels), X, X) == []


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("d", [1, 2, 3, 20, 200])
def test_nothing_of_an_unlearned_row_is_left(d, intercept, dtype):
    """Neither in the file nor in the model itself, whether it was the first row or came later."""
    X, y = table(2, 12, d)
    for place in (0, 5):
        gone = slice(place, place + 1)
        model = rm.ContinualRegressor(rm.RLS(0.1), fit_intercept=intercept, dtype=dtype)
        labels = rm.ContinualClassifier(rm.RLS(0.1), fit_intercept=intercept, dtype=dtype)
        for i in range(12):
            model.partial_fit(X[i : i + 1], y[i : i + 1])
            labels.partial_fit(X[i : i + 1], [i % 3])
        for each, target in ((model, y[gone]), (labels, [place % 3])):
            each.unlearn(X[gone], target, accept_loss=True)
            values = np.r_[X[gone].ravel(), y[gone]]
            if intercept:
                assert not np.isin(X[gone].astype(dtype), each.offset_).any()
                kept = np.delete(X, place, axis=0).mean(axis=0)
                np.testing.assert_allclose(each.offset_, kept, rtol=1e-9 if dtype == "float64" else 1e-4)
            assert traces(content_of(each), values, X[gone]) == []


def test_a_row_that_was_all_there_was_leaves_nothing():
    X, y = table(3, 5, 4)
    model = rm.ContinualRegressor().fit(X[:1], y[:1]).unlearn(X[:1], y[:1])
    assert traces(content_of(model), np.r_[X[0], y[0]]) == [] and model.n_seen_ == 0
    assert model.predict(X).tolist() == [0.0] * 5
    again = through_a_file(model).partial_fit(X, y)
    np.testing.assert_allclose(again.coef_, rm.ContinualRegressor().fit(X, y).coef_, rtol=1e-9)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("first", [0.0, 1e4, 1e6], ids=str)
def test_saving_changes_the_model_by_rounding_only(name, first):
    """A first row far away is the offset until the first time the model is saved."""
    X, y = table(4, 300, 6)
    X[0] += first
    model, never = (rm.ContinualRegressor(METHODS[name]) for _ in range(2))
    for part in (slice(0, 1), slice(1, 150), slice(150, 160), slice(160, 300)):
        model.partial_fit(X[part], y[part])
        never.partial_fit(X[part], y[part])
        file = content_of(model)
        assert content_of(model) == file == content_of(through_a_file(model))
        np.testing.assert_allclose(model.predict(X[1:5]), never.predict(X[1:5]), rtol=1e-8)
    if name == "rls":
        oracle = Ridge(alpha=0.1, solver="svd").fit(X, y)
        np.testing.assert_allclose(model.coef_, oracle.coef_, rtol=1e-6, atol=1e-8)


def test_saving_settles_the_learner_so_that_it_and_its_file_go_on_alike(tmp_path):
    X, y = table(5, 400, 5)
    model = rm.ContinualRegressor().partial_fit(X[:1], y[:1]).partial_fit(X[1:40], y[1:40])
    rm.save(model, tmp_path / "m.safetensors")
    loaded = rm.load(tmp_path / "m.safetensors")
    for part in (slice(40, 41), slice(41, 300), slice(300, 400)):
        assert model.coef_.tobytes() == loaded.coef_.tobytes() and model.intercept_ == loaded.intercept_
        model.partial_fit(X[part], y[part]), loaded.partial_fit(X[part], y[part])
    assert model.coef_.tobytes() == loaded.coef_.tobytes()


@pytest.mark.parametrize("name", METHODS)
def test_a_pair_is_written_without_rows_that_wait_and_stays_as_it_is(name):
    X, y = table(6, 12, 30)
    method = METHODS[name]
    state = method.update(method.init(30, 1), X, y[:, None])
    assert state.pending.count == 12
    content = content_of((method, state))
    assert traces(content, np.r_[X.ravel(), y], X) == []
    assert state.pending.count == 12
    _, loaded = through_a_file((method, state))
    np.testing.assert_allclose(method.weights(loaded), method.weights(state), rtol=1e-8)
    assert loaded.count == 12


@pytest.mark.parametrize("first", [1, 30])
def test_the_command_keeps_no_row(tmp_path, first):
    """Pieces are settled one by one, so that when a file is written does not show in the numbers."""
    from remanence.store.jobs.learn import learn_session
    from remanence.store.jobs.learn_options import LearnOptions

    X, y = table(7, 40, 3)
    for i, part in enumerate((slice(0, first), slice(first, 40))):
        rows = np.column_stack([X[part], y[part]])
        np.savetxt(tmp_path / f"{i}.csv", rows, delimiter=",", header="a,b,c,t", comments="", fmt="%.17g")
    with learn_session(tmp_path / "one.safetensors", LearnOptions(targets=("t",))) as teaching:
        teaching.learn(tmp_path / "0.csv")
        teaching.session.write_seconds = 1e9  # writing would take too long now
        teaching.learn(tmp_path / "1.csv")
    for i in range(2):
        with learn_session(tmp_path / "two.safetensors", LearnOptions(targets=("t",))) as teaching:
            teaching.learn(tmp_path / f"{i}.csv")
    one, two = (rm.load(tmp_path / f"{name}.safetensors") for name in ("one", "two"))
    assert one.coef_.tobytes() == two.coef_.tobytes() and one.offset_.tobytes() == two.offset_.tobytes()
    assert traces((tmp_path / "one.safetensors").read_bytes(), np.r_[X.ravel(), y], X) == []
