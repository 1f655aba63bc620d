"""Constrained learning: on a linear model the solution of the constrained problem and its multipliers."""

import numpy as np
import pytest
from scipy.optimize import minimize

import remanence as rm

torch = pytest.importorskip("torch")

rng = np.random.default_rng(0)
TASKS = [(rng.standard_normal((30, 4)), rng.standard_normal((30, 1))) for _ in range(3)]
SLACK = 0.3


def mean_square(w, X, Y):
    return float(np.mean((X @ w - Y[:, 0]) ** 2))


def slope(w, X, Y):
    return 2 * X.T @ (X @ w - Y[:, 0]) / len(X)


def oracle(start, bounds):
    """min of the third task's error where those of the others are bounded, with its multipliers from the conditions."""
    constraints = [
        {
            "type": "ineq",
            "fun": lambda w, t=t: bounds[t] - mean_square(w, *TASKS[t]),
            "jac": lambda w, t=t: -slope(w, *TASKS[t]),
        }
        for t in range(2)
    ]
    found = minimize(
        mean_square,
        start,
        TASKS[2],
        "SLSQP",
        jac=slope,
        constraints=constraints,
        options={"ftol": 1e-15, "maxiter": 500},
    )
    active = [t for t in range(2) if bounds[t] - mean_square(found.x, *TASKS[t]) < 1e-6]
    multipliers = np.zeros(2)
    if active:
        G = np.column_stack([slope(found.x, *TASKS[t]) for t in active])
        multipliers[active] = np.linalg.lstsq(G, -slope(found.x, *TASKS[2]), rcond=None)[0]
    return found.x, multipliers


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_linear_model_ends_at_the_constrained_solution(name):
    net = torch.nn.Linear(4, 1, bias=False).double()
    start = np.linalg.lstsq(*(np.concatenate(part) for part in zip(*TASKS[:2], strict=True)), rcond=None)[0][:, 0]
    with torch.no_grad():
        net.weight.copy_(torch.from_numpy(start)[None])
    guard = rm.deep.Constrained(net, slack=SLACK, step=0.5)
    pairs = [tuple(map(torch.from_numpy, task)) for task in TASKS]
    for pair in pairs[:2]:
        bounds = guard.absorb([pair]).bounds
    wanted, multipliers = oracle(start, bounds)
    assert multipliers.max() > 0.05  # a bound is reached
    rate = {"SGD": 0.05, "Adam": 0.01}[name]
    optimizer = getattr(torch.optim, name)(net.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 300, 0.3)
    with guard.protect(optimizer):
        for _ in range(900):
            optimizer.zero_grad()
            (net(pairs[2][0]) - pairs[2][1]).square().mean().backward()
            optimizer.step()
            schedule.step()
    report = guard.report()
    np.testing.assert_allclose(net.weight.detach().numpy()[0], wanted, atol=2e-4)
    np.testing.assert_allclose(report.multipliers, multipliers, atol=2e-3)
    assert max(a - b for a, b in zip(report.losses, report.bounds, strict=True)) < 1e-4


def test_gradients_are_left_as_they_were_and_closures_work():
    net = torch.nn.Linear(4, 1, bias=False).double()
    X, Y = map(torch.from_numpy, TASKS[0])
    guard = rm.deep.Constrained(net, penalty=3.0)
    guard.absorb([(X, net(X).detach())])
    with torch.no_grad():
        net.weight += 1.0
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    before = net.weight.detach().clone()

    def closure():
        optimizer.zero_grad()
        value = (net(X) - Y).square().mean()
        value.backward()
        return value

    steps = []
    for given in (None, closure):
        with torch.no_grad():
            net.weight.copy_(before)
        guard._multipliers = [0.2]
        with guard.protect(optimizer):
            closure()
            grad = net.weight.grad.clone()
            optimizer.step(given)
        assert torch.equal(net.weight.grad, grad)
        steps.append((net.weight - before).detach())
        assert guard.report().multipliers[0] > 0.2
    torch.testing.assert_close(steps[0], steps[1])
    old = torch.autograd.grad((net(X) - guard._memory.entries[0].targets).square().sum(1).mean(), net.weight)[0]
    assert not torch.allclose(steps[0], -0.1 * grad) and old.abs().max() > 0


def test_lbfgs_and_bad_settings_are_refused(tmp_path):
    net = torch.nn.Linear(4, 1).double()
    guard = rm.deep.Constrained(net, slack=0.1)
    guard.absorb([tuple(map(torch.from_numpy, TASKS[0]))])
    with pytest.raises(rm.InputError, match="LBFGS"), guard.protect(torch.optim.LBFGS(net.parameters())):
        pass
    for bad in ({"penalty": -1}, {"step": 0}):
        with pytest.raises(rm.InputError, match=next(iter(bad))):
            rm.deep.Constrained(net, **bad)
    guard._multipliers = [0.7]
    rm.save(guard, tmp_path / "g")
    assert rm.load(tmp_path / "g", model=net).report() == guard.report()
