"""1, 2, 3 and 7 threads give the same bits: every dtype, shape, weight and call that folds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import remanence as rm
from remanence.kernels import folding

THREADS = (1, 2, 3, 7)
SHAPES = {"tall": (5300, 90), "chunks": (3100, 300), "wide": (150, 700), "square": (600, 600), "one row": (1, 640)}


@pytest.fixture(autouse=True)
def threads_for_small_blocks(monkeypatch):
    monkeypatch.setattr(folding, "WORTH", 1)


def rows(n, d, c=3, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    spread = 10.0 ** rng.uniform(-3, 3, d)
    return (rng.standard_normal((n, d)) * spread).astype(dtype), rng.standard_normal((n, c)).astype(dtype)


def bits(*arrays):
    return [np.ascontiguousarray(a).tobytes() for a in arrays]


def same(call):
    """What the call returns with one thread, which must be what it returns with more."""
    found = []
    for count in THREADS:
        with rm.threads(count):
            found.append(call())
    assert all(other == found[0] for other in found[1:])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("forget", [1.0, 0.999, 1.001])
def test_update(shape, dtype, forget):
    (n, d), m = SHAPES[shape], rm.RLS(ridge=0.1, forget=forget)
    X, Y = rows(n, d, dtype=dtype)
    Xs, Ys = rows(200, d, dtype=dtype, seed=1)

    def learn():
        state = m.update(m.init(d, 3, dtype=dtype), X, Y)
        state = m.update(m.update(state, Xs, Ys), Xs[:5], Ys[:5], donate=True)
        return bits(state.data.factor, state.data.target, state.data.rest, m.weights(state), m.predict(state, X[:9]))

    same(learn)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_estimators(fit_intercept, weighted):
    X, Y = rows(1300, 200)
    labels, weights = (Y[:, 0] > 0).astype(int), np.abs(Y[:, 1]) if weighted else None

    def learn():
        a = rm.ContinualRegressor(fit_intercept=fit_intercept).fit(X, Y, sample_weight=weights)
        b = rm.ContinualClassifier(fit_intercept=fit_intercept, dtype="float32")
        for part in (slice(0, 700), slice(700, 1300)):
            b.partial_fit(X[part], labels[part], sample_weight=None if weights is None else weights[part])
        return bits(a.predict(X), a.coef_, b.coef_, b.decision_function(X))

    same(learn)


def test_merge_remove_variance_and_auto_ridge():
    X, Y = rows(1500, 300)
    m = rm.RLS("auto")

    def learn():
        a, b = (m.update(m.init(300, 3), X[part], Y[part]) for part in (slice(0, 800), slice(800, 1500)))
        both = m.remove(m.merge(a, b), X[:20], Y[:20])
        return [*bits(m.weights(both), m.variance(both, X[:4])), m.evidence(both), m.ridge_of(both)]

    same(learn)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 400), st.integers(1, 150), st.integers(1, 40), st.integers(0, 2**32 - 1), st.booleans())
def test_any_shape(n, d, c, seed, single):
    X, Y = rows(n, d, c, np.float32 if single else np.float64, seed)
    m = rm.RLS()
    same(lambda: bits(m.weights(m.update(m.init(d, c, dtype=X.dtype), X, Y))))
