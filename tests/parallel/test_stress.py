"""Eight Python threads fold, merge, solve and predict at the same time: never a wrong number."""

import threading

import numpy as np
import pytest

import remanence as rm
from remanence.kernels import folding

CASES = [(1, 5, 1), (40, 30, 2), (300, 90, 1), (120, 130, 3), (64, 200, 20), (1100, 60, 2)]


def calls():
    """Functions of a few milliseconds that return arrays, on states that all threads share."""
    found = []
    for seed, (n, d, c) in enumerate(CASES):
        rng = np.random.default_rng(seed)
        for dtype in (np.float64, np.float32):
            X, Y = rng.standard_normal((n, d)).astype(dtype), rng.standard_normal((n, c)).astype(dtype)
            m = rm.RLS(0.5, forget=0.99 if seed % 3 == 2 else 1.0)
            state = m.update(m.init(d, c, dtype=dtype), X, Y)

            def learn(m=m, state=state, X=X, Y=Y):
                new = m.update(state, X[::-1], Y[::-1])
                return new.data.factor, new.data.target, m.weights(new)

            def ask(m=m, state=state, X=X):
                return m.predict(state, X), m.variance(state, X[:3])

            found += [learn, ask]
            if m.forget == 1:
                found.append(lambda m=m, state=state: (m.weights(m.merge(state, state)),))
    return found


def stressed(total, monkeypatch):
    monkeypatch.setattr(folding, "WORTH", 1)
    every, wrong = calls(), []
    with rm.threads(1):
        wanted = [[np.copy(a) for a in call()] for call in every]

    def loop(seed):
        rng = np.random.default_rng(seed)
        for _ in range(total // 8):
            which = int(rng.integers(len(every)))
            with rm.threads(int(rng.integers(1, 9))):
                found = every[which]()
            if not all((a == b).all() for a, b in zip(found, wanted[which], strict=True)):
                wrong.append(which)

    threads = [threading.Thread(target=loop, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_8_threads_and_800_calls(monkeypatch):
    stressed(800, monkeypatch)


@pytest.mark.sweep
def test_8_threads_and_10_000_calls(monkeypatch):
    stressed(10_000, monkeypatch)
