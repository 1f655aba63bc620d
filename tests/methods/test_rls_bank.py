"""RLS(forget="auto"): seven filters side by side, and at each row the one that evidence favours."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import remanence as rm
from remanence.methods.banks.rls_bank import BANK, EVIDENCE, FADING

AUTO = rm.RLS(1.0, "auto")


def stream(kind, n=3000, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X, noise, t = rng.standard_normal((n, d)), rng.standard_normal(n), np.arange(n)
    steps, W = rng.standard_normal((n, d)), rng.standard_normal((n // 300 + 1, d))
    y = {
        "still": lambda: X @ W[0] + noise,
        "slow": lambda: (X * np.cumsum(0.01 * steps, axis=0)).sum(axis=1) + noise,
        "fast": lambda: (X * np.cumsum(0.1 * steps, axis=0)).sum(axis=1) + noise,
        "switching": lambda: (X * W[t // 300]).sum(axis=1) + 0.3 * noise,
        "two speeds": lambda: (X * np.cumsum(0.1 * steps * (t > n // 2)[:, None], axis=0)).sum(axis=1) + noise,
    }[kind]()
    return X, y[:, None]


def plain(X, Y):
    """The definition, row by row: seven filters, fading squares, and a switch only with evidence."""
    methods = [rm.RLS(1.0, forget) for forget in BANK]
    states = [method.init(X.shape[1], Y.shape[1]) for method in methods]
    V, used, errors, rows = np.zeros((len(BANK), Y.shape[1])), 0, [], 0.0
    for x, y in zip(X, Y, strict=True):
        found = np.array([y - method.predict(state, x[None])[0] for method, state in zip(methods, states, strict=True)])
        errors.append(found[used])
        states = [method.update(s, x[None], y[None]) for method, s in zip(methods, states, strict=True)]
        V, rows = FADING * V + found**2, FADING * rows + 1
        with np.errstate(divide="ignore"):
            L = 0.5 * rows * np.log(V).sum(axis=1)
        if L.min() < L[used] - EVIDENCE:
            used = int(L.argmin())
    return np.array(errors), methods[used].weights(states[used]), BANK[used]


@pytest.mark.parametrize("kind", ["still", "fast", "switching", "two speeds"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_it_is_the_filters_side_by_side(kind, outputs):
    X, y = stream(kind, 700)
    Y = np.column_stack([y, y[::-1]])[:, :outputs]
    state, errors = AUTO.track(AUTO.init(5, outputs), X, Y)
    expected, W, forget = plain(X, Y)
    np.testing.assert_allclose(errors, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(AUTO.weights(state), W, rtol=1e-6)
    assert AUTO.forgetting(state) == forget


@pytest.mark.parametrize("kind", ["still", "slow", "fast", "switching", "two speeds"])
def test_it_errs_hardly_more_than_the_best_single_factor(kind):
    X, y = stream(kind)
    single = [rm.prequential(rm.RLS(1.0, forget), X, y).error for forget in BANK]
    assert rm.prequential(AUTO, X, y).error <= 1.03 * min(single)
    if kind == "two speeds":
        assert rm.prequential(AUTO, X, y).error < 0.97 * min(single)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 599), max_size=4), st.sampled_from(["still", "fast", "switching"]))
def test_cutting_the_rows_elsewhere_changes_nothing(cuts, kind):
    X, y = stream(kind, 600)
    whole = AUTO.update(AUTO.init(5, 1), X, y)
    state = AUTO.init(5, 1)
    for part in np.split(np.arange(600), sorted(set(cuts))):
        state = AUTO.update(state, X[part], y[part])
    assert AUTO.forgetting(state) == AUTO.forgetting(whole) and state.count == 600
    np.testing.assert_allclose(AUTO.weights(state), AUTO.weights(whole), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_unit_of_the_targets_does_not_matter(scale):
    X, y = stream("fast", 500)
    state, other = (AUTO.update(AUTO.init(5, 1), X, y * factor) for factor in (1.0, scale))
    assert AUTO.forgetting(state) == AUTO.forgetting(other)
    np.testing.assert_allclose(AUTO.weights(other), scale * AUTO.weights(state), rtol=1e-6)


def test_live_rows_are_tracked_rows():
    X, y = stream("switching", 400)
    live = AUTO.live(features=5)
    errors = [live.learn(x, float(t)) for x, t in zip(X, y[:, 0], strict=True)]
    np.testing.assert_allclose(errors, AUTO.track(AUTO.init(5, 1), X, y)[1][:, 0], rtol=1e-6, atol=1e-9)


def test_it_can_be_asked_saved_and_changed(tmp_path):
    X, y = stream("fast", 300)
    state = AUTO.update(AUTO.init(5, 1), X, y)
    one = rm.RLS(1.0, AUTO.forgetting(state))
    twin = one.update(one.init(5, 1), X, y)
    for call in ("loss", "evidence", "ridge_of", "forgetting"):
        assert getattr(AUTO, call)(state) == pytest.approx(getattr(one, call)(twin), rel=1e-8)
    np.testing.assert_allclose(AUTO.variance(state, X), one.variance(twin, X), rtol=1e-7)
    changed = AUTO.weights(AUTO.with_ridge(state, 3.0))
    np.testing.assert_allclose(changed, one.weights(one.with_ridge(twin, 3.0)), rtol=1e-6)
    rm.save((AUTO, state), tmp_path / "m")
    method, loaded = rm.load(tmp_path / "m")
    assert method == AUTO and AUTO.forgetting(loaded) == AUTO.forgetting(state)
    for each in (loaded, copy.deepcopy(state)):
        np.testing.assert_allclose(AUTO.track(each, X, y)[1], AUTO.track(state, X, y)[1], rtol=1e-9, atol=1e-12)


def test_what_needs_one_factor_says_so():
    X, y = stream("still", 20)
    state = AUTO.update(AUTO.init(5, 1), X, y)
    for call in (lambda: AUTO.remove(state, X[:1], y[:1]), lambda: AUTO.merge(state, state)):
        with pytest.raises(rm.InputError, match="forget=auto; use forget=1"):
            call()
    for bad in ({"ridge": "auto"}, {"floor": 0.1}):
        with pytest.raises(rm.InputError, match='forget="auto"'):
            rm.RLS(forget="auto", **bad)
    with pytest.raises(rm.InputError, match="auto"):
        rm.RLS(forget="never")


def test_estimators_use_it(tmp_path):
    X, y = stream("switching", 900)
    model, still = rm.ContinualRegressor(AUTO), rm.ContinualRegressor()
    assert rm.prequential(model, X, y[:, 0], block=10).error < 0.5 * rm.prequential(still, X, y[:, 0], block=10).error
    for part in np.array_split(np.arange(900), 9):
        model.partial_fit(X[part], y[part, 0])
    rm.save(model, tmp_path / "m")
    np.testing.assert_allclose(rm.load(tmp_path / "m").predict(X), model.predict(X), rtol=1e-9, atol=1e-12)
    with pytest.raises(rm.InputError, match="forget"):
        model.unlearn(X[:1], y[:1, 0])
    labels = rm.ContinualClassifier(AUTO).fit(X[:300], y[:300, 0] > 0).partial_fit(X[300:], y[300:, 0] > 0)
    assert labels.score(X[-100:], y[-100:, 0] > 0) > 0.8


def test_a_state_of_another_number_of_filters_is_none_of_its_own():
    """A file may say anything; such a state ended in a raw error of zip when it learned more."""
    state = AUTO.update(AUTO.init(2, 1), np.ones((3, 2)), np.ones((3, 1)))
    members, squares = state.members, state.squares
    assert AUTO.accepts_state(state)
    for parts in (
        {"members": (*members, members[0])},
        {"members": members[:-1]},
        {"squares": squares[:2]},
        {"used": len(BANK)},
        {"used": -1},
    ):
        assert not AUTO.accepts_state(replace(state, **parts))
