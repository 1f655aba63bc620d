"""Orthogonal gradient descent as a guard: exact for models linear in their parameters, first order for networks."""

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn = torch.nn

OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum and decay": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.05),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "LBFGS": lambda p: torch.optim.LBFGS(p, lr=0.5, max_iter=5, line_search_fn="strong_wolfe"),
}


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def mlp(dtype=torch.float64):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).to(dtype)


class Bilinear(nn.Module):
    """Linear in its parameters but not in its inputs, with parameters that belong to no layer."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(draw(5, 5, 2, seed=1))
        self.scale = nn.Parameter(draw(3, seed=2))

    def forward(self, x):
        return torch.einsum("ni,ijc,nj->nc", x, self.weight, x) + (self.scale * x[:, :3].sin()).sum(1, keepdim=True)


def flat(net):
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def write(net, vector):
    with torch.no_grad():
        for p, part in zip(net.parameters(), vector.split([p.numel() for p in net.parameters()]), strict=True):
            p.copy_(part.reshape(p.shape))


def moved(net, x, before):
    return float((net(x).detach() - before).abs().max())


def train(net, optimizer, x, y, steps=20):
    """The losses along the way."""
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return losses


def test_on_a_linear_model_it_is_the_linear_method():
    X, Y = draw(7, 12).numpy(), draw(7, 2, seed=1).numpy()
    method = rm.OGD(step=0.05)
    state = method.init(12, 2)
    net = nn.Linear(12, 2, bias=False).double()
    nn.init.zeros_(net.weight)
    guard, optimizer = rm.deep.OGD(net), torch.optim.SGD(net.parameters(), lr=0.05)
    for x, y in zip(X, Y, strict=True):
        state = method.update(state, x[None], y[None])
        with guard.protect(optimizer):
            optimizer.zero_grad()
            (0.5 * (torch.tensor(y) - net(torch.tensor(x[None]))).square().sum()).backward()
            optimizer.step()
        guard.absorb([torch.tensor(x[None])])
        np.testing.assert_allclose(net.weight.detach().numpy().T, method.weights(state), rtol=0, atol=1e-13)
    assert guard.capacity() == {"parameters": 7 * 2 / 24}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_model_linear_in_its_parameters_keeps_every_old_output_with_any_optimizer(name):
    net = Bilinear()
    guard, optimizer = rm.deep.OGD(net), OPTIMIZERS[name](net.parameters())
    old, fell = [], []
    for task in range(3):
        if name == "LBFGS":
            optimizer = OPTIMIZERS[name](net.parameters())
        x, y = draw(4, 5, seed=10 + task), draw(4, 2, seed=20 + task)
        with guard.protect(optimizer):
            losses = train(net, optimizer, x, y)
        fell.append(losses[-1] < losses[0])
        guard.absorb([x[:3], x[3:]])
        old.append((x, net(x).detach()))
    assert max(moved(net, x, before) for x, before in old) < 1e-12
    assert all(fell)


def test_the_step_is_that_of_a_dense_projection_off_the_jacobian():
    """θ + (I − J⁺J)(θ' − θ), with J from differences of the outputs and J⁺ by NumPy."""
    net, x = Bilinear(), draw(4, 5, seed=3)
    start = flat(net)

    def answers(theta):
        write(net, theta)
        return net(x).detach().numpy().ravel()

    J = np.stack([answers(e) for e in torch.eye(len(start), dtype=torch.float64)], axis=1)  # linear, without offset
    change = {}
    for guarded in (False, True):
        write(net, start)
        guard, optimizer = rm.deep.OGD(net), torch.optim.Adam(net.parameters(), lr=0.1)
        if guarded:
            guard.absorb([x])
        with guard.protect(optimizer):
            train(net, optimizer, draw(6, 5, seed=4), draw(6, 2, seed=5), steps=1)
        change[guarded] = (flat(net) - start).numpy()
    expected = change[False] - np.linalg.pinv(J) @ (J @ change[False])
    np.testing.assert_allclose(change[True], expected, rtol=0, atol=1e-13)


def test_old_outputs_of_a_network_change_quadratically_with_the_step():
    def shift(h, guarded):
        net, x = mlp(), draw(5, 6)
        guard, optimizer = rm.deep.OGD(net), torch.optim.SGD(net.parameters(), lr=h)
        guard.absorb([x])
        before = net(x).detach()
        net(draw(5, 6, seed=1)).square().sum().backward()
        if guarded:
            with guard.protect(optimizer):
                optimizer.step()
        else:
            optimizer.step()
        return float((net(x).detach() - before).norm())

    sizes = (1e-2, 1e-3, 1e-4)
    guarded, bare = ([shift(h, which) for h in sizes] for which in (True, False))
    orders = [np.log10(values[i] / values[i + 1]) for values in (guarded, bare) for i in range(2)]
    np.testing.assert_allclose(orders, [2, 2, 1, 1], atol=0.15)


def test_a_full_memory_keeps_the_strongest_directions_and_counts_the_rest():
    net, x = Bilinear(), draw(12, 5, seed=6)
    guard = rm.deep.OGD(net, rank=9)
    with pytest.warns(UserWarning, match="the memory is full: its 9 directions"):
        guard.absorb([x[:2], x[2:7]])
    with pytest.warns(UserWarning, match="raise rank"):
        report = guard.absorb([x[7:]])
    _, J = rm.deep.nn.flat_parameters.FlatParameters(net).linearized(x)
    energy = float(J.square().sum())
    assert report.rank == 9 and guard.capacity() == {"parameters": 1.0} and report.rows == 24
    basis = guard.state_dict()["directions"].T
    outside = J.flatten(0, 1) - J.flatten(0, 1) @ basis @ basis.T
    assert float(outside.square().sum()) <= report.dropped * (1 + 1e-12)
    np.testing.assert_allclose(report.kept * energy + report.dropped, energy)
    before, start = net(x).detach(), flat(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    with guard.protect(optimizer):
        train(net, optimizer, draw(9, 5, seed=7), draw(9, 2, seed=8))
    walked, shift = float((flat(net) - start).norm()), float((net(x).detach() - before).norm())
    assert 0 < shift <= report.dropped**0.5 * walked, "what was discarded bounds how far old outputs move"
    assert "9 directions of 53 parameters" in str(report) and "rank 9" in repr(guard)


def test_without_a_bound_the_memory_fills_only_with_the_parameters():
    net = nn.Linear(3, 2).double()
    guard = rm.deep.OGD(net)
    with pytest.warns(UserWarning, match="no direction is left"):
        report = guard.absorb([draw(9, 3)])
    assert report.rank == report.bound == 8 and report.kept == pytest.approx(1.0)
    before = flat(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with guard.protect(optimizer):
        train(net, optimizer, draw(4, 3, seed=1), draw(4, 2, seed=2))
    torch.testing.assert_close(flat(net), before, rtol=0, atol=1e-14)


def test_of_the_label_protects_only_that_output_with_one_direction_per_sample():
    net = nn.Linear(20, 4).double()
    x, labels = draw(5, 20), torch.tensor([0, 3, 1, 3, 2])
    guard, optimizer = rm.deep.OGD(net, of="label"), torch.optim.AdamW(net.parameters(), lr=0.1)
    report = guard.absorb([(x[:2], labels[:2]), [x[2:], labels[2:].numpy()]])
    assert report.rank == report.rows == 5
    before = net(x).detach()
    with guard.protect(optimizer):
        train(net, optimizer, draw(5, 20, seed=1), draw(5, 4, seed=2))
    change = (net(x).detach() - before).abs()
    own = nn.functional.one_hot(labels, 4).bool()
    assert float(change[own].max()) < 1e-12 and float(change[~own].min()) > 1e-3


@pytest.mark.parametrize("kind", ["labels", "targets", "function"])
def test_of_the_loss_its_value_moves_with_the_square_of_the_step(kind):
    net, x = mlp(), draw(5, 6)
    asked = {"labels": torch.tensor([0, 2, 1, 1, 0]), "targets": draw(5, 3, seed=3), "function": draw(5, seed=4)}[kind]
    losses = {
        "labels": lambda f: nn.functional.cross_entropy(f, asked, reduction="none"),
        "targets": lambda f: (f - asked).square().sum(1) / 2,
        "function": lambda f: f.exp().sum(1) * asked,
    }
    of = (lambda f, y: f.exp().sum() * y) if kind == "function" else "loss"
    start = flat(net)
    guard = rm.deep.OGD(net, of=of)
    assert guard.absorb([(x, asked)]).rank == 5
    before, shifts = losses[kind](net(x)).detach(), []
    for h in (1e-2, 1e-3):
        write(net, start)
        optimizer = torch.optim.SGD(net.parameters(), lr=h)
        with guard.protect(optimizer):
            train(net, optimizer, draw(5, 6, seed=1), draw(5, 3, seed=2), steps=1)
        shifts.append(float((losses[kind](net(x)).detach() - before).norm()))
    assert np.log10(shifts[0] / shifts[1]) == pytest.approx(2, abs=0.15)


SCALES = [("float32", False, 1e-6), ("float32", False, 1), ("float32", False, 1e6), ("float64", True, 1e-6)]


@pytest.mark.parametrize(("dtype", "bias", "scale"), SCALES)
def test_outputs_stay_to_the_precision_of_the_model_at_any_scale(dtype, bias, scale):
    dtype = getattr(torch, dtype)
    torch.manual_seed(0)
    net = nn.Linear(30, 3, bias).to(dtype)
    guard, optimizer = rm.deep.OGD(net), torch.optim.Adam(net.parameters(), lr=1e-3 / scale)
    x, other, y = draw(8, 30).to(dtype) * scale, draw(8, 30, seed=1).to(dtype) * scale, draw(8, 3, seed=2).to(dtype)
    report = guard.absorb([x, x.clone()])
    assert report.rank == 24, "the same inputs again are no new directions"
    before = net(x).detach()
    with guard.protect(optimizer):
        losses = train(net, optimizer, other, y, steps=300)
    assert losses[-1] < losses[0]
    steepest = float((x.square().sum(1) + bias).sqrt().max())
    assert moved(net, x, before) < 20 * torch.finfo(dtype).eps * steepest * float(flat(net).norm())
    assert guard.state_dict()["directions"].dtype == torch.float64
