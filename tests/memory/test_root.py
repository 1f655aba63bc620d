"""Root: what least squares needs to know of weighted rows, against the rows themselves."""

import numpy as np
import pytest

from remanence.errors import InputError, NumericalError
from remanence.memory.root import Root, empty, prior, removed, take_outputs


def rows(seed, n=30, d=5, c=2):
    rng = np.random.default_rng([seed, n, d])
    return rng.standard_normal((n, d)), rng.standard_normal((n, c)), rng


def remembers(root, X, Y, weights=None, tolerance=1e-12):
    """RᵀR = Σ w xxᵀ, Rᵀz = Σ w xyᵀ, ρ = min Σ w ‖y − Wᵀx‖², and R is upper triangular."""
    w = np.ones(len(X)) if weights is None else np.asarray(weights)
    A, B = np.sqrt(w)[:, None] * X, np.sqrt(w)[:, None] * Y
    R, z = root.factor.astype(float), root.target.astype(float)
    assert not np.tril(R, -1).any()
    np.testing.assert_allclose(R.T @ R, A.T @ A, rtol=tolerance, atol=tolerance * np.linalg.norm(A.T @ A))
    np.testing.assert_allclose(R.T @ z, A.T @ B, rtol=tolerance, atol=tolerance * np.linalg.norm(A.T @ B))
    W = np.linalg.lstsq(A, B, rcond=None)[0]
    energy = np.sum(B**2, axis=0)
    np.testing.assert_allclose(
        root.rest, np.sum((B - A @ W) ** 2, axis=0), rtol=tolerance, atol=tolerance * energy.max()
    )


@pytest.mark.parametrize(("n", "d"), [(1, 5), (5, 5), (40, 5), (3, 40), (2500, 7), (300, 280), (12, 1)])
def test_folding_remembers_the_rows(n, d):
    X, Y, _ = rows(0, n, d)
    remembers(empty(d, 2).folded(X, Y), X, Y, tolerance=1e-11)
    halves = empty(d, 2).folded(X[: n // 2], Y[: n // 2]).folded(X[n // 2 :], Y[n // 2 :])
    remembers(halves, X, Y, tolerance=1e-11)


def test_folding_with_weights_and_decay_remembers_weighted_rows():
    X, Y, rng = rows(1)
    w = rng.uniform(0.1, 3, 10)
    root = empty(5, 2).folded(X[:20], Y[:20]).folded(X[20:], Y[20:], w, 0.3)
    remembers(root, X, Y, np.r_[np.full(20, 0.3), w])


def test_folding_leaves_the_old_root_alone_unless_it_is_donated():
    X, Y, _ = rows(2)
    old = empty(5, 2).folded(X, Y)
    copies = old.factor.copy(), old.target.copy(), old.rest.copy()
    new = old.folded(X, Y, decay=0.5)
    old.merged(new), old.with_prior(1.0, np.zeros((5, 2))), old.solve(), old.whitened(X), removed(old, X[:2], Y[:2])
    for kept, now in zip(copies, (old.factor, old.target, old.rest), strict=True):
        np.testing.assert_array_equal(kept, now)
    given = old.copy().folded(X, Y, decay=0.5, donate=True)
    np.testing.assert_array_equal(given.factor, new.factor)
    np.testing.assert_array_equal(given.target, new.target)


@pytest.mark.parametrize(("n", "m", "d"), [(20, 30, 5), (2, 3, 5), (0, 4, 5), (400, 300, 120)])
def test_merging_remembers_both(n, m, d):
    X, Y, _ = rows(3, n + m, d)
    a, b = empty(d, 2).folded(X[:n], Y[:n]), empty(d, 2).folded(X[n:], Y[n:])
    remembers(a.merged(b), X, Y, tolerance=1e-11)
    remembers(b.merged(a), X, Y, tolerance=1e-11)


def test_merging_in_square_root_form_keeps_condition_1e7():
    rng = np.random.default_rng(4)
    U, V = np.linalg.qr(rng.standard_normal((200, 10)))[0], np.linalg.qr(rng.standard_normal((10, 10)))[0]
    X = U * np.logspace(0, -7, 10) @ V.T
    truth = rng.standard_normal((10, 1))
    parts = [empty(10, 1).folded(X[i::8], X[i::8] @ truth) for i in range(8)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merged(part)
    assert np.linalg.norm(merged.solve() - truth) <= 1e-7 * np.linalg.norm(truth)  # (a sum of Gram matrices: 1e-2)


def test_a_prior_is_rows():
    X, Y, rng = rows(5)
    start = rng.standard_normal((5, 2))
    both = empty(5, 2).folded(X, Y).with_prior(0.7, start)
    s = np.sqrt(0.7)
    remembers(both, np.vstack([X, s * np.eye(5)]), np.vstack([Y, s * start]))
    np.testing.assert_allclose(prior(4.0, start).factor, 2 * np.eye(5))
    np.testing.assert_allclose(prior(4.0, start).solve(), start, rtol=1e-14)


def test_free_features_carry_no_prior_that_could_be_seen():
    X, Y, _ = rows(6)
    both = empty(5, 2).folded(X, Y).with_prior(3.0, np.zeros((5, 2)), unpenalized=2)
    penalty = np.diag([0.0, 0, 3, 3, 3])
    np.testing.assert_allclose(both.solve(), np.linalg.solve(X.T @ X + penalty, X.T @ Y), rtol=1e-11)


def test_solving_whitening_and_the_determinant():
    X, Y, rng = rows(7)
    root = empty(5, 2).folded(X, Y)
    gram = X.T @ X
    np.testing.assert_allclose(root.solve(), np.linalg.lstsq(X, Y, rcond=None)[0], rtol=1e-11)
    new = rng.standard_normal((3, 5))
    S = root.whitened(new)
    np.testing.assert_allclose(S.T @ S, new @ np.linalg.solve(gram, new.T), rtol=1e-11)
    np.testing.assert_allclose(root.unwhitened(S), np.linalg.solve(gram, new.T), rtol=1e-11)
    assert root.logdet() == pytest.approx(np.linalg.slogdet(gram)[1], rel=1e-12)
    assert root.size() == pytest.approx(np.linalg.norm(X), rel=1e-13)
    assert root.cond_lower_bound() <= np.linalg.cond(X) * (1 + 1e-12)
    assert empty(3, 1).cond_lower_bound() == np.inf
    assert empty(3, 1).logdet() == -np.inf


def test_the_determinant_is_summed_in_double_precision_whatever_the_root():
    X, Y, _ = rows(12, n=900, d=300)
    root = empty(300, 2, np.float32).folded(X.astype(np.float32), Y.astype(np.float32))
    exact = 2 * sum(np.log(np.abs(np.diag(root.factor).astype(np.longdouble))))
    assert root.logdet() == pytest.approx(float(exact), rel=1e-13)
    assert Root(np.diag([3.0, -2.0]), np.zeros((2, 1)), np.zeros(1)).logdet() == pytest.approx(2 * np.log(6), rel=1e-15)


def test_a_singular_root_says_so():
    with pytest.raises(NumericalError, match="ridge"):
        empty(3, 1).folded(np.eye(3)[:2], np.ones((2, 1))).solve()
    with pytest.raises(NumericalError):
        empty(3, 1).whitened(np.ones((1, 3)))


def test_outputs_can_be_taken_permuted_and_added():
    X, Y, _ = rows(8, c=3)
    root = empty(5, 3).folded(X, Y)
    sources = np.array([2, -1, 0, 2])
    wide = np.column_stack([Y[:, 2], np.zeros(len(Y)), Y[:, 0], Y[:, 2]])
    remembers(root.with_outputs(sources), X, wide)
    np.testing.assert_array_equal(take_outputs(np.arange(6.0).reshape(2, 3), sources), [[2, 0, 0, 2], [5, 0, 3, 5]])


@pytest.mark.parametrize(
    ("n", "gone", "d"), [(40, 1, 5), (40, 20, 5), (40, 35, 5), (400, 200, 30), (3, 1, 8), (6, 3, 5)]
)
def test_removing_leaves_the_root_of_the_other_rows(n, gone, d):
    X, Y, _ = rows(9, n, d)
    root = empty(d, 2).folded(X, Y)
    remembers(removed(root, X[:gone], Y[:gone]), X[gone:], Y[gone:], tolerance=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_targets_are_neither_lost_nor_gained_where_columns_depend_on_others(seed):
    """‖z‖² + ρ is Σ‖y‖² of the rows that are left, and every row but the last can go."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(9), np.eye(4)[rng.integers(0, 4, 9)] - 0.25])  # the last four add up to nothing
    Y = rng.standard_normal((9, 2))
    root = empty(5, 2).folded(X, Y)
    for i in range(8):
        root = removed(root, X[i : i + 1], Y[i : i + 1])
        np.testing.assert_allclose(root.energies()[5:], np.sum(Y[i + 1 :] ** 2, axis=0), atol=1e-12)


def test_what_rounding_left_in_a_column_that_is_zero_is_no_sign_of_other_rows():
    X, Y, _ = rows(13)
    X[:, 3] = 0
    root, trace, more = empty(5, 2).folded(X, Y), X[:4].copy(), X[:4].copy()
    trace[:, 3], more[:, 3] = [1e-15, -2e-16, 1e-17, 0], 1e-12
    remembers(removed(root, trace, Y[:4]), X[4:], Y[4:], tolerance=1e-12)
    with pytest.raises(InputError, match="learned before"):
        removed(root, more, Y[:4])
    units = empty(5, 2).folded(1e-20 * X, Y)
    with pytest.raises(InputError, match="learned before"):
        removed(units, 1e-20 * X[:4] + [0, 0, 0, 1e-25, 0], Y[:4])


def test_removing_what_was_not_there_is_refused():
    X, Y, _ = rows(10)
    root = empty(5, 2).folded(X, Y)
    for A, B in ((5 * X[:3], Y[:3]), (X[:1], Y[:1] + 50), (np.vstack([X, X[:1]]), np.vstack([Y, Y[:1]]))):
        with pytest.raises(InputError, match="learned before"):
            removed(root, A, B)
    with pytest.raises(InputError):
        removed(empty(5, 2), X[:1], Y[:1])


def test_float32_stays_float32_and_is_right_to_its_precision():
    X, Y, _ = rows(11, n=200)
    root = empty(5, 2, np.float32).folded(X.astype(np.float32), Y.astype(np.float32))
    other = root.merged(root).with_prior(1.0, np.zeros((5, 2), np.float32))
    for r in (root, other):
        assert r.factor.dtype == r.target.dtype == np.float32 and r.rest.dtype == np.float64
    remembers(root, X, Y, tolerance=1e-5)
    assert other.solve().dtype == np.float32
    expected = np.linalg.solve(2 * X.T @ X + np.eye(5), 2 * X.T @ Y)
    np.testing.assert_allclose(other.solve(), expected, atol=1e-5)
    gone = removed(root, X[:50].astype(np.float32), Y[:50].astype(np.float32))
    assert gone.factor.dtype == np.float32
    remembers(gone, X[50:], Y[50:], tolerance=1e-3)


def test_traces_that_cannot_matter_become_zero():
    factor = np.asfortranarray(np.array([[1.0, 1e-200], [0.0, 1e-3]]))
    root = Root(factor, np.asfortranarray([[1e-190], [1.0]]), np.zeros(1)).flush_tiny()
    np.testing.assert_array_equal(root.factor, [[1.0, 0.0], [0.0, 1e-3]])
    np.testing.assert_array_equal(root.target, [[0.0], [1.0]])
