"""Frozen parameters stay identical, free ones are left alone, and the rest compensates for both."""

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim


def snapshot(net):
    return {name: p.detach().clone() for name, p in net.named_parameters()}


def trainable(net):
    return [p for p in net.parameters() if p.requires_grad]


@pytest.mark.parametrize("make", [rm.deep.GradientProjection, lambda net: rm.deep.OWM(net, damping=1e-12)])
@pytest.mark.parametrize("part", ["weight", "bias"])
def test_a_part_that_asks_for_no_gradient_stays_to_the_bit(make, part, mlp, rows, learn, moved, answers):
    net = mlp()
    for layer in (net[0], net[2]):
        getattr(layer, part).requires_grad_(False)
    guard = make(net)
    x = rows(3, 10)
    before = snapshot(net)
    guard.absorb([x])
    old = [(x, answers(net, x))]
    losses = learn(net, guard, rows(3, 10, seed=1), optim.AdamW(trainable(net), lr=0.01))
    assert losses[-1] < losses[0]
    assert moved(net, old) < 1e-9
    after = snapshot(net)
    still = {name for name in before if torch.equal(before[name], after[name])}
    # where the weight is frozen the bias cannot move either: every input has the constant one in it
    assert still >= {f"0.{part}", f"2.{part}"} and "4.weight" not in still
    if part == "weight":
        assert (after["0.bias"] - before["0.bias"]).abs().max() < 1e-9
    else:
        assert "0.weight" not in still


@pytest.mark.parametrize("energy", [1.0, 1 - 1e-12])
def test_a_frozen_bias_does_not_change_and_the_weight_compensates(energy, mlp, rows, learn, moved, answers):
    net = mlp()
    guard = rm.deep.GradientProjection(net, energy=energy, frozen=["2.bias"])
    optimizer = optim.AdamW(net.parameters(), lr=0.01)
    start = snapshot(net)
    learn(net, guard, rows(3, 10), optimizer)
    first = snapshot(net)
    assert not torch.equal(first["2.bias"], start["2.bias"]), "free during the first task"
    guard.absorb([rows(3, 10)])
    old = [(rows(3, 10), answers(net, rows(3, 10)))]
    learn(net, guard, rows(3, 10, seed=1), optimizer)
    now = snapshot(net)
    assert torch.equal(now["2.bias"], first["2.bias"]) and not torch.equal(now["2.weight"], first["2.weight"])
    assert moved(net, old) < 1e-12


def test_a_free_bias_changes_outputs_only_by_itself(rows, steps):
    net = nn.Linear(6, 2).double()
    guard = rm.deep.GradientProjection(net, energy=0.9999999, free=["bias"])
    x = rows(3, 6)
    guard.absorb([x])
    before, bias = net(x).detach(), net.bias.detach().clone()
    optimizer = optim.AdamW(net.parameters(), lr=0.1)
    with guard.protect(optimizer):
        steps(optimizer, lambda: (net(rows(3, 6, seed=1)) - 3).square().mean())
    assert (net.bias - bias).abs().min() > 0.1
    assert (net(x) - before - (net.bias - bias)).abs().max() < 1e-3


def test_a_whole_layer_or_pattern_may_be_frozen_or_free(mlp, rows, learn):
    net = mlp()
    guard = rm.deep.GradientProjection(net, energy=0.9, frozen=["0"], free=["4.*"])
    assert list(guard.capacity()) == ["2"]
    guard.absorb([rows(3, 10)])
    before = snapshot(net)
    learn(net, guard, rows(3, 10, seed=1), optim.AdamW(net.parameters(), lr=0.01))
    after = snapshot(net)
    still = {name for name in before if torch.equal(before[name], after[name])}
    assert still == {"0.weight", "0.bias"}


def test_a_frozen_weight_takes_its_bias_along(rows, mlp, learn, moved, answers):
    net = mlp()
    guard = rm.deep.GradientProjection(net, frozen=["2.weight"])
    guard.absorb([rows(3, 10)])
    old, bias = [(rows(3, 10), answers(net, rows(3, 10)))], net[2].bias.detach().clone()
    learn(net, guard, rows(3, 10, seed=1), optim.AdamW(net.parameters(), lr=0.01))
    assert torch.equal(net[2].bias, bias) and moved(net, old) < 1e-13


def test_thawing_inside_the_block_is_protected_from_the_first_step(mlp, rows, moved, answers, steps):
    net = mlp()
    net[0].requires_grad_(False)
    guard = rm.deep.GradientProjection(net)
    guard.absorb([rows(3, 10)])
    old, before = [(rows(3, 10), answers(net, rows(3, 10)))], snapshot(net)
    optimizer, new = optim.AdamW(net.parameters(), lr=0.01), rows(3, 10, seed=1)
    with guard.protect(optimizer):
        steps(optimizer, lambda: net(new).square().mean(), steps=2)
        assert torch.equal(net[0].weight, before["0.weight"])
        net[0].requires_grad_(True)
        steps(optimizer, lambda: net(new).square().mean(), steps=1)
        assert moved(net, old) < 1e-13 and not torch.equal(net[0].weight, before["0.weight"])


def test_a_gradient_left_over_in_a_frozen_layer_does_not_leak(mlp, rows, moved, answers):
    """Optimizers go on moving what has a gradient, whether it still asks for one or not."""
    net = mlp()
    guard = rm.deep.GradientProjection(net)
    x = rows(3, 10)
    guard.absorb([x])
    old = [(x, answers(net, x))]
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    net(x).square().sum().backward()
    net[0].requires_grad_(False)
    before = net[0].weight.detach().clone()
    with guard.protect(optimizer):
        optimizer.step()
        assert (net[0].weight - before).abs().max() > 1e-4, "the optimizer did move it"
        assert moved(net, old) < 1e-13


def test_buffers_may_be_frozen_too(rows, learn):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)
            self.register_buffer("shift", torch.zeros(2))

        def forward(self, x):
            if self.training:
                self.shift += 1.0
            return self.layer(x) + self.shift

    net = Counting().double()
    guard = rm.deep.GradientProjection(net, frozen=["shift"])
    guard.absorb([rows(2, 4)])
    learn(net, guard, rows(2, 4, seed=1), optim.SGD(net.parameters(), lr=0.1))
    assert torch.equal(net.shift, torch.zeros(2, dtype=torch.float64))
