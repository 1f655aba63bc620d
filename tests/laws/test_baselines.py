"""The laws that apply to the baselines: they are estimators, so learning changes them, but nothing else does."""

import copy
import pickle

import numpy as np
import pytest

import remanence as rm

BASELINES = {
    "finetune": lambda: rm.Finetune(epochs=2, seed=3),
    "replay": lambda: rm.Replay(epochs=2, memory=9, seed=3),
    "nearest-mean": rm.NearestMean,
    "joint": rm.Joint,
}
CUTTING = ("nearest-mean", "joint")  # the others take gradient steps, which depend on the blocks


def rows(seed=0, n=60, d=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
    return X, y


def answers(model, X):
    """The predictions as bytes, and every array that was learned."""
    learned = {k: np.array(v) for k, v in vars(model).items() if isinstance(v, np.ndarray) and v.dtype.kind != "O"}
    return model.predict(X).tobytes(), {name: array.tobytes() for name, array in learned.items()}


@pytest.fixture(params=BASELINES)
def name(request):
    return request.param


def test_the_same_rows_and_seed_give_the_same_model(name):
    X, y = rows()
    assert answers(BASELINES[name]().fit(X, y), X) == answers(BASELINES[name]().fit(X, y), X)


def test_predicting_changes_nothing(name):
    X, y = rows()
    asked, silent = BASELINES[name]().fit(X[:40], y[:40]), BASELINES[name]().fit(X[:40], y[:40])
    before = answers(asked, X)
    asked.predict(X)
    assert answers(asked, X) == before
    asked.partial_fit(X[40:], y[40:]), silent.partial_fit(X[40:], y[40:])
    assert answers(asked, X) == answers(silent, X)


def test_the_callers_arrays_are_neither_written_nor_kept(name):
    X, y = rows()
    model, X0, y0 = BASELINES[name](), X.copy(), y.copy()
    model.fit(X, y)
    assert (X0 == X).all() and (y0 == y).all()
    before = answers(model, X0)
    X[:], y[:] = 7.0, 0
    assert answers(model, X0) == before


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_goes_on_as_the_original_does(name, copied):
    X, y = rows()
    model = BASELINES[name]().fit(X[:40], y[:40])
    twin = copied(model)
    twin.partial_fit(X[40:], y[40:])
    model.partial_fit(X[40:], y[40:])
    assert answers(twin, X) == answers(model, X)


def test_a_loaded_model_goes_on_as_the_saved_one_does(name, tmp_path):
    X, y = rows()
    model = BASELINES[name]().fit(X[:40], y[:40])
    rm.save(model, tmp_path / "m")
    loaded = rm.load(tmp_path / "m")
    assert answers(loaded, X) == answers(model, X)
    loaded.partial_fit(X[40:], y[40:]), model.partial_fit(X[40:], y[40:])
    assert answers(loaded, X) == answers(model, X)


@pytest.mark.parametrize("cut", [1, 13, 59])
@pytest.mark.parametrize("name", CUTTING)
def test_cutting_the_rows_elsewhere_changes_nothing(name, cut):
    X, y = rows()
    whole, parts = BASELINES[name]().fit(X, y), BASELINES[name]()
    for block in (slice(0, cut), slice(cut, None)):
        parts.partial_fit(X[block], y[block])
    assert (parts.predict(X) == whole.predict(X)).all() and parts.n_seen_ == whole.n_seen_


BAD = {
    "NaN": lambda X, y: (np.full_like(X, np.nan), y),
    "too wide": lambda X, y: (np.ones((len(X), 9)), y),
    "not as many labels": lambda X, y: (X, y[:-1]),
    "one-dimensional": lambda X, y: (X[0], y),
    "no rows": lambda X, y: (X[:0], y[:0]),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_rows_raise_input_error_and_change_nothing(name, bad):
    X, y = rows()
    model = BASELINES[name]().fit(X, y)
    before = answers(model, X)
    with pytest.raises(rm.InputError):
        model.partial_fit(*BAD[bad](X[:3], y[:3]))
    assert answers(model, X) == before
