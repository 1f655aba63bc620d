"""Models in continuous time: exact transitions over any interval, and filters on irregular times."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad_vec
from scipy.linalg import expm

import remanence as rm
from remanence import kalman
from remanence.kalman.time.continuous import between_times

MOTIONS = [kalman.random_walk, kalman.constant_velocity, kalman.constant_acceleration]


def drawn(seed, d=3, k=2):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((k, k))
    return rng.standard_normal((d, d)), rng.standard_normal((d, k)), root @ root.T


def over(F, L, q, step, B=None):
    A, Q, held = between_times(F, L, q, [0.0, step], B)
    return A[1], Q[1], None if held is None else held[1]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(1e-6, 3.0), st.floats(1e-6, 3.0))
def test_two_intervals_are_one(seed, first, second):
    F, L, q = drawn(seed)
    B = np.ones((3, 1))
    (A1, Q1, B1), (A2, Q2, B2), (A, Q, held) = (over(F, L, q, s, B) for s in (first, second, first + second))
    scale = max(1.0, float(np.abs(A2).max() * np.abs(A1).max()))
    np.testing.assert_allclose(A, A2 @ A1, atol=1e-12 * scale)
    np.testing.assert_allclose(Q, A2 @ Q1 @ A2.T + Q2, atol=1e-12 * scale**2 * np.abs(q).max() * 10)
    np.testing.assert_allclose(held, A2 @ B1 + B2, atol=1e-12 * scale)


@pytest.mark.parametrize("step", [0.01, 1.0, 4.0])
def test_transition_and_noise_are_the_exponential_and_the_integral(step):
    F, L, q = drawn(1)
    B = np.ones((3, 1))
    A, Q, held = over(F, L, q, step, B)
    np.testing.assert_allclose(A, expm(F * step), rtol=1e-12)
    integral = quad_vec(lambda s: expm(F * s) @ L @ q @ L.T @ expm(F * s).T, 0, step, epsabs=1e-13, epsrel=1e-13)[0]
    np.testing.assert_allclose(Q, integral, rtol=1e-10)
    integral = quad_vec(lambda s: expm(F * s) @ B, 0, step, epsabs=1e-13, epsrel=1e-13)[0]
    np.testing.assert_allclose(held, integral, rtol=1e-10)


def test_long_intervals_of_a_stable_system_reach_its_stationary_covariance():
    from scipy.linalg import solve_continuous_lyapunov

    F = np.array([[-1.0, 3.0], [0.0, -50.0]])  # exp(-F h) would overflow where Δ is long
    A, Q, _ = over(F, np.eye(2), 2.0, 1e6)
    np.testing.assert_allclose(Q, solve_continuous_lyapunov(F, -2.0 * np.eye(2)), rtol=1e-12)
    np.testing.assert_allclose(A, 0, atol=1e-300)


@pytest.mark.parametrize("motion", MOTIONS)
def test_presets_are_the_textbook_formulas(motion):
    order = MOTIONS.index(motion) + 1
    h, n = 0.7, 2
    A, Q, _ = over(*motion(n)[:2], 3.0, h)
    f = [1, 1, 2, 6, 24]
    one = np.array([[h ** (j - i) / f[j - i] if j >= i else 0 for j in range(order)] for i in range(order)])
    powers = np.arange(order)[::-1]
    noise = np.array([[h ** (i + j + 1) / (i + j + 1) / f[i] / f[j] for j in powers] for i in powers])
    np.testing.assert_allclose(A, np.kron(one, np.eye(n)), atol=1e-14)
    np.testing.assert_allclose(Q, 3.0 * np.kron(noise, np.eye(n)), atol=1e-14)
    assert motion(n).X.shape == (n, n * order) and (motion(n).X @ np.arange(n * order) == np.arange(n)).all()


@pytest.mark.parametrize("motion", MOTIONS)
@pytest.mark.parametrize("form", ["covariance", "root"])
def test_irregular_times_are_a_fine_grid_with_gaps(motion, form):
    rng = np.random.default_rng(0)
    F, L, X = motion(2)
    d, grid = len(F), np.arange(200) * 0.05
    seen = np.sort(rng.choice(200, 40, replace=False))
    seen[0] = 0
    Y = rng.standard_normal((200, 2))
    Y[~np.isin(np.arange(200), seen)] = np.nan
    known = {"X": X, "R": 0.5 * np.eye(2), "mean": rng.standard_normal(d), "cov": np.eye(d)}
    B, u = np.ones((d, 1)), rng.standard_normal((40, 1))
    held = np.zeros((200, 1))
    held[1:] = u[np.searchsorted(seen, np.arange(1, 200)).clip(max=39)]
    inputs = {"B": B, "u": u}, {"B": B, "u": held}
    sparse, dense = (
        kalman.LinearGaussian.from_continuous(F, L, 0.3, times, **known, **given)
        for times, given in zip((grid[seen], grid), inputs, strict=True)
    )
    a, b = kalman.filter(sparse, Y[seen], form=form), kalman.filter(dense, Y, form=form)
    np.testing.assert_allclose(a.mean, b.mean[seen], atol=1e-9)
    np.testing.assert_allclose(a.cov, b.cov[seen], atol=1e-9)
    assert a.loglik == pytest.approx(b.loglik, rel=1e-10)
    np.testing.assert_allclose(kalman.smooth(sparse, a).mean, kalman.smooth(dense, b).mean[seen], atol=1e-8)


def test_equal_times_are_several_observations_of_one_time():
    F, L, X = kalman.constant_velocity(1)
    known = {"mean": [0.0, 0.0], "cov": np.eye(2)}
    twice = kalman.LinearGaussian.from_continuous(F, L, 0.1, [0.0, 2.0, 2.0], X=X, R=np.eye(1), **known)
    both = kalman.LinearGaussian.from_continuous(
        F, L, 0.1, [0.0, 2.0], X=[X, np.vstack([X, X])], R=[np.eye(1), np.eye(2)], **known
    )
    a = kalman.filter(twice, [[0.5], [1.0], [2.0]])
    b = kalman.filter(both, [[0.5], [1.0, 2.0]])
    np.testing.assert_allclose(a.mean[-1], b.mean[-1], atol=1e-13)
    np.testing.assert_allclose(a.cov[-1], b.cov[-1], atol=1e-13)


@pytest.mark.parametrize("far", [1e12, 1e18, 1e25, 1e30, 1e40])
def test_steps_of_any_length_are_exact(far):
    """A velocity that wanders has polynomials in closed form; of other units, the same."""
    F, L, X = kalman.constant_velocity(1)
    model = kalman.LinearGaussian.from_continuous(
        F, L, 2.0, [0.0, far], X=X, R=np.eye(1), mean=[0.0, 0.0], cov=np.eye(2)
    )
    np.testing.assert_allclose(model.A[1], [[1, far], [0, 1]], rtol=1e-13)
    np.testing.assert_allclose(model.Q[1], 2 * np.array([[far**3 / 3, far**2 / 2], [far**2 / 2, far]]), rtol=1e-12)


def test_bad_models_are_refused():
    F, L, X = kalman.constant_velocity(1)
    rest = {"X": X, "R": np.eye(1), "mean": [0.0, 0.0], "cov": np.eye(2)}

    def build(F=F, L=L, q=0.1, times=(0.0, 1.0), **more):
        return kalman.LinearGaussian.from_continuous(F, L, q, times, **{**rest, **more})

    assert build().length == 2
    bad = [
        {"F": np.eye(3)}, {"F": np.ones(2)}, {"F": [[np.nan, 0], [0, 0]]}, {"L": np.eye(3)}, {"L": [1.0, 2.0]},
        {"q": -1.0}, {"q": np.eye(2)}, {"q": np.inf}, {"q": "a"}, {"times": [1.0, 0.0]}, {"times": []},
        {"times": [[0.0, 1.0]]}, {"times": [0.0, np.nan]}, {"times": 3.0}, {"B": np.eye(3), "u": [0.0] * 3},
        {"B": np.eye(2)}, {"u": [1.0]}, {"F": 1e3 * np.eye(2), "times": [0.0, 1e6]},
    ]  # fmt: skip
    for change in bad:
        with pytest.raises(rm.InputError):
            build(**change)
    for motion in MOTIONS:
        for dimensions in (0, -1, 1.5, "2"):
            with pytest.raises(rm.InputError):
                motion(dimensions)
