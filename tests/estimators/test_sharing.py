"""Copies and threads: teaching one model leaves its copies alone, and every answer belongs to one state."""

import copy
import sys
import threading

import numpy as np
import pytest

import remanence as rm

SOFT = [rm.RLS(), rm.RLS(ridge="auto"), rm.RLS(forget=0.99), rm.RLS(forget=1.01), rm.LowRankRLS(4)]
OTHERS = [rm.LMS(0.5), rm.APA(3), rm.APA(None), rm.ICL(), rm.OGD(0.05), rm.ORFit(2), rm.Kalman(0.01)]


def numbers(n=1500, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("method", [*SOFT, *OTHERS], ids=str)
@pytest.mark.parametrize("kind", [rm.ContinualRegressor, rm.ContinualClassifier])
@pytest.mark.parametrize("intercept", [True, False])
def test_teaching_a_shallow_copy_leaves_the_other_alone(kind, method, intercept):
    """The oracle is a model that was never copied, taught the same rows."""
    X, y = numbers(400)
    labels = y if kind is rm.ContinualRegressor else np.arange(400) % 5
    parts = [slice(0, 150), slice(150, 153), slice(153, 390), slice(390, 400)]

    def taught(model, part):
        model.partial_fit(X[part], labels[part])
        model.predict(X[:2])
        return model

    first = taught(taught(kind(method, fit_intercept=intercept), parts[0]), parts[1])
    alone = copy.deepcopy(first)
    second = copy.copy(first)
    taught(second, parts[2])
    np.testing.assert_allclose(first.coef_, alone.coef_, rtol=1e-9, atol=1e-12)
    for part in parts[3], parts[2]:  # whichever is taught, and whichever is copied
        third = copy.copy(first)
        taught(first, part), taught(alone, part), taught(third, parts[0])
        np.testing.assert_allclose(first.coef_, alone.coef_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", [rm.NearestMean, rm.Finetune, rm.Replay, rm.Joint])
def test_baselines_too(kind):
    X, _ = numbers(200)
    y = np.arange(200) % 4
    first = kind().partial_fit(X[:50], y[:50])
    expected = first.decision_function(X)
    second = copy.copy(first).partial_fit(X[50:], y[50:] + 2)
    np.testing.assert_array_equal(first.decision_function(X), expected)
    assert first.classes_.tolist() == [0, 1, 2, 3] and len(second.classes_) == 6


def test_unlearning_merging_and_another_ridge_leave_copies_alone():
    X, y = numbers(400)
    first = rm.ContinualRegressor().fit(X[:300], y[:300])
    second, third, fourth = (copy.copy(first) for _ in range(3))
    expected = first.coef_
    second.unlearn(X[:100], y[:100])
    third.merge(rm.ContinualRegressor().fit(X[300:], y[300:]))
    fourth.set_params(method__ridge=100.0).partial_fit(X[300:], y[300:])
    np.testing.assert_array_equal(first.coef_, expected)
    assert first.n_seen_ == 300 and second.n_seen_ == 200 and third.n_seen_ == fourth.n_seen_ == 400


# Threads


def asked_while_taught(model, teach, questions, readers=8):
    """Every answer given by threads while another teaches; what a thread raises is raised here."""
    answers, trouble, over = [], [], threading.Event()

    def ask(which):
        try:
            while not over.is_set():
                name, question = questions[which % len(questions)]
                answers.append((name, question(model)))
                which += 1
        except BaseException as problem:
            trouble.append(problem)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(readers)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        teach(model)
    finally:
        over.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    if trouble:
        raise trouble[0]
    return answers


def of_some_state(answer, states):
    return any(
        answer.shape == state.shape
        and (np.allclose(answer, state, 1e-7, 1e-9) if answer.dtype == float else np.array_equal(answer, state))
        for state in states
    )


CLASSIFIERS = {
    "rls": lambda: rm.ContinualClassifier(),
    "rls-uniform": lambda: rm.ContinualClassifier(prior="uniform"),
    "lms": lambda: rm.ContinualClassifier(rm.LMS(0.5)),
    "random": lambda: rm.ContinualClassifier(features=rm.RandomFeatures(20)),
    "nearest-mean": rm.NearestMean,
    "finetune": lambda: rm.Finetune(epochs=1),
    "joint": rm.Joint,
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_answers_while_new_classes_are_taught_belong_to_one_state(name):
    """New classes go in front of the old ones, so that a label of the wrong state is a wrong label."""
    rng = np.random.default_rng(1)
    made, steps = CLASSIFIERS[name], 25
    X, asked = rng.standard_normal((4 * steps, 5)), rng.standard_normal((3, 5))
    y = np.repeat(np.arange(steps)[::-1], 4)
    names = ["predict", "decision_function"]
    names += ["predict_proba", "class_scores"] if name in ("rls", "rls-uniform", "lms", "random") else []
    states = {question: [] for question in names}
    oracle = made()
    for k in range(1, steps):  # a state for every call that teaches
        oracle.partial_fit(X[4 * k - 4 : 4 * k], y[4 * k - 4 : 4 * k])
        for question in names:
            states[question].append(getattr(oracle, question)(asked))

    def teach(model):
        for k in range(2, steps):
            model.partial_fit(X[4 * k - 4 : 4 * k], y[4 * k - 4 : 4 * k])

    questions = [(question, lambda model, q=question: getattr(model, q)(asked)) for question in names]
    for _ in range(2):
        answers = asked_while_taught(made().partial_fit(X[:4], y[:4]), teach, questions)
        wrong = [(q, answer) for q, answer in answers if not of_some_state(answer, states[q])]
        assert not wrong, f"{len(wrong)} of {len(answers)} answers belong to no state"


@pytest.mark.parametrize("method", [rm.RLS(1e-3), rm.RLS(1e-3, 0.999)], ids=str)
def test_a_regressor_answers_from_one_state_while_blocks_are_folded_in(method):
    """Blocks larger than what may wait are folded into the factor, which nobody may then be reading."""
    rng = np.random.default_rng(2)
    d, n, steps = 80, 200, 12
    X, asked = rng.standard_normal((n * steps, d)), rng.standard_normal((2, d))
    y = np.concatenate([X[i * n : i * n + n] @ rng.standard_normal(d) for i in range(steps)])
    parts = [slice(i * n, i * n + n) for i in range(steps)]
    oracle, states, spread = rm.ContinualRegressor(method), [], []
    for part in parts:
        oracle.partial_fit(X[part], y[part])
        mean, std = oracle.predict(asked, return_std=True)
        states.append(mean), spread.append(np.stack([mean, std]))

    def teach(model):
        for part in parts[1:]:
            model.partial_fit(X[part], y[part])

    questions = [
        ("mean", lambda model: model.predict(asked)),
        ("std", lambda model: np.stack(model.predict(asked, return_std=True))),
    ]
    known = {"mean": states, "std": spread}
    for _ in range(2):
        model = rm.ContinualRegressor(method).partial_fit(X[parts[0]], y[parts[0]])
        answers = asked_while_taught(model, teach, questions)
        wrong = [(q, a) for q, a in answers if not of_some_state(a, known[q])]
        assert not wrong, f"{len(wrong)} of {len(answers)} answers belong to no state"
