"""The baselines do what their names say: one forgets, one rehearses, one keeps means, one keeps everything."""

import copy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.utils.estimator_checks import parametrize_with_checks

import remanence as rm
from remanence.estimators.baselines import Finetune, Joint, NearestMean, Replay

ALL = [Finetune(), Replay(), NearestMean(), Joint()]
by_name = pytest.mark.parametrize("baseline", ALL, ids=lambda b: type(b).__name__)


def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order] / 16.0, y[order]


def frozen(estimator):
    return copy.deepcopy(vars(estimator))


def same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_equal(a[name], b[name])


@parametrize_with_checks(ALL)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "baseline, least", [(Finetune(), 0.93), (Replay(), 0.93), (NearestMean(), 0.85), (Joint(), 0.9)]
)
def test_learns_shuffled_digits(baseline, least):
    X, y = digits()
    assert clone(baseline).fit(X[:1300], y[:1300]).score(X[1300:], y[1300:]) > least


def test_finetune_forgets_and_joint_does_not():
    stream = rm.streams.digits()
    matrices = {type(b).__name__: rm.evaluate(b, stream, progress=False) for b in ALL}
    forgetting = {name: rm.metrics.forgetting(matrix) for name, matrix in matrices.items()}
    error = {name: rm.metrics.average(matrix) for name, matrix in matrices.items()}
    assert forgetting["Finetune"] > 0.75 and error["Finetune"] > 0.6
    assert forgetting["Joint"] < 0.06 and error["Joint"] < 0.1
    assert error["Joint"] < error["Replay"] < 0.2 and error["NearestMean"] < 0.15


@by_name
@pytest.mark.parametrize(
    "names", [list(range(10)), [-3.0, *range(1, 10)], list("jihgfedcba"), [f"label {'x' * k}" for k in range(10)]]
)
def test_labels_of_any_kind_grow_in_any_order(baseline, names):
    X, y = digits()
    labels = np.array(names)[y]
    learner = clone(baseline)
    for group in ([7], [2, 9], [0], [2, 1, 3, 4, 5, 6, 8]):
        part = np.isin(y, group)
        learner.partial_fit(X[part], labels[part])
        known = np.unique(labels[np.isin(y, group)])
        assert np.isin(known, learner.classes_).all() and np.isin(learner.predict(X), learner.classes_).all()
    np.testing.assert_array_equal(learner.classes_, np.unique(labels))
    assert learner.classes_.dtype.kind == labels.dtype.kind
    assert learner.n_seen_ == len(X) + np.isin(y, [2]).sum()
    assert learner.decision_function(X).shape == (len(X), 10)


@by_name
def test_growing_labels_keep_the_scores_of_the_old_ones(baseline):
    X, y = digits()
    learner = clone(baseline).partial_fit(X[y > 4], y[y > 4])
    before = learner.decision_function(X)
    if isinstance(learner, NearestMean):
        learner.partial_fit(X[y == 0], y[y == 0])
        np.testing.assert_array_equal(learner.decision_function(X)[:, 1:], before)
    learner.partial_fit(X[y < 5], y[y < 5])
    kept = {"Finetune": 0.0, "Replay": 0.5, "NearestMean": 0.8, "Joint": 0.85}[type(learner).__name__]
    assert learner.score(X[y > 4], y[y > 4]) >= kept


@by_name
def test_booleans_and_two_classes(baseline):
    X, y = digits()
    learner = clone(baseline).partial_fit(X, y == 3)
    assert learner.classes_.dtype == bool and learner.score(X, y == 3) > 0.8
    scores = learner.decision_function(X)
    assert scores.shape == (len(X),)
    np.testing.assert_array_equal(learner.predict(X), scores > 0)


@by_name
def test_one_class_is_answered(baseline):
    X, y = digits()
    learner = clone(baseline).partial_fit(X[y == 3], y[y == 3])
    assert (learner.predict(X) == 3).all() and learner.decision_function(X).shape == (len(X), 1)


@by_name
def test_fit_starts_anew(baseline):
    X, y = digits()
    again = clone(baseline).fit(X[:300, :32], y[:300] > 4).fit(X[:300], y[:300])
    once = clone(baseline).fit(X[:300], y[:300])
    assert again.n_seen_ == 300 and again.n_features_in_ == 64
    np.testing.assert_array_equal(again.decision_function(X), once.decision_function(X))


@pytest.mark.parametrize("kind", [Finetune, Replay])
def test_the_seed_decides(kind):
    X, y = digits()
    learn = lambda seed: kind(seed=seed, epochs=2).partial_fit(X[:400], y[:400]).partial_fit(X[400:800], y[400:800])
    np.testing.assert_array_equal(learn(1).weights_, learn(1).weights_)
    assert np.abs(learn(1).weights_ - learn(2).weights_).max() > 1e-6


@by_name
def test_refused_calls_change_nothing(baseline):
    X, y = digits()
    X, y = X[:300], y[:300]
    fresh = clone(baseline)
    with pytest.raises(rm.InputError):
        fresh.partial_fit(np.full_like(X, np.nan), y)
    same(vars(fresh), vars(clone(baseline)))
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    learner = clone(baseline).fit(X, y)
    before, answers = frozen(learner), learner.decision_function(X)
    for bad_X, bad_y in [
        (X[:, :5], y),
        (X[:10], y),
        (X[:0], y[:0]),
        (X * np.nan, y),
        (X * 1e151, y),
        (X, y + 0.5),
        (X, np.array(["a"])[y * 0]),
        (X, y > 4),
        (X[0], y),
        (X, np.eye(10)[y]),
    ]:
        with pytest.raises(rm.InputError):
            learner.partial_fit(bad_X, bad_y)
        assert learner.n_seen_ == 300
        np.testing.assert_array_equal(learner.decision_function(X), answers)
    with pytest.raises(rm.InputError, match="one kind"):
        learner.partial_fit(X, y, classes=["a"])
    with pytest.raises(rm.InputError):
        learner.predict(X[:, :5])
    assert before.keys() == vars(learner).keys()
    np.testing.assert_array_equal(learner.decision_function(X), answers)


@pytest.mark.parametrize(
    "broken", [Finetune(step=0), Finetune(epochs=0), Replay(memory=0), Replay(batch=1.5), Finetune(seed=-1), Joint(3)]
)
def test_bad_settings_are_refused(broken):
    X, y = digits()
    with pytest.raises(rm.InputError, match="expected"):
        broken.fit(X, y)


@by_name
def test_rows_handed_over_are_not_touched_and_not_watched(baseline):
    X, y = digits()
    X, y = X[:300].copy(), y[:300].copy()
    X.flags.writeable = y.flags.writeable = False
    learner = clone(baseline).fit(X, y)
    X.flags.writeable = True
    answers = learner.decision_function(digits()[0])
    X[:] = 7.0
    learner.partial_fit(digits()[0][300:310], y[:10] * 0)
    X[:] = digits()[0][:300]
    other = clone(baseline).fit(X, y).partial_fit(digits()[0][300:310], y[:10] * 0)
    np.testing.assert_array_equal(learner.decision_function(X), other.decision_function(X))
    assert answers.shape == (1797, 10)


# Oracles


@pytest.mark.filterwarnings("ignore:self.within_class_std_dev_")
def test_nearest_mean_is_scikit_learns_nearest_centroid_far_from_zero():
    X, y = digits()
    learner = NearestMean()
    for part in np.array_split(np.argsort(y, kind="stable"), 23):
        learner.partial_fit(X[part] + 1e6, y[part])
    oracle = NearestCentroid().fit(X, y)
    np.testing.assert_allclose(learner.means_ - 1e6, oracle.centroids_, atol=1e-9)
    np.testing.assert_array_equal(learner.predict(X + 1e6), oracle.predict(X))


def test_joint_is_the_estimator_on_everything():
    X, y = digits()
    learner = Joint().partial_fit(X[y < 6], y[y < 6]).partial_fit(X[y > 5], y[y > 5])
    oracle = RidgeClassifier(alpha=1.0).fit(X, y)
    np.testing.assert_allclose(learner.decision_function(X), oracle.decision_function(X), atol=1e-12)
    assert Joint(LogisticRegression(max_iter=2000)).fit(X, y).score(X, y) > 0.95
    neighbours = Joint(KNeighborsClassifier(1)).fit(X, y)
    assert neighbours.score(X, y) == 1.0 and not hasattr(neighbours, "decision_function")


def test_the_reservoir_is_a_uniform_sample_of_the_past():
    rows = np.arange(40.0)[:, None]
    kept = np.zeros(40)
    for seed in range(600):
        learner = Replay(memory=10, epochs=1, batch=8, seed=seed)
        for part in (slice(0, 4), slice(4, 25), slice(25, 40)):
            learner.partial_fit(rows[part], rows[part, 0].astype(int) % 3)
        places = learner.memory_rows_[:, 0].astype(int)
        assert len(set(places)) == 10
        np.testing.assert_array_equal(learner.classes_[learner.memory_codes_], places % 3)
        kept[places] += 1
    assert np.abs(kept / 600 - 0.25).max() < 0.08  # 4.5 standard deviations


def test_finetune_is_gradient_descent_on_the_cross_entropy():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6, 3)), np.array([0, 1, 2, 1, 0, 2])
    learner = Finetune(step=0.5, epochs=1, batch=6).fit(X, y)
    X = X - X.mean(axis=0)
    loss = lambda w: (
        -np.log(np.take_along_axis(np.exp(X @ w) / np.exp(X @ w).sum(axis=1, keepdims=True), y[:, None], 1)).mean()
    )
    slope = np.zeros((3, 3))
    for i, j in np.ndindex(3, 3):
        e = np.zeros((3, 3))
        e[i, j] = 1e-5
        slope[i, j] = (loss(e) - loss(-e)) / 2e-5
    power = (X**2).sum(axis=1).mean() + 1
    np.testing.assert_allclose(learner.weights_, -0.5 / power * slope, atol=1e-9)


@by_name
def test_announced_classes_are_there_are_never_predicted_without_rows_and_restrict_nothing(baseline):
    """`classes` means in the baselines what it means in the classifier."""
    X, y = digits()
    few = np.isin(y, [1, 4])
    for labels in ([1], [1, 4]):
        rows = np.isin(y, labels)
        for classes in ([0, 1, 9], [0, 1, 4, 9], [0]):
            learner = clone(baseline).partial_fit(X[rows], y[rows], classes=classes)
            assert learner.classes_.tolist() == sorted({*labels, *classes})
            scores = learner.decision_function(X[few])
            shape = (few.sum(),) if len(learner.classes_) == 2 else (few.sum(), len(learner.classes_))
            assert scores.shape == shape and np.isfinite(scores).all()
            if isinstance(baseline, (NearestMean, Joint)):
                assert set(learner.predict(X[few])) <= set(labels)
    learner.partial_fit(X, y)
    assert learner.classes_.tolist() == list(range(10))
    if isinstance(baseline, (NearestMean, Joint)):
        rows = np.isin(y, [1, 4])
        whole = clone(baseline).partial_fit(X[rows], y[rows]).partial_fit(X, y)
        np.testing.assert_array_equal(learner.decision_function(X), whole.decision_function(X))
