"""Block LMS in the frequency domain against loops in the time domain, and against dense transforms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import remanence as rm
from remanence.methods.signals.block_lms import FLOOR, SMOOTH


def slow(X, Y, taps, step, block):
    """The definition: rows of past samples, the sum of their gradients after every block."""
    n, d = X.shape
    past = np.concatenate([np.zeros((taps - 1, d)), X])
    rows = np.array([past[t : t + taps][::-1].ravel() for t in range(n)])  # lag 0 first, all signals
    W, errors = np.zeros((taps * d, Y.shape[1]), Y.dtype), np.empty_like(Y)
    for i in range(0, n, block):
        part = slice(i, i + block)
        errors[part] = Y[part] - rows[part] @ W
        if i + block <= n:
            W = W + step * rows[part].conj().T @ errors[part]
    return W, errors


def drawn(seed, n, d=1, c=1, taps=8, kind=float):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if kind is complex else 0.0)

    X = draw(n, d)
    rows = np.concatenate([rm.streams.delay_line(X[:, j], taps) for j in range(d)], axis=1)
    return X, rows @ draw(taps * d, c) + 0.01 * draw(n, c)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 90), st.integers(1, 3), st.integers(1, 2), st.integers(1, 20),
    st.one_of(st.none(), st.integers(1, 25)), st.sampled_from([float, complex]),
)  # fmt: skip
def test_it_is_block_lms_in_the_time_domain(seed, n, d, c, taps, block, kind):
    X, Y = drawn(seed, n, d, c, kind=kind)
    size = taps if block is None else block
    step = 0.1 / (size * taps * d)
    method = rm.BlockLMS(taps, step, block, normalized=False)
    state, errors = method.track(method.init(d, c, dtype=kind), X, Y)
    W, expected = slow(X, Y, taps, step, size)
    assert errors.dtype == method.weights(state).dtype == kind
    np.testing.assert_allclose(errors, expected, atol=1e-12 * max(1, np.abs(Y).max()))
    np.testing.assert_allclose(method.weights(state), W, atol=1e-12)


@pytest.mark.parametrize("kind", [float, complex])
def test_long_filters_by_transforms_are_block_lms(kind):
    X, Y = drawn(1, 3000, taps=200, kind=kind)
    method = rm.BlockLMS(200, 1e-4, normalized=False)
    state, errors = method.track(method.init(1, 1, dtype=kind), X, Y)
    W, expected = slow(X, Y, 200, 1e-4, 200)
    np.testing.assert_allclose(errors, expected, atol=1e-12 * np.abs(Y).max())
    np.testing.assert_allclose(method.weights(state), W, atol=1e-12)


@pytest.mark.parametrize("kind", [float, complex])
def test_normalized_steps_are_those_of_dense_transforms(kind):
    taps, X, Y = 4, *drawn(2, 16, kind=kind)
    length = 8
    F = np.exp(-2j * np.pi * np.outer(np.arange(length), np.arange(length)) / length)
    w, P, signal = np.zeros(taps, kind), None, np.concatenate([np.zeros(taps - 1), X[:, 0]])
    for i in range(0, 16, taps):
        own = np.append(signal[i : i + 2 * taps - 1], 0.0)
        rows = np.array([own[t : t + taps][::-1] for t in range(taps)])
        e = Y[i : i + taps, 0] - rows @ w
        Xf, Ef = F @ own, F @ np.concatenate([np.zeros(taps - 1), e, [0.0]])
        P = np.abs(Xf) ** 2 if P is None else SMOOTH * P + (1 - SMOOTH) * np.abs(Xf) ** 2
        H = (F.conj().T @ np.diag(1 / np.maximum(P, FLOOR * P.mean())) @ F / length)[:taps, :taps]
        g = (F.conj() @ (Xf.conj() * Ef))[:taps] / length
        np.testing.assert_allclose(g, rows.conj().T @ e, atol=1e-12)
        change = 0.3 * min(length / taps, np.vdot(e, e).real / np.vdot(g, H @ g).real) * (H @ g)
        w = w + (change if kind is complex else change.real)
    method = rm.BlockLMS(taps, 0.3)
    state = method.update(method.init(1, 1, dtype=kind), X, Y)
    found, bins = method.weights(state)[:, 0], state.power[:, 0]
    np.testing.assert_allclose(bins, P if kind is complex else P[: length // 2 + 1], rtol=1e-12)
    np.testing.assert_allclose(found, w, atol=1e-12)


def test_coloured_signals_are_learned():
    rng = np.random.default_rng(3)
    white, h = rng.standard_normal(40_000), rng.standard_normal(64) * np.exp(-np.arange(64) / 16)
    x = np.zeros(40_000)
    for t in range(1, 40_000):
        x[t] = 0.9 * x[t - 1] + white[t]
    y = np.convolve(x, h)[:40_000]
    method = rm.BlockLMS(64, 0.5)
    state, errors = method.track(method.init(1, 1), x[:, None], y[:, None])
    W = method.weights(state)[:, 0]
    assert np.linalg.norm(W - h) < 1e-3 * np.linalg.norm(h)
    assert np.square(errors[-1000:]).mean() < 1e-6 * np.square(y).mean()


def envelopes(n):
    """Signals as loudspeakers play them: a word after silence, speech, and a purer tone every while."""
    rng, t = np.random.default_rng(11), np.arange(n)
    coloured = np.convolve(rng.standard_normal(n), 0.8 ** np.arange(50))[:n]
    yield "onset", coloured * np.where(t < n // 2, 1e-3, 1.0)
    yield "speech", coloured * 10 ** (1.5 * np.sin(t / 600)) / 30
    yield "tones", np.cos(t * np.repeat(rng.uniform(0, 3, n // 400), 400))
    yield "held", np.repeat(rng.standard_normal(n // 400), 400)


@pytest.mark.parametrize("step", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("kind", ["onset", "speech", "tones", "held"])
def test_signals_that_become_louder_or_purer_are_no_danger(kind, step):
    """With noise, what is left of an echo is never much louder than the echo was."""
    n, rng = 20_000, np.random.default_rng(12)
    x = dict(envelopes(n))[kind]
    echo = np.convolve(x, rng.standard_normal(64) * np.exp(-np.arange(64) / 10))[:n]
    method = rm.BlockLMS(64, step)
    errors = method.track(method.init(1, 1), x[:, None], (echo + 1e-3 * rng.standard_normal(n))[:, None])[1][:, 0]
    left, heard = (np.square(e).reshape(-1, 200).mean(axis=1) for e in (errors, echo))
    assert (left < 10 * (heard + 1e-6)).all()
    assert left[-20:].mean() < 0.05 * heard[-20:].mean()


@pytest.mark.parametrize("kind", [float, complex])
def test_no_block_without_noise_leads_away_from_the_taps(kind):
    """In the norm that (F4) of block_lms.py names, whatever the signal does from block to block."""
    taps, length = 6, 12
    rng = np.random.default_rng(13)
    F = np.exp(-2j * np.pi * np.outer(np.arange(length), np.arange(length)) / length)
    for step in (0.3, 1.0):
        method = rm.BlockLMS(taps, step)
        state, true = method.init(1, 1, dtype=kind), rng.standard_normal(taps).astype(kind)
        x = rng.standard_normal(6000).astype(kind) * 10 ** np.repeat(rng.uniform(-3, 3, 300), 20)
        x = np.where(np.arange(6000) // 60 % 2, x, x[::-1].cumsum())
        y = np.convolve(x, true)[:6000]
        for i in range(0, 6000, taps):
            before, state = state, method.update(state, x[i : i + taps, None], y[i : i + taps, None])
            P = state.power[:, 0]
            P = P if kind is complex else np.append(P, P[-2:0:-1])
            H = (F.conj().T @ np.diag(1 / np.maximum(P, FLOOR * P.mean())) @ F / length)[:taps, :taps]
            far = [
                np.vdot(v, np.linalg.solve(H, v)).real
                for v in (method.weights(s)[:, 0] - true for s in (before, state))
            ]
            rounding = 1e-10 * np.linalg.cond(H) * P.max()  # of taps of size 1
            assert far[1] <= far[0] * (1 + 1e-9) + rounding


def test_predictions_follow_the_samples_that_were_learned():
    X, Y = drawn(4, 50)
    method = rm.BlockLMS(8, 0.2)
    state = method.update(method.init(1, 1), X[:37], Y[:37])
    W = method.weights(state)
    np.testing.assert_allclose(method.predict(state, X[37:]), (rm.streams.delay_line(X[:, 0], 8) @ W)[37:], atol=1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_normalized_steps_do_not_depend_on_the_scale(scale):
    X, Y = drawn(5, 200)
    method = rm.BlockLMS(8)
    W = method.weights(method.update(method.init(1, 1), X, Y))
    scaled = method.weights(method.update(method.init(1, 1), scale * X, Y))
    np.testing.assert_allclose(scale * scaled, W, rtol=1e-9, atol=1e-9)


def test_single_precision_and_silence():
    X, Y = drawn(6, 100)
    method = rm.BlockLMS(8)
    W = method.weights(method.update(method.init(1, 1, dtype=np.float32), X, Y))
    assert W.dtype == np.float32
    np.testing.assert_allclose(W, method.weights(method.update(method.init(1, 1), X, Y)), atol=1e-4)
    silent = method.update(method.init(1, 1), 0 * X, Y)
    assert not method.weights(silent).any()


def test_bad_settings_are_refused():
    bad = [{"taps": 0}, {"taps": 1.5}, {"step": 0}, {"step": 1.5}, {"step": "a"}, {"block": 0}, {"block": 2.5}]
    for change in bad:
        with pytest.raises(rm.InputError):
            rm.BlockLMS(**change)
    for dtype in (int, "text", np.float16):
        with pytest.raises(rm.InputError):
            rm.BlockLMS(4).init(1, 1, dtype=dtype)


@pytest.mark.parametrize("normalized", [True, False])
def test_complex_signals_keep_the_laws(normalized):
    rm.check_method(rm.BlockLMS(3, 0.1 if normalized else 0.01, 4, normalized), dtype=complex)


def test_a_complex_channel_is_learned_and_real_signals_in_a_complex_state_are_real():
    rng = np.random.default_rng(7)
    x = rng.standard_normal((4000, 2)) @ [1, 1j]
    h = np.array([1.0, 0.4 - 0.3j, 0.1j])
    y = np.convolve(x, h)[:4000]
    method = rm.BlockLMS(8)
    state = method.update(method.init(1, 1, dtype=complex), x[:, None], y[:, None])
    np.testing.assert_allclose(method.weights(state)[:3, 0], h, atol=1e-6)
    single = method.update(method.init(1, 1, dtype=np.complex64), x[:, None], y[:, None])
    assert method.weights(single).dtype == np.complex64
    np.testing.assert_allclose(method.weights(single), method.weights(state), atol=1e-5)
    X, Y = drawn(8, 100)
    steps = rm.BlockLMS(8, 0.01, normalized=False)
    real = steps.weights(steps.update(steps.init(1, 1), X, Y))
    np.testing.assert_allclose(steps.weights(steps.update(steps.init(1, 1, dtype=complex), X, Y)), real, atol=1e-13)


def test_bad_complex_signals_are_refused():
    method, (X, Y) = rm.BlockLMS(4), drawn(9, 20, kind=complex)
    state = method.update(method.init(1, 1, dtype=complex), X, Y)
    before = method.weights(state).copy()
    for rows, targets in ((X * complex(0, np.nan), Y), (X[:0], Y[:0]), (X, Y[:3]), (X[:, 0], Y), (1e200 * X, Y)):
        with pytest.raises(rm.InputError):
            method.update(state, rows, targets)
    with pytest.raises(rm.InputError, match="BlockLMS"):
        method.update(method.init(1, 1), X, Y)
    for start in ([[1.0, 2.0]], [[np.inf]], "x"):
        with pytest.raises(rm.InputError):
            method.init(1, 1, start, dtype=complex)
    np.testing.assert_array_equal(method.weights(state), before)
