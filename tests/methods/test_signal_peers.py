"""The examples of docs/tutorials/signals.md beside the libraries and loops that people who come from signals know."""

import numpy as np
import pytest

import remanence as rm
from remanence import kalman


def echo(n=400, taps=12):
    rng = np.random.default_rng(0)
    x, room = rng.standard_normal(n), rng.standard_normal(taps)
    return rm.streams.delay_line(x, taps), np.convolve(x, room)[:n] + 0.01 * rng.standard_normal(n)


def errors_of(method, rows, y, **settings):
    return method.track(method.init(rows.shape[1], 1, **settings), rows, y[:, None])[1][:, 0]


def test_echo_cancelling_as_padasip_does_it():
    pa = pytest.importorskip("padasip")
    rows, y = echo()
    peers = {
        rm.LMS(0.5): pa.filters.FilterNLMS(12, mu=0.5, eps=1e-300, w="zeros"),
        rm.LMS(0.01, normalized=False): pa.filters.FilterLMS(12, mu=0.01, w="zeros"),
        rm.RLS(0.1, 0.99): pa.filters.FilterRLS(12, mu=0.99, eps=0.1, w="zeros"),
    }
    for method, peer in peers.items():
        _, theirs, _ = peer.run(y, rows)
        np.testing.assert_allclose(errors_of(method, rows, y), theirs, atol=1e-8, err_msg=str(method))


def test_a_qam_equaliser_as_the_textbook_loop():
    rng = np.random.default_rng(1)
    levels = np.array([-3, -1, 1, 3])
    symbols = rng.choice(levels, 600) + 1j * rng.choice(levels, 600)
    received = np.convolve(symbols, [1.0, 0.4 - 0.3j, 0.1j])[:600] + 0.05 * rng.standard_normal(600)
    rows, P, w, expected = rm.streams.delay_line(received, 8), np.eye(8) / 0.01, np.zeros(8, complex), []
    for x, y in zip(rows, symbols, strict=True):
        expected.append(y - x @ w)
        k = P @ x.conj() / (0.999 + x @ P @ x.conj())
        w, P = w + k * expected[-1], (P - np.outer(k, x @ P)) / 0.999
    found = errors_of(rm.RLS(0.01, 0.999), rows, symbols, dtype=complex)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert np.abs(found[-100:]).max() < 1  # every symbol is told apart


def test_two_sensors_at_different_rates_as_filterpy_does_it():
    filters = pytest.importorskip("filterpy.kalman")
    rng = np.random.default_rng(2)
    times = np.sort(np.concatenate([np.arange(10.0), rng.uniform(0, 9, 20)]))
    exact = rng.random(30) < 0.4
    F, L, X = kalman.constant_velocity(1)
    R = [[[0.01 if e else 0.25]] for e in exact]
    Y = rng.standard_normal((30, 1))
    model = kalman.LinearGaussian.from_continuous(F, L, 0.2, times, X=X, R=R, mean=[0.0, 0.0], cov=np.eye(2))
    peer = filters.KalmanFilter(dim_x=2, dim_z=1)
    peer.H, peer.x, peer.P, means = X, np.zeros((2, 1)), np.eye(2), []
    for t in range(30):
        if t:
            h = times[t] - times[t - 1]
            peer.predict(F=np.array([[1, h], [0, 1]]), Q=0.2 * np.array([[h**3 / 3, h**2 / 2], [h**2 / 2, h]]))
        peer.update(Y[t], R=np.array(R[t]))
        means.append(peer.x[:, 0].copy())
    np.testing.assert_allclose(kalman.filter(model, Y).mean, means, atol=1e-10)
