"""EBP: RLS for a network of one layer, and the explicit update of every layer in general."""

import copy

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

SIZES = (1, 5, 3, 12, 1, 4)


def batches(shape, outputs, sizes=SIZES, seed=1):
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal((n, *shape)), rng.standard_normal((n, outputs))) for n in sizes]


class PlainLayer:
    """RLS on a layer's inputs by its definition: Φ inverted anew at every batch."""

    def __init__(self, width, ridge, forget):
        self.inverse, self.forget = ridge * np.eye(width), forget

    def change(self, A, G, each=1):
        """Φ Σ w a gᵀ after rows A with requests G, `each` rows a sample."""
        n = len(A) // each
        w = np.repeat(self.forget ** np.arange(n - 1.0, -1.0, -1.0), each)[:, None]
        self.inverse = self.forget**n * self.inverse + A.T @ (w * A)
        return np.linalg.inv(self.inverse) @ (A.T @ (w * G))


def with_one(A):
    return np.hstack([A, np.ones((len(A), 1))])


def stacked(layer):
    """[W b] as (inputs + 1, outputs)."""
    W = layer.weight.detach().numpy().reshape(len(layer.weight), -1).T
    return W if layer.bias is None else np.vstack([W, layer.bias.detach().numpy()[None]])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("forget", [1.0, 0.99, 1.05])
def test_one_linear_layer_is_rls(bias, forget):
    torch.manual_seed(0)
    net = nn.Linear(4, 3, bias=bias).double()
    method = rm.RLS(0.3, forget)
    state = method.init(4 + bias, 3, stacked(net))
    learner = rm.deep.EBP(net, 0.3, forget)
    for X, Y in batches((4,), 3):
        learner.step(X, Y)
        state = method.update(state, with_one(X) if bias else X, Y)
        np.testing.assert_allclose(stacked(net), method.weights(state), atol=1e-10)


@pytest.mark.parametrize("forget, step", [(1.0, 1.0), (0.95, 0.3)])
def test_two_layers_by_hand(forget, step):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    learner = rm.deep.EBP(net, 0.5, forget, step)
    first, last = PlainLayer(4, 0.5, forget), PlainLayer(6, 0.5, forget)
    for X, Y in batches((3,), 2):
        W1, W2 = stacked(net[0]), stacked(net[2])
        hidden = np.tanh(with_one(X) @ W1)
        errors = Y - with_one(hidden) @ W2
        asked = (errors @ W2[:-1].T) * (1 - hidden**2)
        np.testing.assert_allclose(learner.step(X, Y), errors, atol=1e-12)
        np.testing.assert_allclose(stacked(net[0]), W1 + step * first.change(with_one(X), asked), atol=1e-10)
        np.testing.assert_allclose(stacked(net[2]), W2 + step * last.change(with_one(hidden), errors), atol=1e-10)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_learns_from_its_patches(groups):
    torch.manual_seed(0)
    conv = nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=groups)
    net = nn.Sequential(conv, nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(16, 2)).double()
    net[3].requires_grad_(False)
    learner = rm.deep.EBP(net, 0.5, 0.9)
    plain = [PlainLayer(18 // groups + 1, 0.5, 0.9) for _ in range(groups)]
    for X, Y in batches((2, 4, 4), 2):
        x, before = torch.from_numpy(X), stacked(conv)
        z = conv(x).detach().requires_grad_()
        loss = 0.5 * ((torch.from_numpy(Y) - net[3](torch.relu(z).flatten(1))) ** 2).sum()
        asked = -torch.autograd.grad(loss, z)[0].numpy()  # (n, 4, 2, 2)
        patches = nn.functional.unfold(x, 3, padding=1, stride=2).numpy()  # (n, 18, 4)
        learner.step(X, Y)
        for g in range(groups):
            inside, outside = (
                slice(g * 18 // groups, (g + 1) * 18 // groups),
                slice(g * 4 // groups, (g + 1) * 4 // groups),
            )
            A = patches[:, inside].transpose(0, 2, 1).reshape(-1, 18 // groups)
            G = asked[:, outside].reshape(len(X), 4 // groups, 4).transpose(0, 2, 1).reshape(-1, 4 // groups)
            expected = before[:, outside] + plain[g].change(with_one(A), G, each=4)
            np.testing.assert_allclose(stacked(conv)[:, outside], expected, atol=1e-9)


def test_a_layer_over_sequences_takes_every_place_as_a_row():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 2), nn.Flatten()).double()
    learner, plain = rm.deep.EBP(net, 0.5, 0.9), PlainLayer(4, 0.5, 0.9)
    for X, Y in batches((4, 3), 8):
        W = stacked(net[0])
        A = with_one(X.reshape(-1, 3))
        learner.step(X, Y)
        np.testing.assert_allclose(stacked(net[0]), W + plain.change(A, Y.reshape(-1, 2) - A @ W, each=4), atol=1e-10)


@pytest.mark.parametrize("frozen, column", [("bias", slice(0, 4)), ("weight", slice(4, 5))])
def test_a_layer_with_one_part_frozen_is_rls_in_the_other(frozen, column):
    torch.manual_seed(0)
    net = nn.Linear(4, 2).double()
    getattr(net, frozen).requires_grad_(False)
    learner, method = rm.deep.EBP(net), rm.RLS()
    rest = [i for i in range(5) if i not in range(5)[column]]
    start = stacked(net)
    state = method.init(5 - len(rest), 2, start[column])
    for X, Y in batches((4,), 2):
        learner.step(X, Y)
        X = with_one(X)
        state = method.update(state, X[:, column], Y - X[:, rest] @ start[rest])
    np.testing.assert_allclose(stacked(net)[column], method.weights(state), atol=1e-10)
    np.testing.assert_array_equal(stacked(net)[rest], start[rest])


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(4, 2)
        self.head = "a"

    def forward(self, x):
        return getattr(self, self.head)(torch.tanh(self.trunk(x)))


def test_a_head_that_is_not_used_stays():
    torch.manual_seed(0)
    net = TwoHeads().double()
    learner, before = rm.deep.EBP(net), copy.deepcopy(net.state_dict())
    X, Y = batches((3,), 2, (4,))[0]
    learner.step(X, Y)
    moved = {name for name, value in net.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == {"trunk.weight", "trunk.bias", "a.weight", "a.bias"}
    assert learner.memory["b"][0].count == 0 and learner.memory["a"][0].count == 4


class Direct(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x):
        return self.outer(x @ self.inner.weight)


def test_parameters_that_it_cannot_learn_are_named():
    normed = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)).double()
    with pytest.raises(rm.InputError, match=r"1\.weight, 1\.bias.*freeze"):
        rm.deep.EBP(normed)
    normed[1].requires_grad_(False)
    rm.deep.EBP(normed).step(np.ones((2, 3)), np.ones((2, 2)))
    tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).double()
    tied[1].weight = tied[0].weight
    with pytest.raises(rm.InputError, match=r"0\.weight in several; untie"):
        rm.deep.EBP(tied)
    with pytest.raises(rm.InputError, match="used directly"):
        rm.deep.EBP(Direct().double()).step(np.ones((2, 3)), np.ones((2, 2)))


def test_it_learns_a_curve_in_one_pass_better_than_plain_steps_of_any_length():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.uniform(-3, 3, (400, 1)))
    y = torch.sin(2 * x)

    def network(seed):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)).double()

    def descended(rate, seed):
        net = network(seed)
        optimizer = torch.optim.SGD(net.parameters(), rate)
        for i in range(len(x)):
            optimizer.zero_grad()
            (0.5 * ((net(x[i : i + 1]) - y[i : i + 1]) ** 2).sum()).backward()
            optimizer.step()
        return net

    def learned(seed):
        learner = rm.deep.EBP(network(seed), ridge=0.01)
        for i in range(len(x)):
            learner.step(x[i : i + 1], y[i : i + 1])
        return learner.model

    def loss(*nets):
        return np.mean([float(((net(x) - y) ** 2).mean().detach()) for net in nets])

    seeds = (0, 1)
    best = min(loss(*(descended(rate, seed) for seed in seeds)) for rate in (0.05, 0.1, 0.2))
    assert loss(*map(learned, seeds)) < 0.8 * best
