"""Kalman as a method: RLS where nothing drifts, the filter where it does, and a forgetting that finds itself."""

import copy
import pickle
import warnings
from itertools import pairwise

import numpy as np
import pytest

import remanence as rm
from remanence import kalman
from remanence.kalman.streaming import FORGETTING, Kalman
from remanence.memory.gaussian import Gaussian


def tasks(seed, sizes, d=4, c=2, drift=0.1, noise=0.5):
    """Tasks of given sizes whose model drifts."""
    rng = np.random.default_rng(seed)
    W, blocks = rng.standard_normal((d, c)), []
    for n in sizes:
        X = rng.standard_normal((n, d))
        blocks.append((X, X @ W + np.sqrt(noise) * rng.standard_normal((n, c))))
        W = W + np.sqrt(drift) * rng.standard_normal((d, c))
    return blocks


def learned(method, blocks, start=None):
    (X, Y) = blocks[0]
    state = method.init(X.shape[1], Y.shape[1], start)
    for X, Y in blocks:
        state = method.update(state, X, Y)
    return state


def as_model(method, blocks, start):
    """The same stream as a model of the filter, and its answers, one series an output."""
    d = len(start)
    Q = np.array(method.drift) * np.eye(d) if np.ndim(method.drift) < 2 else np.array(method.drift)
    X, R = [x for x, _ in blocks], [method.noise * np.eye(len(x)) for x, _ in blocks]
    for k in range(start.shape[1]):
        yield (
            kalman.LinearGaussian(np.eye(d), Q, X, R, start[:, k], np.eye(d) / method.ridge),
            [y[:, k] for _, y in blocks],
        )


DRIFTS = {
    "none": 0,
    "number": 0.3,
    "one a feature": [0.1, 0.0, 0.5, 0.2],
    "singular matrix": np.outer([1, 2, 0, 1], [1, 2, 0, 1]) / 5,
    "matrix": np.eye(4) + 0.2,
}
SIZES = (2, 1, 9, 4, 30, 3, 5)


# Equal to what it should be


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("noise, ridge", [(1.0, 1.0), (0.2, 3.0), (5.0, 1e-3)])
def test_without_drift_it_is_rls_in_any_blocks(seed, noise, ridge):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((60, 7)), rng.standard_normal((60, 3))
    start = rng.standard_normal((7, 3))
    rls = rm.RLS(ridge * noise)
    expected = rls.weights(rls.update(rls.init(7, 3, start), X, Y))
    for cuts in ([], [1], [7, 8, 30], list(range(1, 60))):
        blocks = [(X[a:b], Y[a:b]) for a, b in pairwise([0, *cuts, 60])]
        method = Kalman(0, noise, ridge)
        state = learned(method, blocks, start)
        np.testing.assert_allclose(method.weights(state), expected, atol=1e-9, rtol=0)
        assert state.tasks == len(blocks) and state.rows == 60
        if noise == 1:
            truth = rls.evidence(rls.update(rls.init(7, 3, start), X, Y))
            assert method.evidence(state) == pytest.approx(truth, rel=1e-10)


@pytest.mark.parametrize("drift", DRIFTS.values(), ids=DRIFTS)
@pytest.mark.parametrize("seed", range(2))
def test_a_sequence_of_tasks_is_the_filter_of_the_model(drift, seed):
    blocks = tasks(seed, SIZES)
    start = np.random.default_rng(seed).standard_normal((4, 2))
    method = Kalman(drift, noise=0.7, ridge=2.0)
    state, steps = method.init(4, 2, start), []
    for X, Y in blocks:
        state = method.update(state, X, Y)
        steps.append(state)
    total = 0.0
    for k, (model, answers) in enumerate(as_model(method, blocks, start)):
        f = kalman.filter(model, answers)
        total += f.loglik
        for t, step in enumerate(steps):
            np.testing.assert_allclose(method.weights(step)[:, k], f.mean[t], atol=1e-10, rtol=0)
            np.testing.assert_allclose(step.best.known.cov, f.cov[t], atol=1e-10, rtol=0)
    assert method.evidence(state) == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize("drift", DRIFTS.values(), ids=DRIFTS)
def test_more_rows_than_features_are_reduced_without_loss(drift):
    start = np.zeros((4, 2))
    for n in (4, 5, 50, 700):
        blocks = tasks(n, (3, n))
        method = Kalman(drift, noise=0.3)
        before = learned(method, blocks[:1], start)
        after = method.update(before, *blocks[1])
        X, Y = blocks[1]
        Q = np.array(method.drift) * np.eye(4) if np.ndim(method.drift) < 2 else np.array(method.drift)
        known = before.best.known
        direct, innovation = Gaussian(known.mean, known.cov + Q).conditioned(X, Y, 0.3 * np.eye(n))
        np.testing.assert_allclose(method.weights(after), direct.mean, atol=1e-10, rtol=0)
        np.testing.assert_allclose(after.best.known.cov, direct.cov, atol=1e-10, rtol=0)
        gained = method.evidence(after) - method.evidence(before)
        assert gained == pytest.approx(innovation.loglik, rel=1e-10)


@pytest.mark.parametrize("drift", DRIFTS.values(), ids=DRIFTS)
@pytest.mark.parametrize("lag", [0, 1, 3, 6, 50])
def test_smoothed_models_are_those_of_the_smoother_and_of_the_joint_gaussian(joint, drift, lag):
    blocks = tasks(1, SIZES)
    start = np.random.default_rng(0).standard_normal((4, 2))
    method = Kalman(drift, noise=0.7, ridge=2.0, lag=lag)
    state = method.init(4, 2, start)
    assert len(method.smoothed(state)) == 1
    for count, (X, Y) in enumerate(blocks, 1):
        state = method.update(state, X, Y)
        better = method.smoothed(state)
        assert len(better) == min(lag + 1, count)
        for k, (model, answers) in enumerate(as_model(method, blocks[:count], start)):
            s = kalman.smooth(model, kalman.filter(model, answers))
            mean, cov, _ = joint(model, count).given(answers, count)
            for t, g in enumerate(better, count - len(better)):
                np.testing.assert_allclose(g.mean[:, k], s.mean[t], atol=1e-9, rtol=0)
                np.testing.assert_allclose(g.cov, s.cov[t], atol=1e-9, rtol=0)
                np.testing.assert_allclose(g.mean[:, k], mean[t], atol=1e-9, rtol=0)
                np.testing.assert_allclose(g.cov, cov[t], atol=1e-9, rtol=0)
    np.testing.assert_array_equal(better[-1].mean, method.weights(state))


def test_later_tasks_improve_earlier_models_on_average():
    gains = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        method, W, models = Kalman(0.1, 0.5, lag=9), rng.standard_normal((5, 3)), []
        state = method.init(5, 3)
        for _ in range(10):
            X = rng.standard_normal((3, 5))
            state = method.update(state, X, X @ W + np.sqrt(0.5) * rng.standard_normal((3, 3)))
            models.append((W, method.weights(state)))
            W = W + np.sqrt(0.1) * rng.standard_normal((5, 3))
        better = [g.mean for g in method.smoothed(state)]
        gains.append(
            [((old - w) ** 2).sum() - ((new - w) ** 2).sum() for (w, old), new in zip(models, better, strict=True)]
        )
    assert (np.mean(gains, axis=0)[:-1] > 0).all()


def test_errors_are_those_before_the_task_and_variance_is_the_models():
    blocks = tasks(3, SIZES)
    method = Kalman(0.2, noise=0.5)
    state = method.init(4, 2)
    for X, Y in blocks:
        W = method.weights(state)
        after, errors = method.track(state, X, Y)
        np.testing.assert_array_equal(errors, Y - X @ W)
        np.testing.assert_array_equal(method.weights(after), method.weights(method.update(state, X, Y)))
        state = after
    expected = 0.5 + np.diag(X @ state.best.known.cov @ X.T)
    np.testing.assert_allclose(method.variance(state, X), np.column_stack([expected] * 2), rtol=1e-12)
    np.testing.assert_allclose(method.predict(state, X), X @ method.weights(state))


# A forgetting that finds itself


def faded(beta, seed, T=150, d=4, c=2, rows=3, scale=1.0):
    """Tasks whose models drift as forgetting by beta assumes: Qₜ = (1/β − 1) Σₜ₋₁, noise of variance `scale`²."""
    rng = np.random.default_rng(seed)
    W, cov, blocks = rng.standard_normal((d, c)), np.eye(d), []
    for t in range(T):
        if t:
            W = W + np.linalg.cholesky((1 / beta - 1) * cov) @ rng.standard_normal((d, c)) if beta < 1 else W
            cov = cov / beta
        X = rng.standard_normal((rows, d))
        blocks.append((X, scale * (X @ W + rng.standard_normal((rows, c)))))
        cov = np.linalg.inv(np.linalg.inv(cov) + X.T @ X)
    return blocks


@pytest.mark.parametrize("beta", [0.97, 0.9, 0.7, 0.5])
@pytest.mark.parametrize("scale", [0.03, 1.0, 40.0])
def test_it_finds_the_forgetting_of_the_data_whatever_the_size_of_the_noise(beta, scale):
    method, rls = Kalman("auto"), rm.RLS()
    near = (*FORGETTING, 0.0)
    for seed in range(2):
        blocks = faded(beta, seed, scale=scale)
        state, static, squares = method.init(4, 2), rls.init(4, 2), np.zeros(2)
        for X, Y in blocks:
            squares[1] += ((Y - X @ rls.weights(static)) ** 2).sum()
            state, errors = method.track(state, X, Y)
            squares[0] += (errors**2).sum()
            static = rls.update(static, X, Y)
        assert abs(near.index(method.forgetting(state)) - near.index(beta)) <= 1, (seed, method.forgetting(state))
        assert squares[0] < squares[1]


@pytest.mark.parametrize("seed", range(6))
def test_on_data_that_stand_still_it_keeps_everything_and_is_rls(seed):
    blocks = faded(1.0, seed, T=100)
    method, rls = Kalman("auto"), rm.RLS()
    state = learned(method, blocks)
    assert method.forgetting(state) == 1
    np.testing.assert_allclose(method.weights(state), rls.weights(learned(rls, blocks)), atol=1e-9, rtol=0)


def test_every_member_of_the_bank_is_rls_that_forgets_by_task():
    """Forgetting by β a task is Qₜ = (1/β − 1) Σ: with one row a task it is RLS(forget=β)."""
    blocks = faded(0.9, 0, T=40, rows=1)
    state = learned(Kalman("auto", ridge=0.5), blocks)
    assert [m.forget for m in state.members] == list(FORGETTING)
    for member in state.members:
        rls = rm.RLS(0.5 / member.forget, member.forget)  # its prior fades before the first row, ours after it
        np.testing.assert_allclose(member.known.mean, rls.weights(learned(rls, blocks)), atol=1e-9, rtol=0)


def test_smoothing_with_a_forgetting_that_was_found_is_the_smoother_of_its_model():
    blocks = faded(0.7, 0, T=12)
    method = Kalman("auto", lag=20)
    state = learned(method, blocks)
    beta = method.forgetting(state)
    assert beta < 1
    covs = [g.cov for g in (*state.best.past, state.best.known)]
    Q = np.array([np.zeros((4, 4)), *((1 / beta - 1) * cov for cov in covs[:-1])])
    for k in range(2):
        model = kalman.LinearGaussian(np.eye(4), Q, [x for x, _ in blocks], np.eye(3), np.zeros(4), np.eye(4))
        s = kalman.smooth(model, kalman.filter(model, np.array([y[:, k] for _, y in blocks])))
        for t, g in enumerate(method.smoothed(state)):
            np.testing.assert_allclose(g.mean[:, k], s.mean[t], atol=1e-9)
            np.testing.assert_allclose(g.cov, s.cov[t], atol=1e-9)


def test_features_that_never_show_do_not_blow_up():
    """Twelve hundred tasks with a dead and a doubled feature: forgetting by half would take its variance to 2¹²⁰⁰."""
    rng = np.random.default_rng(0)
    method, W = Kalman("auto"), rng.standard_normal((3, 1))
    state = method.init(3, 1)
    for _ in range(1200):
        X = np.column_stack([np.zeros(2), np.repeat(rng.standard_normal((2, 1)), 2, axis=1)])
        state = method.update(state, X, X @ W)
    for member in state.members:
        values = np.linalg.eigvalsh(member.known.cov)
        assert values[0] > -1e-12 * values[-1] and values[-1] <= 2e8
        np.testing.assert_allclose(X @ member.known.mean, X @ W, atol=1e-2)


def test_only_auto_says_what_it_forgets():
    with pytest.raises(rm.InputError, match="auto"):
        Kalman(0.1).forgetting(Kalman(0.1).init(2, 1))
    assert Kalman("auto").forgetting(Kalman("auto").init(2, 1)) == 1


# As a classifier and a regressor


def turning_digits(steps=40, rows=40, seed=0):
    """Digits whose features turn slowly: what each of them means drifts, a classifier that keeps up is needed."""
    from scipy.linalg import expm
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = (X - X.mean(axis=0)) / 16
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((64, 64))
    turn = expm(0.012 * (B - B.T))
    for _ in range(steps):
        X = X @ turn
        chosen = rng.permutation(len(X))
        yield X[chosen[:rows]], y[chosen[:rows]], X[chosen[rows : rows + 300]], y[chosen[rows : rows + 300]]


def test_a_classifier_with_drift_follows_features_that_turn():
    methods = {"rls": rm.RLS(), "drift": Kalman(0.001, noise=0.05), "auto": Kalman("auto")}
    models = {name: rm.ContinualClassifier(method) for name, method in methods.items()}
    right = {name: [] for name in methods}
    for t, (X, y, X_test, y_test) in enumerate(turning_digits()):
        for name, model in models.items():
            model.partial_fit(X, y)
            if t >= 20:
                right[name].append(model.score(X_test, y_test))
    right = {name: np.mean(scores) for name, scores in right.items()}
    assert right["drift"] > right["rls"] + 0.05, right
    assert right["auto"] > right["rls"] + 0.05, right
    assert models["auto"].method.forgetting(models["auto"].state_) < 1


def test_a_regressor_with_drift_follows_a_linear_gaussian_stream():
    errors = {}
    for name, method in (("rls", rm.RLS()), ("drift", Kalman(0.1, 0.1)), ("auto", Kalman("auto"))):
        model, total = rm.ContinualRegressor(method, fit_intercept=False), []
        for task in rm.streams.linear_gaussian(40, 5, rows=6, drift=0.1, noise=0.1):
            model.partial_fit(task.X, task.Y)
            total.append(np.mean((model.predict(task.X_test).reshape(-1, 1) - task.Y_test) ** 2))
        errors[name] = np.mean(total)
    assert errors["drift"] < 0.3 * errors["rls"] and errors["auto"] < 0.3 * errors["rls"]
    assert errors["drift"] <= errors["auto"]


def test_classes_join_as_if_they_had_been_there_all_along():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 5)), np.repeat([0, 1, 2], 20)
    for method in (Kalman(0.05, lag=2), Kalman("auto", lag=2)):
        growing, announced = rm.ContinualClassifier(method), rm.ContinualClassifier(method)
        for k in range(3):
            part = y == k
            growing.partial_fit(X[part], y[part])
            announced.partial_fit(X[part], y[part], classes=[0, 1, 2])
        np.testing.assert_allclose(growing.decision_function(X), announced.decision_function(X), atol=1e-12)
        a, b = growing.state_, announced.state_
        assert method.evidence(a) == pytest.approx(method.evidence(b), rel=1e-12)
        for g, h in zip(method.smoothed(a), method.smoothed(b), strict=True):
            np.testing.assert_allclose(g.mean, h.mean, atol=1e-12)


def test_the_estimators_treat_it_like_any_method_that_learns_sample_by_sample():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 3)), rng.integers(0, 3, 30)
    model = rm.ContinualClassifier(Kalman(0.1))
    weights = rng.integers(0, 3, 30)
    weighed = rm.ContinualClassifier(Kalman(0.1)).fit(X, y, sample_weight=weights)
    repeated = rm.ContinualClassifier(Kalman(0.1)).fit(X.repeat(weights, axis=0), y.repeat(weights))
    np.testing.assert_allclose(weighed.coef_, repeated.coef_, atol=1e-12)
    with pytest.raises(rm.InputError, match="integers"):
        model.fit(X, y, sample_weight=np.full(30, 0.5))
    model.fit(X, y)
    for call in (lambda: model.unlearn(X, y), lambda: model.merge(model)):
        with pytest.raises(rm.InputError, match="Kalman"):
            call()
    with pytest.raises(rm.InputError, match="float64"):
        rm.ContinualClassifier(Kalman(0.1), dtype="float32").fit(X, y)
    assert model.get_params()["method__drift"] == 0.1
    model.set_params(method__drift=0.2)
    with pytest.raises(rm.InputError, match="fit anew"):
        model.partial_fit(X, y)
    with pytest.raises(rm.InputError, match="first one"):  # the intercept is a feature
        rm.ContinualClassifier(Kalman([0.1, 0.1, 0.1])).fit(X, y)
    rm.ContinualClassifier(Kalman([0.0, 0.1, 0.1, 0.1])).fit(X, y)


# Laws of a method


@pytest.mark.parametrize("method", [Kalman(0.1, lag=2), Kalman("auto", lag=2)], ids=["given", "auto"])
def test_outputs_can_be_taken_dropped_and_added(method):
    blocks = tasks(5, (3, 9, 2, 4), c=3)
    full, sources = learned(method, blocks), np.array([2, -1, 0])
    taken = method.with_outputs(full, sources)
    other = [(X, np.column_stack([Y[:, 2], np.zeros(len(X)), Y[:, 0]])) for X, Y in blocks]
    expected = learned(method, other)
    if method.drift != "auto":  # (what it chooses depends on all outputs)
        np.testing.assert_allclose(method.weights(taken), method.weights(expected), atol=1e-12)
    for a, b in zip(taken.members, expected.members, strict=True):
        np.testing.assert_allclose(a.known.mean, b.known.mean, atol=1e-12)
        np.testing.assert_allclose(a.squares, b.squares, atol=1e-10)
        assert a.logdet == pytest.approx(b.logdet)
    X, Y = other[0]
    grown = [m.known.mean for m in method.update(taken, X, Y).members]
    np.testing.assert_allclose(grown, [m.known.mean for m in method.update(expected, X, Y).members], atol=1e-12)


@pytest.mark.parametrize("method", [Kalman(0.1, lag=2), Kalman("auto", lag=2)], ids=["given", "auto"])
def test_learning_is_pure(method):
    blocks = tasks(6, (3, 9, 2, 4))
    state = learned(method, blocks[:3])
    before = pickle.dumps(state)
    X, Y = blocks[3][0].copy(), blocks[3][1].copy()
    first = method.update(state, X, Y)
    method.smoothed(state), method.variance(state, X), method.evidence(state), method.predict(state, X)
    given_away = method.update(copy.deepcopy(state), X, Y, donate=True)
    assert pickle.dumps(state) == before
    np.testing.assert_array_equal(X, blocks[3][0])
    X[:], Y[:] = 1e3, 1e3
    for again in (given_away, method.update(pickle.loads(before), *blocks[3])):
        np.testing.assert_array_equal(method.weights(first), method.weights(again))


def test_settings_are_values():
    same = [Kalman(np.eye(2)), Kalman([[1, 0], [0, 1]]), Kalman(((1.0, 0.0), (0.0, 1.0)))]
    assert len({*same}) == 1 and same[0] == same[1]
    assert Kalman([1, 2]) == Kalman(np.array([1.0, 2.0])) != Kalman([1, 3])
    assert Kalman(np.float32(0.5)) == Kalman(np.array(0.5)) == Kalman(0.5)
    assert eval(repr(same[0])) == same[0]
    Q = np.eye(2)
    kept = Kalman(Q)
    Q[0, 0] = 7
    assert kept == same[0]


@pytest.mark.parametrize("size", [1e-150, 1e-20, 1e20, 1e150])
def test_any_magnitude_is_learned_or_refused(size):
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for method in (Kalman(0.1), Kalman(0.1, noise=1e-30), Kalman("auto")):
            for x, y in ((size, 1), (1, size), (size, size)):
                for n in (3, 20):
                    X, Y = np.clip(rng.standard_normal((2, n, 4)) * np.array([x, y])[:, None, None], -1e150, 1e150)
                    try:
                        state = method.update(method.update(method.init(4, 4), X, Y), X, Y)
                    except rm.NumericalError:
                        continue
                    assert np.isfinite(method.weights(state)).all() and np.isfinite(method.variance(state, X)).all()


BAD = [
    -1, -0.1, True, None, "fast", np.nan, np.inf, [], [1, -1], [np.nan, 1], [[1, 2], [2, 1]], [[1, 2], [0, 1]],
    [[1, 2, 3], [4, 5, 6]], [[1, 2], [3]], {}, ["a"], np.zeros((2, 2, 2)), 1j,
]  # fmt: skip


@pytest.mark.parametrize("drift", BAD, ids=str)
def test_bad_drift_is_refused(drift):
    with pytest.raises(rm.InputError, match="drift"):
        Kalman(drift)


@pytest.mark.parametrize(
    "settings",
    [{"noise": 0}, {"noise": -1}, {"noise": "auto"}, {"ridge": 0}, {"ridge": None}, {"lag": -1}, {"lag": 1.5}],
    ids=str,
)
def test_other_bad_settings_are_refused(settings):
    with pytest.raises(rm.InputError, match=next(iter(settings))):
        Kalman(0.1, **settings)


def test_bad_shapes_are_refused():
    for drift in ([1, 2, 3], np.eye(3)):
        with pytest.raises(rm.InputError, match="4 features, got 3"):
            Kalman(drift).init(4, 1)
    method = Kalman(0.1)
    with pytest.raises(rm.InputError, match="float64"):
        method.init(2, 1, dtype=np.float32)
    state = method.init(2, 1)
    for X, Y in (
        (np.ones((1, 3)), np.ones((1, 1))),
        (np.ones((1, 2)), np.ones((2, 1))),
        (np.ones((0, 2)), np.ones((0, 1))),
    ):
        with pytest.raises(rm.InputError):
            method.update(state, X, Y)
    with pytest.raises(rm.InputError, match="NaN"):
        method.update(state, np.ones((1, 2)), np.array([[np.nan]]))
    with pytest.raises(rm.InputError):
        method.variance(state, np.ones(2))


def test_tracking_a_whole_stream_as_one_task_is_warned_of():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((300, 2)), rng.standard_normal((300, 1))
    method = rm.Kalman(0.1)
    with pytest.warns(UserWarning, match="300 rows as one task"):
        state, errors = method.track(method.init(2, 1), X, Y)
    np.testing.assert_array_equal(errors, Y)  # all of them before the task
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert method.update(method.init(2, 1), X, Y).tasks == 1
        method.track(method.init(2, 1), X[:50], Y[:50])
        method.track(state, X, Y)  # a later task may be long
        assert rm.prequential(method, X, Y).state.tasks == 300
        assert rm.prequential(method, X, Y, block=300).state.tasks == 1
