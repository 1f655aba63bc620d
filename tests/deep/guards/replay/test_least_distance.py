"""The nearest allowed step, against a general solver of quadratic programs."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from remanence.deep.guards.replay.least_distance import nearest_step


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([1e-6, 1.0, 1e6]))
def test_the_nearest_step(seed, k, scale):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(k, 7))
    G, step, b = scale * rng.standard_normal((k, d)), rng.standard_normal(d), scale * rng.standard_normal(k) / 3
    x, v = nearest_step(G, step, b)
    assert (v >= 0).all() and (G @ x <= b + 1e-8 * scale).all()
    np.testing.assert_allclose(x, step - G.T @ v, atol=1e-8)
    assert np.abs(v * (G @ x - b)).max() < 1e-7  # a multiplier only where a bound is reached
    constraint = {"type": "ineq", "fun": lambda y: (b - G @ y) / scale, "jac": lambda y: -G / scale}
    found = minimize(
        lambda y: 0.5 * np.sum((y - step) ** 2),
        step * 0,
        jac=lambda y: y - step,
        constraints=constraint,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert 0.5 * np.sum((x - step) ** 2) <= found.fun + 1e-6


def test_an_allowed_step_is_kept_to_the_bit_and_contradictions_do_not_raise_a_loss():
    G = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    step = np.array([-0.3, 2.0])
    assert nearest_step(G[:1], step, np.zeros(1))[0] is step
    x, v = nearest_step(G, step, np.array([-1.0, -1.0, -1.0]))  # x ≤ −1 and x ≥ 1
    np.testing.assert_allclose(x, [0.0, 2.0], atol=1e-12)
    assert v[2] == 0
