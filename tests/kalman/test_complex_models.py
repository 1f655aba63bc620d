"""Complex models: the textbook recursions with conjugates, and the density of complex Gaussians."""

import numpy as np
import pytest

import remanence as rm
from remanence import kalman


def draw(rng, *shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def hermitian(rng, d):
    root = draw(rng, d, d)
    return root @ root.conj().T / d + 0.1 * np.eye(d)


def complex_model(seed=0, d=3, m=2, inputs=False, T=20):
    rng = np.random.default_rng(seed)
    A = np.linalg.qr(draw(rng, d, d))[0]
    more = {"B": draw(rng, d, 1), "u": draw(rng, T, 1)} if inputs else {}
    model = kalman.LinearGaussian(
        A, hermitian(rng, d), draw(rng, m, d), hermitian(rng, m), draw(rng, d), hermitian(rng, d), **more
    )
    return model, draw(rng, T, m)


def textbook(model, Y):
    m, P, found, loglik = model.mean, model.cov, [], 0.0
    for t, y in enumerate(Y):
        if t:
            m, P = model.A @ m, model.A @ P @ model.A.conj().T + model.Q
            m = m if model.B is None else m + model.B @ model.u[t]
        before, spread, seen = m, P, ~np.isnan(y)
        X, R = model.X[seen], model.R[np.ix_(seen, seen)]
        S, e = X @ P @ X.conj().T + R, y[seen] - X @ m
        K = P @ X.conj().T @ np.linalg.inv(S)
        m, P = m + K @ e, P - K @ S @ K.conj().T
        loglik -= (e.conj() @ np.linalg.solve(S, e)).real + np.linalg.slogdet(np.pi * S)[1] if seen.any() else 0.0
        found.append((m, P, before, spread))
    smooth = [found[-1][:2]]
    for t in range(len(Y) - 2, -1, -1):
        m, P, _, _ = found[t]
        _, _, ahead, spread = found[t + 1]
        G = P @ model.A.conj().T @ np.linalg.inv(spread)
        smooth.insert(0, (m + G @ (smooth[0][0] - ahead), P + G @ (smooth[0][1] - spread) @ G.conj().T))
    return found, loglik, smooth


@pytest.mark.parametrize("form", ["covariance", "root"])
@pytest.mark.parametrize("inputs", [False, True])
def test_filter_and_smoother_are_the_textbook_recursions(form, inputs):
    model, Y = complex_model(inputs=inputs)
    Y[4], Y[9, 1] = np.nan, complex(0, np.nan)
    found, (steps, loglik, smooth) = kalman.filter(model, Y, form=form), textbook(model, Y)
    for i, name in enumerate(("mean", "cov", "predicted_mean", "predicted_cov")):
        np.testing.assert_allclose(getattr(found, name), [step[i] for step in steps], atol=1e-11, err_msg=name)
    assert found.loglik == pytest.approx(loglik, rel=1e-11)
    better = kalman.smooth(model, found)
    np.testing.assert_allclose(better.mean, [m for m, _ in smooth], atol=1e-10)
    np.testing.assert_allclose(better.cov, [P for _, P in smooth], atol=1e-10)


def test_forecast_innovations_and_transfer():
    model, Y = complex_model()
    found = kalman.filter(model, Y)
    ahead = kalman.forecast(model, found, 2)
    np.testing.assert_allclose(ahead.mean[0], model.A @ found.mean[-1], atol=1e-12)
    np.testing.assert_allclose(ahead.cov[0], model.A @ found.cov[-1] @ model.A.conj().T + model.Q, atol=1e-12)
    e = kalman.innovations(model, found, Y)
    np.testing.assert_allclose(e.errors, Y - found.predicted_mean @ model.X.T, atol=1e-11)
    assert (e.degrees == 4).all()  # two complex numbers are four real ones
    traces = kalman.backward_transfer(model, 5).diagonal()
    np.testing.assert_allclose(traces, np.trace(found.cov[:5], axis1=1, axis2=2).real, rtol=1e-10)


def test_samples_have_the_covariance_of_the_model():
    model, _ = complex_model(d=2)
    first = np.array([kalman.sample(model, 1, seed)[0][0] for seed in range(4000)]) - model.mean
    np.testing.assert_allclose(first.T @ first.conj() / 4000, model.cov, atol=0.15 * np.abs(model.cov).max())
    np.testing.assert_allclose(first.T @ first / 4000, 0, atol=0.15 * np.abs(model.cov).max())


def test_many_series_and_steps_of_several_sizes():
    model, Y = complex_model()
    stack = np.stack([Y, 2 * Y])
    stack[1, 3] = np.nan
    found = kalman.filter(model, stack)
    for n in range(2):
        np.testing.assert_allclose(found.mean[n], kalman.filter(model, stack[n]).mean, atol=1e-12)
    X, R = [model.X[:1], model.X], [model.R[:1, :1], model.R]
    ragged = kalman.LinearGaussian(model.A, model.Q, X, R, model.mean, model.cov)
    seen = Y[:2].copy()
    seen[0, 1] = np.nan
    found = kalman.filter(ragged, [Y[0, :1], Y[1]])
    np.testing.assert_allclose(found.mean, kalman.filter(model, seen).mean, atol=1e-12)


def test_a_complex_model_is_saved(tmp_path):
    model, Y = complex_model(inputs=True)
    rm.save(model, tmp_path / "model")
    again = rm.load(tmp_path / "model")
    np.testing.assert_array_equal(kalman.filter(again, Y).mean, kalman.filter(model, Y).mean)


def test_bad_complex_models_are_refused():
    model, Y = complex_model()
    parts = {name: getattr(model, name) for name in ("A", "Q", "X", "R", "mean", "cov")}
    bad = [
        {"A": model.A[:2]},
        {"Q": 1j * model.Q},
        {"Q": -model.Q},
        {"R": draw(np.random.default_rng(0), 2, 2)},
        {"X": model.X[:, :2]},
        {"mean": model.mean * np.nan},
        {"cov": "x"},
        {"A": model.A * complex(0, np.inf)},
    ]
    for change in bad:
        with pytest.raises(rm.InputError):
            kalman.LinearGaussian(**{**parts, **change})
    with pytest.raises(rm.InputError, match=r"expected A of shape \(3, 3\)"):
        kalman.LinearGaussian(**{**parts, "A": model.A[:2, :2]})
    for observed in (Y[:, :1], "abc", 3.0, [["a", "b"]], Y[:0]):
        with pytest.raises(rm.InputError):
            kalman.filter(model, observed)
    with pytest.raises(rm.InputError, match="for real numbers"):
        kalman.learn(model, Y)
    known = {"Q": model.Q, "R": model.R, "mean": model.mean, "cov": model.cov}
    with pytest.raises(rm.InputError):
        kalman.unscented(lambda v: v, lambda v: v[:2], Y, **known)
    real = kalman.LinearGaussian(np.eye(3), np.eye(3), np.eye(3), np.eye(3), np.zeros(3), np.eye(3))
    with pytest.raises(rm.InputError, match="of a real model"):
        kalman.smooth(model, kalman.filter(real, np.zeros((20, 3))))


def test_results_of_complex_models_are_not_stored(tmp_path):
    model, Y = complex_model()
    with pytest.raises(rm.InputError, match="complex numbers"):
        rm.save(kalman.filter(model, Y), tmp_path / "found")
