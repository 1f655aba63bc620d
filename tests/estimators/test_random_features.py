"""Random features: the layer of given settings, and a scale that is set from the first rows and then stays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split

import remanence as rm
from remanence.estimators.random_features import MARGIN

RNG = np.random.default_rng(0)
X, LABELS = RNG.standard_normal((60, 5)), np.arange(60) % 3


@pytest.mark.parametrize("activation", ["relu", "tanh", "cos", "identity"])
def test_a_given_scale_draws_the_layer_it_always_drew(activation):
    rng = np.random.default_rng(7)
    B, b = rng.standard_normal((5, 30)) * (2.5 / np.sqrt(5)), rng.standard_normal(30)
    H = X @ B + b
    expected = {"relu": np.maximum(H, 0), "tanh": np.tanh(H), "cos": np.cos(H), "identity": H}[activation]
    layer = rm.RandomFeatures(30, 7, activation, scale=2.5).fit(X)
    np.testing.assert_array_equal(layer.transform(X), expected)
    assert layer.fingerprint() == f"random:30:7:{activation}:2.5" and layer.scale_ == 2.5


@settings(max_examples=30, deadline=None)
@given(st.integers(-900, 900), st.integers(1, 40), st.integers(1, 6), st.sampled_from(sorted(MARGIN)))
def test_the_unit_of_the_rows_does_not_matter(power, n, d, activation):
    rows = np.random.default_rng([n, d]).standard_normal((n, d))
    plain = rm.RandomFeatures(9, activation=activation).fit(rows)
    other = rm.RandomFeatures(9, activation=activation).fit(np.ldexp(rows, power))
    assert other.scale_ == np.ldexp(plain.scale_, -power)
    np.testing.assert_array_equal(other.transform(np.ldexp(rows, power)), plain.transform(rows))


@pytest.mark.parametrize("activation", sorted(MARGIN))
def test_the_activation_sees_inputs_as_large_as_its_bias(activation):
    """Whatever the rows are, and whichever of them come first: their spread through one unit is m, within rounding."""
    for rows in (
        X / np.linalg.norm(X, axis=1, keepdims=True),
        RNG.random((500, 784)),
        RNG.standard_normal((300, 40)) @ RNG.standard_normal((40, 40)) * 1e5 + 3e5,
        np.vstack([RNG.standard_normal((200, 8)), [[1e9] * 8]]),  # a glitch
    ):
        scale = rm.RandomFeatures(4, activation=activation).fit(rows).scale_
        inside = rows[:200]
        spread = np.sqrt(((inside - inside.mean(axis=0)) ** 2).sum(axis=1).mean() / rows.shape[1])
        assert MARGIN[activation] / 1.3 < scale * spread < MARGIN[activation] * 1.3
        assert np.log2(scale) * 2 % 1 == pytest.approx(0)


@pytest.mark.parametrize("rows", [np.zeros((3, 4)), np.ones((5, 2)), np.eye(1), np.full((2, 2), 1e300)], ids=str)
def test_rows_without_a_spread_get_a_scale_too(rows):
    layer = rm.RandomFeatures(6).fit(rows)
    assert 0 < layer.scale_ < np.inf and np.isfinite(layer.transform(rows)).all()


def test_the_first_rows_of_an_estimator_set_the_scale_for_all_later_ones(tmp_path):
    model = rm.ContinualClassifier(features=rm.RandomFeatures(20))
    model.partial_fit(X / 64, LABELS).partial_fit(X * 64, LABELS)
    scale = rm.RandomFeatures(20).fit(X / 64).scale_
    assert model.features_.scale_ == scale
    whole = rm.ContinualClassifier(features=rm.RandomFeatures(20, scale=scale))
    whole.fit(np.vstack([X / 64, X * 64]), np.tile(LABELS, 2))
    np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X), rtol=1e-9)
    rm.save(model, tmp_path / "m")
    loaded = rm.load(tmp_path / "m")
    assert loaded.features_.scale_ == scale and loaded.features.scale == "auto"
    model.partial_fit(X, LABELS), loaded.partial_fit(X, LABELS)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert clone(model).fit(X, LABELS).features_.scale_ == rm.RandomFeatures(20).fit(X).scale_


def test_models_of_different_scales_are_not_merged():
    a = rm.ContinualClassifier(features=rm.RandomFeatures(20)).fit(X, LABELS)
    b = rm.ContinualClassifier(features=rm.RandomFeatures(20)).fit(X * 64, LABELS)
    before = a.decision_function(X)
    with pytest.raises(rm.InputError, match="fit the features once and pass them to all"):
        a.merge(b)
    np.testing.assert_array_equal(a.decision_function(X), before)
    a.merge(rm.ContinualClassifier(features=rm.RandomFeatures(20)).fit(X[::-1], LABELS))  # the same scale
    a.merge(rm.ContinualClassifier(features=rm.RandomFeatures(20, scale=a.features_.scale_)).fit(X, LABELS))


def test_features_fitted_before_keep_their_scale_in_every_model():
    shared = rm.RandomFeatures(20).fit(X)
    a = rm.ContinualClassifier(features=shared).fit(X[:30], LABELS[:30])
    b = rm.ContinualClassifier(features=shared).fit(X[30:] * 1e3, LABELS[30:])
    assert a.features_.scale_ == b.features_.scale_ == shared.scale_
    whole = rm.ContinualClassifier(features=shared).fit(np.vstack([X[:30], X[30:] * 1e3]), LABELS)
    np.testing.assert_allclose(a.merge(b).decision_function(X), whole.decision_function(X), rtol=1e-7, atol=1e-9)
    with pytest.raises(rm.InputError, match="5 features"):
        rm.ContinualClassifier(features=shared).fit(X[:, :3], LABELS)


def test_fourier_features_are_those_of_the_gaussian_kernel():
    layer = rm.RandomFeatures(40_000, activation="fourier", scale=1.5).fit(X)
    H = layer.transform(X[:20])
    kernel = rbf_kernel(X[:20], gamma=1.5**2 / (2 * 5))
    np.testing.assert_allclose(2 * H @ H.T / 40_000, kernel, atol=0.05)


def test_bad_scales_are_refused():
    for scale in ("Auto", None, np.nan, "1", True, 0, -1.0):  # (0 would leave nothing of the rows)
        with pytest.raises(rm.InputError, match="scale"):
            rm.RandomFeatures(5, scale=scale).fit(X)


@pytest.mark.parametrize("activation", ["relu", "cos", "tanh"])
@pytest.mark.parametrize("by_class", [False, True])
def test_the_automatic_scale_is_near_the_best_one(activation, by_class):
    """On digits, shuffled or in the order of their classes, within half a point (one) of the best of seven scales."""
    X, y = load_digits(return_X_y=True)
    A, B, a, b = train_test_split(X / 16, y, test_size=0.5, random_state=0, stratify=y)
    first = A[a == 0][:50] if by_class else A[:200]
    scale = rm.RandomFeatures(activation=activation).fit(first).scale_

    def score(scale):
        layers = [rm.RandomFeatures(300, seed, activation, scale) for seed in range(2)]
        return np.mean([rm.ContinualClassifier(features=layer).fit(A, a).score(B, b) for layer in layers])

    best = max(score(scale * 2.0**k) for k in range(-3, 4))
    assert score(scale) >= best - (0.01 if by_class else 0.005)
    assert score(scale) >= score(1.0) - 0.002
