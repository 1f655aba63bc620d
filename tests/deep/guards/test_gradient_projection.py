"""Gradient projection keeps old outputs to rounding while it learns, for all optimizers, layers and networks."""

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim

OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.05),
    "momentum": lambda p: optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": lambda p: optim.Adam(p, lr=0.01, weight_decay=0.01),
    "AdamW": lambda p: optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.003, momentum=0.5),
    "LBFGS": lambda p: optim.LBFGS(p, max_iter=5, line_search_fn="strong_wolfe"),
}


SINGLE = ["momentum", "AdamW", "LBFGS"]
CASES = [(o, torch.float64, 1e-9) for o in OPTIMIZERS] + [(o, torch.float32, 1e-4) for o in SINGLE]


@pytest.mark.parametrize("optimizer, dtype, allowed", CASES)
@pytest.mark.parametrize("kind", ["mlp", "cnn", "attention"])
@pytest.mark.filterwarnings("ignore:no direction is left")
def test_old_outputs_stay_while_the_new_loss_falls(
    optimizer, kind, dtype, allowed, network, inputs, learn, moved, answers
):
    net = network(kind, dtype)
    guard = rm.deep.GradientProjection(net, energy=1.0)
    made = OPTIMIZERS[optimizer](net.parameters())
    old = []
    for task in range(3):
        if optimizer == "LBFGS":
            made = OPTIMIZERS[optimizer](net.parameters())
        x = inputs(kind, task, dtype)
        losses = learn(net, guard, x, made, seed=task, steps=4 if optimizer == "LBFGS" else 12)
        assert losses[-1] < losses[0] * 0.99
        guard.absorb([x])
        old.append((x, answers(net, x)))
        assert moved(net, old) < allowed
    assert all(share > 0 for share in guard.capacity().values())


def dense_optimizers():
    kinds = [getattr(optim, name) for name in dir(optim) if isinstance(getattr(optim, name), type)]
    return [kind for kind in kinds if issubclass(kind, optim.Optimizer) and kind is not optim.Optimizer]


@pytest.mark.parametrize("kind", dense_optimizers(), ids=lambda kind: kind.__name__)
def test_every_optimizer_of_torch_is_guarded(kind, rows, moved, answers, steps):
    if kind is optim.SparseAdam:
        net = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 2).requires_grad_(False))
        x, new = torch.arange(5), torch.arange(3, 9)
    else:  # Muon moves matrices alone
        net = nn.Sequential(*(nn.Linear(*s, bias=kind is not getattr(optim, "Muon", None)) for s in ((8, 9), (9, 2))))
        x, new = rows(3, 8), rows(2, 8, seed=1)
    net.double()
    guard = rm.deep.GradientProjection(net)
    optimizer = kind([p for p in net.parameters() if p.requires_grad], lr=0.01)
    steps(optimizer, lambda: net(x).square().mean(), steps=3)
    guard.absorb([x])
    old, start = [(x, answers(net, x))], [p.detach().clone() for p in net.parameters()]
    with guard.protect(optimizer):
        losses = steps(optimizer, lambda: net(new).square().mean(), steps=5)
    assert moved(net, old) < 1e-12
    assert losses[-1] < losses[0]
    assert any((p - q).abs().max() > 1e-6 for p, q in zip(net.parameters(), start, strict=True))


def test_one_sample_per_task_keeps_the_outputs_of_every_layer(rows, mlp, learn):
    """The theorem on gradient projection, with a sample a task, layer by layer."""
    net = mlp()
    guard = rm.deep.GradientProjection(net)
    optimizer = optim.AdamW(net.parameters(), lr=0.02)
    then = []
    for task in range(5):
        x = rows(1, 10, seed=task)
        learn(net, guard, x, optimizer, seed=task)
        guard.absorb([x])
        then.append((x, features(net, x)))
        assert [layer.rank for layer in guard.report().layers] == [task + 1] * 3
    for x, old in then:
        for layer, (a, b) in enumerate(zip(old, features(net, x), strict=True)):
            assert (a - b).abs().max() < 1e-12, f"layer {layer}"


def features(net, x):
    found = []
    for layer in net:
        x = layer(x).detach()
        found.append(x)
    return found


def test_a_step_is_the_dense_projection_of_the_optimizers_step(rows, steps):
    net = nn.Linear(7, 3).double()
    guard = rm.deep.GradientProjection(net)
    old, x = torch.cat([rows(3, 7), 5 * rows(1, 7)]), rows(4, 7, seed=1)
    guard.absorb([old[:2]])
    guard.absorb([old[1:]])
    X = torch.cat([old, torch.ones(4, 1, dtype=torch.float64)], 1)
    P = torch.eye(8, dtype=torch.float64) - torch.linalg.pinv(X) @ X
    twin = nn.Linear(7, 3).double()
    twin.load_state_dict(net.state_dict())
    ours, theirs = (optim.SGD(n.parameters(), lr=0.1) for n in (net, twin))
    for _ in range(3):
        with guard.protect(ours):
            steps(ours, lambda: net(x).square().sum(), steps=1)
        start = torch.cat([twin.weight, twin.bias[:, None]], 1).detach()
        steps(theirs, lambda: twin(x).square().sum(), steps=1)
        with torch.no_grad():
            end = start + (torch.cat([twin.weight, twin.bias[:, None]], 1) - start) @ P
            twin.weight.copy_(end[:, :-1])
            twin.bias.copy_(end[:, -1])
        assert (net.weight - twin.weight).abs().max() < 1e-14
        assert (net.bias - twin.bias).abs().max() < 1e-14


def test_lbfgs_reaches_the_best_weights_that_keep_the_old_outputs(rows, learn):
    """A convex problem, so that its solution under the constraint can be written down: W = W₀ + M P."""
    net = nn.Linear(9, 2).double()
    guard = rm.deep.GradientProjection(net)
    old, x = rows(4, 9), rows(20, 9, seed=1)
    guard.absorb([old])
    X, new = (torch.cat([v, torch.ones(len(v), 1, dtype=torch.float64)], 1) for v in (old, x))
    P = torch.eye(10, dtype=torch.float64) - torch.linalg.pinv(X) @ X
    Y, start = rows(20, 2, seed=1000), torch.cat([net.weight, net.bias[:, None]], 1).detach()
    M = torch.linalg.pinv(new @ P) @ (Y - new @ start.T)
    best = float((new @ (start.T + P @ M) - Y).square().mean())
    optimizer = optim.LBFGS(net.parameters(), max_iter=20, line_search_fn="strong_wolfe")
    losses = learn(net, guard, x, optimizer, steps=3)
    assert losses[-1] == pytest.approx(best, rel=1e-9)


def test_rounding_does_not_add_up_over_many_steps(rows, moved, answers):
    net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 2))
    guard = rm.deep.GradientProjection(net)
    x, noise = rows(3, 6, dtype=torch.float32), torch.Generator().manual_seed(0)
    guard.absorb([x])
    old = [(x, answers(net, x))]
    optimizer = optim.SGD(net.parameters(), lr=0.3)
    with guard.protect(optimizer):
        for _ in range(1000):
            for p in net.parameters():
                p.grad = torch.randn(p.shape, generator=noise) * 0.01
            optimizer.step()
        assert moved(net, old) < 1e-5  # still inside, in single precision all the way
    assert moved(net, old) < 2e-6


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_tasks_of_very_different_size_are_all_kept(scale, rows, mlp, learn, answers):
    net = mlp()
    guard = rm.deep.GradientProjection(net)
    old = []
    for x in (scale * rows(3, 10), rows(3, 10, seed=1)):
        guard.absorb([x])
        old.append((x, answers(net, x)))
    learn(net, guard, rows(3, 10, seed=2), optim.AdamW(net.parameters(), lr=0.01))
    for x, then in old:
        assert (net(x) - then).abs().max() < 1e-10
