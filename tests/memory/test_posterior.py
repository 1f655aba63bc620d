"""The joint root of data and prior is kept where it pays, and is not kept where it only costs memory."""

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import remanence as rm
from remanence.memory.posterior import FEW_ROWS, NARROW

WIDE = 600  # features; more than NARROW


def ridge_solution(X, Y, ridge):
    return np.linalg.solve(X.T @ X + ridge * np.eye(X.shape[1]), X.T @ Y)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((2 * WIDE, WIDE)), rng.standard_normal((2 * WIDE, 2))


def test_weights_of_a_wide_state_keep_no_second_factor(rows):
    X, Y = rows
    m = rm.RLS(0.5)
    assert X.shape[1] > NARROW
    state = m.update(m.init(WIDE, 2), X, Y)
    np.testing.assert_allclose(m.weights(state), ridge_solution(X, Y, 0.5), atol=1e-10)
    m.predict(state, X[:3])
    assert state.pending.buffer.base is None and state.cache.posterior is None


def test_live_rows_of_a_wide_state_share_one_joint_root(rows):
    """It is computed at the first question with a pending row, and then only folded into."""
    X, Y = rows
    m, n = rm.RLS(0.5), WIDE + 100
    state, bases = m.update(m.init(WIDE, 2), X[:n], Y[:n]), []
    for i in range(n, n + 140):
        state = m.update(state, X[i : i + 1], Y[i : i + 1])
        m.predict(state, X[:1])
        bases.append(state.pending.buffer.base)
    assert all(base is not None for base in bases) and len({id(base) for base in bases}) == 2
    np.testing.assert_allclose(m.weights(state), ridge_solution(X[: n + 140], Y[: n + 140], 0.5), atol=1e-10)
    state = m.update(state, X[: FEW_ROWS + 1], Y[: FEW_ROWS + 1])  # a block: live rows are over
    assert state.pending.buffer.base is None


@pytest.mark.parametrize("settings", [{"forget": 0.99}, {"forget": 0.99, "floor": 0.1}, {"forget": 1.01}])
def test_wide_and_narrow_states_give_the_same_weights(rows, settings, monkeypatch):
    X, Y = rows
    m, found = rm.RLS(0.5, **settings), []
    for narrow in (NARROW, WIDE):
        monkeypatch.setattr("remanence.memory.posterior.NARROW", narrow)
        state = m.update(m.init(WIDE, 2, free=1), X, Y)
        found.append([m.weights(state)])
        state = m.update(state, X[:3], Y[:3])
        found[-1].append(m.weights(state))
    np.testing.assert_allclose(*found, atol=1e-9)


def test_a_donated_state_gives_up_its_second_factor(rows):
    X, Y = rows
    m = rm.RLS()
    state = m.update(m.init(WIDE, 2), X, Y, donate=True)
    m.variance(state, X[:2])
    assert state.cache.posterior is not None
    m.update(state, X, Y, donate=True)
    assert state.cache.posterior is None


PROGRAM = """
import gc, json, tracemalloc
import numpy as np, remanence as rm
d, n, c = 2048, 1200, 5
rng = np.random.default_rng(0)
X, Y = rng.standard_normal((n, d)), rng.standard_normal((n, c))
m = rm.RLS()
warm = m.update(m.init(600, c), X[:700, :600], Y[:700])  # everything is imported by now
m.weights(m.update(warm, X[:1, :600], Y[:1]))
del warm
gc.collect()
tracemalloc.start()
state = m.update(m.init(d, c), X, Y, donate=True)
gc.collect()
size, found = tracemalloc.get_traced_memory()[0], {}
def measure(name, call):
    tracemalloc.reset_peak()
    result = call()
    gc.collect()
    found[name] = [v / size for v in tracemalloc.get_traced_memory()]
    return result
m_ = measure("weights", lambda: m.weights(state).shape)
state = measure("update", lambda: m.update(state, X, Y, donate=True))
measure("predict", lambda: m.predict(state, X[:5]).shape)
print(json.dumps(found))
"""


@pytest.mark.slow
def test_weights_before_and_after_an_update_leave_one_factor_and_peak_at_1_6_states():
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(PROGRAM)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for name, (live, peak) in json.loads(done.stdout).items():
        assert live < 1.1, f"{live:.2f} states are alive after {name}"  # (after update, the old row buffer too)
        assert peak < 1.6, f"{name} takes {peak:.2f} states"
