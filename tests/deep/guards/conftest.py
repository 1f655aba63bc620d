"""Small networks, a guarded training loop, and how far outputs on old inputs have changed."""

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn = torch.nn
torch.set_num_threads(1)


def make_rows(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def make_mlp(inputs=10, hidden=40, outputs=3, dtype=torch.float64):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    ).to(dtype)


class Convolutions(nn.Module):
    """A residual block of convolutions with groups, strides and a circular border, and a linear head."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 12, 3, padding=1)
        self.inner = nn.Conv2d(12, 12, 3, padding="same", groups=2, padding_mode="circular")
        self.last = nn.Conv2d(12, 16, 3, stride=2, dilation=2)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        h = torch.relu(self.first(x))
        h = h + torch.tanh(self.inner(h))
        return self.head(torch.relu(self.last(h)).mean((2, 3)))


class Attention(nn.Module):
    """Attention written by hand, torch's own, and a feed-forward layer, around a norm."""

    def __init__(self, width=24):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.out = nn.Linear(width, 3)

    def forward(self, x):
        weights = torch.softmax(self.query(x) @ self.key(x).transpose(1, 2), -1)
        h = self.norm(x + weights @ self.value(x))
        return self.out((h + self.attention(h, h, h, need_weights=False)[0]).mean(1))


def make_net(kind, dtype=torch.float64):
    torch.manual_seed(0)
    return {"mlp": make_mlp, "cnn": Convolutions, "attention": Attention}[kind]().to(dtype)


def make_inputs(kind, task, dtype=torch.float64):
    shape = {"mlp": (3, 10), "cnn": (1, 3, 5, 5), "attention": (2, 3, 24)}[kind]
    return make_rows(*shape, seed=100 + task, dtype=dtype)


def run_steps(optimizer, loss_of, steps=20):
    """Train by closures, which every optimizer understands; returns the losses, the last one after the last step."""
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        return loss

    for _ in range(steps):
        losses.append(float(optimizer.step(closure).detach()))
    return [*losses, float(loss_of().detach())]


def fit(net, guard, x, optimizer, seed=0, steps=20):
    """Guarded regression of random targets; returns the losses."""
    shape = answers_of(net, x).shape
    y = make_rows(*shape, seed=1000 + seed, dtype=x.dtype if x.is_floating_point() else torch.float64)
    with guard.protect(optimizer):
        return run_steps(optimizer, lambda: (net(x) - y).square().mean(), steps)


def shift(net, old):
    """Return the largest change of the outputs on old inputs; `old` is a list of (inputs, outputs then)."""
    was = net.training
    net.eval()
    with torch.no_grad():
        moved = max(float((net(x) - answers).abs().max()) for x, answers in old)
    net.train(was)
    return moved


def answers_of(net, x):
    was = net.training
    net.eval()
    with torch.no_grad():
        answers = net(x)
    net.train(was)
    return answers


def count_hooks(net, *optimizers):
    """How many hooks hang on a network and its optimizers."""
    counts = [len(o._optimizer_step_pre_hooks) + len(o._optimizer_step_post_hooks) for o in optimizers]
    modules = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules()]
    return sum(counts) + sum(modules)


@pytest.fixture
def hooks_of():
    return count_hooks


@pytest.fixture
def rows():
    return make_rows


@pytest.fixture
def mlp():
    return make_mlp


@pytest.fixture
def network():
    return make_net


@pytest.fixture
def inputs():
    return make_inputs


@pytest.fixture
def learn():
    return fit


@pytest.fixture
def steps():
    return run_steps


@pytest.fixture
def moved():
    return shift


@pytest.fixture
def answers():
    return answers_of


@pytest.fixture
def started():
    """A network with a task absorbed: net, guard, old inputs with their outputs, new inputs."""

    def start(dtype=torch.float64, make=rm.deep.GradientProjection):
        net, x = make_mlp(dtype=dtype), make_rows(3, 10, dtype=dtype)
        guard = make(net)
        guard.absorb([x])
        return net, guard, [(x, answers_of(net, x))], make_rows(6, 10, seed=1, dtype=dtype)

    return start
