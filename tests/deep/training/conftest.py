"""Small networks and streams for the training loop, and comparisons of two networks."""

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402


def make_net(inputs=6, outputs=4, hidden=12):
    draw = torch.Generator().manual_seed(0)
    layers = nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs)).double()
    with torch.no_grad():
        for p in layers.parameters():
            p.copy_(torch.randn(p.shape, generator=draw, dtype=torch.float64) * 0.3)
    return layers


def make_labelled(tasks=2, rows=24, classes=2, inputs=6):
    """Task t holds the labels classes·t … classes·(t + 1) − 1, each around a centre of its own."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((tasks * classes, inputs)) * 2
    stream = []
    for t in range(tasks):
        Y, Y_test = (classes * t + np.resize(np.arange(classes), n) for n in (rows, 15))
        X, X_test = (centres[y] + 0.5 * rng.standard_normal((len(y), inputs)) for y in (Y, Y_test))
        stream.append(rm.Task(f"t{t}", X, Y, X_test, Y_test))
    return stream


def make_numbers(tasks=2, rows=20, inputs=6, outputs=2):
    rng = np.random.default_rng(0)
    stream = []
    for t in range(tasks):
        X = rng.standard_normal((rows, inputs))
        stream.append(rm.Task(f"n{t}", X, np.sin(X @ rng.standard_normal((inputs, outputs)))))
    return stream


def descent(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=0.01)


def to_the_bit(a, b):
    a, b = a.state_dict(), b.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def to_rounding(a, b):
    pairs = zip(a.parameters(), b.parameters(), strict=True)
    return all(torch.allclose(p, q, atol=1e-12, rtol=1e-12) for p, q in pairs)


@pytest.fixture
def net():
    return make_net


@pytest.fixture
def labelled():
    return make_labelled


@pytest.fixture
def numbers():
    return make_numbers


@pytest.fixture
def sgd():
    return descent


@pytest.fixture
def same():
    return to_the_bit


@pytest.fixture
def near():
    return to_rounding
