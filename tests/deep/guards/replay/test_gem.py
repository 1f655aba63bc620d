"""GEM: the published step for SGD, old losses below their bounds for every optimizer, samples saved."""

import numpy as np
import pytest
from scipy.optimize import nnls

import remanence as rm

torch = pytest.importorskip("torch")

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, weight_decay=1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
}


def net(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)).double()


def task(seed, n=40):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 4, generator=generator, dtype=torch.float64)
    W = torch.randn(4, 2, generator=generator, dtype=torch.float64)
    return X, torch.sin(X @ W)


def train(model, X, Y, optimizer, steps, guard=None):
    import contextlib

    with guard.protect(optimizer) if guard else contextlib.nullcontext():
        for _ in range(steps):
            optimizer.zero_grad()
            (model(X) - Y).square().sum(1).mean().backward()
            optimizer.step()


def loss(model, X, Y):
    with torch.no_grad():
        return float((model(X) - Y).square().sum(1).mean())


def flat(grads):
    return torch.cat([g.flatten() for g in grads]).numpy()


def test_a_step_of_sgd_is_that_of_the_published_quadratic_program():
    model, guard = net(), None
    guard = rm.deep.GEM(model)
    tasks = [task(0), task(1)]
    for pair in tasks:
        guard.absorb([pair])
    X, Y = task(2)
    parameters = list(model.parameters())
    G = np.stack([flat(torch.autograd.grad((model(a) - b).square().sum(1).mean(), parameters)) for a, b in tasks])
    g = flat(torch.autograd.grad((model(X) - Y).square().sum(1).mean(), parameters))
    v = nnls(G.T, -g)[0]  # min ‖Gᵀv + g‖, v ≥ 0: the dual of min ‖g̃ − g‖ where G g̃ ≥ 0
    before = flat([p.detach().clone() for p in parameters])
    train(model, X, Y, torch.optim.SGD(parameters, lr=1e-3), 1, guard)
    after = flat([p.detach() for p in parameters])
    np.testing.assert_allclose(before - after, 1e-3 * (g + G.T @ v), atol=1e-12)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_old_losses_stay_where_plain_training_forgets(name):
    found = {}
    for guarded in (True, False):
        model = net()
        train(model, *task(0), torch.optim.Adam(model.parameters(), lr=0.02), 200)
        guard = rm.deep.GEM(model, slack=0.01) if guarded else None
        if guard:
            bound = guard.absorb([task(0)]).bounds[0]
        start = loss(model, *task(1))
        train(model, *task(1), OPTIMIZERS[name](model.parameters()), 80, guard)
        found[guarded] = loss(model, *task(0))
        assert loss(model, *task(1)) < start
    assert found[True] < 1.1 * bound, (found, bound)
    assert found[False] > bound + 0.3, (found, bound)


def test_the_report_names_what_costs():
    model = net()
    guard = rm.deep.GEM(model, memory=10)
    X, Y = task(0)
    guard.absorb([(X, Y)])
    report = guard.absorb([(X[:7], -Y[:7]), (X[7:], -Y[7:])])
    assert report.rows == (10, 10) and report.tasks == 2 and report.multipliers == (0.0, 0.0)
    train(model, X, Y, torch.optim.SGD(model.parameters(), lr=0.05), 20, guard)  # what the second task forbids
    report = guard.report()
    assert report.multipliers[1] > report.multipliers[0] and "multiplier" in str(report)


def test_state_and_file(tmp_path):
    model = net()
    guard = rm.deep.GEM(model, memory=5, seed=3)
    guard.absorb([task(0)])
    twin = rm.deep.GEM(model, memory=5)
    twin.load_state_dict(guard.state_dict())
    assert twin.report() == guard.report()
    rm.save(guard, tmp_path / "g")
    loaded = rm.load(tmp_path / "g", model=model)
    assert loaded.report() == guard.report() and loaded.settings == guard.settings
    state = guard.state_dict()
    for damage in ({"multipliers": [-1.0]}, {"multipliers": []}, {"tasks": [{}]}, {"guard": "OWM"}):
        with pytest.raises(rm.InputError):
            twin.load_state_dict({**state, **damage})
    assert twin.report() == guard.report()
    kept = rm.deep.GEM(model, loss=lambda f, y: (f - y).abs().mean())
    kept.absorb([task(0)])
    with pytest.raises(rm.InputError, match="never stored"):
        rm.save(kept, tmp_path / "h")


def test_labels_and_streams():
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    guard = rm.deep.GEM(model, memory=50)
    stream = rm.streams.digits(3)
    fit = rm.deep.fit_stream(
        model, stream, optimizer=lambda p: torch.optim.SGD(p, lr=0.05), guard=guard, epochs=2, batch_size=50
    )
    assert [report.tasks for report in fit.reports] == [1, 2, 3]


@pytest.mark.parametrize(
    "bad",
    [
        [torch.ones(3, 4)],
        [(torch.ones(3, 4), torch.ones(2, 2))],
        [(torch.full((3, 4), torch.nan).double(), torch.ones(3, 2).double())],
        [(torch.ones(3, 4).double(), torch.ones(3).double())],
        [(torch.ones(3, 4).double(), ["a", "b", "c"])],
        [(torch.ones(3, 4).double(), torch.tensor([0, 1, 50]))],
        [(torch.ones(3, 4).double(), torch.ones(3, 2)), (torch.ones(3, 5).double(), torch.ones(3, 2))],
        [(torch.ones(3, 4).double(), torch.ones(3, 2)), ({"x": torch.ones(3, 4).double()}, torch.ones(3, 2))],
        [],
    ],
)
def test_bad_batches_are_refused_and_change_nothing(bad):
    guard = rm.deep.GEM(net())
    with pytest.raises(rm.InputError):
        guard.absorb(bad)
    assert guard.report().tasks == 0


@pytest.mark.parametrize("bad", [{"memory": 0}, {"slack": -1}, {"loss": "mse"}, {"seed": -1}])
def test_bad_settings_are_refused(bad):
    with pytest.raises(rm.InputError, match=next(iter(bad))):
        rm.deep.GEM(net(), **bad)
