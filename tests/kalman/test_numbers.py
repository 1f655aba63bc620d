"""Complex numbers need a complex model; what a masked array hides is missing in Y and refused in a model."""

import numpy as np
import pytest

import remanence as rm
from remanence import kalman

PARTS = {
    "A": 0.9 * np.eye(2), "Q": 0.1 * np.eye(2), "X": np.eye(2), "R": np.eye(2), "mean": np.zeros(2), "cov": np.eye(2),
}  # fmt: skip
Y = np.random.default_rng(0).standard_normal((6, 2))


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("as_list", [False, True])
def test_a_model_with_one_complex_part_is_complex(name, as_list):
    value = PARTS[name] + 0j
    model = kalman.LinearGaussian(**PARTS | {name: value.tolist() if as_list else value})
    found = kalman.filter(model, Y)
    assert found.mean.dtype == np.complex128
    np.testing.assert_allclose(found.mean, kalman.filter(kalman.LinearGaussian(**PARTS), Y).mean, atol=1e-13)


def test_complex_numbers_in_one_step_of_a_list():
    ragged = {"X": [np.eye(2), 1j * np.eye(1, 2)], "R": [np.eye(2), np.eye(1)]}
    assert kalman.filter(kalman.LinearGaussian(**PARTS | ragged), [Y[0], Y[1, :1]]).mean.dtype == np.complex128
    ragged["R"][1] = 1j * np.eye(1)
    with pytest.raises(rm.InputError, match=r"R.* symmetric"):
        kalman.LinearGaussian(**PARTS | ragged)


def answers_of(kind):
    if kind == "list":
        return [*Y[:5], Y[5] + 1j]
    return Y[None] + 1j if kind == "series" else (Y + 1j).astype(kind)


@pytest.mark.parametrize("dtype", ["complex128", "complex64", "list", "series"])
def test_complex_answers_are_refused(dtype):
    model, bad = kalman.LinearGaussian(**PARTS), answers_of(dtype)
    calls = [
        lambda: kalman.filter(model, bad),
        lambda: kalman.learn(model, bad),
        lambda: kalman.innovations(model, kalman.filter(model, Y), bad),
    ]
    if dtype != "series":
        parts = {name: PARTS[name] for name in ("Q", "R", "mean", "cov")}
        calls.append(lambda: kalman.extended(lambda v: v, lambda v: v, bad, **parts))
        calls.append(lambda: kalman.linearized(lambda v: v[0], [y[0] for y in bad], start=np.zeros(2)))
    for call in calls:
        with pytest.raises(rm.InputError, match="complex"):
            call()


def test_complex_answers_of_a_ragged_model_and_complex_starts_are_refused():
    model = kalman.LinearGaussian(**PARTS | {"X": [np.eye(2), np.eye(1, 2)], "R": [np.eye(2), np.eye(1)]})
    with pytest.raises(rm.InputError, match="complex"):
        kalman.filter(model, [Y[0], Y[1, :1] + 1j])
    with pytest.raises(rm.InputError, match="complex"):
        kalman.linearized(lambda v: v[0], Y[:, 0], start=np.zeros(2) + 1j)


@pytest.mark.parametrize("name", ["transition", "observe", "transition_jacobian", "observe_jacobian"])
def test_functions_that_return_complex_numbers_are_refused(name):
    parts = {name: PARTS[name] for name in ("Q", "R", "mean", "cov")}
    functions = {
        "transition": lambda v: v, "observe": lambda v: v, "transition_jacobian": lambda v: np.eye(2),
        "observe_jacobian": lambda v: np.eye(2),
    }  # fmt: skip
    kalman.extended(Y=Y, **functions, **parts)
    right = functions[name]
    with pytest.raises(rm.InputError, match="complex"):
        kalman.extended(Y=Y, **functions | {name: lambda v: right(v) + 0j}, **parts)


def test_masked_answers_are_missing():
    model = kalman.LinearGaussian(**PARTS)
    mask = np.zeros(Y.shape, bool)
    mask[2, 0] = mask[4] = True
    gaps, masked = np.where(mask, np.nan, Y), np.ma.array(Y, mask=mask)
    whole = np.ma.array(np.arange(12).reshape(6, 2), mask=mask)  # integers have no NaN
    parts = {name: PARTS[name] for name in ("Q", "R", "mean", "cov")}
    for given, plain in ((masked, gaps), (list(masked), gaps), (whole, np.where(mask, np.nan, whole.data))):
        f, g = kalman.filter(model, given), kalman.filter(model, plain)
        np.testing.assert_array_equal(f.mean, g.mean)
        np.testing.assert_array_equal(f.logliks, g.logliks)
        e, h = (kalman.extended(lambda v: v, lambda v: v, y, **parts) for y in (given, plain))
        np.testing.assert_array_equal(e.mean, h.mean)
    np.testing.assert_array_equal(kalman.filter(model, np.ma.array(Y)).mean, kalman.filter(model, Y).mean)
    ragged = kalman.LinearGaussian(**PARTS | {"X": [np.eye(2), np.eye(1, 2)], "R": [np.eye(2), np.eye(1)]})
    f, g = (kalman.filter(ragged, [y, [1.0]]) for y in (masked[2], gaps[2]))
    np.testing.assert_array_equal(f.mean, g.mean)


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("factor", [1.0, 1.0 + 0j])
def test_a_masked_entry_of_a_model_is_refused(name, factor):
    value = np.ma.array(factor * PARTS[name], mask=PARTS[name] < np.inf)
    with pytest.raises(rm.InputError, match=f"{name}.*masked"):
        kalman.LinearGaussian(**PARTS | {name: value})


def test_the_weights_handed_out_are_not_the_state():
    method = rm.Kalman(drift=0.1)
    state = method.update(method.init(2, 1), Y, Y[:, :1])
    W = method.weights(state)
    kept = W.copy()
    with pytest.raises(ValueError, match="read-only"):
        W *= 0
    np.testing.assert_array_equal(method.weights(state), kept)


def test_the_prior_is_of_the_first_step_and_a_prior_of_the_step_before_it_is_moved_there():
    """The recipe of LinearGaussian for those who come from filterpy, against predict and update in its order."""
    rng = np.random.default_rng(1)
    A, Q, X, R = 0.9 * np.eye(2) + 0.1, 0.3 * np.eye(2), np.eye(1, 2), np.eye(1)
    x, P = rng.standard_normal(2), np.diag([2.0, 3.0])
    f = kalman.filter(kalman.LinearGaussian(A, Q, X, R, A @ x, A @ P @ A.T + Q), Y[:, :1])
    for t, y in enumerate(Y[:, :1]):
        x, P = A @ x, A @ P @ A.T + Q  # predict, then update
        K = P @ X.T / (X @ P @ X.T + R)
        x, P = x + K @ (y - X @ x), P - K @ X @ P
        np.testing.assert_allclose(f.mean[t], x, atol=1e-12)
        np.testing.assert_allclose(f.cov[t], P, atol=1e-12)
