"""Complex rows: least squares over complex numbers, textbook loops of the filters, and what refuses them."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import remanence as rm


def falling(t):
    return 1 / t


METHODS = [
    rm.LMS(0.7),
    rm.LMS(0.01, normalized=False),
    rm.LMS(falling),
    rm.APA(0),
    rm.APA(3, 0.5),
    rm.APA(None),
    rm.APA(None, 0.5),
    rm.ICL(),
    rm.RLS(0.3),
    rm.RLS(0.3, 0.9),
    rm.RLS(0.3, 1.01),
    rm.RLS(0.3, 0.9, floor=0.05),
    rm.RLS(forget=0),
    rm.Kalman(0.1, noise=0.3),
    rm.Kalman([0.1, 0.2, 0.3, 0.4]),
]


def named(method):
    """As it is written, without the address of a function: every process must find the same names."""
    return str(method).split(" at 0x")[0]


def draw(rng, *shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def problem(seed=0, n=60, d=4, c=2, noise=0.1):
    rng = np.random.default_rng(seed)
    X, W = draw(rng, n, d), draw(rng, d, c)
    return X, X @ W + noise * draw(rng, n, c)


def embedded(X, Y):
    """[[Re, -Im], [Im, Re]], all real parts first: another order than the one in the library."""
    return np.block([[X.real, -X.imag], [X.imag, X.real]]), np.concatenate([Y.real, Y.imag])


@pytest.mark.parametrize("condition", [1.0, 1e3])
def test_rls_is_complex_least_squares(condition):
    rng = np.random.default_rng(1)
    Q, _ = np.linalg.qr(draw(rng, 200, 12))
    V, _ = np.linalg.qr(draw(rng, 12, 12))
    X = Q * np.geomspace(1, 1 / condition, 12) @ V.conj().T
    Y = X @ draw(rng, 12, 3) + 1e-3 * draw(rng, 200, 3)
    rls = rm.RLS(ridge=1e-28)
    W = rls.weights(rls.update(rls.init(12, 3, dtype=np.complex128), X, Y))
    oracle = np.linalg.lstsq(X, Y, rcond=None)[0]
    assert np.linalg.norm(W - oracle) <= 1e-12 * np.linalg.norm(oracle)


def test_rls_is_complex_least_squares_in_high_precision():
    import mpmath

    X, Y = problem(3, n=12, d=3, c=1)
    ridge = 0.25
    with mpmath.workdps(40):
        A, b = mpmath.matrix(X.tolist()), mpmath.matrix(Y.tolist())
        oracle = mpmath.lu_solve(A.H * A + ridge * mpmath.eye(3), A.H * b)
        oracle = np.array([complex(v) for v in oracle])[:, None]
    rls = rm.RLS(ridge)
    found = rls.weights(rls.update(rls.init(3, 1, dtype=complex), X, Y))
    np.testing.assert_allclose(found, oracle, rtol=1e-13)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 5), st.integers(1, 3), st.sampled_from([1e-6, 1, 1e6]))
def test_rls_is_the_real_problem_of_twice_the_size(seed, n, d, c, scale):
    X, Y = problem(seed, n, d, c)
    A, b = embedded(X * scale, Y)
    ridge = 0.1 * scale**2
    stacked = np.concatenate([A, np.sqrt(ridge) * np.eye(2 * d)]), np.concatenate([b, np.zeros((2 * d, c))])
    real = np.linalg.lstsq(*stacked, rcond=None)[0]
    rls = rm.RLS(ridge)
    W = rls.weights(rls.update(rls.init(d, c, dtype=complex), X * scale, Y))
    np.testing.assert_allclose(W, real[:d] + 1j * real[d:], rtol=1e-9, atol=1e-10 / scale)


@pytest.mark.parametrize("forget", [0.8, 0.99, 1.0, 1.02])
def test_errors_and_weights_of_rls_that_forgets(forget):
    """The textbook recursion with P, conjugates and all."""
    X, Y = problem(n=50, c=1)
    P, w, expected = np.eye(4) / 0.5, np.zeros(4, complex), []
    for x, y in zip(X, Y[:, 0], strict=True):
        e = y - x @ w
        k = P @ x.conj() / (forget + x @ P @ x.conj())
        w, P = w + k * e, (P - np.outer(k, x @ P)) / forget
        expected.append(e)
    rls = rm.RLS(0.5, forget)
    state, errors = rls.track(rls.init(4, 1, dtype=complex), X, Y)
    np.testing.assert_allclose(errors[:, 0], expected, atol=1e-11)
    np.testing.assert_allclose(rls.weights(state)[:, 0], w, atol=1e-11)


@pytest.mark.parametrize("normalized", [True, False])
def test_lms_is_the_textbook_loop(normalized):
    X, Y = problem(n=40, c=1)
    w, expected = np.zeros(4, complex), []
    for x, y in zip(X, Y[:, 0], strict=True):
        e = y - x @ w
        w = w + 0.1 * x.conj() * e / (np.vdot(x, x).real if normalized else 1)
        expected.append(e)
    lms = rm.LMS(0.1, normalized)
    state, errors = lms.track(lms.init(4, 1, dtype=complex), X, Y)
    np.testing.assert_allclose(errors[:, 0], expected, atol=1e-12)
    np.testing.assert_allclose(lms.weights(state)[:, 0], w, atol=1e-12)


@pytest.mark.parametrize("buffer", [0, 1, 2])
def test_apa_is_the_textbook_loop(buffer):
    X, Y = problem(n=30, c=1)
    w, expected = np.zeros(4, complex), []
    for t in range(30):
        Z, T = X[max(0, t - buffer) : t + 1], Y[max(0, t - buffer) : t + 1, 0]
        left = T - Z @ w
        expected.append(left[-1])
        w = w + 0.5 * Z.conj().T @ np.linalg.solve(Z @ Z.conj().T, left)
    apa = rm.APA(buffer, 0.5)
    state, errors = apa.track(apa.init(4, 1, dtype=complex), X, Y)
    np.testing.assert_allclose(errors[:, 0], expected, atol=1e-11)
    np.testing.assert_allclose(apa.weights(state)[:, 0], w, atol=1e-11)


@pytest.mark.parametrize("method", [rm.ICL(), rm.APA(None), rm.RLS(forget=0)], ids=str)
def test_exact_methods_reach_the_solution_nearest_the_start(method):
    rng = np.random.default_rng(2)
    X, W, start = draw(rng, 3, 6), draw(rng, 6, 2), draw(rng, 6, 2)
    state = method.update(method.init(6, 2, start, dtype=complex), X, X @ W)
    np.testing.assert_allclose(method.weights(state), start + np.linalg.pinv(X) @ (X @ (W - start)), atol=1e-12)


def test_kalman_is_the_textbook_filter():
    X, Y = problem(n=30, c=1)
    Q, r = np.diag([0.1, 0.2, 0.3, 0.4]), 0.7
    w, P = np.zeros(4, complex), np.eye(4, dtype=complex) / 2
    for t in range(0, 30, 3):
        H, y = X[t : t + 3], Y[t : t + 3, 0]
        P = P + Q if t else P
        K = P @ H.conj().T @ np.linalg.inv(H @ P @ H.conj().T + r * np.eye(3))
        w, P = w + K @ (y - H @ w), P - K @ H @ P
    for drift in (np.diag(Q), Q):
        method = rm.Kalman(drift, noise=r, ridge=2.0)
        state = method.init(4, 1, dtype=complex)
        for t in range(0, 30, 3):
            state = method.update(state, X[t : t + 3], Y[t : t + 3])
        np.testing.assert_allclose(method.weights(state)[:, 0], w, atol=1e-12)
        spread = r + np.einsum("ij,jk,ik->i", X, P, X.conj()).real
        np.testing.assert_allclose(method.variance(state, X)[:, 0], spread, rtol=1e-10)


def test_variance_and_loss_of_rls():
    X, Y = problem(c=1)
    rls = rm.RLS(0.5)
    state = rls.update(rls.init(4, 1, dtype=complex), X, Y)
    G = X.conj().T @ X + 0.5 * np.eye(4)
    w = np.linalg.solve(G, X.conj().T @ Y)
    loss = float(np.sum(np.abs(Y - X @ w) ** 2) + 0.5 * np.sum(np.abs(w) ** 2))
    assert rls.loss(state) == pytest.approx(loss, rel=1e-12)
    leverage = np.einsum("ij,jk,ik->i", X, np.linalg.inv(G), X.conj()).real
    np.testing.assert_allclose(rls.variance(state, X)[:, 0], loss / 60 * (1 + leverage), rtol=1e-10)


def test_remove_merge_and_ridge():
    X, Y = problem()
    rls = rm.RLS(0.5)
    empty = rls.init(4, 2, dtype=complex)
    whole, half = rls.update(empty, X, Y), rls.update(empty, X[:30], Y[:30])
    np.testing.assert_allclose(rls.weights(rls.remove(whole, X[30:], Y[30:])), rls.weights(half), atol=1e-12)
    other = rls.update(empty, X[30:], Y[30:])
    np.testing.assert_allclose(rls.weights(rls.merge(half, other)), rls.weights(whole), atol=1e-12)
    less = rm.RLS(0.1).update(rm.RLS(0.1).init(4, 2, dtype=complex), X, Y)
    np.testing.assert_allclose(rls.weights(rls.with_ridge(whole, 0.1)), rls.weights(less), atol=1e-12)
    grown = rls.with_features(rls.update(rls.init(3, 2, dtype=complex), X[:, :3], Y), 4)
    padded = rls.update(empty, X * [1, 1, 1, 0], Y)
    np.testing.assert_allclose(rls.weights(grown), rls.weights(padded), atol=1e-12)
    np.testing.assert_allclose(rls.weights(rls.without_features(grown, [3]))[:3], rls.weights(padded)[:3], atol=1e-12)


@pytest.mark.parametrize("method", METHODS, ids=named)
def test_laws(method):
    if isinstance(method, rm.Kalman) and not isinstance(method.drift, float):
        return  # for four features alone
    rm.check_method(method, dtype=complex)


@pytest.mark.parametrize("method", METHODS, ids=named)
def test_real_rows_in_a_complex_state_are_real_rows(method):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((12, 4))
    Y = X @ rng.standard_normal((4, 1))
    a = method.weights(method.update(method.init(4, 1), X, Y))
    b = method.weights(method.update(method.init(4, 1, dtype=complex), X, Y))
    np.testing.assert_allclose(b, a, atol=1e-11)
    assert a.dtype == np.float64 and b.dtype == np.complex128


@pytest.mark.parametrize("method", METHODS, ids=named)
def test_live_rows(method):
    X, Y = problem(n=10, c=1, noise=0.0)
    live, state = method.live(4, dtype=complex), method.init(4, 1, dtype=complex)
    for x, y in zip(X, Y[:, 0], strict=True):
        guess = live.predict(x)
        state, errors = method.track(state, x[None], [[y]])
        assert isinstance(guess, complex) and live.learn(x, y) == pytest.approx(errors[0, 0], abs=1e-9)
        assert y - guess == pytest.approx(errors[0, 0], abs=1e-9)
    np.testing.assert_allclose(live.weights, method.weights(state), atol=1e-10)


def test_single_precision():
    X, Y = problem()
    rls = rm.RLS(0.5)
    W = rls.weights(rls.update(rls.init(4, 2, dtype=np.complex64), X, Y))
    assert W.dtype == np.complex64
    np.testing.assert_allclose(W, rls.weights(rls.update(rls.init(4, 2, dtype=complex), X, Y)), atol=1e-5)


@pytest.mark.parametrize("method", METHODS, ids=named)
def test_saved_copied_and_pickled(method, tmp_path):
    X, Y = problem(n=9, noise=0.0)
    state = method.update(method.init(4, 2, dtype=complex), X, Y)
    for twin in (copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        np.testing.assert_array_equal(method.weights(twin), method.weights(state))
    if callable(getattr(method, "step", None)):
        return
    rm.save((method, state), tmp_path / "model")
    again, loaded = rm.load(tmp_path / "model")
    assert again == method
    np.testing.assert_allclose(method.weights(loaded), method.weights(state), atol=1e-13)


def test_what_is_not_for_complex_numbers_says_so():
    X, Y = problem()
    for method in (rm.OGD(0.1), rm.ORFit(), rm.LowRankRLS(3), rm.KernelRLS(width=1.0), rm.Switching(2)):
        with pytest.raises(rm.InputError, match="complex numbers are learned by RLS"):
            method.init(4, 2, dtype=complex)
    for rls in (rm.RLS("auto"), rm.RLS("loo"), rm.RLS(forget="auto")):
        with pytest.raises(rm.InputError, match="expected numbers as ridge and forget"):
            rls.init(4, 2, dtype=complex)
    with pytest.raises(rm.InputError, match="dtype=complex128"):
        rm.RLS().update(rm.RLS().init(4, 2), X, Y)
    with pytest.raises(rm.InputError, match="Complex data not supported"):
        rm.ContinualRegressor().fit(X, Y.real)
    rls = rm.RLS()
    state = rls.update(rls.init(4, 2, dtype=complex), X, Y)
    for call in ("evidence", "data", "rows", "joint"):
        with pytest.raises(rm.InputError, match=f"RLS.{call} is for real numbers"):
            getattr(rls, call)(state)
    with pytest.raises(rm.InputError, match="two states of complex numbers"):
        rls.merge(state, rls.init(4, 2))
    with pytest.raises(rm.InputError):
        rls.merge(rls.init(4, 2), state)
    bad = X.copy()
    bad[3, 1] = complex(0, np.nan)
    for rows, targets in ((bad, Y), (X, Y[:, :1]), (X[:, :3], Y), (X[:0], Y[:0]), (X * 1e200, Y), ([["a"] * 4], Y[:1])):
        with pytest.raises(rm.InputError):
            rls.update(state, rows, targets)
    for start in (np.ones((3, 2)), np.full((4, 2), np.inf), "x"):
        with pytest.raises(rm.InputError):
            rls.init(4, 2, start, dtype=complex)
    for size in (0, -1, 2.5, True):
        with pytest.raises(rm.InputError):
            rls.init(size, 1, dtype=complex)
    np.testing.assert_array_equal(rls.weights(state), rls.weights(rls.update(rls.init(4, 2, dtype=complex), X, Y)))


def test_rows_that_were_not_learned_cannot_be_removed():
    X, Y = problem()
    rls = rm.RLS()
    state = rls.update(rls.init(4, 2, dtype=complex), X[:5], Y[:5])
    with pytest.raises(rm.InputError, match="cannot all have been learned"):
        rls.remove(state, 10 * X[5:9], Y[5:9])
    with pytest.raises(rm.InputError, match="at most 5 rows to remove, the number learned, got 15"):
        rls.remove(state, X[5:20], Y[5:20])
