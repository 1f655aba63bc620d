"""Heads that are added one by one, and one head that grows."""

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim


class MultiHead(nn.Module):
    """One trunk, a head a task by name."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.trunk, self.heads = nn.Linear(8, 40), nn.ModuleDict()

    def add(self, name):
        self.heads[name] = nn.Linear(40, 3).double()

    def forward(self, x, head):
        return self.heads[head](torch.tanh(self.trunk(x)))


@pytest.mark.parametrize("early", [True, False])
def test_heads_that_are_there_from_the_start_or_added_task_by_task(early, rows, steps):
    net = MultiHead().double()
    for name in "abc" if early else ():
        net.add(name)
    guard = rm.deep.GradientProjection(net)
    old = []
    for seed, name in enumerate("abc"):
        if not early:
            net.add(name)
        optimizer = optim.AdamW(net.parameters(), lr=0.02)
        x = rows(2, 8, seed=seed)
        with guard.protect(optimizer):
            losses = steps(optimizer, lambda x=x, name=name: (net(x, name) - 1).square().mean())
        assert losses[-1] < 0.2 * losses[0]
        guard.absorb([(x, name)])
        old.append((x, name, net(x, name).detach()))
    for x, name, answers in old:
        assert (net(x, name) - answers).abs().max() < 1e-13
    assert {layer.name: layer.rank for layer in guard.report().layers} == {
        "trunk": 6,
        "heads.a": 2,
        "heads.b": 2,
        "heads.c": 2,
    }


@pytest.mark.filterwarnings("ignore:no direction is left", "ignore:earlier inputs use every direction")
@pytest.mark.parametrize("make", [rm.deep.GradientProjection, lambda net: rm.deep.OWM(net, damping=1e-10)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_head_grows_and_old_outputs_stay(make, bias, rows, learn, moved, answers):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 30), nn.Tanh(), nn.Linear(30, 2, bias=bias)).double()
    guard = make(net)
    old = []
    for task in range(3):
        if task:
            guard.grow("2", 2 + 2 * task)
        x = rows(3, 8, seed=task)
        losses = learn(net, guard, x, optim.AdamW(net.parameters(), lr=0.02), seed=task)
        assert losses[-1] < 0.5 * losses[0]
        guard.absorb([x])
        old.append((x, answers(net, x)))
    for x, then in old:
        now = net(x).detach()
        assert (now[:, : then.shape[1]] - then).abs().max() < 1e-8
        assert now[:, then.shape[1] :].abs().max(dim=0).values.sum() < 1e-8, "new classes do not win on old samples"
    assert all(layer.drift < 1e-8 for layer in guard.report().layers)


def test_a_head_may_grow_before_anything_is_absorbed_and_inside_a_block(rows, steps):
    net = nn.Linear(8, 2).double()
    guard = rm.deep.GradientProjection(net, frozen=["bias"])
    guard.grow("linear", 3)
    x = rows(2, 8)
    guard.absorb([x])
    before = net(x).detach()
    with guard.protect(optim.SGD(net.parameters(), lr=0.1)):
        guard.grow("linear", 5)
        new = optim.SGD(net.parameters(), lr=0.1)
        with guard.protect(new):
            steps(new, lambda: (net(rows(2, 8, seed=1)) - 1).square().mean())
    assert (net(x)[:, :3] - before).abs().max() < 1e-13 and net(x)[:, 3:].abs().max() < 1e-13


def test_what_cannot_grow_raises_an_error_and_nothing_changes(rows):
    tied = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    tied[1].weight, tied[1].bias = tied[0].weight, tied[0].bias
    attention = nn.MultiheadAttention(4, 2)
    cases = [
        (nn.Linear(4, 2), "linear", 2, "more than the 2 outputs"),
        (nn.Linear(4, 2), "linear", 2.5, "integer"),
        (nn.Linear(4, 2), "head", 3, "there are \\['linear'\\]"),
        (nn.Conv1d(2, 2, 1), "conv1d", 3, "Linear layer"),
        (tied, "0", 6, "untie"),
        (attention, "multiheadattention.out_proj", 6, "untie"),
    ]
    for net, name, outputs, message in cases:
        before = {key: tuple(p.shape) for key, p in net.named_parameters()}
        with pytest.raises(rm.InputError, match=message):
            rm.deep.GradientProjection(net).grow(name, outputs)
        assert {key: tuple(p.shape) for key, p in net.named_parameters()} == before


def test_a_head_replaced_by_hand_raises_an_error_once_it_was_absorbed(rows):
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    guard = rm.deep.GradientProjection(net)
    net[2] = nn.Linear(5, 3).double()
    guard.absorb([rows(2, 4)])  # nothing was promised of the layer before
    for new in (nn.Linear(5, 3), nn.Linear(5, 7)):
        net[2] = new.double()
        for use in (lambda: guard.absorb([rows(2, 4)]), lambda: guard.protect(optim.SGD(net.parameters())).__enter__()):
            with pytest.raises(rm.InputError, match=r"but 2 was replaced.*guard\.grow"):
                use()
    assert guard.report().tasks == 1
