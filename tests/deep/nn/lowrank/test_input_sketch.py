"""The sketch of a layer's inputs against the singular value decomposition of all of them."""

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")
from remanence.deep.nn.lowrank.input_sketch import InputSketch  # noqa: E402

nn, optim = torch.nn, torch.optim


EPS = float(np.finfo(np.float32).eps)
FINEST = 16 * EPS  # of all strengths: sums in float32 have errors of this size


def decaying(n, d, seed=0, fall=2.0):
    """Rows in general directions with strengths 1, 1/2^fall, 1/3^fall, …, in single precision."""
    noise = np.random.default_rng(seed)
    Q = np.linalg.qr(noise.standard_normal((d, d)))[0]
    return single(noise.standard_normal((n, d)) / np.arange(1, d + 1) ** fall @ Q)


def single(X):
    return X.astype(np.float32).astype(np.float64)


def sketched(X, rank, batch, W):
    sketch = InputSketch(X.shape[1], rank)
    for k in range(0, len(X), batch):
        sketch.fold(torch.from_numpy(X[k : k + batch]).float())
    return sketch.root(W)


@pytest.mark.parametrize("batch", [1, 37, 1000])
def test_the_strongest_directions_their_energy_and_outputs(batch):
    X, W = decaying(1000, 120), np.random.default_rng(1).standard_normal((3, 120))
    root = sketched(X, 30, batch, W)
    _, s, Vt = np.linalg.svd(X, full_matrices=False)
    assert root.factor.shape == (30, 120) and root.target.shape == (30, 3)
    strengths = np.linalg.norm(root.factor, axis=1)
    np.testing.assert_allclose(strengths[:10], s[:10], rtol=1e-3)
    assert np.all(strengths <= s[:30] + FINEST * s[0]), "an approximation from below"
    V = root.spectrum.basis
    np.testing.assert_allclose(V.T @ V, np.eye(30), atol=1e-10)
    squares = s**2  # the error is (1 + k / (l − k − 1)) Σ_{j>k} s² at most on average, here with k = 30 of l = 61
    allowed = 2 * squares[30:].sum() / (squares[4] - squares[5])  # Davis and Kahan
    assert np.linalg.norm(Vt[:5] - Vt[:5] @ V @ V.T) < allowed < 0.1
    best = float((s[:30] ** 2).sum() / (s**2).sum())
    assert best - 1e-4 < root.kept <= best + FINEST
    np.testing.assert_allclose(root.target, root.factor @ W.T, atol=1e-12)


@pytest.mark.parametrize("batch", [7, 500])
def test_inputs_in_few_directions_are_kept_whole_down_to_single_precision(batch):
    """Sums of squares in float32 would lose all that is weaker than 3e-4 of the strongest."""
    noise = np.random.default_rng(0)
    X = single((noise.standard_normal((500, 12)) * np.logspace(0, -5, 12)) @ noise.standard_normal((12, 90)))
    root = sketched(X, 16, batch, np.zeros((1, 90)))
    V, s = root.spectrum.basis, np.linalg.svd(X, compute_uv=False)
    assert V.shape[1] == 12 and root.kept == pytest.approx(1, abs=FINEST)
    assert np.linalg.norm(X - X @ V @ V.T, 2) < FINEST * s[0]
    np.testing.assert_allclose(root.spectrum.strength, s[:12], rtol=1e-3)


def sorted_classes(sizes, rows=200, each=6, d=150):
    """One class after the other, each in directions of its own, with strengths over four decades."""
    noise = np.random.default_rng(0)
    Q = np.linalg.qr(noise.standard_normal((d, d)))[0]
    own = [noise.standard_normal((rows, each)) * np.logspace(0, -4, each) for _ in sizes]
    spread = [x @ Q[k * each : k * each + each] for k, x in enumerate(own)]
    return single(np.concatenate([size * x for size, x in zip(sizes, spread, strict=True)]))


@pytest.mark.parametrize("batch", [10, 64, 300])
@pytest.mark.parametrize("sizes", [np.ones(8), np.logspace(0, -1, 8), np.logspace(-12, 0, 8), np.logspace(20, 0, 8)])
def test_classes_one_after_the_other_are_all_kept(batch, sizes):
    X = sorted_classes(sizes)
    root = sketched(X, 64, batch, np.zeros((1, 150)))
    V, strongest = root.spectrum.basis, np.linalg.norm(X, 2)
    assert np.linalg.norm(X - X @ V @ V.T, 2) < 4 * FINEST * strongest
    s = np.linalg.svd(X / strongest, compute_uv=False)[: V.shape[1]]
    np.testing.assert_allclose(root.spectrum.strength / strongest, s, atol=FINEST)
    assert np.count_nonzero(s > FINEST * np.linalg.norm(s)) <= V.shape[1]


@pytest.mark.parametrize("size", [1e-38, 1e-20, 1.0, 1e20, 1e36])
def test_inputs_of_any_size_and_with_a_mean(size):
    noise = np.random.default_rng(0)
    hidden = np.maximum(noise.standard_normal((400, 20)) @ noise.standard_normal((20, 79)) + 3, 0)
    X = single(np.concatenate([hidden, np.ones((400, 1))], axis=1))
    root = sketched(size * X, 80, 50, np.ones((1, 80)))
    factor = root.factor / size
    np.testing.assert_allclose(factor.T @ factor, X.T @ X, atol=1e-5 * np.linalg.norm(X, 2) ** 2)
    assert root.kept == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("rows", [np.zeros((1, 40)), np.ones((1, 40)), decaying(3, 40), np.eye(40)[:3]])
def test_few_rows_many_times(rows):
    rows = np.tile(rows, (90, 1))
    root = sketched(np.concatenate([np.zeros((50, 40)), rows, np.zeros((50, 40))]), 8, 25, np.ones((1, 40)))
    np.testing.assert_allclose(root.factor.T @ root.factor, rows.T @ rows, atol=FINEST * max(np.sum(rows**2), 1))
    assert root.kept == pytest.approx(1, abs=FINEST) and root.spectrum.rank <= 3


def test_a_power_step_with_the_first_rows_comes_close_to_the_best_energy():
    """The approximation by a random test matrix alone, in double precision, keeps clearly less."""
    X, rank = decaying(3000, 200, fall=0.5), 40
    root = sketched(X, rank, 100, np.ones((1, 200)))
    s = np.linalg.svd(X, compute_uv=False)
    best = float((s[:rank] ** 2).sum() / (s**2).sum())
    T = X @ np.linalg.qr(np.random.default_rng(1).standard_normal((200, InputSketch(200, rank).width)))[0]
    random = np.linalg.svd(np.linalg.qr(T)[0].T @ X, compute_uv=False)[:rank]
    assert float((random**2).sum() / (s**2).sum()) + 0.03 < root.kept <= best


def test_rows_that_wait_are_copies():
    X = torch.ones(3, 10)
    sketch = InputSketch(10, 4)
    sketch.fold(X)
    X.zero_()
    assert sketch.root(np.ones((1, 10))).spectrum.kept() == pytest.approx(30)


def test_few_rows_are_decomposed_as_they_are():
    X = decaying(20, 90, fall=0.0)
    root = sketched(X, 32, 8, np.ones((2, 90)))
    np.testing.assert_allclose(root.factor.T @ root.factor, X.T @ X, atol=1e-12)
    assert root.kept == 1 and InputSketch(5, 2).root(np.ones((1, 5))).factor.shape == (2, 5)


def test_directions_as_many_as_inputs_are_exact():
    X = decaying(300, 12, fall=1.0)
    root = sketched(X, 12, 50, np.ones((2, 12)))
    np.testing.assert_allclose(root.factor.T @ root.factor, X.T @ X, atol=EPS * np.sum(X**2))


@pytest.mark.parametrize("make", [rm.deep.GradientProjection, rm.deep.OWM, rm.deep.ScaledProjection])
def test_a_guard_in_single_precision(make):
    """Old outputs stay where the rank suffices; where it does not, the report says what is kept."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(60, 40, bias=False), nn.Tanh(), nn.Linear(40, 2))
    noise = np.random.default_rng(0)
    X = torch.from_numpy((noise.standard_normal((200, 5)) @ noise.standard_normal((5, 60))).astype(np.float32))
    guard = make(net[:1], memory="lowrank", rank=8)
    report = guard.absorb(X.split(30))
    assert report.layers[0].kept > 1 - FINEST and report.layers[0].drift < 1e-5
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
