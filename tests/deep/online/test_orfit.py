"""ORFit of networks: ICL for a linear network, the smallest step on the linearized constraints in general."""

import copy

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.func import functional_call, jacrev  # noqa: E402


def linear(features, outputs, seed=0):
    torch.manual_seed(seed)
    return nn.Linear(features, outputs, bias=False).double()


def small_network(outputs=2):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, outputs)).double()


def jacobian(net, x):
    """Every output of the network on one sample, differentiated by hand: (c, D)."""
    parts = jacrev(lambda p: functional_call(net, p, (x[None],))[0])(dict(net.named_parameters()))
    return torch.cat([part.flatten(1) for part in parts.values()], dim=1).detach().numpy()


def stream(n, features, outputs, seed=2):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, features)), rng.standard_normal((n, outputs))


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("cuts", [[6], [1, 1, 1, 1, 1, 1], [2, 4]])
def test_a_linear_network_is_icl_and_the_nearest_solution(outputs, cuts):
    X, Y = stream(6, 8, outputs)
    net = linear(8, outputs)
    start = net.weight.detach().numpy().T.copy()
    learner = rm.deep.ORFit(net)
    rows = np.split(np.arange(6), np.cumsum(cuts)[:-1])
    errors = np.concatenate([learner.step(X[r], Y[r]) for r in rows])
    W = net.weight.detach().numpy().T
    np.testing.assert_allclose(W, rm.min_norm(X, Y, start), atol=1e-12)
    state, expected = rm.ICL().track(rm.ICL().init(8, outputs, start), X, Y)
    np.testing.assert_allclose(W, rm.ICL().weights(state), atol=1e-12)
    np.testing.assert_allclose(errors, expected, atol=1e-12)
    np.testing.assert_allclose(X @ W, Y, atol=1e-12)


def test_a_sample_that_the_past_decides_changes_nothing():
    X, Y = stream(4, 8, 2)
    learner = rm.deep.ORFit(linear(8, 2))
    learner.step(X, Y)
    before, basis = learner.flat.vector(), learner.memory.basis
    again = X[0] - 2 * X[3]
    learner.step(again[None], [[5.0, -5.0]])
    assert torch.equal(learner.flat.vector(), before) and learner.memory.basis.shape == basis.shape


@pytest.mark.parametrize("rank", [2, 4])
def test_a_bounded_memory_is_that_of_the_linear_method(rank):
    X, Y = stream(12, 8, 1)
    net = linear(8, 1)
    method = rm.ORFit(rank)
    state = method.init(8, 1, net.weight.detach().numpy().T)
    learner = rm.deep.ORFit(net, rank)
    state, expected = method.track(state, X, Y)
    errors = learner.step(X, Y)
    np.testing.assert_allclose(errors, expected, atol=1e-11)
    np.testing.assert_allclose(net.weight.detach().numpy().T, method.weights(state), atol=1e-11)
    assert learner.memory.rank == rank


@pytest.mark.parametrize("outputs", [1, 2])
def test_every_step_is_the_smallest_that_fits_the_sample_and_moves_no_linearized_output(outputs):
    X, Y = stream(7, 3, outputs)
    net = small_network(outputs)
    learner, past = rm.deep.ORFit(net), []
    for x, y in zip(torch.from_numpy(X), Y, strict=True):
        before, J = learner.flat.vector().numpy(), jacobian(net, x)
        error = y - net(x[None])[0].detach().numpy()
        learner.step(x[None], y[None])
        constraints = np.concatenate([*past, J])
        wanted = np.concatenate([np.zeros(len(constraints) - outputs), error])
        np.testing.assert_allclose(
            learner.flat.vector().numpy() - before, np.linalg.pinv(constraints) @ wanted, atol=1e-9
        )
        past.append(J)


def test_outputs_that_are_one_function_are_fitted_as_well_as_one_can():
    """Two outputs with the same derivative and different targets: least squares between them, by the smallest step."""
    net = nn.Sequential(linear(4, 1), nn.Linear(1, 2, bias=False).double())
    net[1].weight.requires_grad_(False)
    net[1].weight.fill_(1.0)
    before = net[0].weight.detach().numpy().ravel().copy()
    x, y = stream(1, 4, 2)
    rm.deep.ORFit(net).step(x, y)
    wanted = np.linalg.lstsq(np.repeat(x, 2, axis=0), y[0] - (x @ before)[0], rcond=None)[0]
    np.testing.assert_allclose(net[0].weight.detach().numpy().ravel() - before, wanted, atol=1e-12)


def test_a_batch_is_its_samples_one_after_the_other():
    X, Y = stream(5, 3, 2)
    whole, parts = rm.deep.ORFit(small_network(), 6), rm.deep.ORFit(small_network(), 6)
    errors = whole.step(X, Y)
    singly = torch.cat([parts.step(X[i : i + 1], Y[i : i + 1]) for i in range(5)])
    assert torch.equal(whole.flat.vector(), parts.flat.vector()) and torch.equal(errors, singly)


def test_learned_outputs_are_kept_better_than_with_plain_steps():
    """A first-order promise: the same exact steps without memory forget more."""
    X, Y = stream(6, 3, 1, seed=4)
    Y *= 0.1
    net = small_network(1)
    free = copy.deepcopy(net)
    learner = rm.deep.ORFit(net)
    for x, y in zip(X, Y, strict=True):
        learner.step(x[None], y[None])
        rm.deep.ORFit(free).step(x[None], y[None])  # a fresh memory a sample: nothing is protected
    off = [float(((m(torch.from_numpy(X)) - torch.from_numpy(Y)) ** 2).mean().detach()) for m in (net, free)]
    assert off[0] < 0.2 * off[1]
