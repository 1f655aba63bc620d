"""The oracle of all Kalman tests: the joint Gaussian of every θ and every y, built densely, conditioned by the book."""

import numpy as np
import pytest

from remanence.kalman import LinearGaussian


class Joint:
    """θ (all steps stacked) and the answers of a model as one Gaussian."""

    def __init__(self, model, T):
        s, d = model.steps, model.features
        pick = lambda stack, t: stack[t if len(stack) > 1 else 0]
        self.T, self.d = T, d
        self.mean, self.cov = np.zeros((T, d)), np.zeros((T, d, T, d))
        self.mean[0], self.cov[0, :, 0] = model.mean, model.cov
        for t in range(1, T):
            A = pick(s.A, t)
            self.mean[t] = A @ self.mean[t - 1]
            for i in range(t):
                self.cov[t, :, i] = A @ self.cov[t - 1, :, i]
                self.cov[i, :, t] = self.cov[t, :, i].T
            self.cov[t, :, t] = A @ self.cov[t - 1, :, t - 1] @ A.T + pick(s.Q, t)
        rows = [pick(s.rows, t) for t in range(T)]
        self.start = np.concatenate([[0], np.cumsum(rows)])
        self.H, self.R = np.zeros((self.start[-1], T * d)), np.zeros((self.start[-1],) * 2)
        for t in range(T):
            part = slice(self.start[t], self.start[t + 1])
            self.H[part, t * d : (t + 1) * d] = pick(s.X, t)[: rows[t]]
            self.R[part, part] = pick(s.R, t)[: rows[t], : rows[t]]

    def given(self, Y, steps):
        """Means (T, d), covariances (T, d, d) and log density given the answers of the first `steps` steps."""
        y = np.concatenate([np.ravel(v) for v in Y])[: self.start[steps]]
        there = np.flatnonzero(~np.isnan(y))
        C, mean = self.cov.reshape(self.T * self.d, -1), self.mean.ravel()
        H = self.H[there]
        S = H @ C @ H.T + self.R[np.ix_(there, there)]
        e = y[there] - H @ mean
        K = np.linalg.solve(S, H @ C).T if len(there) else np.zeros((len(mean), 0))
        after = (C - K @ H @ C).reshape(self.T, self.d, self.T, self.d)
        loglik = -0.5 * (e @ np.linalg.solve(S, e) + np.linalg.slogdet(2 * np.pi * S)[1]) if len(there) else 0.0
        covs = np.array([after[t, :, t] for t in range(self.T)])
        return (mean + K @ e).reshape(self.T, self.d), covs, loglik


KINDS = (
    "plain", "varying", "singular drift", "no drift", "no memory", "singular prior", "known start", "ragged", "missing",
    "correlated noise", "integrator", "nothing moves",
)  # fmt: skip


def build(kind, seed, T=9, d=4, m=2):
    """A model of a kind and answers for it."""
    rng = np.random.default_rng([KINDS.index(kind), seed])

    def spd(n, rank=None):
        B = rng.standard_normal((n, n if rank is None else rank))
        return B @ B.T / n

    A = 0.9 * np.linalg.qr(rng.standard_normal((d, d)))[0]
    Q, X, R, cov = spd(d), rng.standard_normal((m, d)), 0.3 * np.eye(m), spd(d)
    if kind in ("varying", "ragged"):
        A, Q = rng.standard_normal((T, d, d)) / 2, np.array([spd(d) for _ in range(T)])
        X, R = rng.standard_normal((T, m, d)), np.array([spd(m) + 0.1 * np.eye(m) for _ in range(T)])
    if kind == "ragged":
        rows = rng.integers(0, 5, T)
        rows[:2] = 3, 0
        X, R = [rng.standard_normal((n, d)) for n in rows], [spd(n) + 0.1 * np.eye(n) for n in rows]
    if kind == "singular drift":
        Q = spd(d, 1)
    if kind == "no drift":
        Q = np.zeros((d, d))
    if kind == "no memory":
        A = np.zeros((d, d))
    if kind == "nothing moves":
        A, Q = np.zeros((d, d)), np.zeros((d, d))
    if kind == "singular prior":
        cov, Q = spd(d, 2), spd(d, 1)
    if kind == "known start":
        cov = np.zeros((d, d))
    if kind == "correlated noise":
        R = spd(m) + 0.01 * np.eye(m)
    if kind == "integrator":
        A, Q, X = np.eye(d) + np.diag(np.ones(d - 1), 1), np.diag([0.0] * (d - 1) + [0.5]), np.eye(1, d)
        R = np.array([[0.2]])
    model = LinearGaussian(A, Q, X, R, rng.standard_normal(d), cov)
    Y = [rng.standard_normal(model.steps.rows[t if len(model.steps.rows) > 1 else 0]) for t in range(T)]
    if kind != "ragged":
        Y = np.array(Y)
    if kind == "missing":
        Y[rng.random(Y.shape) < 0.4] = np.nan
        Y[3] = np.nan
    return model, Y


@pytest.fixture
def joint():
    return Joint


@pytest.fixture
def make():
    return build


def pytest_generate_tests(metafunc):
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", KINDS)
