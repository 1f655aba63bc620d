"""Norm layers: scale, shift and running statistics are frozen from the first task that calls them."""

import copy

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim


def network(norm):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 20), norm, nn.Tanh(), nn.Linear(20, 3)).double()


def state_of(norm):
    return {name: t.detach().clone() for name, t in (*norm.named_parameters(), *norm.named_buffers())}


NORMS = {
    "batch": lambda: nn.BatchNorm1d(20),
    "plain batch": lambda: nn.BatchNorm1d(20, affine=False, momentum=None),
    "layer": lambda: nn.LayerNorm(20),
    "group": lambda: nn.GroupNorm(4, 20),
    "root mean square": lambda: nn.RMSNorm(20),
}


@pytest.mark.parametrize("kind", NORMS)
def test_norms_learn_in_the_first_task_and_stay_to_the_bit_afterwards(kind, rows, learn, moved, answers):
    net = network(NORMS[kind]())
    guard = rm.deep.GradientProjection(net)
    optimizer = optim.AdamW(net.parameters(), lr=0.01)
    start = state_of(net[1])
    net.train()
    learn(net, guard, rows(5, 6), optimizer)
    held = state_of(net[1])
    assert any(not torch.equal(held[name], start[name]) for name in held)
    guard.absorb([rows(5, 6)])
    old = [(rows(5, 6), answers(net, rows(5, 6)))]
    for seed in (1, 2):
        losses = learn(net, guard, rows(5, 6, seed=seed), optimizer, seed=seed)
        assert losses[-1] < losses[0]
        assert all(torch.equal(held[name], now) for name, now in state_of(net[1]).items())
        assert moved(net, old) < 1e-13


def test_a_frozen_batch_norm_uses_its_statistics_in_any_mode(rows):
    net = network(nn.BatchNorm1d(20))
    guard = rm.deep.GradientProjection(net)
    net(3 * rows(9, 6))
    guard.absorb([rows(4, 6)])
    optimizer, x = optim.SGD(net.parameters(), lr=0.0), rows(3, 6, seed=1)
    net.eval()
    expected = net(x).detach()
    with guard.protect(optimizer):
        net.train()
        assert net.training and (net(x) - expected).abs().max() < 1e-14
        assert copy.deepcopy(net)(x).sub(expected).abs().max() < 1e-14
        net[1].train()
        assert (net(x) - expected).abs().max() < 1e-14
    assert net[1].training, "the mode asked for last comes back"
    assert (net(x) - expected).abs().max() > 1e-2


@pytest.mark.parametrize("last", [True, False])
def test_after_the_block_every_module_has_the_mode_that_was_asked_for(last, rows):
    net = network(nn.BatchNorm1d(20))
    guard = rm.deep.GradientProjection(net)
    guard.absorb([rows(4, 6)])
    with pytest.raises(ZeroDivisionError), guard.protect(optim.SGD(net.parameters())):
        net.train(not last)
        net.train(last)
        raise ZeroDivisionError
    assert {module.training for module in net.modules()} == {last}
    net.train(not last)
    assert {module.training for module in net.modules()} == {not last}
    assert "train" not in vars(net[1])


def test_statistics_that_moved_outside_are_told_and_what_is_absorbed_counts(rows, learn, moved, answers):
    net = network(nn.BatchNorm1d(20))
    guard = rm.deep.GradientProjection(net)
    net(rows(9, 6))
    guard.absorb([rows(2, 6)])
    net.train()
    net(5 * rows(9, 6, seed=1))
    x = rows(2, 6, seed=2)
    with pytest.warns(UserWarning, match=r"1\.running_mean.*changed outside protect.*current outputs"):
        guard.absorb([x])
    old = [(x, answers(net, x))]
    learn(net, guard, rows(3, 6, seed=3), optim.AdamW(net.parameters(), lr=0.01))
    assert moved(net, old) < 1e-13


class Heads(nn.Module):
    """A trunk and heads with norms of their own."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(6, 20)
        self.heads = nn.ModuleDict({k: nn.Sequential(nn.BatchNorm1d(20), nn.Linear(20, 2)) for k in "ab"})

    def forward(self, x, head):
        return self.heads[head](torch.tanh(self.trunk(x)))


@pytest.mark.filterwarnings("ignore:no direction is left")
def test_the_norm_of_a_head_that_no_task_used_yet_is_still_free(rows, steps):
    torch.manual_seed(0)
    net = Heads().double()
    guard = rm.deep.GradientProjection(net)
    optimizer = optim.AdamW(net.parameters(), lr=0.01)
    old, new = rows(4, 6), rows(4, 6, seed=1)
    guard.absorb([(old, "a")])
    a, b = (state_of(net.heads[k][0]) for k in "ab")
    net.train()
    with guard.protect(optimizer):
        steps(optimizer, lambda: (net(new, "b") - 1).square().mean() + net(new, "a").mean())
    assert all(torch.equal(a[name], now) for name, now in state_of(net.heads["a"][0]).items())
    assert all(not torch.equal(b[name], now) for name, now in state_of(net.heads["b"][0]).items())
    guard.absorb([(new, "b")])
    b = state_of(net.heads["b"][0])
    with guard.protect(optimizer):
        steps(optimizer, lambda: net(old, "b").square().mean())
    assert all(torch.equal(b[name], now) for name, now in state_of(net.heads["b"][0]).items())


def test_a_norm_left_free_goes_on_learning(rows, learn):
    net = network(nn.BatchNorm1d(20))
    guard = rm.deep.GradientProjection(net, energy=0.9, free=("1",))
    guard.absorb([rows(4, 6)])
    before = state_of(net[1])
    net.train()
    learn(net, guard, rows(5, 6, seed=1), optim.AdamW(net.parameters(), lr=0.01))
    assert all(not torch.equal(before[name], now) for name, now in state_of(net[1]).items())


def test_a_batch_norm_without_running_statistics_raises_an_error():
    with pytest.raises(rm.InputError, match=r"^1 normalizes by batch statistics.*track_running_stats=True"):
        rm.deep.GradientProjection(network(nn.BatchNorm1d(20, track_running_stats=False)))
    rm.deep.GradientProjection(nn.Sequential(nn.Conv1d(2, 4, 3), nn.InstanceNorm1d(4)))


def test_running_statistics_that_are_replaced_by_other_tensors_are_restored(rows, learn, moved, answers):
    """As the callback for stochastic weight averaging of Lightning does before it computes them anew."""
    net, x = network(nn.BatchNorm1d(20)), rows(5, 6)
    net(3 * rows(9, 6))
    guard, optimizer = rm.deep.GradientProjection(net), optim.SGD(net.parameters(), lr=0.01)
    guard.absorb([x])
    old = [(x, answers(net, x))]
    with pytest.warns(UserWarning, match=r"1\.running_mean changed"), guard.protect(optimizer):
        (net(rows(5, 6, seed=1)) - 1).square().mean().backward()
        net[1].running_mean = torch.zeros_like(net[1].running_mean)
        net[1].running_var = torch.ones_like(net[1].running_var)
    assert moved(net, old) < 1e-13
    learn(net, guard, rows(5, 6, seed=2), optimizer)
    assert moved(net, old) < 1e-13
