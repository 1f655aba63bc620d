"""Innovations that are no plain difference (angles), and Jacobians that are compared with their functions."""

import numpy as np
import pytest

import remanence as rm
from remanence import kalman


def wrapped(y, predicted):
    """The difference of distances, and that of angles within ±π."""
    e = y - predicted
    return np.array([e[0], (e[1] + np.pi) % (2 * np.pi) - np.pi])


def range_bearing(v):
    return np.array([np.hypot(v[0], v[1]), np.arctan2(v[1], v[0])])


def slope(v):
    r = np.hypot(v[0], v[1])
    return np.array([[v[0] / r, v[1] / r, 0, 0], [-v[1] / r**2, v[0] / r**2, 0, 0]])


STEP = np.eye(4) + 0.1 * np.eye(4, k=2)
R = np.diag([1e-2, 1e-4])


def crossing(turned=False, seed=0):
    """A point that passes behind the sensor, where the angle jumps from π to −π; or the same world turned by π."""
    rng = np.random.default_rng(seed)
    path = [np.array([-5.0, 0.3, 0.1, -0.12])]
    for _ in range(50):
        path.append(STEP @ path[-1] + 0.01 * rng.standard_normal(4))
    noise = rng.standard_normal((51, 2)) @ np.sqrt(R)
    sign = -1.0 if turned else 1.0
    path = sign * np.array(path)
    Y = np.array([range_bearing(v) for v in path]) + noise
    Y[:, 1] = (Y[:, 1] + np.pi) % (2 * np.pi) - np.pi
    Y[7, 0] = Y[20, 1] = np.nan
    Y[30] = np.nan
    parts = {"Q": 1e-4 * np.eye(4), "R": R, "mean": sign * np.array([-5.0, 0.3, 0, 0]), "cov": np.eye(4)}
    return path, Y, parts


@pytest.mark.parametrize("iterations", [1, 3])
@pytest.mark.parametrize("jacobian", [None, slope])
@pytest.mark.parametrize("one_each", [False, True])
def test_a_target_crosses_the_cut_of_the_angle_as_if_there_were_none(iterations, jacobian, one_each):
    path, Y, parts = crossing()
    options = {"observe_jacobian": jacobian, "iterations": iterations}
    residual = [wrapped] * len(Y) if one_each else wrapped
    f = kalman.extended(lambda v: STEP @ v, range_bearing, Y, **parts, **options, residual=residual)
    _, turned_Y, turned_parts = crossing(turned=True)  # in front of the sensor: no cut anywhere near
    g = kalman.extended(lambda v: STEP @ v, range_bearing, turned_Y, **turned_parts, **options)
    np.testing.assert_allclose(f.mean, -g.mean, atol=1e-7)
    np.testing.assert_allclose(f.cov, g.cov, atol=1e-7)
    np.testing.assert_allclose(f.logliks, g.logliks, atol=1e-5)
    np.testing.assert_allclose(kalman.smooth_extended(f).mean, -kalman.smooth_extended(g).mean, atol=1e-7)
    for name in ("errors", "squares", "degrees", "pvalues"):
        a, b = (getattr(kalman.innovations(h.model, h, y), name) for h, y in ((f, Y), (g, turned_Y)))
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert np.linalg.norm((f.mean - path)[5:, :2], axis=1).max() < 0.5
    naive = kalman.extended(lambda v: STEP @ v, range_bearing, Y, **parts, **options)
    assert np.linalg.norm((naive.mean - path)[5:, :2], axis=1).max() > 3  # without it the point is thrown away


def test_measured_slopes_do_not_see_the_cut():
    on_the_cut = np.array([-5.0, 0.0, 0.0, 0.0])
    parts = {"Q": np.eye(4), "R": R, "mean": on_the_cut, "cov": np.eye(4)}
    f = kalman.extended(lambda v: v, range_bearing, [[5.0, -3.1]], **parts, residual=wrapped)
    np.testing.assert_allclose(f.model.X[0], slope(on_the_cut), atol=1e-9)


def test_torch_functions_take_a_residual_too():
    torch = pytest.importorskip("torch")
    _, Y, parts = crossing()
    look = lambda v: torch.stack([torch.hypot(v[0], v[1]), torch.arctan2(v[1], v[0])])
    f = kalman.extended(lambda v: torch.tensor(STEP) @ v, look, Y, **parts, residual=wrapped)
    g = kalman.extended(lambda v: STEP @ v, range_bearing, Y, **parts, residual=wrapped, observe_jacobian=slope)
    np.testing.assert_allclose(f.mean, g.mean, atol=1e-9)


@pytest.mark.parametrize(
    "residual, words",
    [
        ("wrap", "residual"),
        ([wrapped] * 3, "51 functions"),
        (lambda y, p: (y - p)[:1], "2 numbers"),
        (lambda y, p: (y - p) * np.inf, "finite"),
        (lambda y, p: np.sum(y - p) + 0 * y, "finite"),  # mixes entries, of which one is missing at step 7
        (lambda y, p: ["a", "b"], "real numbers"),
        (lambda y, p: y - p + 1j, "complex"),
    ],
)
def test_a_residual_of_another_kind_is_refused(residual, words):
    _, Y, parts = crossing()
    with pytest.raises(rm.InputError, match=words):
        kalman.extended(lambda v: STEP @ v, range_bearing, Y, **parts, residual=residual)


def test_a_wrong_jacobian_is_refused_at_the_first_step_and_its_entry_named():
    _, Y, parts = crossing()
    calls = []

    def wrong(v):
        calls.append(v)
        J = slope(v)
        J[1, 0] *= -1
        return J

    with pytest.raises(rm.InputError, match=r"observe.*row 1, column 0.* 0\.0119570* .* -0\.0119570*"):
        kalman.extended(lambda v: STEP @ v, range_bearing, Y, **parts, residual=wrapped, observe_jacobian=wrong)
    assert len(calls) == 1
    with pytest.raises(rm.InputError, match=r"transition.*row 1, column 3.* 0 .*0\.1"):
        kalman.extended(
            lambda v: STEP @ v, range_bearing, Y, **parts, residual=wrapped, transition_jacobian=lambda v: np.eye(4)
        )
    kalman.extended(
        lambda v: STEP @ v, range_bearing, Y, **parts, residual=wrapped, observe_jacobian=wrong, check=False
    )


def test_every_entry_is_compared_whatever_the_units():
    for units in (np.ones(4), np.array([1e6, 1e-3, 1e-6, 10.0])):
        _, Y, parts = crossing()
        parts |= {"mean": parts["mean"] / units, "cov": parts["cov"] / np.outer(units, units)}
        look, right = lambda v, u=units: range_bearing(u * v), lambda v, u=units: slope(u * v) * u
        kalman.extended(lambda v: v, look, Y, **parts, residual=wrapped, observe_jacobian=right)
        for i, k in np.ndindex(2, 4):
            wrong = np.zeros((2, 4))
            wrong[i, k] = 1e-3 * units[k]
            given = lambda v, w=wrong, f=right: f(v) + w
            with pytest.raises(rm.InputError, match=f"row {i}, column {k}"):
                kalman.extended(
                    lambda v: v,
                    look,
                    Y,
                    **parts,
                    residual=wrapped,
                    observe_jacobian=given,
                )


NETWORK = np.random.default_rng(3).standard_normal((2, 5, 4))


@pytest.mark.parametrize(
    "observe, jacobian",
    [
        (lambda v: np.maximum(v, 0), lambda v: np.diag((v > 0) * 1.0)),  # a kink at the start: any slope between
        (lambda v: np.maximum(v, 0), lambda v: np.diag((v >= 0) * 1.0)),
        (lambda v: 1e9 + 3 * v, lambda v: 3 * np.eye(4)),  # nine digits are in the offset
        (lambda v: np.tanh(NETWORK[0].astype("f") @ v.astype("f")) + 100,
         lambda v: (1 - np.tanh(NETWORK[0] @ v) ** 2)[:, None] * NETWORK[0]),  # in single precision
        (lambda v: np.tanh(NETWORK[0] @ v),
         lambda v: ((1 - np.tanh(NETWORK[0] @ v) ** 2)[:, None] * NETWORK[0]).astype("f")),
        (lambda v: np.sin(30 * v), lambda v: 30 * np.diag(np.cos(30 * v))),
        (lambda v: np.exp(v - 50), lambda v: np.diag(np.exp(v - 50))),
        (lambda v: v * 0, lambda v: np.zeros((4, 4))),
        (lambda v: np.sin(v),  # slopes that were measured themselves, from one side
         lambda v: np.array([(np.sin(v + 1e-7 * e) - np.sin(v)) / 1e-7 for e in np.eye(4)]).T),
    ],
)  # fmt: skip
@pytest.mark.parametrize("sd", [0.0, 1e-9, 1.0, 1e4])
@pytest.mark.parametrize("start", [0.0, 1.0, -1e3])
def test_right_jacobians_are_never_refused(observe, jacobian, sd, start):
    m = len(observe(np.zeros(4)))
    kalman.extended(
        lambda v: v, observe, np.full((1, m), 0.1), Q=np.eye(4), R=np.eye(m), mean=np.full(4, start),
        cov=sd**2 * np.eye(4), observe_jacobian=jacobian,
    )  # fmt: skip
