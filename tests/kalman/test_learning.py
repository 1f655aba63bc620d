"""EM: the likelihood never falls, every step is the maximum it claims to be, and what is learned holds on new data."""

import itertools

import numpy as np
import pytest

from remanence import InputError, kalman
from remanence.kalman.em import PARTS, learn

SHAPES = list(itertools.product(("full", "diagonal", "scalar"), repeat=3))
ids = lambda v: "-".join(v) if isinstance(v, tuple) else str(v)


def truth(seed=0, d=2, m=2):
    rng = np.random.default_rng(seed)
    A = 0.8 * np.linalg.qr(rng.standard_normal((d, d)))[0]
    Q, R = 0.3 * np.eye(d) + 0.1, 0.2 * np.eye(m) + 0.1
    return kalman.LinearGaussian(A, Q, rng.standard_normal((m, d)), R, np.ones(d), np.eye(d))


def start(model):
    d, m = model.features, len(model.R)
    return kalman.LinearGaussian(0.5 * np.eye(d), np.eye(d), model.X, np.eye(m), np.zeros(d), np.eye(d))


def series(model, N, T, seed=0, missing=0.0):
    Y = np.array([kalman.sample(model, T, seed=1000 * seed + k)[1] for k in range(N)])
    Y[np.random.default_rng(seed).random(Y.shape) < missing] = np.nan
    return Y


def learnable(model):
    """The parts of a model that may be learned."""
    steps = {n for n in "AQR" if isinstance(getattr(model, n), tuple) or getattr(model, n).ndim == 3}
    return tuple(n for n in PARTS if n not in steps and not (n == "A" and "Q" in steps))


def climbs(found, iterations):
    """Neither down nor, before the iterations are used up, stopped for fear of it."""
    assert (np.diff(found.logliks) >= 0).all()
    assert len(found.logliks) == iterations + 1


@pytest.mark.parametrize("seed", range(3))
def test_the_likelihood_never_falls_on_any_kind_of_model(make, kind, seed):
    model, Y = make(kind, seed)
    found = learn(model, Y, iterations=15, parts=learnable(model), tolerance=0)
    climbs(found, 15)
    assert kalman.filter(found.model, Y).loglik == pytest.approx(found.logliks[-1], rel=1e-12)
    assert found.logliks[0] == pytest.approx(kalman.filter(model, Y).loglik, rel=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=ids)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_likelihood_never_falls_in_any_shape(make, shape, missing):
    model, _ = make("correlated noise", 1)
    Y = series(model, 4, 12, missing=missing)
    kinds = dict(zip("AQR", shape, strict=True))
    found = learn(model, Y, iterations=10, shape=kinds, tolerance=0)
    climbs(found, 10)
    for name, form in kinds.items():
        M = getattr(found.model, name)
        if form != "full":
            np.testing.assert_array_equal(M, np.diag(np.diag(M)))
        if form == "scalar":
            np.testing.assert_array_equal(M, M[0, 0] * np.eye(len(M)))


def moments(joint, model, y):
    """Mean and covariance of all θ and all y of one series given its entries, from the joint Gaussian."""
    T, d = len(y), model.features
    oracle = joint(model, T)
    C = oracle.cov.reshape(T * d, -1)
    H = np.vstack([np.eye(T * d), oracle.H])
    cov = H @ C @ H.T
    cov[T * d :, T * d :] += oracle.R
    mean, flat = H @ oracle.mean.ravel(), y.ravel()
    o = T * d + np.flatnonzero(~np.isnan(flat))
    K = np.linalg.solve(cov[np.ix_(o, o)], cov[o]).T
    return mean + K @ (flat[o - T * d] - mean[o]), cov - K @ cov[o]


def expected_loglik(model, posterior, Y):
    """E log p(θ, y) under posterior moments; of each answer of which something is there."""
    d, m = model.features, len(model.R)
    T, total = Y.shape[1], 0.0

    def part(mean, cov, F, shift, S):
        e = F @ mean - shift
        M = np.outer(e, e) + F @ cov @ F.T
        return -0.5 * (np.linalg.slogdet(2 * np.pi * S)[1] + np.trace(np.linalg.solve(S, M)))

    for (mean, cov), y in zip(posterior, Y, strict=True):
        pick = lambda k, n, mean=mean: np.eye(len(mean))[k : k + n]
        total += part(mean, cov, pick(0, d), model.mean, model.cov)
        for t in range(T):
            if t:
                total += part(mean, cov, pick(t * d, d) - model.A @ pick((t - 1) * d, d), 0, model.Q)
            if not np.isnan(y[t]).all():
                total += part(mean, cov, pick(T * d + t * m, m) - model.X @ pick(t * d, d), 0, model.R)
    return total


def directions(name, kind, size, rng):
    """Changes of a part that keep its shape."""
    if kind == "scalar":
        return [np.eye(size)]
    if kind == "diagonal":
        return [np.diag(row) for row in np.eye(size)]
    if name == "mean":
        return list(np.eye(size))
    B = [rng.standard_normal((size, size)) for _ in range(4)]
    return B if name == "A" else [b + b.T for b in B]


@pytest.mark.parametrize(
    "shape",
    [("full",) * 3, ("diagonal", "full", "full"), ("scalar", "full", "full"), ("scalar", "diagonal", "full")],
    ids=ids,
)
def test_every_step_maximises_the_expected_likelihood_of_models_and_answers(joint, shape):
    model = truth(3, d=3, m=2)
    Y = series(model, 2, 5, missing=0.3)
    Y[0, 2], Y[1, 3, 0] = np.nan, np.nan
    kinds = dict(zip("AQR", shape, strict=True))
    before = learn(model, Y, 1, parts=("A", "Q", "mean"), shape={k: kinds[k] for k in "AQ"}).model  # nothing special
    posterior = [moments(joint, before, y) for y in Y]
    after = learn(before, Y, 1, shape=kinds).model
    rng = np.random.default_rng(0)
    parts = {n: getattr(after, n) for n in (*PARTS, "X")}
    value = expected_loglik(after, posterior, Y)
    for name in PARTS:
        at = dict(parts)
        if name == "A":  # it is maximised first, with the old Q
            at["Q"] = before.Q
        for step in directions(name, kinds.get(name, "full"), len(parts[name]), rng):
            h = 1e-5 * step
            up, down = (
                expected_loglik(kalman.LinearGaussian(**{**at, name: parts[name] + s * h}), posterior, Y)
                for s in (1, -1)
            )
            assert abs(up - down) / 2e-5 < 1e-5 * abs(value), name
            assert up + down < 2 * expected_loglik(kalman.LinearGaussian(**at), posterior, Y), name


@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[13], SHAPES[26], ("diagonal", "full", "full")], ids=ids)
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_where_it_ends_the_likelihood_is_stationary(shape, missing):
    model = truth(1, d=2, m=4)  # (enough answers for EM to get there soon)
    kinds = dict(zip("AQR", shape, strict=True))
    Y = series(model, 12, 20)
    Y[:, np.random.default_rng(0).random(Y.shape[1:]) < missing] = np.nan
    found = learn(start(model), Y, iterations=1500, shape=kinds, tolerance=1e-13)
    rng = np.random.default_rng(0)
    parts = {n: getattr(found.model, n) for n in (*PARTS, "X")}
    total = lambda **changed: float(np.sum(kalman.filter(kalman.LinearGaussian(**{**parts, **changed}), Y).loglik))
    assert all(np.linalg.eigvalsh(parts[name])[0] > 1e-2 for name in ("Q", "R", "cov"))  # not at the edge
    for name in PARTS:
        for step in directions(name, kinds.get(name, "full"), len(parts[name]), rng):
            h = 1e-5 * step
            slope = (total(**{name: parts[name] + h}) - total(**{name: parts[name] - h})) / 2e-5
            assert abs(slope) < 1e-5 * abs(found.logliks[-1]), (name, slope)


@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_on_data_of_a_known_model_it_foretells_new_data_as_well_as_the_truth(missing):
    model = truth(2)
    found = learn(start(model), series(model, 15, 60, seed=1, missing=missing), iterations=60)
    new = series(model, 20, 60, seed=2)
    known, learned, naive = (np.sum(kalman.filter(g, new).loglik) for g in (model, found.model, start(model)))
    assert abs(learned - known) < 0.01 * abs(known)
    assert naive < known - 0.1 * abs(known)  # the test could have failed


def test_an_answer_that_is_wholly_missing_says_nothing_of_the_noise():
    """Series filled up with steps without answers teach the same R as the bare ones."""
    model = truth(4)
    Y = series(model, 3, 10)
    padded = np.concatenate([Y, np.full((3, 6, 2), np.nan)], axis=1)
    for kind in ("full", "diagonal", "scalar"):
        a, b = (learn(model, v, 5, parts=("R", "mean", "cov"), shape={"R": kind}, tolerance=0) for v in (Y, padded))
        np.testing.assert_allclose(a.model.R, b.model.R, atol=1e-10)
        np.testing.assert_allclose(a.logliks, b.logliks, rtol=1e-10)


def test_series_that_miss_different_entries_are_learned_as_each_by_itself_would_add_up():
    model = truth(5)
    Y = series(model, 3, 8, missing=0.3)
    together = learn(model, Y, 1, tolerance=0)
    assert together.logliks[0] == pytest.approx(sum(kalman.filter(model, y).loglik for y in Y), rel=1e-12)
    alone = [learn(model, y[None], 1, parts=("mean",)).model.mean for y in Y]
    np.testing.assert_allclose(learn(model, Y, 1, parts=("mean",)).model.mean, np.mean(alone, axis=0), atol=1e-12)
    np.testing.assert_array_equal(learn(model, Y[0], 3).model.A, learn(model, Y[:1], 3).model.A)


def test_what_is_not_asked_for_stays_and_steps_of_their_own_may_stand_beside_it(make):
    model, Y = make("varying", 0)
    for parts in (("mean",), ("cov",), ("mean", "cov")):
        found = learn(model, Y, 3, parts=parts).model
        for name in {*PARTS, "X"} - set(parts):
            np.testing.assert_array_equal(getattr(found, name), getattr(model, name))
    rng = np.random.default_rng(0)
    A, X = rng.standard_normal((9, 3, 3)) / 2, rng.standard_normal((9, 2, 3))
    moving = kalman.LinearGaussian(A, np.eye(3), X, np.eye(2), np.zeros(3), np.eye(3))
    climbs(learn(moving, rng.standard_normal((4, 9, 2)), 20, parts=("Q", "R"), tolerance=0), 20)
    exact = learn(moving, rng.standard_normal((9, 2)), 3, parts="R")
    np.testing.assert_array_equal(exact.model.Q, moving.Q)


def test_where_a_step_a_time_moves_q_equals_the_constant_formula():
    model = truth(6)
    Y = series(model, 2, 7)
    one_a_step = kalman.LinearGaussian(np.array([model.A] * 7), model.Q, model.X, model.R, model.mean, model.cov)
    a, b = (learn(g, Y, 4, parts=("Q",), tolerance=0) for g in (model, one_a_step))
    np.testing.assert_allclose(a.model.Q, b.model.Q, atol=1e-11)


def test_a_drift_of_zero_stays_zero_and_stops():
    model = kalman.LinearGaussian(np.eye(2), np.zeros((2, 2)), np.eye(2), np.eye(2), np.zeros(2), np.eye(2))
    found = learn(model, np.random.default_rng(0).standard_normal((10, 2)), 50, parts=("Q",))
    assert np.abs(found.model.Q).max() < 1e-14 and len(found.logliks) <= 3


def test_noise_that_vanishes_ends_in_a_model_and_not_in_a_crash():
    """Answers that a model foretells exactly: the likelihood has no maximum, and the best so far is returned."""
    A = np.array([[0.9, 0.2], [-0.2, 0.9]])
    model = kalman.LinearGaussian(A, np.eye(2), np.eye(2), np.eye(2), np.zeros(2), np.eye(2))
    theta = [np.ones(2)]
    for _ in range(30):
        theta.append(A @ theta[-1])
    found = learn(model, np.array(theta), 3000)
    assert (np.diff(found.logliks) >= 0).all() and np.isfinite(found.logliks).all()
    np.testing.assert_allclose(found.model.A, A, atol=1e-3)


def test_it_stops_when_little_is_gained():
    model = truth(7)
    Y = series(model, 3, 20)
    coarse, fine = (learn(start(model), Y, 500, tolerance=tolerance) for tolerance in (1e-2, 1e-4))
    assert len(coarse.logliks) < len(fine.logliks) < 501
    gains = np.diff(fine.logliks) / np.abs(fine.logliks[1:])
    assert gains[-1] <= 1e-4 and (gains[:-1] > 1e-4).all()


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"parts": ("B",)}, "parts"),
        ({"parts": ()}, "parts"),
        ({"parts": None}, "parts"),
        ({"parts": ("X",)}, "parts"),
        ({"shape": {"A": "round"}}, "shape"),
        ({"shape": {"cov": "diagonal"}}, "shape"),
        ({"shape": {"Q": "diagonal"}, "parts": ("A",)}, "learned"),
        ({"shape": "diagonal"}, "shape"),
        ({"iterations": 0}, "iterations"),
        ({"tolerance": -1}, "tolerance"),
    ],
    ids=str,
)
def test_bad_settings_are_refused(settings, words):
    model = truth()
    with pytest.raises(InputError, match=words):
        learn(model, np.zeros((5, 2)), **settings)


def test_what_cannot_be_learned_is_refused(make):
    model, Y = make("varying", 0)
    for name in "AQR":
        with pytest.raises(InputError, match=f"constant {name}"):
            learn(model, Y, parts=(name, "mean"))
    drifting = kalman.LinearGaussian(np.eye(4), model.Q, model.X, model.R, model.mean, model.cov)
    with pytest.raises(InputError, match="constant Q"):
        learn(drifting, Y, parts=("A",))
    with pytest.raises(InputError, match="two steps"):
        learn(truth(), np.zeros((3, 1, 2)))
    with pytest.raises(InputError, match="LinearGaussian"):
        learn("model", Y)
    with pytest.raises(InputError, match="entries per step"):
        learn(truth(), np.zeros((5, 3)))
