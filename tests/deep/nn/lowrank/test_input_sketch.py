"""The sketch of a layer's inputs against the singular value decomposition of all of them."""

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")
from remanence.deep.nn.lowrank.input_sketch import InputSketch  # noqa: E402

nn, optim = torch.nn, torch.optim


def decaying(n, d, seed=0, fall=2.0):
    """Rows in general directions with strengths 1, 1/2^fall, 1/3^fall, …"""
    noise = np.random.default_rng(seed)
    Q = np.linalg.qr(noise.standard_normal((d, d)))[0]
    return noise.standard_normal((n, d)) / np.arange(1, d + 1) ** fall @ Q


def sketched(X, rank, batch, W):
    sketch = InputSketch(X.shape[1], rank)
    for k in range(0, len(X), batch):
        sketch.fold(torch.from_numpy(X[k : k + batch]))
    return sketch.root(W)


@pytest.mark.parametrize("batch", [1, 37, 1000])
def test_the_strongest_directions_their_energy_and_outputs(batch):
    X, W = decaying(1000, 120), np.random.default_rng(1).standard_normal((3, 120))
    root = sketched(X, 30, batch, W)
    _, s, Vt = np.linalg.svd(X, full_matrices=False)
    assert root.factor.shape == (30, 120) and root.target.shape == (30, 3)
    strengths = np.linalg.norm(root.factor, axis=1)
    np.testing.assert_allclose(strengths[:10], s[:10], rtol=1e-3)
    assert np.all(strengths <= s[:30] * (1 + 1e-9)), "an approximation from below"
    V = root.spectrum.basis
    np.testing.assert_allclose(V.T @ V, np.eye(30), atol=1e-10)
    squares = s**2  # the error is (1 + k / (l − k − 1)) Σ_{j>k} s² at most on average, here with k = 30 of l = 61
    allowed = 2 * squares[30:].sum() / (squares[4] - squares[5])  # Davis and Kahan
    assert np.linalg.norm(Vt[:5] - Vt[:5] @ V @ V.T) < allowed < 0.1
    best = float((s[:30] ** 2).sum() / (s**2).sum())
    assert best - 1e-4 < root.kept <= best + 1e-9
    np.testing.assert_allclose(root.target, root.factor @ W.T, atol=1e-12)


@pytest.mark.parametrize("batch", [7, 500])
def test_inputs_in_few_directions_are_kept_whole_down_to_single_precision(batch):
    noise = np.random.default_rng(0)
    X = (noise.standard_normal((500, 12)) * np.logspace(0, -5, 12)) @ noise.standard_normal((12, 90))
    root = sketched(X, 16, batch, np.zeros((1, 90)))
    V, strongest = root.spectrum.basis, np.linalg.norm(X, 2)
    assert V.shape[1] == 12 and root.kept == pytest.approx(1, abs=1e-12)
    assert np.linalg.norm(X - X @ V @ V.T, 2) < 1e-9 * strongest


def test_few_rows_are_decomposed_as_they_are():
    X = decaying(20, 90, fall=0.0)
    root = sketched(X, 32, 8, np.ones((2, 90)))
    np.testing.assert_allclose(root.factor.T @ root.factor, X.T @ X, atol=1e-12)
    assert root.kept == 1 and InputSketch(5, 2).root(np.ones((1, 5))).factor.shape == (2, 5)


def test_directions_as_many_as_inputs_are_exact():
    X = decaying(300, 12, fall=1.0)
    root = sketched(X, 12, 50, np.ones((2, 12)))
    np.testing.assert_allclose(root.factor.T @ root.factor, X.T @ X, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("make", [rm.deep.GradientProjection, rm.deep.OWM, rm.deep.ScaledProjection])
def test_a_guard_in_single_precision(make):
    """Old outputs stay where the rank suffices; where it does not, the report says what is kept."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(60, 40, bias=False), nn.Tanh(), nn.Linear(40, 2))
    noise = np.random.default_rng(0)
    X = torch.from_numpy((noise.standard_normal((200, 5)) @ noise.standard_normal((5, 60))).astype(np.float32))
    guard = make(net[:1], memory="lowrank", rank=8)
    report = guard.absorb(X.split(30))
    assert report.layers[0].kept > 1 - 1e-9 and report.layers[0].drift < 1e-5
    before, optimizer = net[0](X).detach(), optim.AdamW(net.parameters(), lr=1e-2)
    new = torch.from_numpy(noise.standard_normal((20, 60)).astype(np.float32))
    with guard.protect(optimizer):
        for _ in range(10):
            optimizer.zero_grad()
            (net(new) - 1).square().mean().backward()
            optimizer.step()
    if make is rm.deep.GradientProjection:
        assert float((net[0](X).detach() - before).abs().max()) < 1e-4 * float(before.abs().max())
    other = make(net[:1], memory="lowrank", rank=3)
    (layer,) = other.absorb(X.split(30)).layers
    energies = torch.linalg.svdvals(X).square()
    best = float(energies[:3].sum() / energies.sum())
    assert best - 0.02 < layer.kept <= best + 1e-6
    assert layer.drift < 1e-5, "nothing has been trained since"


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_inputs_and_weights_that_are_not_finite_raise_an_error(bad):
    net = nn.Sequential(nn.Linear(6, 4))
    guard = rm.deep.GradientProjection(net, memory="lowrank", rank=2)
    X = torch.ones(5, 6)
    X[3, 2] = bad
    with pytest.raises(rm.InputError, match="layer 0 contain NaN"):
        guard.absorb([X])
    with torch.no_grad():
        net[0].weight[1, 1] = bad
    with pytest.raises(rm.InputError, match="NaN"):
        guard.absorb([torch.ones(5, 6)])
    assert guard.report().tasks == 0
