"""Switching models: found exactly without noise, told apart, counted, forgotten, merged."""

import numpy as np
import pytest
from scipy.optimize import least_squares

import remanence as rm

rng = np.random.default_rng(0)
MODELS = np.array([[1.0, 2.0, -1.0], [-0.5, 1.0, 2.0]])


def stream(models=MODELS, n=280, noise=0.0, every=7):
    X, mode = rng.standard_normal((n, models.shape[1])), np.arange(n) // every % len(models)
    y = np.einsum("ij,ij->i", X, models[mode]) + noise * rng.standard_normal(n)
    return X, y[:, None], mode


def off(found, models=MODELS):
    assert found.shape == models.shape
    return max(min(np.abs(a - b).max() for a in found) for b in models)


def learned(method, X, Y):
    return method.update(method.init(X.shape[1], Y.shape[1]), X, Y)


def test_two_models_are_found_to_rounding_where_rls_finds_their_average():
    X, Y, mode = stream()
    method = rm.Switching(modes=3)
    state = learned(method, X, Y)
    assert off(method.models(state)) < 1e-12
    assert off(rm.RLS(1e-9).weights(learned(rm.RLS(1e-9), X, Y)).T, MODELS.mean(axis=0)[None]) < 0.5
    found = method.models(state)[method.segment(state, X, Y)]
    np.testing.assert_allclose(found, MODELS[mode], atol=1e-9)
    assert [s < 1e-9 for s in method.singular_values(state)] == [False, True, True]


@pytest.mark.parametrize("near", [0.0, 1e-9, 1e-6, 1e-3])
def test_inputs_that_nearly_depend_on_each_other_do_not_hide_a_model(near):
    """Neighbouring samples of a signal are nearly equal: the smallest singular value of the rows says nothing of y."""
    X, Y, _ = stream(n=600)
    X = np.column_stack([X, X[:, 0] + near * rng.standard_normal(600)])
    method = rm.Switching(modes=3)
    state = learned(method, X, Y)
    found = method.models(state)
    assert len(found) == 2 and method.singular_values(state)[0] > 0.3
    predicted, exact = np.sort(X @ found.T, axis=1), np.sort(X[:, :3] @ MODELS.T, axis=1)
    np.testing.assert_allclose(predicted, exact, atol=max(1e-10, 10 * near if near < 1e-5 else 0))
    noisy = learned(method, X, Y + 0.01 * rng.standard_normal(Y.shape))
    refined = method.refined_models(noisy, X, Y)
    assert len(method.models(noisy)) == 2
    np.testing.assert_allclose(np.sort(X @ refined.T, axis=1), exact, atol=1e-8 if near < 1e-5 else 0.02)


def test_models_of_oversampled_signals_are_found():
    """ARX models of a slow signal, as plants that switch between two modes of operation have."""
    u = np.sin(np.arange(3000) / 7) + np.sin(np.arange(3000) / 11 + 1) + 0.05 * rng.standard_normal(3000)
    plants, y = np.array([[0.9, 0.08, 0.1, 0.05], [0.7, 0.2, -0.3, 0.4]]), np.zeros(3000)
    for t in range(2, 3000):
        y[t] = plants[t // 100 % 2] @ [y[t - 1], y[t - 2], u[t], u[t - 1]]
    X = np.column_stack([y[1:-1], y[:-2], u[2:], u[1:-1]])
    method = rm.Switching(modes=3, tolerance=1e-3)
    found = method.models(learned(method, X, y[2:, None]))
    assert off(found, plants) < 1e-9


@pytest.mark.parametrize("noise", [1e-3, 1e-2])
def test_noise_moves_them_by_little(noise):
    X, Y, _ = stream(n=2000, noise=noise)
    assert off(rm.Switching().models(learned(rm.Switching(), X, Y))) < noise


@pytest.mark.parametrize("modes", [2, 3])
def test_noisy_models_are_those_whose_product_fits_the_samples_best(modes):
    """The root of the monomials is enough to minimise Σ Π (y − xᵀθᵢ)², as if all samples were at hand."""
    true = np.array([[1.0, 2.0, -1.0], [-0.5, 1.0, 2.0], [2.0, -1.0, 0.5]])[:modes]
    X, Y, _ = stream(true, n=1000, noise=0.02)
    scales = np.array([1e-3, 1.0, 1e3])
    found = rm.Switching(modes, tolerance=1e-6).models(learned(rm.Switching(modes, tolerance=1e-6), X * scales, Y))
    best = least_squares(lambda v: np.prod(Y - X @ v.reshape(modes, 3).T, axis=1), true.ravel(), xtol=1e-15, gtol=1e-15)
    assert off(found * scales, best.x.reshape(modes, 3)) < 1e-6 < 1e-4 < off(best.x.reshape(modes, 3), true)


def test_no_stream_of_noisy_samples_is_far_off():
    """A polynomial that is no product of models had one of these off by 0.015, thirty times as much as the others."""
    errors = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, mode = rng.standard_normal((5000, 3)), np.arange(5000) // 7 % 2
        y = np.einsum("ij,ij->i", X, MODELS[mode]) + 0.01 * rng.standard_normal(5000)
        errors.append(off(rm.Switching().models(learned(rm.Switching(), X, y[:, None]))))
    assert max(errors) < 3 * np.mean(errors) < 3e-3


def test_samples_at_hand_make_noisy_models_as_exact_as_least_squares_with_labels():
    X, Y, mode = stream(n=2000, noise=0.01)
    method = rm.Switching()
    state = learned(method, X, Y)
    found = method.refined_models(state, X, Y)
    labelled = np.array([np.linalg.lstsq(X[mode == k], Y[mode == k, 0], rcond=None)[0] for k in (0, 1)])
    assert off(found) < 1.5 * off(labelled) < 1e-3 and off(found) < off(method.models(state))
    few = method.refined_models(state, X[:1], Y[:1])  # too few samples to determine a model
    np.testing.assert_array_equal(few, method.models(state))
    with pytest.raises(rm.InputError, match="rounds"):
        method.refined_models(state, X, Y, rounds=0)
    with pytest.raises(rm.InputError, match="rows"):
        method.refined_models(state, X, Y[:5])


def test_noisy_models_are_as_exact_as_any_estimate_can_be():
    """Over twenty seeds: errors of the refined models beside those of least squares that was told every label."""
    method, errors = rm.Switching(), []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, mode = rng.standard_normal((2000, 3)), np.arange(2000) // 7 % 2
        y = np.einsum("ij,ij->i", X, MODELS[mode]) + 0.01 * rng.standard_normal(2000)
        found = method.refined_models(learned(method, X, y[:, None]), X, y[:, None])
        told = np.array([np.linalg.lstsq(X[mode == k], y[mode == k], rcond=None)[0] for k in (0, 1)])
        errors.append([off(found), off(told)])
    ours, oracle = np.array(errors).T
    assert (ours < 1.2 * oracle).all()
    assert np.sqrt(np.mean(ours**2)) < 1.05 * np.sqrt(np.mean(oracle**2))


def test_one_model_is_least_squares():
    X = rng.standard_normal((50, 4))
    Y = X @ rng.standard_normal((4, 2))
    method = rm.Switching(modes=2)
    state = learned(method, X, Y)
    np.testing.assert_allclose(method.weights(state), np.linalg.lstsq(X, Y, rcond=None)[0], atol=1e-10)
    assert len(method.models(state, 1)) == 1


def test_columns_of_any_scale():
    X, Y, _ = stream()
    scales = np.array([1e-4, 1.0, 1e4])
    found = rm.Switching().models(learned(rm.Switching(), X * scales, 1e3 * Y))
    assert off(found * scales / 1e3) < 1e-9


def test_the_model_in_force_is_that_of_the_latest_sample():
    X, Y, mode = stream(n=143)
    method = rm.Switching()
    state = learned(method, X, Y)
    np.testing.assert_allclose(method.weights(state)[:, 0], MODELS[mode[-1]], atol=1e-9)


@pytest.mark.parametrize("modes", [1, 2, 3])
def test_streams_that_begin_with_silent_inputs_are_learned(modes):
    X, Y, _ = stream(MODELS[:1])
    X[:5], Y[:5] = 0, [[3], [0], [-1], [2], [2]]
    method = rm.Switching(modes, tolerance=0.2)
    silent = learned(method, X[:5], Y[:5])
    np.testing.assert_array_equal(method.models(silent), np.zeros((1, 3)))
    assert method.segment(silent, X[:5], Y[:5]).tolist() == [0] * 5
    state, errors = method.track(method.init(3, 1), X, Y)
    np.testing.assert_array_equal(errors[:5], Y[:5])
    np.testing.assert_allclose(method.weights(state)[:, 0], MODELS[0], atol=1e-9)


def test_forgetting_follows_other_models_and_merging_is_learning_both():
    X, Y, _ = stream()
    other = MODELS[::-1] + np.array([[3.0], [-2.0]])
    method = rm.Switching(forget=0.9)
    state = method.update(learned(method, X, Y), *stream(other, 400)[:2])
    assert off(method.models(state), other) < 1e-6
    plain = rm.Switching()
    both = plain.merge(learned(plain, X[:100], Y[:100]), learned(plain, X[100:], Y[100:]))
    np.testing.assert_allclose(plain.models(both), plain.models(learned(plain, X, Y)), atol=1e-10)
    with pytest.raises(rm.InputError, match="forget=1"):
        method.merge(state, state)


@pytest.mark.parametrize("settings", [{"modes": 0}, {"forget": 1.5}, {"forget": 0}, {"tolerance": 0}, {"tolerance": 1}])
def test_bad_settings_are_refused(settings):
    with pytest.raises(rm.InputError, match=next(iter(settings))):
        rm.Switching(**settings)


def test_what_cannot_be_asked_is_refused():
    method = rm.Switching()
    with pytest.raises(rm.InputError, match="learned none"):
        method.models(method.init(2, 1))
    with pytest.raises(rm.InputError, match="below 1"):
        method.models(learned(method, *stream()[:2]), 1)
    with pytest.raises(rm.InputError, match="float64"):
        method.init(2, 1, dtype=np.float32)
