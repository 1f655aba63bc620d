"""Long streams: what a method knows after 1e5 samples is what a direct solve of the samples that still count says."""

import warnings

import numpy as np
import pytest

import remanence as rm

LONG, ROWS = 100_000, 20_000


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def stream(n, d=6, c=2, seed=0, rank=None):
    rng = np.random.default_rng([n, d, seed])
    X = rng.standard_normal((n, d))
    if rank:
        X = X[:, :rank] @ rng.standard_normal((rank, d))
    drift = np.cumsum(rng.standard_normal((n, 1)), axis=0) / np.sqrt(n)  # so that old and new samples disagree
    return X, X @ rng.standard_normal((d, c)) + drift + 0.1 * rng.standard_normal((n, c))


def direct(X, Y, forget, ridge=1.0, start=None):
    """Least squares of the rows whose weight is not below 1e-40 beside the heaviest, prior included, by QR."""
    n, d = X.shape
    start = np.zeros((d, Y.shape[1])) if start is None else start
    i = np.arange(1.0, n + 1)
    if forget < 1:
        powers, prior = (n - i) * np.log(forget), np.log(ridge) + n * np.log(forget)
    else:
        powers, prior = -i * np.log(forget), np.log(ridge)
    used = powers > np.log(1e-40)
    root = np.exp(powers[used] / 2)[:, None]
    A, B = root * X[used], root * Y[used]
    if prior > np.log(1e-40):
        A, B = np.vstack([A, np.exp(prior / 2) * np.eye(d)]), np.vstack([B, np.exp(prior / 2) * start])
    return np.linalg.lstsq(A, B, rcond=None)[0]


def relative(a, b):
    return float(np.linalg.norm(np.asarray(a, float) - b) / np.linalg.norm(b))


@pytest.mark.parametrize("forget", [0.9, 0.99, 1.0, 1.01])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_blocks_of_1e5_samples_end_at_the_direct_solution(forget, dtype):
    X, Y = stream(LONG)
    m = rm.RLS(1.0, forget)
    state = m.init(6, 2, dtype=dtype)
    rng = np.random.default_rng(1)
    i = 0
    while i < LONG:
        j = i + int(rng.integers(1, 3000))
        state = m.update(state, X[i:j], Y[i:j])
        i = j
    W = m.weights(state)
    assert W.dtype == dtype and state.count == LONG
    assert relative(W, direct(X, Y, forget)) < (1e-11 if dtype == np.float64 else 1e-3)


@pytest.mark.parametrize("forget", [0.9, 0.99, 1.0, 1.01])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_2e4_single_rows_end_at_the_direct_solution(forget, dtype):
    X, Y = stream(ROWS, seed=1)
    m = rm.RLS(1.0, forget)
    state = m.init(6, 2, dtype=dtype)
    for i in range(ROWS):
        state = m.update(state, X[i : i + 1], Y[i : i + 1])
        if i % 977 == 0:
            assert np.isfinite(m.weights(state)).all()
    assert relative(m.weights(state), direct(X, Y, forget)) < (1e-11 if dtype == np.float64 else 1e-3)
    tracked, errors = m.track(m.init(6, 2, dtype=dtype), X, Y)
    assert np.isfinite(errors).all()
    assert relative(m.weights(tracked), direct(X, Y, forget)) < (1e-11 if dtype == np.float64 else 1e-3)


@pytest.mark.parametrize("d", [6, 120])
@pytest.mark.parametrize("way", ["rows", "blocks", "track", "live"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_forgetting_with_input_of_rank_2_keeps_the_predictions(d, way, noise):
    """Wind-up: the directions that are never excited lose their prior, and the answers must not notice."""
    rng = np.random.default_rng(2)
    n = {"blocks": ROWS, "track": ROWS, "rows": ROWS, "live": 5000}[way] if d == 6 or way == "blocks" else 3000
    Z, B = rng.standard_normal((n, 2)), rng.standard_normal((2, d))
    X, Y = Z @ B, Z @ rng.standard_normal((2, 1)) + noise * rng.standard_normal((n, 1))
    m = rm.RLS(1.0, 0.99)
    state = m.init(d, 1)
    if way == "blocks":
        for i in range(0, n, 333):
            state = m.update(state, X[i : i + 333], Y[i : i + 333])
    elif way == "track":
        for i in range(0, n, 1000):
            state, errors = m.track(state, X[i : i + 1000], Y[i : i + 1000])
            assert np.isfinite(errors).all()
    else:
        for i in range(n):
            if way == "live" or i % 100 == 0:
                m.predict(state, X[i : i + 1])
            state = m.update(state, X[i : i + 1], Y[i : i + 1])
    new = rng.standard_normal((50, 2))
    expected = new @ direct(Z, Y, 0.99)  # in the two directions there are, the faded prior does not count
    error = relative(m.predict(state, new @ B), expected)
    assert error < 1e-9
    assert np.isfinite(m.weights(state)).all()
    assert np.isfinite(m.variance(state, new @ B)).all()


@pytest.mark.parametrize("way", ["blocks", "rows", "track"])
def test_a_column_that_is_always_zero_does_no_harm(way):
    n = 50_000 if way != "rows" else 10_000
    X, Y = stream(n, d=4, seed=3)
    X[:, 2] = 0
    start = np.ones((4, 2))
    m = rm.RLS(1.0, 0.9)
    state = m.init(4, 2, start=start)
    size = 1 if way == "rows" else 500
    for i in range(0, n, size):
        if way == "track":
            state = m.track(state, X[i : i + size], Y[i : i + size])[0]
        else:
            state = m.update(state, X[i : i + size], Y[i : i + size])
    W, seen = m.weights(state), [0, 1, 3]
    assert np.isfinite(W).all()
    assert relative(W[seen], direct(X[:, seen], Y, 0.9)) < 1e-10
    np.testing.assert_allclose(W[2], start[2], rtol=1e-6)  # nothing was ever said about it


def test_emphasising_the_past_stops_moving_and_stays_finite():
    X, Y = stream(LONG, seed=4)
    m = rm.RLS(1.0, 1.01)
    early = m.update(m.init(6, 2), X[:5000], Y[:5000])
    late = m.update(early, X[5000:], Y[5000:])
    assert relative(m.weights(late), m.weights(early)) < 1e-12
    live, errors = m.track(late, X[:500], Y[:500])
    np.testing.assert_allclose(errors, Y[:500] - X[:500] @ m.weights(late), rtol=1e-9, atol=1e-12)
    assert np.isfinite(m.weights(live)).all()


@pytest.mark.parametrize("method", [rm.ICL(), rm.APA(None), rm.ORFit(), rm.ORFit(20), rm.APA(3)], ids=repr)
def test_1e5_samples_with_repeats_stay_bounded_and_right(method):
    rng = np.random.default_rng(5)
    n = {"ORFit": 3000, "APA": 20_000}.get(type(method).__name__, LONG) if method in (rm.ORFit(20), rm.APA(3)) else LONG
    pool, truth = rng.standard_normal((12, 20)), rng.standard_normal((20, 2))
    X = pool[rng.integers(0, 12, n)] * rng.uniform(0.5, 2, (n, 1))
    Y = X @ truth
    state = method.init(20, 2)
    for i in range(0, n, 1000):
        state = method.update(state, X[i : i + 1000], Y[i : i + 1000])
    expected = rm.min_norm(pool, pool @ truth)
    error = relative(method.weights(state), expected)
    assert error < 1e-11
    if method != rm.APA(3):
        rank = state.past.span.rank if method == rm.APA(None) else state.past.rank
        assert rank == 12


@pytest.mark.parametrize("method", [rm.ICL(), rm.APA(None), rm.ORFit()], ids=repr)
def test_1e5_inconsistent_samples_stay_bounded(method):
    X, Y = stream(LONG, d=8, seed=6)
    state = method.update(method.init(8, 2), X, Y)
    if method == rm.APA(None):
        expected = np.linalg.lstsq(X, Y, rcond=None)[0]
    else:
        expected = np.linalg.solve(X[:8], Y[:8])
    assert relative(method.weights(state), expected) < 1e-10


@pytest.mark.parametrize("method", [rm.ICL(), rm.APA(None), rm.ORFit()], ids=repr)
@pytest.mark.parametrize("cond", [1e2, 1e4, 1e7])
@pytest.mark.parametrize(("n", "d"), [(10, 30), (30, 30), (300, 20)])
def test_ill_conditioned_consistent_data_are_solved_as_well_as_their_condition_allows(method, cond, n, d):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        r = min(n, d)
        U, V = np.linalg.qr(rng.standard_normal((n, r)))[0], np.linalg.qr(rng.standard_normal((d, r)))[0]
        X = U * np.logspace(0, -np.log10(cond), r) @ V.T
        Y = X @ rng.standard_normal((d, 2))
        expected = rm.min_norm(X, Y)
        assert relative(method.weights(method.update(method.init(d, 2), X, Y)), expected) < 1e-10 * cond
        state = method.init(d, 2)
        for i in range(n):
            state = method.update(state, X[i : i + 1], Y[i : i + 1])
        assert relative(method.weights(state), expected) < 1e-10 * cond


@pytest.mark.parametrize("cond", [1e3, 1e7])
@pytest.mark.parametrize("forget", [0.99, 1.0, 1.001])
@pytest.mark.parametrize("d", [8, 120])
def test_live_use_equals_tracking_for_a_tiny_ridge_too(cond, forget, d):
    """Predict, then learn, one row at a time; the predictions are those behind the errors of `track`."""
    rng = np.random.default_rng([int(np.log10(cond)), d])
    n = 300
    U, V = np.linalg.qr(rng.standard_normal((n, d)))[0], np.linalg.qr(rng.standard_normal((d, d)))[0]
    X = U * np.logspace(0, -np.log10(cond), d) @ V.T
    Y = X @ rng.standard_normal((d, 2))
    m = rm.RLS(1e-12, forget)
    state, answers = m.init(d, 2), []
    for x, y in zip(X, Y, strict=True):
        answers.append(m.predict(state, x[None])[0])
        state = m.update(state, x[None], y[None])
    tracked, errors = m.track(m.init(d, 2), X, Y)
    assert relative(np.array(answers), Y - errors) < 1e-9
    assert relative(m.predict(state, X), m.predict(tracked, X)) < 1e-9


def test_live_use_with_the_automatic_ridge_equals_tracking():
    X, Y = stream(60, d=4, seed=7)
    m = rm.RLS("auto")
    state, answers = m.init(4, 2), []
    for x, y in zip(X, Y, strict=True):
        answers.append(m.predict(state, x[None])[0])
        state = m.update(state, x[None], y[None])
    _, errors = m.track(m.init(4, 2), X, Y)
    np.testing.assert_allclose(np.array(answers), Y - errors, rtol=1e-6, atol=1e-7)
