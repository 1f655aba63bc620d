"""Scaled gradient projection: importance by the formula, accumulated and clipped, between free and hard."""

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim


def layer():
    torch.manual_seed(0)
    return nn.Linear(6, 2, bias=False).double()


def test_importance_is_that_of_the_singular_values(rows):
    X, alpha = rows(20, 6) * torch.logspace(0, -2, 6), 4.0
    guard = rm.deep.ScaledProjection(layer(), alpha)
    guard.absorb([X])
    _, sigma, Vt = np.linalg.svd(X.numpy(), full_matrices=False)
    importance = (alpha + 1) * sigma / (alpha * sigma + sigma[0])
    kept = guard._memory.directions["linear"]
    projector = (kept.basis[0] * kept.strength[0]) @ kept.basis[0].T
    np.testing.assert_allclose(projector.numpy(), (Vt.T * importance) @ Vt, atol=1e-10)


def test_a_step_loses_its_share_along_every_direction(rows):
    net = layer()
    X = rows(20, 6) * torch.logspace(0, -2, 6)
    guard = rm.deep.ScaledProjection(net, 1.0)
    guard.absorb([X])
    kept, before = guard._memory.directions["linear"], net.weight.detach().clone()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    net(rows(3, 6, seed=2)).sum().backward()
    step = -0.1 * net.weight.grad.clone()
    with guard.protect(optimizer):
        optimizer.step()
    allowed = torch.eye(6, dtype=torch.float64) - (kept.basis[0] * kept.strength[0]) @ kept.basis[0].T
    assert torch.allclose(net.weight - before, step @ allowed, atol=1e-12)


def test_importance_accumulates_and_is_clipped(rows):
    guard = rm.deep.ScaledProjection(layer(), 1.0)
    X = rows(20, 6)
    used = []
    for _ in range(4):
        guard.absorb([X])
        used.append(guard.capacity()["linear"])
        strength = guard._memory.directions["linear"].strength
        assert float(strength.max()) <= 1.0
    assert used == sorted(used)
    assert used[-1] == pytest.approx(1.0)


def test_a_large_alpha_is_gradient_projection(rows, moved, answers, mlp, learn):
    net, x = mlp(), rows(3, 10)
    guard = rm.deep.ScaledProjection(net, alpha=1e12)
    guard.absorb([x])
    old = [(x, answers(net, x))]
    losses = learn(net, guard, rows(6, 10, seed=1), optim.AdamW(net.parameters(), lr=1e-2))
    assert losses[-1] < losses[0]
    assert moved(net, old) < 1e-6


def test_the_energy_may_differ_by_layer(mlp, rows):
    ranks = [
        {layer.name: layer.rank for layer in rm.deep.ScaledProjection(mlp(), 3.0, energy).absorb([rows(8, 10)]).layers}
        for energy in (1.0, 0.6, {"2": 0.6})
    ]
    assert ranks[1]["0"] < ranks[0]["0"] and ranks[1]["2"] < ranks[0]["2"]
    assert ranks[2] == ranks[0] | {"2": ranks[1]["2"]}


@pytest.mark.parametrize(
    "options", [{"alpha": -1.0}, {"energy": 1.5}, {"alpha": {"nowhere": 1.0}}, {"energy": {"nowhere": 1.0}}]
)
def test_bad_settings_raise_an_error(options):
    with pytest.raises(rm.InputError):
        rm.deep.ScaledProjection(layer(), **options)
