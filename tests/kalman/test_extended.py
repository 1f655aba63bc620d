"""The extended filter equals the linear one on linear functions, however its Jacobians come; linearised methods."""

import math

import numpy as np
import pytest

import remanence as rm
from remanence import kalman
from remanence.kalman.nonlinear import jacobians


def linear(T=12, d=3, m=2, seed=0, ragged=False):
    rng = np.random.default_rng(seed)
    A = 0.9 * np.linalg.qr(rng.standard_normal((d, d)))[0]
    rows = rng.integers(1, 4, T) if ragged else np.full(T, m)
    rows[:2] = (1, 3) if ragged else rows[:2]
    X = [rng.standard_normal((n, d)) for n in rows]
    R = [0.5 * np.eye(n) for n in rows]
    Y = [rng.standard_normal(n) for n in rows]
    if not ragged:
        X, R, Y = np.array(X), 0.5 * np.eye(m), np.array(Y)
    Y[3][0] = np.nan
    parts = {"Q": 0.1 * np.eye(d), "R": R, "mean": rng.standard_normal(d), "cov": np.eye(d)}
    return kalman.LinearGaussian(A, parts["Q"], X, R, parts["mean"], parts["cov"]), A, X, Y, parts


@pytest.mark.parametrize("way", ["given", "complex", "differences", "torch"])
@pytest.mark.parametrize("iterations", [1, 3])
@pytest.mark.parametrize("ragged", [False, True])
def test_the_extended_filter_of_linear_functions_is_the_filter(way, iterations, ragged):
    model, A, X, Y, parts = linear(ragged=ragged)
    options = {}
    if way == "torch":
        torch = pytest.importorskip("torch")
        tensors = [torch.tensor(v) for v in X]
        move, look = lambda v: torch.tensor(A) @ v, [lambda v, x=x: torch.mv(x, v) for x in tensors]
    elif way == "differences":
        move, look = (
            lambda v: A @ v.astype(float),
            [lambda v, x=x: x @ np.abs(v + 1e3) - x @ np.full(3, 1e3) for x in X],
        )
    else:
        move, look = lambda v: A @ v, [lambda v, x=x: x @ v for x in X]
    if way == "given":
        options = {"transition_jacobian": lambda v: A, "observe_jacobian": [lambda v, x=x: x for x in X]}
    f = kalman.extended(move, look, Y, **parts, **options, iterations=iterations)
    g = kalman.filter(model, Y)
    bound = 1e-6 if way == "differences" else 1e-9
    for a, b in ((f.mean, g.mean), (f.cov, g.cov), (f.predicted_mean, g.predicted_mean), (f.logliks, g.logliks)):
        np.testing.assert_allclose(a, b, atol=bound)
    s, r = kalman.smooth_extended(f), kalman.smooth(model, g)
    np.testing.assert_allclose(s.mean, r.mean, atol=bound)
    np.testing.assert_allclose(s.cov, r.cov, atol=bound)
    np.testing.assert_allclose(
        kalman.innovations(f.model, f, Y).errors, kalman.innovations(model, g, Y).errors, atol=bound
    )


def bearings():
    """A point that moves steadily, seen as angle and distance."""
    step = 0.1
    move = lambda v: np.array([v[0] + step * v[2], v[1] + step * v[3], v[2], v[3]])
    look = lambda v: np.array([np.arctan(v[1] / v[0]), np.sqrt(v[0] ** 2 + v[1] ** 2)])
    slope = lambda v: np.array(
        [
            [-v[1] / (v[0] ** 2 + v[1] ** 2), v[0] / (v[0] ** 2 + v[1] ** 2), 0, 0],
            [v[0] / np.hypot(v[0], v[1]), v[1] / np.hypot(v[0], v[1]), 0, 0],
        ]
    )
    rng = np.random.default_rng(0)
    path = [np.array([5.0, 2.0, 1.0, 0.5])]
    for _ in range(60):
        path.append(move(path[-1]) + 0.01 * rng.standard_normal(4))
    path = np.array(path)
    R = np.diag([1e-3, 1e-2])
    Y = np.array([look(v) for v in path]) + rng.standard_normal((61, 2)) @ np.sqrt(R)
    parts = {"Q": 1e-4 * np.eye(4), "R": R, "mean": np.array([5.0, 2, 0, 0]), "cov": np.eye(4)}
    return move, look, slope, path, Y, parts


def test_the_innovation_is_of_the_function_and_the_smoother_improves_on_the_filter():
    move, look, slope, path, Y, parts = bearings()
    f = kalman.extended(move, look, Y, **parts, observe_jacobian=slope)
    g = kalman.extended(move, look, Y, **parts)
    np.testing.assert_allclose(f.mean, g.mean, atol=1e-10)
    np.testing.assert_allclose(f.expected, [look(v) for v in f.predicted_mean], atol=1e-12)
    np.testing.assert_allclose(kalman.innovations(f.model, f, Y).errors, Y - f.expected)
    P, X = f.predicted_cov[7], slope(f.predicted_mean[7])  # one step by the book
    K = P @ X.T @ np.linalg.inv(X @ P @ X.T + parts["R"])
    np.testing.assert_allclose(f.mean[7], f.predicted_mean[7] + K @ (Y[7] - look(f.predicted_mean[7])), atol=1e-12)
    s = kalman.smooth(f.model, f)
    assert ((s.mean - path) ** 2).sum() < 0.5 * ((f.mean - path) ** 2).sum()


def test_the_iterated_update_is_the_most_likely_point():
    look, y = lambda v: v**3, np.array([[8.0]])
    parts = {"Q": [[0.0]], "R": [[1e-4]], "mean": [1.0], "cov": [[1.0]]}
    once = kalman.extended(lambda v: v, look, y, **parts).mean[0, 0]
    often = kalman.extended(lambda v: v, look, y, **parts, iterations=30).mean[0, 0]
    cost = lambda v: (v - 1) ** 2 + (8 - v**3) ** 2 / 1e-4
    grid = np.linspace(1.5, 3.5, 200001)
    assert often == pytest.approx(grid[np.argmin(cost(grid))], abs=2e-5)
    assert abs(once - 2) > 0.5


@pytest.mark.parametrize(
    "function",
    [lambda v: np.sin(v) * v[0], lambda v: np.abs(v), lambda v: np.array([math.exp(v[0]), math.sin(v[1]), 1.0])],
)
def test_jacobians_without_help(function):
    theta = np.array([0.3, -0.7, 2.0])
    value, slope = jacobians.linearized_at(function, None, theta, "f")
    h = 1e-6
    columns = [(function(theta + h * e) - function(theta - h * e)) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(slope, np.array(columns).T, atol=1e-8)
    np.testing.assert_allclose(value, function(theta))


@pytest.mark.parametrize("forget", [0.95, 1.0])
def test_linearised_rls_is_the_extended_filter_without_drift(forget):
    rng = np.random.default_rng(0)
    T, d, ridge = 30, 4, 0.7
    inputs, truth = rng.standard_normal((T, d)), 0.5 * rng.standard_normal(d)
    look = [lambda v, x=x: np.tanh(x @ v) for x in inputs]
    Y = np.array([f(truth) for f in look]) + 0.05 * rng.standard_normal(T)
    start = 0.1 * rng.standard_normal(d)
    found = kalman.linearized(look, Y, start=start, method=rm.RLS(ridge=ridge, forget=forget))
    R = (forget ** np.arange(1, T + 1))[:, None, None]
    f = kalman.extended(lambda v: v, look, Y[:, None], Q=np.zeros((d, d)), R=R, mean=start, cov=np.eye(d) / ridge)
    np.testing.assert_allclose(found.path[1:], f.mean, atol=1e-9)
    np.testing.assert_allclose(found.errors, Y - f.expected[:, 0], atol=1e-9)
    np.testing.assert_allclose(found.distance, np.linalg.norm(found.path - start, axis=1))


def test_linearised_icl_of_linear_models_is_icl_and_of_others_meets_every_linearisation():
    rng = np.random.default_rng(1)
    T, d = 5, 8
    inputs, start = rng.standard_normal((T, d)), rng.standard_normal(d)
    Y = rng.standard_normal(T)
    plain = kalman.linearized([lambda v, x=x: x @ v for x in inputs], Y, start=start)
    method = rm.ICL()
    state = method.update(method.init(d, 1, start[:, None]), inputs, Y[:, None])
    np.testing.assert_allclose(plain.theta, method.weights(state)[:, 0], atol=1e-12)
    look = [lambda v, x=x: np.sinh(x @ v) for x in inputs]
    found = kalman.linearized(look, Y, start=start)
    for t in range(T):
        before = found.path[t]
        slope = np.cosh(inputs[t] @ before) * inputs[t]
        np.testing.assert_allclose(look[t](before) + slope @ (found.theta - before), Y[t], atol=1e-9)


OBSERVED = {
    "analytic": lambda w: np.array([np.sin(w[0]) + w[1]]),
    "range and bearing": lambda w: np.array([np.hypot(w[0], w[1]), np.arctan2(w[1], w[0])]),
    "with a kink": lambda w: np.array([abs(w[0]) * w[1]]),
}


@pytest.mark.parametrize("units", [1e-12, 1e-6, 1e-3, 1e6])
@pytest.mark.parametrize("name", OBSERVED)
def test_without_a_jacobian_the_units_of_the_unknowns_do_not_matter(name, units):
    observe, Y = OBSERVED[name], np.random.default_rng(0).standard_normal((8, 2)) + 1
    Y = Y[:, : len(observe(np.ones(2)))]

    def found(u):
        known = {"Q": 0.1 * u**2 * np.eye(2), "cov": u**2 * np.eye(2), "mean": u * np.array([1.0, 2.0])}
        f = kalman.extended(lambda v: v, lambda v: observe(v / u), Y, R=0.2 * np.eye(Y.shape[1]), **known)
        return f.mean / u

    np.testing.assert_allclose(found(units), found(1.0), atol=1e-6)


@pytest.mark.parametrize("sigma", [1e-12, 1e-9, 1e-3, 1.0])
def test_differences_do_not_drown_in_the_rounding_of_a_function_that_is_large(sigma):
    def observe(v):
        return np.hypot(1e3 + v[0], 2.0)  # refuses complex numbers

    slope = jacobians.linearized_at(observe, None, np.zeros(1), "observe", cov=sigma**2 * np.eye(1))[1]
    assert slope[0, 0] == pytest.approx(1e3 / np.hypot(1e3, 2.0), rel=1e-6)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"Y": np.zeros(3)}, "Y"),
        ({"Y": np.zeros((0, 1))}, "at least one step"),
        ({"observe": lambda v: v}, "observe"),
        ({"observe": [lambda v: v[:1]] * 2}, "one per step"),
        ({"observe": "f"}, "observe"),
        ({"transition": lambda v: v[:1]}, "transition to return 2 numbers"),
        ({"transition": lambda v: np.append(v, 1.0)}, "transition to return 2 numbers"),
        ({"mean": [[1.0, 2.0], [3.0]]}, "mean"),
        ({"R": [[-1.0]]}, "semidefinite"),
        ({"iterations": 0}, "iterations"),
        ({"observe_jacobian": lambda v: np.ones((2, 2))}, "Jacobian"),
        ({"observe": lambda v: v[:1] * np.nan}, "finite"),
    ],
)
def test_bad_input_is_refused(change, words):
    good = {
        "transition": lambda v: v, "observe": lambda v: v[:1], "Y": np.zeros((3, 1)), "Q": np.eye(2), "R": [[1.0]],
        "mean": np.zeros(2), "cov": np.eye(2),
    }  # fmt: skip
    kalman.extended(**good)
    with pytest.raises(rm.InputError, match=words):
        kalman.extended(**(good | change))


def test_torch_is_not_imported_for_plain_functions():
    import subprocess
    import sys

    code = (
        "import sys, numpy as np; from remanence import kalman;"
        "assert 'torch' not in sys.modules and 'numba' not in sys.modules;"
        "kalman.extended(lambda v: v, lambda v: v, np.zeros((3, 1)), Q=[[1.]], R=[[1.]], mean=[0.], cov=[[1.]]);"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
