"""Estimators through a file: every bit, every label, every setting; and going on as if nothing had happened."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import remanence as rm
from remanence.store.format.safetensors_file import parse
from remanence.store.jobs.inspect import inspect_file

from .conftest import content_of, through_a_file
from .every_learner import PLAIN

METHODS = {
    "default": None,
    "lms": rm.LMS(0.5),
    "lms-steps": rm.LMS(tuple(np.linspace(1, 0.1, 500))),
    "lms-alternating": rm.LMS(rm.steps.alternating([1.0, 0.0], [1.0, 1.0])),
    "apa": rm.APA(3),
    "apa-all": rm.APA(None),
    "icl": rm.ICL(),
    "ogd": rm.OGD(0.05),
    "orfit": rm.ORFit(),
    "orfit-2": rm.ORFit(2),
    "rls-auto": rm.RLS("auto"),
    "rls-forget": rm.RLS(0.1, 0.97),
    "rls-float32-ridge": rm.RLS(np.float32(0.3)),
    "lowrank": rm.LowRankRLS(3),
    "kalman": rm.Kalman(0.01),
    "kalman-auto": rm.Kalman("auto"),
}
LABELS = {
    "whole": lambda y: y,
    "small": lambda y: y.astype(np.int8),
    "text": lambda y: np.array(["ant", "été", "\U0001f41d"])[y],
    "objects": lambda y: np.array(["ant", "bee", "cat"], dtype=object)[y],
    "truth": lambda y: y > 0,
    "numbers": lambda y: y.astype(float),
    "big-endian": lambda y: y.astype(">i4"),
}


def same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def same_learning(model, X, y, parts):
    """The model and its copy from a file learn on and answer the same."""
    copy = through_a_file(model)
    assert content_of(copy) == content_of(model)
    for part in parts:
        same_bits(copy.predict(X), model.predict(X))
        same_bits(copy.partial_fit(X[part], y[part]).predict(X), model.partial_fit(X[part], y[part]).predict(X))
    assert content_of(copy) == content_of(model)


@given(cuts=st.lists(st.integers(1, 59), min_size=1, max_size=4), ask=st.booleans(), single=st.booleans())
@pytest.mark.parametrize("name", METHODS)
def test_a_classifier_goes_on_as_if_it_had_never_been_saved(name, cuts, ask, single):
    rng = np.random.default_rng(cuts)
    X, y = rng.standard_normal((60, 5)), rng.integers(0, 4, 60)
    first, *rest = np.split(np.arange(60), sorted(set(cuts)))
    precision = "float32" if single and not name.startswith("kalman") else "float64"
    model = rm.ContinualClassifier(METHODS[name], fit_intercept=ask, dtype=precision).partial_fit(X[first], y[first])
    if ask:
        model.decision_function(X)
    same_learning(model, X, y, rest)


@given(cuts=st.lists(st.integers(1, 59), min_size=1, max_size=4), outputs=st.integers(0, 2), ask=st.booleans())
@pytest.mark.parametrize("name", METHODS)
def test_a_regressor_goes_on_as_if_it_had_never_been_saved(name, cuts, outputs, ask):
    rng = np.random.default_rng(cuts)
    X = rng.standard_normal((60, 5))
    y = X[:, 0] if not outputs else X[:, :outputs] + 0.1
    first, *rest = np.split(np.arange(60), sorted(set(cuts)))
    model = rm.ContinualRegressor(METHODS[name], fit_intercept=ask).partial_fit(X[first], y[first])
    if ask:
        model.predict(X)
    same_learning(model, X, y, rest)


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind_come_back_as_they_were(rows, kind):
    X, y = rows
    labels = LABELS[kind](y)
    model = rm.ContinualClassifier().partial_fit(X[:30], labels[:30])
    copy = through_a_file(model)
    same_bits(copy.classes_, model.classes_)
    same_bits(copy.partial_fit(X, labels).predict(X), model.partial_fit(X, labels).predict(X))


def test_names_of_features_come_back_and_are_looked_at(rows):
    pandas = pytest.importorskip("pandas")
    X, y = rows
    table = pandas.DataFrame(X, columns=["height", "breadth", "größe", "d"])
    copy = through_a_file(rm.ContinualClassifier().partial_fit(table, y))
    assert copy.feature_names_in_.tolist() == list(table.columns) and copy.feature_names_in_.dtype == object
    copy.partial_fit(table, y)
    with pytest.raises(rm.InputError, match="feature names"):
        copy.predict(table.rename(columns={"d": "e"}))


def test_settings_come_back_and_an_unfitted_model_can_be_saved():
    model = rm.ContinualClassifier(
        rm.RLS(ridge="auto"), fit_intercept=False, class_weight={"a": 2.0, "b": 1}, prior="uniform", dtype="float32"
    )
    copy = through_a_file(model)
    assert copy.get_params() == model.get_params() and "state_" not in vars(copy)


def test_weights_of_classes_and_samples_go_on_counting(rows):
    X, y = rows
    model = rm.ContinualClassifier(class_weight={0: 3.0}, prior="uniform").partial_fit(X[:20], y[:20])
    copy = through_a_file(model)
    weights = np.linspace(0.5, 2, 40)
    for each in (model, copy):
        each.partial_fit(X[20:], y[20:], sample_weight=weights)
    same_bits(copy.decision_function(X), model.decision_function(X))


def test_unlearning_and_merging_go_on(small, rows):
    X, y = rows
    other = rm.ContinualClassifier(rm.RLS(ridge=0.5)).partial_fit(X[53:], y[53:])
    copy, theirs = through_a_file(small), through_a_file(other)
    same_bits(copy.merge(theirs).decision_function(X), small.merge(other).decision_function(X))
    same_bits(copy.unlearn(X[:9], y[:9]).decision_function(X), small.unlearn(X[:9], y[:9]).decision_function(X))


def test_what_unlearning_cost_in_digits_comes_back(small, rows):
    X, y = rows
    untouched = content_of(small)
    assert b"lost" not in untouched and through_a_file(small).precision_loss_ == 0  # as files were before
    small.unlearn(X[:9], y[:9])
    copy = through_a_file(small)
    assert copy.precision_loss_ == small.precision_loss_ > 0
    rest = copy.unlearn(X[9:20], y[9:20]).precision_loss_
    assert rest == small.unlearn(X[9:20], y[9:20]).precision_loss_


@pytest.mark.parametrize("wrong", [np.ones(3), -np.ones(8), np.full(8, np.nan), np.full(8, np.inf)])
def test_digits_lost_that_make_no_sense_are_refused(wrong, small, rows):
    X, y = rows
    small.unlearn(X[:9], y[:9])
    state = small.state_
    small.state_ = replace(state, data=replace(state.data, lost=wrong))
    with pytest.raises(rm.InputError, match="lost"):  # (the same check reads files)
        through_a_file(small)


def test_random_features_are_drawn_anew(rows):
    X, y = rows
    features = rm.RandomFeatures(width=30, seed=3, activation="tanh", scale=2.0)
    model = rm.ContinualClassifier(features=features).partial_fit(X, y)
    copy = through_a_file(model)
    assert copy.features.get_params() == features.get_params()
    same_learning(model, X, y, [np.arange(20)])
    assert (4, 30) not in {array.shape for array in parse(content_of(model)).arrays.values()}  # (the layer itself)


# Frozen features that a file cannot hold


def encoders(X):
    whole = make_pipeline(StandardScaler(), PCA(2, random_state=0)).fit(X)
    return {"scaler": StandardScaler().fit(X), "pipeline": whole, "plain": Shift(1.0)}


class Shift:
    """A transformer that is not scikit-learn's."""

    def __init__(self, by):
        self.by = by

    def transform(self, X):
        return X + self.by


@pytest.mark.parametrize("kind", ["scaler", "pipeline", "plain"])
def test_an_encoder_is_brought_along_and_must_be_that_very_one(rows, kind):
    X, y = rows
    encoder, other = encoders(X)[kind], encoders(2 * X)[kind]
    if kind == "plain":
        other = Shift(2.0)
    model = rm.ContinualClassifier(features=encoder).partial_fit(X[:40], y[:40])
    content = content_of(model)
    copy = through_a_file(model, features=encoders(X)[kind])
    same_bits(
        copy.partial_fit(X[40:], y[40:]).decision_function(X), model.partial_fit(X[40:], y[40:]).decision_function(X)
    )
    assert b"mean_" not in content
    with pytest.raises(rm.InputError, match=r"rm\.load\(path, features=…\)"):
        through_a_file(model)
    with pytest.raises(rm.InputError, match="got another one"):
        through_a_file(model, features=other)


def test_what_a_file_has_no_place_for_is_refused(small, rows):
    with pytest.raises(rm.InputError, match="expected no features"):
        through_a_file(small, features=StandardScaler().fit(rows[0]))
    with pytest.raises(rm.InputError, match="expected no model"):
        through_a_file(small, model=object())


def test_a_deep_encoder_is_brought_along(rows):
    torch = pytest.importorskip("torch")
    X, y = rows
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU()).double()
    model = rm.ContinualClassifier(features=rm.deep.Encoder(network)).partial_fit(X, y)
    same_bits(through_a_file(model, features=rm.deep.Encoder(network)).predict(X), model.predict(X))
    expected = model.features_fingerprint_
    with torch.no_grad():
        network[0].bias[0] += 1
    with pytest.raises(rm.InputError, match=expected):
        through_a_file(model, features=rm.deep.Encoder(network))


# What cannot be stored is refused before anything is written


class Odd(rm.ContinualClassifier):
    """A class that no file knows."""


class Nothing(TransformerMixin, BaseEstimator):
    def transform(self, X):
        return X


@pytest.mark.parametrize(
    ("learner", "words"),
    [
        (rm.ContinualClassifier(rm.LMS(lambda t: 1 / t)), r"got the function .* rule of rm\.steps"),
        (Odd(), "got Odd"),
        (rm.RLS(), "pair"),
        (rm.RLS().init(2, 1), "pair"),
        ((rm.RLS(), rm.LMS().init(2, 1)), "state of RLS.*got LMSState"),
        ((rm.RLS(forget=0), rm.RLS().init(2, 1)), "state of RLS.*got RLSState with Root"),
        ((rm.APA(3), rm.APA(None).init(2, 1)), "got APAState with Everything"),
        ((rm.Kalman("auto"), rm.Kalman(0.1).init(2, 1)), "state of Kalman.*other settings"),
        (rm.Joint(estimator=Nothing()), "loading them could run code"),
        ({"a": 1}, "got dict"),
        (None, "got NoneType"),
        ((1, 2), "expected a Pair"),
    ],
    ids=[
        "function",
        "subclass",
        "method",
        "state",
        "states",
        "exact",
        "buffer",
        "drift",
        "joint",
        "dict",
        "none",
        "tuple",
    ],
)
def test_what_cannot_be_stored_is_refused(learner, words, tmp_path):
    with pytest.raises(rm.InputError, match=words):
        rm.save(learner, tmp_path / "m.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_attributes_of_ones_own_are_refused_rather_than_lost(small):
    small.mood_ = "good"
    with pytest.raises(rm.InputError, match="mood_"):
        content_of(small)


@pytest.mark.parametrize("name", PLAIN)
def test_every_protocol_of_pickle_gives_the_learner_back(name):
    """Not only the newest: skops, the default of MLflow, takes objects apart as the first protocols do."""
    learner = PLAIN[name]()
    copies = [pickle.loads(pickle.dumps(learner, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    assert len({content_of(copy) for copy in copies}) == 1


def test_the_ridge_that_is_shown_is_the_one_in_force(tmp_path):
    """A ridge below what rounding leaves of it is replaced by the smallest that can be told from none."""
    X = np.random.default_rng(0).standard_normal((60, 3)) * [1e-7, 1.0, 1e7]
    model = rm.ContinualRegressor(rm.RLS(ridge=1e-30))
    with pytest.warns(UserWarning, match=r"is in force"):
        rm.save(model.fit(X, X[:, 0]), tmp_path / "m")
        floor = model.method_.data(model.state_).rounding_floor()
        assert inspect_file(tmp_path / "m").ridge == pytest.approx(floor)
    rm.save(rm.ContinualRegressor(rm.RLS(ridge=0.5)).fit(X, X[:, 0]), tmp_path / "other")
    assert inspect_file(tmp_path / "other").ridge == 0.5
