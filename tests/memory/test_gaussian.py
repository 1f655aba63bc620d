"""A Gaussian conditioned and advanced by the book, in both forms; missing rows, shared covariances, exactness."""

import numpy as np
import pytest

from remanence.memory.gaussian import Gaussian, RootGaussian, least_noise, psd_root

FORMS = ("covariance", "root")


def known(form, mean, cov):
    return Gaussian(mean, cov) if form == "covariance" else RootGaussian(mean, psd_root(cov))


def case(seed, d=4, m=3, rank=None):
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((d, d if rank is None else rank))
    N = rng.standard_normal((m, m))
    return (
        rng.standard_normal(d),
        B @ B.T,
        rng.standard_normal((m, d)),
        N @ N.T + 0.1 * np.eye(m),
        rng.standard_normal(m),
        rng,
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rank", [None, 2, 0])
@pytest.mark.parametrize("noise", [1.0, 1e-9])
def test_conditioning_and_advancing_by_the_book(form, rank, noise):
    mean, cov, X, R, y, rng = case(0, rank=rank)
    R = R * noise
    after, innovation = known(form, mean, cov).conditioned(X, y, R)
    S = X @ cov @ X.T + R
    e = y - X @ mean
    K = np.linalg.solve(S, X @ cov).T
    size = np.linalg.cond(S) * 1e-15
    np.testing.assert_allclose(after.mean, mean + K @ e, atol=1e-12 + size)
    np.testing.assert_allclose(after.cov, cov - K @ X @ cov, atol=1e-12)
    loglik = -0.5 * (e @ np.linalg.solve(S, e) + np.linalg.slogdet(2 * np.pi * S)[1])
    assert innovation.loglik == pytest.approx(loglik, rel=1e-9 + size)
    assert innovation.seen == 3
    A, Q = rng.standard_normal((4, 4)), np.diag([1.0, 0, 0, 0])
    later = after.advanced(A, Q)
    np.testing.assert_allclose(later.mean, A @ after.mean, atol=1e-12)
    np.testing.assert_allclose(later.cov, A @ after.cov @ A.T + Q, atol=1e-12)
    np.testing.assert_array_equal(later.cov, later.cov.T)


@pytest.mark.parametrize("form", FORMS)
def test_missing_rows_are_rows_that_were_never_asked(form):
    mean, cov, X, R, y, _ = case(1)
    y[1] = np.nan
    keep = [0, 2]
    a, b = (
        known(form, mean, cov).conditioned(X, y, R),
        known(form, mean, cov).conditioned(X[keep], y[keep], R[np.ix_(keep, keep)]),
    )
    np.testing.assert_allclose(a[0].mean, b[0].mean)
    assert a[1].loglik == b[1].loglik and np.isnan(a[1].errors[1])
    none, innovation = known(form, mean, cov).conditioned(X, np.full(3, np.nan), R)
    np.testing.assert_array_equal(none.mean, mean)
    assert innovation.loglik == 0 and innovation.seen == 0


@pytest.mark.parametrize("form", FORMS)
def test_several_outputs_share_one_covariance(form):
    _, cov, X, R, _, rng = case(2)
    means, Y = rng.standard_normal((4, 3)), rng.standard_normal((3, 3))
    after, innovation = known(form, means, cov).conditioned(X, Y, R)
    single = [known(form, means[:, j], cov).conditioned(X, Y[:, j], R) for j in range(3)]
    np.testing.assert_allclose(after.mean, np.stack([g.mean for g, _ in single], axis=1), atol=1e-12)
    assert innovation.loglik == pytest.approx(sum(s.loglik for _, s in single), rel=1e-12)
    assert innovation.square == pytest.approx(sum(s.square for _, s in single), rel=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(5))
def test_exact_answers_are_met_and_what_they_decide_is_known(form, seed):
    mean, cov, _, _, _, rng = case(seed, d=5)
    X = rng.standard_normal((3, 5))
    X = np.vstack([X, X[0] - 2 * X[1]])  # the last row follows from the first two
    theta = rng.standard_normal(5)
    y = X @ theta
    after, innovation = known(form, mean, cov).conditioned(X, y, np.zeros((4, 4)))
    np.testing.assert_allclose(X @ after.mean, y, atol=1e-9)
    np.testing.assert_allclose(X @ after.cov @ X.T, 0, atol=1e-12)
    assert np.linalg.eigvalsh(after.cov).min() > -1e-13
    assert innovation.seen == 3 and np.isfinite(innovation.loglik)
    y[3] += 1
    other, contradiction = known(form, mean, cov).conditioned(X, y, np.zeros((4, 4)))
    np.testing.assert_allclose(other.mean, after.mean)
    assert contradiction.loglik == -np.inf


def test_least_noise_is_zero_only_for_singular_noise():
    assert least_noise(np.diag([1e9, 1e-9])) == pytest.approx(1e-9)
    assert least_noise(np.ones((2, 2))) == 0
    assert least_noise(np.zeros((1, 1))) == 0
    assert least_noise(np.zeros((0, 0))) == 0


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_a_root_has_the_relative_precision_of_every_coordinate(rank):
    rng = np.random.default_rng(rank)
    units = np.array([1e-12, 1.0, 1e9, 1e3, 0.0])
    L = rng.standard_normal((5, rank)) * units[:, None]
    root = psd_root(L @ L.T)
    np.testing.assert_allclose(root @ root.T, L @ L.T, rtol=1e-12)
    np.testing.assert_array_equal(root[4], 0)
