"""PETRELS and GROUSE: what defines them solved directly, convergence with gaps, and a subspace that turns."""

import pickle

import numpy as np
import pytest
from scipy.linalg import expm
from sklearn.utils.estimator_checks import parametrize_with_checks

import remanence as rm

rng = np.random.default_rng(0)


def in_a_subspace(n=600, d=20, rank=3, missing=0.5, seed=0):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((d, rank)))[0]
    X = rng.standard_normal((n, rank)) @ basis.T
    return basis, X, np.where(rng.random(X.shape) < missing, np.nan, X)


def distance(tracker, basis):
    """Sine of the largest angle between the subspaces."""
    V = tracker.components_.T
    return np.linalg.norm(basis - V @ (V.T @ basis), 2)


@parametrize_with_checks([rm.PETRELS(rank=2), rm.GROUSE(rank=2)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def by_definition(X, rank, forget, ridge, seed):
    """(T1) and (T2) of petrels.py: every row of the basis by one weighted least-squares problem, solved anew."""
    first = np.linalg.qr(np.random.default_rng(seed).standard_normal((X.shape[1], rank)))[0]
    D, A = first.copy(), np.zeros((0, rank))
    for t, x in enumerate(X, 1):
        there = ~np.isnan(x)
        A = np.vstack([A, np.linalg.pinv(D[there], 1e-9) @ x[there]])
        weights = forget ** np.arange(t - 1, -1, -1.0)
        for j in range(len(D)):
            met = ~np.isnan(X[:t, j])
            scale = np.sqrt(weights[met])[:, None]
            prior = np.sqrt(ridge * forget**t)
            rows = np.vstack([scale * A[met], prior * np.eye(rank)])
            D[j] = np.linalg.lstsq(rows, np.append(scale[:, 0] * X[:t, j][met], prior * first[j]), rcond=None)[0]
    return D, np.sqrt(forget ** np.arange(len(X) - 1, -1, -1.0))[:, None] * A


@pytest.mark.parametrize(("missing", "forget"), [(0.0, 0.95), (0.4, 0.95), (0.4, 1.0)])
def test_petrels_solves_its_least_squares_problems(missing, forget):
    _, _, X = in_a_subspace(40, 8, 2, missing)
    X = X + 0.1 * rng.standard_normal(X.shape)
    tracker = rm.PETRELS(2, forget, 0.1, seed=3)
    for part in np.split(X, [1, 7, 20]):
        tracker.partial_fit(part)
    D, A = by_definition(X, 2, forget, 0.1, 3)
    np.testing.assert_allclose(tracker.loadings_, D, rtol=1e-9, atol=1e-10)
    assert len(tracker.roots_) == (1 if missing == 0 else 9)  # one for all columns, or one each and that of all rows
    fitted = np.vstack([A, np.sqrt(0.1 * forget**40) * np.eye(2)]) @ D.T
    np.testing.assert_allclose(tracker.singular_values_, np.linalg.svd(fitted, compute_uv=False)[:2], rtol=1e-9)
    assert tracker.n_seen_ == pytest.approx((forget ** np.arange(40)).sum())


def test_grouse_moves_along_the_geodesic_of_its_gradient():
    """The geodesic on the Grassmannian is the exponential of a skew matrix made of the tangent."""
    _, _, X = in_a_subspace(30, 9, 3, 0.3)
    X = X + 0.2 * rng.standard_normal(X.shape)
    tracker = rm.GROUSE(3, step=0.7, seed=1).partial_fit(X[:1])
    for x in X[1:]:
        U, there = tracker.components_.T, ~np.isnan(x)
        w = np.linalg.pinv(U[there]) @ x[there]
        r = np.where(there, np.nan_to_num(x) - U @ w, 0.0)
        H = np.outer(r, w)  # the negative gradient of ‖r‖²/2
        time = 0.7 * np.arctan(np.linalg.norm(r) / np.linalg.norm(w)) / np.linalg.norm(H)
        expected = expm(time * (H @ U.T - U @ H.T)) @ U
        tracker.partial_fit(x[None])
        np.testing.assert_allclose(tracker.components_.T, expected, atol=1e-12)


@pytest.mark.parametrize("tracker", [rm.PETRELS(3), rm.GROUSE(3)], ids=lambda t: type(t).__name__)
@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_a_fixed_subspace_is_found_to_rounding(tracker, missing):
    basis, X, gaps = in_a_subspace(1500, missing=missing)
    tracker.fit(gaps)
    assert distance(tracker, basis) < 1e-11
    np.testing.assert_allclose(tracker.inverse_transform(tracker.transform(gaps)), X, atol=1e-9)


@pytest.mark.parametrize("tracker", [rm.PETRELS(3, 0.9), rm.GROUSE(3)], ids=lambda t: type(t).__name__)
def test_a_subspace_that_changes_is_followed(tracker):
    first, _, before = in_a_subspace(800)
    second, _, after = in_a_subspace(800, seed=1)
    assert distance(tracker.fit(before), first) < 1e-8 < 0.1 < distance(tracker, second)
    assert distance(tracker.partial_fit(after), second) < 1e-8


def test_petrels_averages_noise_where_grouse_follows_it():
    basis, X, _ = in_a_subspace(2000)
    noisy = np.where(rng.random(X.shape) < 0.5, np.nan, X + 0.01 * rng.standard_normal(X.shape))
    assert distance(rm.PETRELS(3, 0.99).fit(noisy), basis) < 0.5 * distance(rm.GROUSE(3).fit(noisy), basis)


@pytest.mark.parametrize("tracker", [rm.PETRELS(2), rm.GROUSE(2)], ids=lambda t: type(t).__name__)
def test_cutting_the_stream_elsewhere_changes_nothing(tracker, tmp_path):
    _, _, X = in_a_subspace(60, 8, 2)
    X[17] = np.nan  # a row that says nothing
    whole = pickle.loads(pickle.dumps(tracker)).fit(X)
    tracker.fit(X[:25])
    rm.save(tracker, tmp_path / "tracker.safetensors")
    again = rm.load(tmp_path / "tracker.safetensors").partial_fit(X[25:])
    for parts in (again, tracker.partial_fit(X[25:41]).partial_fit(X[41:])):
        np.testing.assert_allclose(parts.components_, whole.components_, atol=1e-10)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda X: rm.PETRELS(0).fit(X), "rank"),
        (lambda X: rm.PETRELS(forget=1.5).fit(X), "forget"),
        (lambda X: rm.PETRELS(ridge=0).fit(X), "ridge"),
        (lambda X: rm.PETRELS(seed=-1).fit(X), "seed"),
        (lambda X: rm.GROUSE(0).fit(X), "rank"),
        (lambda X: rm.GROUSE(step=2).fit(X), "step"),
        (lambda X: rm.GROUSE().fit(np.full((2, 2), np.inf)), "inf"),
        (lambda X: rm.GROUSE().fit(X).partial_fit(X[:, :2]), "2 features"),
        (lambda X: rm.PETRELS().fit(X).inverse_transform(X[:, :2]), "shape"),
        (lambda X: rm.GROUSE().fit(X).inverse_transform([["a"]]), "T to hold real numbers"),
        (lambda X: rm.GROUSE().fit(X).inverse_transform([[1.0], [1.0, 2.0]]), "T to hold real numbers"),
        (lambda X: rm.PETRELS().fit(X).inverse_transform(np.full((2, 5), np.nan)), "T contains NaN"),
        (lambda X: rm.GROUSE().fit(np.where(np.eye(10, 20), np.nan, 1e155 * X)), "rescale"),
        (lambda X: rm.PETRELS().fit(1e307 * X / np.abs(X).max()), "rescale"),
        (lambda X: rm.StreamingSVD().fit(X).partial_fit(1e307 * X / np.abs(X).max()), "rescale"),
    ],
)
def test_bad_input_is_refused(call, word):
    with pytest.raises(rm.InputError, match=word):
        call(in_a_subspace(10)[1])


def test_what_is_refused_changes_nothing():
    for tracker in (rm.PETRELS(), rm.GROUSE()):
        before = tracker.fit(in_a_subspace(10)[2]).components_.copy()
        with pytest.raises(rm.InputError):
            tracker.partial_fit(np.full((2, 20), np.inf))
        np.testing.assert_array_equal(tracker.components_, before)


def test_states_that_overflow_are_an_error_in_words():
    """Each number may be squared, and together they are too large: such states come from damaged files only."""
    X = in_a_subspace(10)[1]
    tracker, decomposed = rm.PETRELS(2).fit(X), rm.StreamingSVD(2).fit(X)
    tracker.loadings_, tracker.roots_ = tracker.loadings_ * 1e153, tracker.roots_ * 1e160
    with pytest.raises(rm.NumericalError, match="overflowed"):
        tracker.transform(X)
    decomposed.components_, decomposed.singular_values_ = decomposed.components_ * 1e300, np.full(2, 1e150)
    with pytest.raises(rm.NumericalError, match="overflowed"):
        decomposed.partial_fit(X)
