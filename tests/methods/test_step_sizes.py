"""Steps that end LMS exactly, checked by a plain LMS loop; Theorems 2 and 3; and what is refused."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from remanence.errors import InputError, NumericalError
from remanence.methods.step_sizes import Alternating, alternating, check_step, resolve, terminating

EPS = np.finfo(float).eps


def lms(X, y, theta, steps):
    """The oracle: normalised LMS on the rows of X in turn; every iterate, the start first."""
    path = [theta]
    for t, step in enumerate(steps):
        x = X[t % len(X)]
        theta = theta + step * (y[t % len(X)] - x @ theta) * x / (x @ x)
        path.append(theta)
    return np.array(path)


def nearest(X, y, start):
    return start + np.linalg.pinv(X) @ (y - X @ start)


def sensitivity(X, steps):
    """What an error of size 1 made at any step may become at the end, steps and rounding of steps included."""
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    before, after = [np.eye(X.shape[1])], [np.eye(X.shape[1])]
    for t, step in enumerate(steps):
        before.append(before[-1] - step * np.outer(units[t % len(X)], units[t % len(X)] @ before[-1]))
    for t, step in reversed(list(enumerate(steps))):
        after.append(after[-1] - step * np.outer(after[-1] @ units[t % len(X)], units[t % len(X)]))
    sizes = zip(after[-2::-1], steps, before[:-1], strict=True)
    return max(np.linalg.norm(A, 2) * (1 + abs(step)) * np.linalg.norm(B, 2) for A, step, B in sizes)


def residue(X, steps):
    """The norm of the product of all maps on the span of X, by products of d × d matrices."""
    M = np.linalg.qr(X.T)[0]
    for t, step in enumerate(steps):
        x = X[t % len(X)] / np.linalg.norm(X[t % len(X)])
        M = M - step * np.outer(x, x @ M)
    return np.linalg.norm(M, 2)


# ---------------------------------------------------------------- exact termination


@pytest.mark.parametrize("p", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("extra", [0, 6])
@pytest.mark.parametrize("seed", range(8))
def test_lms_is_at_the_solution_nearest_its_start_after_p_times_p_plus_1_over_2_steps(p, extra, seed):
    rng = np.random.default_rng([p, extra, seed])
    X = rng.standard_normal((p, p + extra)) * rng.uniform(0.1, 10, (p, 1))  # any norms
    y, start = rng.standard_normal(p), rng.standard_normal(p + extra)  # the start lies off the span
    steps = terminating(X)
    assert isinstance(steps, tuple) and len(steps) == p * (p + 1) // 2
    assert all(type(step) is float for step in steps)
    goal = nearest(X, y, start)
    error = np.linalg.norm(lms(X, y, start, steps)[-1] - goal)
    scale = np.linalg.norm(goal) + np.linalg.norm(goal - start)
    assert error <= 50 * EPS * (sensitivity(X, steps) + np.linalg.cond(X)) * scale


@pytest.mark.parametrize("p", [2, 3, 4, 5])
@pytest.mark.parametrize("gap", [0.3, 0.03])
@pytest.mark.parametrize("seed", range(4))
def test_nearly_dependent_tasks_end_too(p, gap, seed):
    rng = np.random.default_rng([p, seed])
    X = rng.standard_normal(9) + gap * rng.standard_normal((p, 9))
    y, steps = X @ rng.standard_normal(9), terminating(X)
    goal = nearest(X, y, np.zeros(9))
    path = lms(X, y, np.zeros(9), steps)
    allowed = 50 * EPS * (sensitivity(X, steps) + np.linalg.cond(X)) * np.linalg.norm(goal)
    assert np.linalg.norm(path[-1] - goal) <= allowed
    assert np.linalg.norm(path[-1] - goal) <= 1e-6 * np.linalg.norm(goal)
    assert np.linalg.norm(lms(X, y, np.zeros(9), np.ones(len(steps)))[-1] - goal) > 1e-3 * np.linalg.norm(goal)


@pytest.mark.parametrize("p", [2, 3, 4, 5])
def test_a_hundred_random_sets_of_tasks_all_end(p):
    for seed in range(100):
        X = np.random.default_rng(seed).standard_normal((p, 8))
        assert residue(X, terminating(X)) <= 1e-11


@pytest.mark.parametrize("p", [2, 3, 4, 5])
def test_unit_steps_sit_at_the_triangular_numbers_or_their_mirror_image(p):
    N, triangular = p * (p + 1) // 2, {j * (j + 1) // 2 for j in range(1, p + 1)}
    for seed in range(20):
        steps = terminating(np.random.default_rng(seed).standard_normal((p, 7)))
        units = {t for t, step in enumerate(steps, 1) if step == 1}
        assert units in (triangular, {N + 1 - t for t in triangular})


@pytest.mark.parametrize("p", [2, 3, 4])
def test_fewer_steps_do_not_end(p):
    """Neither by cutting the last step off, nor by any other N - 1 steps a least-squares search comes upon."""
    from scipy.optimize import least_squares

    X = np.random.default_rng(p).standard_normal((p, p))
    Q = np.linalg.qr(X.T)[0]
    units = X @ Q / np.linalg.norm(X, axis=1, keepdims=True)
    N = p * (p + 1) // 2
    assert residue(X, terminating(X)[:-1]) > 1e-3

    def product(steps):
        M = np.eye(p)
        for t, step in enumerate(steps):
            M = M - step * np.outer(units[t % p], units[t % p] @ M)
        return M.ravel()

    rng = np.random.default_rng(0)
    best = dict.fromkeys((N - 1, N), np.inf)
    for n in best:
        for _ in range(12):
            start = 1 + 0.5 * rng.standard_normal(n)
            found = least_squares(product, start, max_nfev=80, xtol=1e-12, ftol=1e-12, gtol=1e-12)
            best[n] = min(best[n], np.linalg.norm(found.fun))
    assert best[N - 1] > 1e-3
    if p == 3:
        assert best[N] < 1e-6  # the search itself is able to find what exists


@pytest.mark.parametrize("p", [3, 4, 5])
def test_rounding_of_steps_is_all_that_is_left_and_other_steps_do_not_end(p):
    X = np.random.default_rng(p).standard_normal((p, 10))
    steps = np.array(terminating(X))
    for t in range(len(steps)):
        assert residue(X, steps + 1e-3 * np.eye(len(steps))[t]) > 1e-9
    assert residue(X, np.ones(len(steps))) > 1e-6


def test_only_directions_matter_and_the_answer_is_always_the_same():
    X = np.random.default_rng(0).standard_normal((4, 6))
    steps = terminating(X)
    assert steps == terminating(X.tolist())
    np.testing.assert_allclose(terminating(X * np.array([[1e-120], [-3.0], [1e120], [7.0]])), steps, rtol=1e-9)
    Q = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))[0]
    np.testing.assert_allclose(terminating(X @ Q), steps, rtol=1e-9)


@pytest.mark.parametrize("p", [2, 3, 4, 5])
def test_orthogonal_tasks_need_unit_steps_only(p):
    np.testing.assert_allclose(terminating(np.eye(p + 1)[:p]), np.ones(p * (p + 1) // 2))


def test_some_orthogonal_pairs_are_no_obstacle():
    X = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0.4, 0, 1, 0], [0.3, 0.5, 0.2, 1]])
    assert residue(X, terminating(X)) < 1e-13


def test_a_chain_of_tasks_has_no_such_steps_in_this_order_but_in_another():
    chain = np.linalg.cholesky([[1, 0.4, 0], [0.4, 1, 0.3], [0, 0.3, 1]])  # x₁ ⟂ x₃
    with pytest.raises(NumericalError, match=r"closest leave .*another order .*APA\(buffer=2\), which ends at t = 3"):
        terminating(chain)
    reordered = chain[[1, 0, 2]]
    assert residue(reordered, terminating(reordered)) < 1e-13


def test_tasks_too_close_for_float64_are_refused_with_numbers():
    rng = np.random.default_rng(0)
    with pytest.raises(NumericalError, match="condition number"):
        terminating(rng.standard_normal(6) + 1e-6 * rng.standard_normal((5, 6)))


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.eye(6), r"p ≤ 5 .*got \(6, 6\).*APA"),
        (np.ones((3, 2)), "p ≤ d"),
        (np.ones(3), r"got \(3,\)"),
        (np.ones((0, 3)), r"got \(0, 3\)"),
        ([[1.0, 2.0], [3.0]], "expected X of shape"),
        ([["a", "b"], ["c", "d"]], "real numbers"),
        ([[1.0, np.nan], [0.0, 1.0]], "NaN"),
        ([[1.0, np.inf], [0.0, 1.0]], "infinity"),
        ([[1.0, 2.0], [0.0, 0.0]], "row 1 = 0"),
        ([[1.0, 2.0], [2.0, 4.0]], "got rank 1"),
        ([[1.0, 2.0, 0.0], [0.1, 0.2, 0.3], [1.1, 2.2, 0.3]], "got rank 2"),
    ],
)
def test_terminating_refuses(X, words):
    with pytest.raises(InputError, match=words):
        terminating(X)


# ---------------------------------------------------------------- Theorems 2 and 3


def test_theorem_3_by_hand():
    """x₁ = (1, 0), x₂ = (3, 4)/5, θ* = (1, 2): c = 9/25, γ₂ = 25/16, and θ³ = θ*."""
    rule = alternating([1.0, 0.0], [3.0, 4.0])
    assert rule.c == pytest.approx(9 / 25, rel=1e-15)
    assert [rule(t) for t in (1, 2, 3, 4)] == pytest.approx([1, 25 / 16, 1, 25 / 16], rel=1e-15)
    path = lms(np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([1.0, 2.2]), np.zeros(2), [rule(t) for t in (1, 2, 3)])
    np.testing.assert_allclose(path, [[0, 0], [1, 0], [2.5, 2], [1, 2]], atol=1e-14)


@pytest.mark.parametrize("seed", range(10))
def test_theorem_3_on_random_tasks_of_any_norm(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((2, 5)) * [[3.0], [0.2]], rng.standard_normal(2)
    rule = alternating(*X)
    path = lms(X, y, np.zeros(5), resolve(rule, 0, 6))
    goal = nearest(X, y, np.zeros(5))
    allowed = 100 * EPS * np.linalg.cond(X) ** 2 * np.linalg.norm(goal)
    assert np.linalg.norm(path[3:] - goal, axis=1).max() <= allowed  # there at 3, and it stays
    assert np.linalg.norm(path[2] - goal) > 1e-3
    np.testing.assert_allclose(terminating(X), resolve(rule, 0, 3), rtol=1e-12)


def test_theorem_3_needs_steps_above_2():
    rule = alternating([1.0, 0.0], [1.0, 0.5])
    assert rule(2) == pytest.approx(5) and check_step([rule(1), rule(2), rule(3)]) == (1.0, rule(2), 1.0)


@pytest.mark.parametrize("seed", range(5))
def test_theorem_2_exactly_for_every_T(seed):
    """Step 1, two tasks: ‖θᵀ−θ*‖² = c^(T−1)(‖θ*‖²−y₁²), E_T = ⌊T/2⌋/T (1−c) times it; T odd or even."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((2, 6))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    goal = X.T @ rng.standard_normal(2)
    y, c = X @ goal, (X[0] @ X[1]) ** 2
    path = lms(X, y, np.zeros(6), resolve(1.0, 0, 12))
    for T in range(2, 13):
        left = c ** (T - 1) * (goal @ goal - y[0] ** 2)
        mean_error = np.mean([(y[t % 2] - X[t % 2] @ path[T]) ** 2 for t in range(T)])
        rounding = 20 * EPS * np.linalg.norm(goal)
        assert np.linalg.norm(path[T] - goal) == pytest.approx(np.sqrt(left), rel=1e-12, abs=rounding)
        assert np.sqrt(mean_error) == pytest.approx(np.sqrt(T // 2 / T * (1 - c) * left), rel=1e-12, abs=rounding)


def test_alternating_is_a_frozen_value():
    assert alternating([1, 0], [1, 1]) == alternating([2, 0], [3, 3]) and hash(Alternating(0.5)) == hash(
        Alternating(0.5)
    )
    with pytest.raises(FrozenInstanceError):
        Alternating(0.5).c = 0.1
    assert alternating([1, 0], [0, 1])(2) == 1
    assert alternating([1e-200, 0], [1e-200, 1e-200]).c == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("x1", "x2", "words"),
    [
        ([1.0, 2.0], [1.0], "one shape"),
        ([[1.0, 2.0]], [[1.0, 0.0]], "one shape"),
        (1.0, 2.0, "one shape"),
        ([], [], "one shape"),
        ([[1.0], [2.0, 3.0]], [1.0, 2.0], "real numbers"),
        ([0.0, 0.0], [1.0, 0.0], "not zero"),
        ([1.0, np.nan], [1.0, 0.0], "NaN"),
        (["a", "b"], [1.0, 0.0], "real numbers"),
        ([1.0, 2.0], [-2.0, -4.0], "parallel"),
        ([0.1, 0.7, 0.3], [0.1 / 3, 0.7 / 3, 0.1], "parallel"),
    ],
)
def test_alternating_refuses(x1, x2, words):
    with pytest.raises(InputError, match=words):
        alternating(x1, x2)


@pytest.mark.parametrize("c", [1.0, -0.1, np.nan, "0.5", None])
def test_alternating_refuses_a_c_that_is_no_squared_cosine(c):
    with pytest.raises(InputError, match="expected c"):
        Alternating(c)


# ---------------------------------------------------------------- settings


def test_check_step_keeps_what_can_be_compared():
    assert check_step(1) == 1.0 and type(check_step(np.float32(0.5))) is float
    for given in ([1, 2.5, -3], (1.0, 2.5, -3.0), np.array([1, 2.5, -3]), np.float32([1, 2.5, -3])):
        kept = check_step(given)
        assert kept == (1.0, 2.5, -3.0) and all(type(value) is float for value in kept)
    rule = alternating([1.0, 0.0], [1.0, 1.0])
    assert check_step(rule) is rule and check_step(np.sqrt) is np.sqrt
    assert check_step(17.0, normalized=False) == 17.0


@pytest.mark.parametrize("step", [0, 0.0, 2, 2.5, -1.0, np.nan, np.inf, True, np.complex128(1)])
def test_check_step_refuses_a_constant_that_makes_the_error_grow(step):
    with pytest.raises(InputError, match=r"below 2.*outside \(0, 2\).*one per sample"):
        check_step(step)


@pytest.mark.parametrize("step", [0, -1.0, np.nan, np.inf, True])
def test_check_step_refuses_without_normalising(step):
    with pytest.raises(InputError, match="above 0"):
        check_step(step, normalized=False)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ([], "empty"),
        (np.zeros(0), "empty"),
        ([[1.0, 2.0]], "flat sequence"),
        ([[1.0], [1.0, 2.0]], "flat sequence"),
        ([1.0, np.nan], "NaN"),
        ([1.0, -np.inf], "infinity"),
        ([1.0, None], "real numbers"),
        ([1.0, 1j], "real numbers"),
        (1j, "real numbers"),
        ([True, False], "real numbers"),
        ("fast", "real numbers"),
        (["1", "2"], "real numbers"),
        (None, "real numbers"),
        ({1: 2.0}, "real numbers"),
        ({1.0}, "real numbers"),
        (np.array(1.0), "flat sequence"),
    ],
)
@pytest.mark.parametrize("normalized", [True, False])
def test_check_step_refuses_what_is_no_step(step, words, normalized):
    with pytest.raises(InputError, match=words):
        check_step(step, normalized)


def test_resolve_gives_the_steps_of_the_samples_that_arrive():
    for step in ([1, 2, 3, 4, 5], (1.0, 2.0, 3.0, 4.0, 5.0), np.arange(1.0, 6), lambda t: t, range(1, 6)):
        for first, count in ((0, 5), (0, 2), (3, 2), (4, 1), (5, 0), (9, 0)):
            got = resolve(step, first, count)
            assert got.dtype == np.float64 and got.shape == (count,)
            np.testing.assert_array_equal(got, np.arange(first + 1, first + count + 1))
    np.testing.assert_array_equal(resolve(0.5, 7, 3), [0.5, 0.5, 0.5])


def test_resolve_does_not_hand_out_the_array_it_was_given():
    given = np.ones(3)
    resolve(given, 0, 3)[:] = 7
    assert given.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("step", "first", "count", "words"),
    [
        ((1.0,) * 5, 4, 2, "step has 5 entries but sample 6 arrived; give one"),
        ([1.0] * 5, 0, 9, "step has 5 entries but sample 6 arrived"),
        (np.ones(5), 7, 1, "step has 5 entries but sample 8 arrived"),
        ((1.0, np.nan), 0, 2, "NaN"),
        ((1.0, "2"), 0, 2, "real numbers"),
        ([[1.0], [2.0]], 0, 2, "flat sequence"),
        (np.ones((2, 2)), 0, 1, "flat sequence"),
        ("11", 0, 1, "real numbers"),
        (None, 0, 1, "real numbers"),
        (np.nan, 0, 1, "expected step"),
        (True, 0, 1, "expected step"),
        (lambda t: "1", 0, 1, r"step\(1\)"),
        (lambda t: None, 4, 1, r"step\(5\)"),
        (lambda t: True, 0, 1, r"step\(1\)"),
        (lambda t: 1j, 0, 1, r"step\(1\)"),
        (lambda t: np.inf if t == 3 else 1.0, 0, 5, r"step\(3\).*inf"),
        (lambda t: np.ones(1), 0, 1, r"step\(1\)"),
        (1.0, -1, 1, "expected first"),
        (1.0, 0, -1, "expected count"),
        (1.0, 0, 1.5, "expected count"),
    ],
)
def test_resolve_refuses(step, first, count, words):
    with pytest.raises(InputError, match=words):
        resolve(step, first, count)
