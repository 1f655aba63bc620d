"""Buffers of the user's own modules that change in training are frozen like a batch norm's, with a warning."""

import warnings

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim

GUARDS = {
    "energy 1": rm.deep.GradientProjection,
    "energy .9": lambda net, **names: rm.deep.GradientProjection(net, energy=0.9, **names),
    "OWM": rm.deep.OWM,
    "OGD": rm.deep.OGD,
}


class Centred(nn.Module):
    """Running statistics of its own: in place, or by a new tensor each time, or through .data."""

    def __init__(self, how, width=8):
        super().__init__()
        self.how = how
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))  # never looked at while eval_mode

    def forward(self, x):
        if self.training:
            self.calls += 1
            with torch.no_grad():
                new = 0.5 * self.mean + 0.5 * (x.mean(0) + 1)
                if self.how == "in place":
                    self.mean.copy_(new)
                elif self.how == "data":
                    self.mean.data.copy_(new)
                else:
                    self.mean = new
        return x - self.mean + 0 * self.seen


class Reader(nn.Module):
    """Statistics in a module that is never called, read by the one around it."""

    def __init__(self):
        super().__init__()
        self.stats = Centred("in place")
        self.a, self.out = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        if self.training:
            self.stats.mean.mul_(0.5).add_(x.detach().mean(0) + 1, alpha=0.5)
        return self.out(torch.tanh(self.a(x - self.stats.mean)))


def make(how):
    torch.manual_seed(0)
    if how == "read":
        return Reader().double()
    return nn.Sequential(nn.Linear(8, 8), Centred(how), nn.Tanh(), nn.Linear(8, 2)).double()


def train(net, guard, x, steps=5):
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    net.train()
    with guard.protect(optimizer):
        for _ in range(steps):
            optimizer.zero_grad()
            (net(x) - 1).square().mean().backward()
            optimizer.step()


def mean_of(net):
    return net.stats.mean if isinstance(net, Reader) else net[1].mean


@pytest.mark.parametrize("how", ["in place", "new tensor", "data", "read"])
@pytest.mark.parametrize("kind", GUARDS)
def test_running_statistics_of_user_modules_are_frozen_with_a_warning(how, kind, rows, answers, moved):
    net = make(how)
    guard = GUARDS[kind](net)
    train(net, guard, rows(3, 8))
    assert float(mean_of(net).abs().max()) > 0.1, "free during the first task"
    guard.absorb([rows(3, 8)])
    old, mean = [(rows(3, 8), answers(net, rows(3, 8)))], mean_of(net).clone()
    with pytest.warns(UserWarning, match=r"mean changed .*inside protect\(\).* restored"):
        train(net, guard, rows(3, 8, seed=1) + 5)
    assert torch.equal(mean_of(net), mean)
    if kind == "energy 1":
        assert moved(net, old) < 1e-13
    if how != "read":
        assert int(net[1].calls) == 10, "what no forward pass reads is left alone"


@pytest.mark.parametrize("kind", GUARDS)
def test_free_buffers_change_and_frozen_ones_are_restored_without_a_warning(kind, rows):
    for names, held in (({"free": ["1.mean"]}, False), ({"frozen": ["1.mean"]}, True)):
        net = make("new tensor")
        guard = GUARDS[kind](net, **names)
        train(net, guard, rows(3, 8))
        guard.absorb([rows(3, 8)])
        mean = net[1].mean.clone()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            train(net, guard, rows(3, 8, seed=1) + 5)
        assert torch.equal(net[1].mean, mean) == held


@pytest.mark.parametrize("kind", GUARDS)
def test_changes_outside_a_block_are_reported_at_the_next_block(kind, rows):
    net = make("new tensor")
    guard = GUARDS[kind](net)
    guard.absorb([rows(3, 8)])
    net.train()
    net(rows(3, 8, seed=2))
    with (
        pytest.warns(UserWarning, match=r"buffers? 1\.mean changed outside protect\(\)"),
        guard.protect(optim.SGD(net.parameters())),
    ):
        pass


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(8, 8)
        self.heads = nn.ModuleList(nn.Sequential(Centred("new tensor"), nn.Linear(8, 2)) for _ in range(2))

    def forward(self, x, task):
        return self.heads[task](torch.tanh(self.trunk(x)))


def test_a_head_that_was_not_called_yet_learns_its_statistics_later(rows):
    torch.manual_seed(0)
    net = Heads().double()
    guard = rm.deep.GradientProjection(net)
    guard.absorb([rows(2, 8)], lambda model, x: model(x, 0))
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    net.train()
    with guard.protect(optimizer), warnings.catch_warnings():
        warnings.simplefilter("error")
        net(rows(2, 8, seed=1), 1).square().sum().backward()
        optimizer.step()
    assert float(net.heads[1][0].mean.abs().max()) > 0.1
    assert not net.heads[0][0].mean.any()


@pytest.mark.parametrize("kind", GUARDS)
def test_saved_and_loaded_they_are_still_frozen(kind, rows):
    net = make("in place")
    guard = GUARDS[kind](net)
    guard.absorb([rows(3, 8)])
    other = GUARDS[kind](net)
    other.load_state_dict(guard.state_dict())
    mean = net[1].mean.clone()
    with pytest.warns(UserWarning, match="mean changed"):
        train(net, other, rows(3, 8, seed=1) + 5)
    assert torch.equal(net[1].mean, mean)


@pytest.mark.parametrize("kind", GUARDS)
def test_a_state_without_frozen_buffers_still_loads(kind, rows):
    net = make("in place")
    guard = GUARDS[kind](net)
    guard.absorb([rows(3, 8)])
    state = guard.state_dict()
    assert set(state["held"]) == {"1.mean", "1.seen"}
    state |= {"held": {}, "format": 1}  # format 1 does not list its entries
    GUARDS[kind](net).load_state_dict(state)


class Cached(nn.Module):
    """A table of positions that grows with the longest input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("positions", torch.arange(3.0), persistent=False)
        self.out = nn.Linear(1, 1)

    def forward(self, x):
        if x.shape[1] > len(self.positions):
            self.positions = torch.arange(float(x.shape[1])).to(x)
        return self.out((x + self.positions[: x.shape[1]]).mean(1, keepdim=True))


def test_a_cache_that_grows_is_no_obstacle(rows):
    net = Cached().double()
    guard = rm.deep.GradientProjection(net)
    guard.absorb([rows(1, 3)])
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with guard.protect(optimizer), pytest.warns(UserWarning, match="positions changed its shape"):
        net(rows(1, 7)).sum().backward()
        optimizer.step()
    assert len(net.positions) == 7
    guard.absorb([rows(1, 7)])
    other = rm.deep.GradientProjection(Cached().double())
    other.load_state_dict(guard.state_dict())
