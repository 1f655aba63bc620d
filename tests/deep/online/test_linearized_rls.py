"""Linearized RLS: RLS for a linear network, the extended Kalman filter without drift in general."""

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from remanence.deep.online.information import prior_information  # noqa: E402

SIZES = (1, 5, 3, 12, 1, 4)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 2)).double()


def batches(features, outputs, seed=1):
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal((n, features)), rng.standard_normal((n, outputs))) for n in SIZES]


def stacked(layer):
    """[W b] as (features + 1, outputs)."""
    return np.vstack([layer.weight.detach().numpy().T, layer.bias.detach().numpy()[None]])


@pytest.mark.parametrize("forget", [1.0, 0.99, 0.8, 1.05])
@pytest.mark.parametrize("outputs", [1, 3])
def test_a_linear_network_is_rls(forget, outputs):
    torch.manual_seed(0)
    net = nn.Linear(4, outputs).double()
    method = rm.RLS(0.3, forget)
    state = method.init(5, outputs, stacked(net))
    learner = rm.deep.LinearizedRLS(net, 0.3, forget)
    for X, Y in batches(4, outputs):
        learner.step(X, Y)
        state = method.update(state, np.hstack([X, np.ones((len(X), 1))]), Y)
        np.testing.assert_allclose(stacked(net), method.weights(state), atol=1e-10)


@pytest.mark.parametrize("noise", [1.0, 0.01])
def test_it_is_the_extended_kalman_filter_without_drift(noise):
    rls, ekf = network(), network()
    learner, filter_ = rm.deep.LinearizedRLS(rls, ridge=2.0 * noise), rm.deep.EKF(ekf, noise, 0.0, ridge=2.0)
    for X, Y in batches(2, 2):
        learner.step(X, Y)
        filter_.step(X, Y)
        np.testing.assert_allclose(learner.flat.vector(), filter_.flat.vector(), atol=1e-9)


@pytest.mark.parametrize("forget", [1.0, 0.9])
def test_it_solves_the_least_squares_over_all_linearised_samples(forget):
    """The objective written out: every sample with the Jacobian and the output it had when it was learned."""
    net = network()
    learner = rm.deep.LinearizedRLS(net, 0.5, forget)
    start = learner.flat.vector().numpy()
    rows, aims, count = [], [], 0
    for X, Y in batches(2, 2):
        theta = learner.flat.vector().numpy()
        outputs, J = (t.numpy() for t in learner.flat.linearized(torch.from_numpy(X)))
        learner.step(X, Y)
        for i in range(len(X)):
            count += 1
            rows.append(J[i] / forget ** (count / 2))
            aims.append((Y[i] - outputs[i] + J[i] @ theta) / forget ** (count / 2))
        A = np.vstack([np.sqrt(0.5) * np.eye(len(start)), *rows])
        b = np.concatenate([np.sqrt(0.5) * start, *aims])
        np.testing.assert_allclose(learner.flat.vector(), np.linalg.lstsq(A, b, rcond=None)[0], atol=1e-9)


def test_only_the_chosen_layers_move():
    net = network()
    first = net[0].weight.detach().clone()
    learner = rm.deep.LinearizedRLS(net, layers=["2"])
    features = nn.Sequential(*net[:2])
    method = rm.RLS()
    state = method.init(6, 2, stacked(net[2]))
    for X, Y in batches(2, 2):
        inner = features(torch.from_numpy(X)).detach().numpy()
        learner.step(X, Y)
        state = method.update(state, np.hstack([inner, np.ones((len(X), 1))]), Y)
    assert torch.equal(net[0].weight, first) and learner.memory.factor.shape == (12, 12)
    np.testing.assert_allclose(stacked(net[2]), method.weights(state), atol=1e-10)


@pytest.mark.parametrize("forget", [0.5, 0.99])
def test_directions_that_no_sample_shows_keep_their_weights_however_long_the_rest_fades(forget):
    rng = np.random.default_rng(0)
    shown = rng.standard_normal((2, 6))
    unseen = np.linalg.svd(shown)[2][2:]
    memory, W, truth = prior_information(6, 1.0), np.zeros((6, 1)), rng.standard_normal((6, 1))
    for _ in range(4000):
        X = rng.standard_normal((1, 2)) @ shown
        memory, change = memory.updated(X, X @ truth - X @ W, forget)
        W = W + change
    np.testing.assert_allclose(shown @ W, shown @ truth, atol=1e-9)
    assert np.abs(unseen @ W).max() < 1e-6
