"""Kernel RLS and kernel LMS against dense solutions of their problems, and on nearly dependent samples."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

import remanence as rm
from remanence.memory.kernel.return_to_prior import returned
from remanence.parallel.blas_threads import one_thread

rng = np.random.default_rng(0)
X, Y = rng.uniform(-3, 3, (60, 2)), rng.standard_normal((60, 2))


def learned(method, X=X, Y=Y):
    return method.update(method.init(X.shape[1], Y.shape[1]), X, Y)


def dense(A, B, width=1.5):
    return np.exp(-((A[:, None] - B[None]) ** 2).sum(-1) / (2 * width**2))


def test_it_is_the_gaussian_process_over_all_samples():
    method = rm.KernelRLS(width=1.5, tolerance=0.0, ridge=0.05)
    oracle = GaussianProcessRegressor(RBF(1.5), alpha=0.05, optimizer=None).fit(X, Y)
    at = rng.uniform(-4, 4, (30, 2))
    mean, std = oracle.predict(at, return_std=True)
    state = learned(method)
    np.testing.assert_allclose(method.predict(state, at), mean, atol=1e-8)
    np.testing.assert_allclose(method.variance(state, at)[:, 0], std[:, 0] ** 2 + 0.05, atol=1e-8)
    kernels = dense(at, method.points(state))
    np.testing.assert_allclose(kernels @ method.weights(state), mean, atol=1e-8)


def test_a_dictionary_of_few_samples_solves_the_published_problem():
    """Old samples stand by their nearest combination of the dictionary at their time (Engel et al., eq. 3.8)."""
    method = rm.KernelRLS(width=1.5, tolerance=0.05, ridge=1e-3)
    taken, rows = [], []
    for x in X:
        k = dense(x[None], X[taken])[0]
        a = np.linalg.solve(dense(X[taken], X[taken]), k)
        if 1 - k @ a > 0.05:
            taken.append(len(rows))
            a = np.eye(len(taken))[-1]
        rows.append(a)
    A = np.array([np.pad(a, (0, len(taken) - len(a))) for a in rows])
    K = dense(X[taken], X[taken])
    alpha = np.linalg.solve(K @ A.T @ A @ K + 1e-3 * K, K @ A.T @ Y)
    state = learned(method)
    np.testing.assert_array_equal(method.points(state), X[taken])
    np.testing.assert_allclose(method.weights(state), alpha, rtol=1e-6, atol=1e-8)
    assert 5 < len(taken) < 40


def test_a_budget_keeps_the_marginal_of_the_process():
    """Dropping a sample must leave the mean and variance of the function at the others as they were."""
    free = rm.KernelRLS(width=1.5, tolerance=0.0, ridge=0.1)
    tight = rm.KernelRLS(width=1.5, tolerance=0.0, ridge=0.1, budget=11)
    full, cut = learned(free, X[:12], Y[:12]), learned(tight, X[:12], Y[:12])
    kept = tight.points(cut)
    assert len(kept) == 11
    np.testing.assert_allclose(tight.predict(cut, kept), free.predict(full, kept), atol=1e-8)
    np.testing.assert_allclose(tight.variance(cut, kept), free.variance(full, kept), atol=1e-8)


class DenseTracker:
    """The tracker of Van Vaerenbergh et al. in moments: mean and covariance of the function at the dictionary."""

    def __init__(self, method):
        self.method, self.points, self.mean, self.cov = method, np.zeros((0, 2)), np.zeros((0, 2)), np.zeros((0, 0))

    def kernels(self, A):
        return dense(A, self.points, self.method.width)

    def predict(self, at):
        return self.kernels(at) @ np.linalg.solve(self.kernels(self.points), self.mean)

    def learn(self, x, y):
        """The error before, then: x joins if it is new, the prior comes nearer, y is learned, a sample is dropped."""
        error, q, left = y - 0.0, np.zeros(0), 1.0
        if len(self.points):
            q = np.linalg.solve(self.kernels(self.points), self.kernels(x[None])[0])
            error, left = y - q @ self.mean, 1 - q @ self.kernels(x[None])[0]
        if left > self.method.tolerance:
            across = self.cov @ q
            self.cov = np.block([[self.cov, across[:, None]], [across[None], np.array([[q @ across + left]])]])
            self.points, self.mean = np.vstack([self.points, x]), np.vstack([self.mean, q @ self.mean])
            q = np.eye(len(self.points))[-1]
        beta = self.method.forget
        self.cov = beta * self.cov + (1 - beta) * self.kernels(self.points)
        self.mean = np.sqrt(beta) * self.mean
        gain = self.cov @ q / (q @ self.cov @ q + self.method.ridge)
        self.mean = self.mean + np.outer(gain, y - q @ self.mean)
        self.cov = self.cov - np.outer(gain, q @ self.cov)
        if len(self.points) > self.method.budget:
            inverse = np.linalg.inv(self.kernels(self.points))
            least = np.argmin(np.square(inverse @ self.mean).sum(axis=1) / np.diag(inverse))
            kept = np.delete(np.arange(len(self.points)), least)
            self.points, self.mean, self.cov = self.points[kept], self.mean[kept], self.cov[np.ix_(kept, kept)]
        return error


@pytest.mark.parametrize(("budget", "forget"), [(1, 0.9), (8, 1.0), (8, 0.97), (8, 0.5), (100, 0.97)])
def test_the_tracker_that_prunes_is_the_one_in_means_and_covariances(budget, forget):
    method = rm.KernelRLS(width=1.0, tolerance=1e-3, budget=budget, forget=forget, ridge=0.1)
    slow, at = DenseTracker(method), rng.uniform(-4, 4, (30, 2))
    state, errors = method.track(method.init(2, 2), X, Y)
    np.testing.assert_allclose(errors, [slow.learn(x, y) for x, y in zip(X, Y, strict=True)], atol=1e-8)
    np.testing.assert_array_equal(method.points(state), slow.points)
    np.testing.assert_allclose(method.predict(state, at), slow.predict(at), atol=1e-8)
    q = np.linalg.solve(slow.kernels(slow.points), slow.kernels(at).T)
    variances = 1.1 + np.einsum("ij,ik,kj->j", q, slow.cov - slow.kernels(slow.points), q)
    np.testing.assert_allclose(method.variance(state, at)[:, 0], variances, atol=1e-8)


def test_the_small_solutions_of_the_tracker_are_not_shared_between_threads(monkeypatch):
    """Each of them would wait for a second thread, on a busy machine ten times as long as it takes."""
    inside = []

    def recorded(*args):
        inside.append(one_thread.inside)
        return returned(*args)

    monkeypatch.setattr("remanence.methods.kernel.kernel_rls.returned", recorded)
    learned(rm.KernelRLS(budget=4), X[:9], Y[:9])
    assert len(inside) == 9 and all(inside) and not one_thread.inside


def test_the_tracker_follows_a_change_that_least_squares_averages():
    t = np.arange(600)
    inputs = rng.uniform(-2, 2, (600, 1))
    targets = np.where(t < 300, 1.0, -1.0)[:, None] * np.sin(inputs)
    errors = {
        forget: rm.KernelRLS(forget=forget, ridge=0.01, tolerance=1e-3, budget=20).track(
            rm.KernelRLS().init(1, 1), inputs, targets
        )[1]
        for forget in (1.0, 0.95)
    }
    late = {forget: np.abs(e[450:]).mean() for forget, e in errors.items()}
    assert late[0.95] < 0.05 < 0.3 < late[1.0]


@pytest.mark.parametrize("tolerance", 10.0 ** -np.arange(1, 11))
def test_nearly_dependent_samples_do_not_break_it(tolerance):
    t = np.linspace(0, 40, 1500)
    signal = np.sin(t) + 0.5 * np.sin(np.sqrt(2) * t)
    rows = np.lib.stride_tricks.sliding_window_view(signal[:-1], 4)
    method = rm.KernelRLS(width=4.0, tolerance=tolerance)
    state = learned(method, rows[:1000], signal[4:1004, None])
    error = np.abs(method.predict(state, rows[1000:])[:, 0] - signal[1004:]).max()
    assert error < max(30 * np.sqrt(tolerance), 1e-3) and np.isfinite(method.weights(state)).all()


def test_a_long_block_is_learned_in_the_memory_and_time_of_short_ones():
    rows = rng.uniform(-3, 3, (40_000, 2))
    targets, method = np.sin(rows[:, :1]), rm.KernelRLS(tolerance=1e-3)
    tracemalloc.start()
    state = learned(method, rows, targets)
    errors = method.track(method.init(2, 1), rows, targets)[1]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * rows.itemsize * len(rows) * len(method.points(state))  # of all kernels at once
    parts = method.init(2, 1)
    for i in range(0, len(rows), 1000):
        parts, found = method.track(parts, rows[i : i + 1000], targets[i : i + 1000])
        np.testing.assert_allclose(found, errors[i : i + 1000], atol=1e-9)
    np.testing.assert_allclose(method.predict(parts, rows[:99]), method.predict(state, rows[:99]), atol=1e-9)


def test_kernel_lms_quantises():
    rows = np.repeat(np.array([[0.0], [5.0]]), 10, axis=0) + 1e-3 * rng.standard_normal((20, 1))
    method = rm.KernelLMS(step=1.0)
    state = learned(method, rows, np.sign(rows - 2.5))
    assert len(method.points(state)) == 2
    np.testing.assert_allclose(method.predict(state, rows), np.sign(rows - 2.5), atol=1e-2)


def test_states_whose_answers_overflow_say_so():
    method = rm.KernelRLS()
    state = learned(method)
    factor = 1e-200 * state.dictionary.factor
    damaged = replace(
        state, dictionary=replace(state.dictionary, factor=factor), data=replace(state.data, factor=factor)
    )
    with pytest.raises(rm.NumericalError):
        method.variance(damaged, X)
    steps = rm.KernelLMS()
    state = learned(steps)
    with pytest.raises(rm.NumericalError):
        steps.predict(replace(state, W=np.full_like(state.W, 1.7e308)), X)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rm.KernelRLS("poly"), "kernel"),
        (lambda: rm.KernelRLS(width=0), "width"),
        (lambda: rm.KernelRLS(tolerance=-1), "tolerance"),
        (lambda: rm.KernelRLS(budget=0), "budget"),
        (lambda: rm.KernelRLS(forget=1.1), "forget"),
        (lambda: rm.KernelRLS(ridge=0), "ridge"),
        (lambda: rm.KernelLMS(step=2.0), "step"),
        (lambda: rm.KernelLMS(tolerance=3), "tolerance"),
        (lambda: rm.ContinualRegressor(rm.KernelRLS()).fit(X, Y), "linear"),
    ],
)
def test_bad_settings_are_refused(make, words):
    with pytest.raises(rm.InputError, match=words):
        make()
