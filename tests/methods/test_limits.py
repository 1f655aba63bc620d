"""Settings and data at the edge of what numbers hold: a right answer, or a word that says what to do."""

import numpy as np
import pytest

import remanence as rm


def rows(seed, n=60, d=4, c=1):
    rng = np.random.default_rng([seed, n])
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal((d, c)) + 0.1 * rng.standard_normal((n, c))


def test_an_objective_beyond_all_numbers_is_refused_in_words():
    X, Y = rows(0, n=10_000)
    m = rm.RLS(forget=0.5)
    state = m.update(m.init(4, 1), X, Y)
    for ask in (m.loss, m.evidence):
        with pytest.raises(rm.NumericalError, match="forget nearer to 1"):
            ask(state)
    assert np.isfinite(m.loss(m.update(m.init(4, 1), X[:500], Y[:500])))


@pytest.mark.parametrize(("dtype", "forget"), [("float64", 1e-8), ("float64", 1e-12), ("float32", 1e-3)])
def test_a_forget_that_lets_the_prior_outweigh_the_newest_rows_is_refused(dtype, forget):
    with pytest.raises(rm.InputError, match="forget=0"):
        rm.RLS(forget=forget).init(4, 1, dtype=dtype)


@pytest.mark.parametrize("forget", [1e-5, 1e-4, 1e-3])
def test_the_smallest_forgets_that_are_taken_keep_their_objective(forget):
    """Four features, four newest rows: with almost all forgotten they are met exactly, older ones do not count."""
    X, Y = rows(1)
    m = rm.RLS(forget=forget)
    W = m.weights(m.update(m.init(4, 1), X, Y))
    i = np.arange(len(X), 0.0, -1.0) - 1
    root = np.sqrt(np.maximum(forget**i, 1e-300))[:, None].astype(np.longdouble)
    A, B = np.linalg.qr((root * X).astype(float)[-6:][::-1]), (root * Y).astype(float)[-6:][::-1]
    truth = np.linalg.solve(A.R, A.Q.T @ B)
    assert np.linalg.norm(X[-4:] @ (W - truth)) <= 1e-5 * np.linalg.norm(X[-4:] @ truth)


def test_a_ridge_that_cannot_be_told_from_none_is_said():
    X, Y = rows(2)
    m = rm.RLS(1e-30)
    state = m.update(m.init(4, 1), X, Y)
    with pytest.warns(UserWarning, match=r"ridge=1e-30 cannot be told from none.*is in force"):
        m.weights(state)


@pytest.mark.filterwarnings("error")
def test_an_ordinary_ridge_needs_no_word():
    X, Y = rows(3)
    for ridge in (1e-12, 1.0, "auto"):
        m = rm.RLS(ridge)
        m.weights(m.update(m.init(4, 1), X, Y))


@pytest.mark.parametrize("method", [rm.RLS("auto"), rm.LowRankRLS(3, "auto")])
def test_features_whose_squares_vanish_are_refused_in_words_when_a_ridge_is_to_be_chosen(method):
    X, Y = rows(4)
    state = method.update(method.init(4, 1), 1e-160 * X, Y)
    with pytest.raises(rm.NumericalError, match="rescale"):
        method.weights(state)


def test_whole_numbers_of_any_length_are_settings():
    X, Y = rows(5, n=10)
    for big in (rm.RLS(forget=10**30), rm.RLS(ridge=10**30), rm.RLS(floor=10**30)):
        same = rm.RLS(float(big.ridge), float(big.forget), float(big.floor))
        assert big == same
        W, V = (m.weights(m.update(m.init(4, 1), X, Y)) for m in (big, same))
        np.testing.assert_array_equal(W, V)


def test_features_that_do_not_fit_the_memory_are_refused_with_a_way_out(monkeypatch):
    with pytest.raises(rm.InputError, match=r"1\.6e\+04 GB.*LowRankRLS"):
        rm.RLS().init(10**6, 1)
    monkeypatch.setattr("remanence.validation.PHYSICAL", 6e9)
    with pytest.raises(rm.InputError, match="LowRankRLS"):
        rm.RLS().init(20_000, 1)
    rm.RLS().init(200, 1)
    rm.LowRankRLS(10).init(20_000, 1)
    rm.RLS(forget=0).init(20_000, 1)


def test_a_buffer_of_any_size_takes_no_more_memory_than_there_are_rows():
    for buffer in (10**11, 10_001):
        with pytest.raises(rm.InputError, match="buffer=None"):
            rm.APA(buffer=buffer)
    X, Y = rows(6, n=3, d=8)
    large, fitting = rm.APA(buffer=10_000), rm.APA(buffer=3)
    W, V = (m.weights(m.update(m.init(8, 1), X, Y)) for m in (large, fitting))
    np.testing.assert_array_equal(W, V)


@pytest.mark.parametrize("value", [10**400, -(10**400), 10**5000], ids=["large", "negative", "unwritable"])
def test_settings_beyond_all_numbers_are_refused_in_words(value):
    """NumPy compares no integer of that size, and Python writes none of 5000 digits."""
    for make in (rm.RLS, rm.LMS, lambda x: rm.RLS(forget=x), lambda x: rm.ORFit(rank=-abs(x))):
        with pytest.raises(rm.InputError):
            make(value)
    assert rm.RLS(forget=10**30).forget == 1e30


@pytest.mark.parametrize(
    ("method", "features"),
    [
        (rm.LMS(), 10**13),
        (rm.RLS(), 10**30),
        (rm.Switching(), 10**30),
        (rm.Switching(modes=10**8), 3),
        (rm.Switching(modes=10**80), 30),
        (rm.Switching(modes=10**5), 1),
        (rm.Switching(), 300),
        (rm.BlockLMS(10**12), 1),
        (rm.BlockLMS(10**30), 2),
    ],
)
def test_sizes_beyond_the_memory_are_refused_at_once(method, features, monkeypatch):
    monkeypatch.setattr("remanence.validation.PHYSICAL", 16e9)
    with pytest.raises(rm.InputError, match="would need"):
        method.init(features, 1)


def test_states_are_compared_with_settings_of_any_size():
    for method, other in [(rm.Switching(10**9), rm.Switching(2)), (rm.BlockLMS(3, block=10**30), rm.BlockLMS(3))]:
        state = other.update(other.init(2, 1), np.ones((4, 2)), np.ones((4, 1)))
        assert other.accepts_state(state) and not method.accepts_state(state)
