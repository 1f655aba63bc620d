"""certify: what a learner was promised holds, what it was not promised does not apply, what it lost is said."""

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier

import remanence as rm
from remanence.certificates.guarantees import ADDED_UP, EQUAL, GROWING, SMALLEST, SMOOTHER, UNMOVED
from remanence.methods.rls import RLS

HOLDS, FAILS, NOT = "holds", "fails", "does not apply"
EXACT = rm.streams.linear(tasks=6, features=12, rows=1, outputs=2)  # one model fits all samples
NOISY = rm.streams.linear(tasks=4, features=5, rows=8, noise=0.1)  # none does
DRIFTING = rm.streams.linear_gaussian(tasks=5, features=3, rows=4)
DIGITS = rm.streams.digits(tasks=5)
ORDER = (EQUAL, UNMOVED, SMALLEST, GROWING, SMOOTHER, ADDED_UP)


def statuses(learner, stream):
    found = rm.certify(learner, stream)
    assert tuple(c.claim for c in found) == ORDER
    assert all(bool(c.unmet) == (c.status == NOT) for c in found)
    return [c.status for c in found]


@pytest.mark.parametrize(
    ("method", "stream", "expected"),
    [
        (rm.RLS(), NOISY, [HOLDS, NOT, NOT, HOLDS, NOT, NOT]),
        (rm.RLS(ridge="auto"), NOISY, [HOLDS, NOT, NOT, HOLDS, NOT, NOT]),
        (rm.RLS(ridge=1e-3), EXACT, [HOLDS, NOT, NOT, HOLDS, NOT, NOT]),
        (rm.RLS(forget=0), EXACT, [HOLDS, HOLDS, HOLDS, HOLDS, NOT, NOT]),
        (rm.RLS(forget=0.9), NOISY, [NOT, NOT, NOT, NOT, NOT, NOT]),
        (rm.LowRankRLS(rank=5), NOISY, [HOLDS, NOT, NOT, NOT, NOT, NOT]),
        (rm.LowRankRLS(rank=2), NOISY, [FAILS, FAILS, NOT, NOT, NOT, NOT]),
        (rm.ICL(), EXACT, [HOLDS, HOLDS, HOLDS, HOLDS, NOT, NOT]),
        (rm.ICL(), NOISY, [NOT, HOLDS, NOT, HOLDS, NOT, NOT]),
        (rm.ORFit(), EXACT, [HOLDS, HOLDS, HOLDS, HOLDS, NOT, NOT]),
        (rm.ORFit(rank=2), EXACT, [FAILS, FAILS, FAILS, NOT, NOT, NOT]),
        (rm.OGD(step=0.5), EXACT, [FAILS, HOLDS, FAILS, HOLDS, NOT, NOT]),
        (rm.APA(buffer=None), EXACT, [HOLDS, HOLDS, HOLDS, HOLDS, NOT, NOT]),
        (rm.APA(buffer=None), NOISY, [HOLDS, NOT, NOT, HOLDS, NOT, NOT]),
        (rm.APA(buffer=1), EXACT, [FAILS, FAILS, FAILS, NOT, NOT, NOT]),
        (rm.LMS(step=0.5), EXACT, [FAILS, FAILS, FAILS, NOT, NOT, HOLDS]),
        (rm.LMS(step=[1.0] * 6), EXACT, [FAILS, FAILS, FAILS, NOT, NOT, NOT]),
        (rm.LMS(), NOISY, [FAILS, FAILS, NOT, NOT, NOT, NOT]),
        (rm.WindowRLS(window=10**6, ridge=0.5), NOISY, [HOLDS, NOT, NOT, NOT, NOT, NOT]),
        (rm.WindowRLS(window=5, ridge=0.5), NOISY, [FAILS, FAILS, NOT, NOT, NOT, NOT]),
        (rm.KernelRLS(width=9.0, ridge=0.5), NOISY, [FAILS, FAILS, NOT, NOT, NOT, NOT]),
        (rm.KernelLMS(), NOISY, [FAILS, FAILS, NOT, NOT, NOT, NOT]),
        (rm.BlockLMS(taps=4), NOISY, [FAILS, FAILS, NOT, NOT, NOT, NOT]),
        (rm.Kalman(drift=0.0, noise=0.5), DRIFTING, [HOLDS, NOT, NOT, HOLDS, HOLDS, NOT]),
        (rm.Kalman(drift=0.1), DRIFTING, [NOT, NOT, NOT, NOT, HOLDS, NOT]),
        (rm.Kalman(drift="auto"), DRIFTING, [NOT, NOT, NOT, NOT, HOLDS, NOT]),
    ],
)
def test_methods_get_what_they_were_promised(method, stream, expected):
    assert statuses(method, stream) == expected


@pytest.mark.parametrize(
    ("learner", "expected"),
    [
        (rm.ContinualClassifier(rm.RLS()), [HOLDS, NOT, NOT, HOLDS, NOT, NOT]),
        (rm.ContinualClassifier(rm.RLS(), dtype="float32"), [HOLDS, NOT, NOT, HOLDS, NOT, NOT]),
        (rm.ContinualClassifier(features=rm.RandomFeatures(40)), [HOLDS, NOT, NOT, HOLDS, NOT, NOT]),
        (rm.ContinualClassifier(rm.ICL(), fit_intercept=False), [NOT, HOLDS, NOT, HOLDS, NOT, NOT]),
        (rm.ContinualClassifier(rm.LMS(0.1)), [FAILS, FAILS, NOT, NOT, NOT, NOT]),
        (rm.ContinualClassifier(readout="discriminant"), [HOLDS, NOT, NOT, NOT, NOT, NOT]),
        (rm.ContinualClassifier(class_weight={0: 2.0}), [HOLDS, NOT, NOT, NOT, NOT, NOT]),
        (rm.Joint(), [HOLDS, NOT, NOT, NOT, NOT, NOT]),
        (rm.NearestMean(), [HOLDS, NOT, NOT, NOT, NOT, NOT]),
        (rm.Finetune(epochs=2), [FAILS, FAILS, NOT, NOT, NOT, NOT]),
        (rm.Replay(memory=50, epochs=2), [FAILS, FAILS, NOT, NOT, NOT, NOT]),
        (SGDClassifier(), [FAILS, FAILS, NOT, NOT, NOT, NOT]),
    ],
)
def test_classifiers_on_digits(learner, expected):
    assert statuses(learner, DIGITS) == expected


def test_the_learner_is_left_alone_and_the_answer_is_the_same_again():
    learner = SGDClassifier()  # draws random numbers without a seed of its own
    first, again = rm.certify(learner, DIGITS, seed=3), rm.certify(learner, DIGITS, seed=3)
    assert [c.to_dict() for c in first] == [c.to_dict() for c in again]
    assert learner.random_state is None and not [name for name in vars(learner) if name.endswith("_")]
    model = rm.ContinualRegressor(rm.Kalman(0.1))
    rm.certify(model, DRIFTING)
    assert model.method.lag == 0


def test_equality_names_joint_training_and_its_number():
    certificate = rm.certify(rm.RLS(), NOISY)[0]
    assert "joint training" in certificate.claim and 0 <= certificate.measured <= certificate.allowed < 1e-12
    X, Y = (np.concatenate([getattr(task, name) for task in NOISY]) for name in "XY")
    W = np.linalg.solve(X.T @ X + np.eye(5), X.T @ Y)
    state = rm.RLS().init(5, 1)
    for task in NOISY:
        state = rm.RLS().update(state, task.X, task.Y)
    assert np.abs(rm.RLS().weights(state) - W).max() < 1e-13


class Forgetful(RLS):
    """RLS that loses one row in ten without a word."""

    def update(self, state, X, Y, donate=False):
        return super().update(state, X[: -max(1, len(X) // 10)], Y[: -max(1, len(Y) // 10)], donate)


class Shrinking(RLS):
    """RLS whose memory fades although nobody asked for it."""

    def data(self, state):
        root = super().data(state).copy()
        root.factor[:] /= state.count
        return root


class Overconfident(rm.Kalman):
    """A filter whose covariance is too small, so that the smoother seems worse."""

    def smoothed(self, state):
        return tuple(type(known)(known.mean, known.cov * 4) for known in super().smoothed(state))


class Drowsy(rm.LMS):
    """LMS that takes smaller steps than it says."""

    def track(self, state, X, Y, donate=False):
        return rm.LMS(self.step * 0.99).track(state, X, Y, donate)


class Slipping(rm.ICL):
    """ICL whose old answers slip a little."""

    def weights(self, state):
        return super().weights(state) * (1 + 1e-9 * state.past.rank)


class Stale(rm.ContinualClassifier):
    """A classifier whose discriminant knows the classes of the first task only, although its memory goes on."""

    def partial_fit(self, X, y, **more):
        super().partial_fit(X, y, **more)
        self.first_ = getattr(self, "first_", len(self.classes_))
        return self

    def predict(self, X):
        return self.classes_[self.class_scores(X)[:, : self.first_].argmax(axis=1)]


@pytest.mark.parametrize(
    ("damaged", "stream", "claim"),
    [
        (Forgetful(), NOISY, EQUAL),
        (Shrinking(), NOISY, GROWING),
        (Overconfident(0.1), DRIFTING, SMOOTHER),
        (Drowsy(0.5), EXACT, ADDED_UP),
        (Slipping(), EXACT, UNMOVED),
        (Slipping(), EXACT, SMALLEST),
        (Slipping(), EXACT, EQUAL),
        (Stale(readout="discriminant"), DIGITS, EQUAL),
    ],
    ids=lambda v: type(v).__name__,
)
def test_a_damaged_learner_is_found_out(damaged, stream, claim):
    certificate = next(c for c in rm.certify(damaged, stream) if c.claim == claim)
    assert certificate.status == FAILS, str(certificate)


def test_labels_for_a_bare_method_are_refused_with_advice():
    with pytest.raises(rm.InputError, match="ContinualClassifier"):
        rm.certify(rm.RLS(), DIGITS)
    with pytest.raises(rm.InputError, match="pass \\[task\\]"):
        rm.certify(rm.RLS(), NOISY[0])
    with pytest.raises(rm.InputError, match="seed"):
        rm.certify(rm.RLS(), NOISY, seed=-1)


def test_nothing_is_certified_where_any_answer_would_be_within_rounding():
    """Columns of units 1 to 1e-14: a model that is far from joint training must not be told to equal it."""
    plain = rm.streams.linear(tasks=4, features=40, rows=10)
    units = np.logspace(0, -13.8, 40)
    stream = [rm.streams.Task(t.name, t.X * units, t.Y, t.X_test * units, t.Y_test) for t in plain]
    equal, *others = rm.certify(rm.LMS(step=0.01), stream)
    assert equal.status == NOT and equal.unmet.startswith("rounding") and "cond" in equal.unmet
    assert all(certificate.status == NOT for certificate in others)


def test_one_task_alone_has_no_past():
    assert statuses(rm.ICL(), EXACT[:1]) == [HOLDS, NOT, HOLDS, HOLDS, NOT, NOT]
    assert statuses(rm.Finetune(epochs=1), DIGITS[:1])[1] == NOT
