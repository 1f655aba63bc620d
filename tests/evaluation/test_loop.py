"""The loop equals the same loop written out by hand, for methods and for estimators."""

import copy
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import SGDClassifier

from remanence.errors import InputError
from remanence.evaluation import evaluate, losses
from remanence.streams import Task, linear, split_classes


@dataclass(frozen=True)
class Kaczmarz:
    """One projection a row: forgets, so that the order of learning and asking shows in the matrix."""

    start: float = 0.0

    def init(self, features, outputs):
        return np.full((features, outputs), self.start)

    def update(self, state, X, Y):
        W = state.copy()
        for x, y in zip(X, Y, strict=True):
            W += np.outer(x, y - x @ W) / (x @ x)
        return W

    def predict(self, state, X):
        return X @ state


class LastMeans(ClassifierMixin, BaseEstimator):
    """Nearest class mean that keeps `keep` classes and forgets the others."""

    def __init__(self, keep=3):
        self.keep = keep

    def partial_fit(self, X, y):
        self.means_ = getattr(self, "means_", {})
        for label in np.unique(y).tolist():
            self.means_[label] = X[y == label].mean(axis=0)
        self.means_ = dict(list(self.means_.items())[-self.keep :])
        return self

    def predict(self, X):
        if not hasattr(self, "means_"):
            raise NotFittedError("teach me first")
        labels, means = list(self.means_), np.array(list(self.means_.values()))
        return np.array(labels)[((X[:, None] - means) ** 2).sum(-1).argmin(1)]


class LastMean(RegressorMixin, BaseEstimator):
    """Answers with the mean target of the last task times x₁, flat: (n,) even when targets are (n, 1)."""

    def partial_fit(self, X, y):
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        if not hasattr(self, "mean_"):
            raise NotFittedError("teach me first")
        return self.mean_ * X[:, 0]


def classes(labels=(0, 1, 2, 3), tasks=4):
    rng = np.random.default_rng(0)
    y = np.repeat(labels, 20)
    X = rng.standard_normal((80, 3)) + 1.5 * np.repeat(rng.standard_normal((4, 3)), 20, axis=0)
    return split_classes(X, y, tasks, test=0.4, order=list(labels))


def by_hand(learn, predict, state, questions, lessons, loss):
    values = np.empty((len(lessons), len(lessons) + 1))
    for j in range(len(lessons) + 1):
        if j > 0:
            state = learn(state, *lessons[j - 1])
        for i, (X, Y) in enumerate(questions):
            values[i, j] = loss(predict(state, X), Y)
    return values


@pytest.mark.parametrize("test", [True, False])
def test_a_method_is_learned_and_asked_as_by_hand(test):
    rng = np.random.default_rng(1)
    stream = []
    for k, rows in enumerate([3, 1, 5000, 2, 4]):  # a task larger than a block among small ones
        X, X_test = rng.standard_normal((rows, 4)), rng.standard_normal((rows + 1, 4))
        stream.append(Task(f"t{k}", X, X[:, :2] + k, X_test, X_test[:, :2] + k))
    method = Kaczmarz(start=0.5)
    matrix = evaluate(method, stream, test=test)
    expected = by_hand(
        method.update,
        method.predict,
        method.init(4, 2),
        [(t.X_test, t.Y_test) if test else (t.X, t.Y) for t in stream],
        [(t.X, t.Y) for t in stream],
        lambda P, Y: np.mean((P - Y) ** 2),
    )
    np.testing.assert_allclose(matrix.values, expected, rtol=1e-10)
    assert matrix.loss == "squared" and matrix.names == ("t0", "t1", "t2", "t3", "t4")
    assert matrix.learner == "Kaczmarz(start=0.5)"
    assert matrix.seconds.shape == (5,) and (matrix.seconds > 0).all() and matrix.seconds[2] > matrix.seconds[1]


@pytest.mark.parametrize("labels", [(0, 1, 2, 3), ("ant", "bee", "cow", "a longer dog"), (0.0, 1.0, 2.0, 3.0)])
def test_a_classifier_is_learned_and_asked_as_by_hand(labels):
    stream = classes(labels)
    matrix = evaluate(LastMeans(keep=2), stream)
    expected = by_hand(
        lambda model, X, y: model.partial_fit(X, y),
        lambda model, X: model.predict(X) if hasattr(model, "means_") else np.full(len(X), None),
        LastMeans(keep=2),
        [(t.X_test, t.Y_test) for t in stream],
        [(t.X, t.Y) for t in stream],
        lambda P, Y: np.mean([p != y for p, y in zip(P.tolist(), Y.tolist(), strict=True)]),
    )
    np.testing.assert_allclose(matrix.values, expected, atol=1e-15)
    np.testing.assert_array_equal(matrix.values[:, 0], 1.0)
    assert matrix.values[0, 1] == 0.0 and matrix.values[0, 4] == 1.0  # learned, then forgotten
    assert matrix.loss == "zero_one" and matrix.learner == "LastMeans(keep=2)"


def test_an_unfitted_regressor_counts_as_the_zero_model_and_flat_answers_do_not_broadcast():
    X = np.array([[1.0], [2.0], [3.0]])
    stream = [Task("a", X, X), Task("b", X[:2], [[4.0], [6.0]])]
    # task a teaches the mean 2, task b the mean 5
    rises = [(1 + 4 + 9) / 3, (1 + 4 + 9) / 3, (16 + 64 + 144) / 3]
    falls = [(16 + 36) / 2, (4 + 4) / 2, (1 + 16) / 2]
    np.testing.assert_allclose(evaluate(LastMean(), stream).values, [rises, falls])


def test_the_learner_handed_in_stays_unfitted_and_a_fitted_one_starts_afresh():
    learner, stream = LastMeans(), classes()
    first = evaluate(learner, stream)
    assert not hasattr(learner, "means_")
    learner.partial_fit(stream[3].X, stream[3].Y)
    kept = copy.deepcopy(learner.means_)
    again = evaluate(learner, stream)
    np.testing.assert_array_equal(first.values, again.values)
    assert learner.means_.keys() == kept.keys()


def test_classifiers_that_must_know_all_classes_at_first_are_told_them():
    stream = classes(("ant", "bee", "cow", "dog"), tasks=2)
    matrix = evaluate(SGDClassifier(random_state=0), stream)
    assert matrix.values[0, 0] == 1.0 and matrix.values[0, 1] < 0.5 and matrix.values[1, 2] < 0.5


def test_the_loss_suits_the_learner_and_the_targets_unless_it_is_said():
    whole = [Task("a", np.eye(2), [1, 2])]
    assert evaluate(LastMean(), whole).loss == "squared"
    assert evaluate(LastMeans(), whole).loss == "zero_one"
    assert evaluate(LastMeans(), [Task("a", np.eye(2), [1.0, 2.0])]).loss == "zero_one"
    assert evaluate(LastMeans(), whole, loss="squared").values.tolist() == [[2.5, 0.0]]
    assert evaluate(Kaczmarz(), whole, loss="squared").values.tolist() == [[2.5, 0.0]]
    assert evaluate(Kaczmarz(), [Task("a", np.eye(2), [1.0, 2.0])]).values.tolist() == [[2.5, 0.0]]


def test_a_loss_of_ones_own_is_given_each_task_whole():
    def worst(prediction, target):
        return np.abs(prediction - target).max()

    stream = [Task("a", np.eye(2), [[1.0], [2.0]]), Task("b", 2 * np.eye(2)[:1], [[6.0]])]
    matrix = evaluate(Kaczmarz(), stream, loss=worst)
    np.testing.assert_allclose(matrix.values, [[2.0, 0.0, 2.0], [6.0, 4.0, 0.0]])
    assert matrix.loss == "worst"
    assert evaluate(LastMean(), stream, loss=worst).values[:, 0].tolist() == [2.0, 6.0]
    assert np.isnan(evaluate(LastMeans(), classes(), loss=lambda p, y: np.mean(p != y)).values[:, 0]).all()


def test_a_learner_that_diverges_is_reported_and_not_hidden(recwarn):
    class Doubling(Kaczmarz):
        def update(self, state, X, Y):
            return np.full_like(state, 1e200)

    assert evaluate(Doubling(), [Task("a", np.eye(2), [1.0, 2.0])]).values.tolist() == [[2.5, np.inf]]
    assert not recwarn.list


def test_a_stream_of_many_small_tasks_agrees_with_the_theory_of_projections():
    stream = linear(300, 6, seed=3)
    values = evaluate(Kaczmarz(), stream).values
    np.testing.assert_allclose(values[np.arange(300), np.arange(1, 301)], 0.0, atol=1e-25)
    assert values[:, 0].mean() > 0.1 and values[:, 300].mean() < 1e-9
    assert evaluate(Kaczmarz(), iter(stream[:5])).values.shape == (5, 6)


def test_small_tasks_are_asked_together_and_a_large_one_is_not_copied():
    large = np.zeros((losses.BLOCK + 1, 2))
    questions = [(large[:5], large[:5]), (large[:6], large[:6]), (large, large), (large[:7], large[:7])]
    tests = losses.TestSet(questions, "squared")
    assert [len(X) for X, _, _ in tests.blocks] == [11, losses.BLOCK + 1, 7]
    assert tests.blocks[1][0] is large


@pytest.mark.parametrize(
    ("learner", "stream", "settings", "message"),
    [
        (Kaczmarz, linear(2, 2), {}, r"pass Kaczmarz\(\)"),
        (object(), linear(2, 2), {}, "partial_fit"),
        (Kaczmarz(), [], {}, "empty"),
        (Kaczmarz(), linear(1, 2)[0], {}, r"\[task\]"),
        (Kaczmarz(), 3, {}, "list of tasks"),
        (Kaczmarz(), [(np.eye(2), [1, 2])], {}, "wrap it"),
        (Kaczmarz(), linear(1, 2) + linear(1, 3), {}, "shape"),
        (Kaczmarz(), linear(1, 2) + linear(1, 2, outputs=2), {}, "targets"),
        (Kaczmarz(), [Task("a", np.eye(2), ["a", "b"])], {}, r"rm\.ContinualClassifier"),
        (Kaczmarz(), [Task("a", np.eye(2), [0, 1])], {}, r"rm\.ContinualClassifier"),
        (Kaczmarz(), [Task("a", np.eye(2), [True, False])], {"loss": "squared"}, r"rm\.ContinualClassifier"),
        (Kaczmarz(), [Task("a", np.eye(2), [0.0, 1.0])], {"loss": "zero_one"}, r"rm\.ContinualClassifier"),
        (Kaczmarz(), [Task("a", np.zeros((2, 3, 3)), [0.0, 1.0])], {}, "flatten"),
        (Kaczmarz(), linear(2, 2), {"loss": "huber"}, "squared"),
        (LastMeans(), linear(2, 2), {}, "argmax"),
        (LastMeans(), [Task("a", np.eye(2), ["a", "b"])], {"loss": "squared"}, "zero_one"),
        (LastMeans(), [Task("a", np.eye(2), [0, 1]), Task("b", np.eye(2), ["a", "b"])], {}, "numbers as labels"),
    ],
)
def test_bad_use_is_refused_with_advice(learner, stream, settings, message):
    with pytest.raises(InputError, match=message):
        evaluate(learner, stream, **settings)


def test_answers_of_the_wrong_number_are_refused():
    class Short(Kaczmarz):
        def predict(self, state, X):
            return (X @ state)[:1]

    with pytest.raises(InputError, match="every row once"):
        evaluate(Short(), linear(1, 2, rows=3))


class Tripping:
    """Learns as Kaczmarz does, stays itself when it is cloned, and stumbles once over its third task."""

    def __init__(self):
        self.W, self.lessons = np.zeros((3, 1)), 0

    def __sklearn_clone__(self):
        return self

    def partial_fit(self, X, Y):
        self.lessons += 1
        if self.lessons == 3:
            raise KeyboardInterrupt
        self.W = Kaczmarz().update(self.W, X, Y)

    def predict(self, X):
        return X @ self.W


def test_a_loop_that_was_stopped_goes_on_from_what_it_had_recorded():
    stream, learner, record = linear(5, 3), Tripping(), []
    with pytest.raises(KeyboardInterrupt):
        evaluate(learner, stream, record=record)
    assert len(record) == 3, "before anything, and after each of two tasks"
    first = [column.copy() for column, _ in record]
    matrix = evaluate(learner, stream, record=record)
    np.testing.assert_array_equal(matrix.values, evaluate(Kaczmarz(), stream).values)
    np.testing.assert_array_equal(matrix.values[:, :3], np.column_stack(first))
    assert learner.lessons == 6 and matrix.seconds.shape == (5,)


def test_observers_see_the_learner_after_every_task_in_order():
    stream, seen, columns = linear(3, 4, rows=2), [], []

    def first(step):
        seen.append(("first", step.number, step.task.name))
        expected = step.learner.predict(step.state, stream[0].X)
        np.testing.assert_array_equal(step.predict(stream[0].X), expected)
        columns.append([np.mean((step.predict(task.X_test) - task.Y_test) ** 2) for task in stream])
        assert step.X is stream[step.number - 1].X and step.Y.shape == (2, 1) and step.seconds > 0

    matrix = evaluate(Kaczmarz(), stream, observers=[first, lambda step: seen.append(("second", step.number))])
    names = [task.name for task in stream]
    assert seen == [e for k in range(3) for e in (("first", k + 1, names[k]), ("second", k + 1))]
    np.testing.assert_allclose(matrix.values[:, 1:], np.transpose(columns), rtol=1e-12)
    np.testing.assert_array_equal(matrix.values, evaluate(Kaczmarz(), stream).values)


def test_observers_see_the_copy_of_an_estimator_that_is_trained():
    learner, models = LastMeans(keep=1), []
    evaluate(learner, classes(), observers=[lambda step: models.append((step.learner, list(step.learner.means_)))])
    assert [labels for _, labels in models] == [[0], [1], [2], [3]]
    assert len({id(model) for model, _ in models}) == 1 and models[0][0] is not learner


def test_a_loop_that_goes_on_observes_only_what_it_learns():
    stream, learner, record, numbers = linear(5, 3), Tripping(), [], []
    with pytest.raises(KeyboardInterrupt):
        evaluate(learner, stream, record=record, observers=[lambda step: numbers.append(step.number)])
    assert numbers == [1, 2]
    evaluate(learner, stream, record=record, observers=[lambda step: numbers.append(step.number)])
    assert numbers == [1, 2, 3, 4, 5]
