"""What is left of a new task's gradient, and the setting that keeps old accuracy within a budget."""

import math

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
from remanence.deep.guards.planning import loosest_within  # noqa: E402

nn, optim = torch.nn, torch.optim


def loss(model, batch):
    return (model(batch) - 1).square().mean()


def test_preview_is_the_projected_share_of_the_gradient(rows):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 2, bias=False)).double()
    guard = rm.deep.GradientProjection(net)
    assert guard.preview([rows(3, 6)], loss) == {"0": pytest.approx(1.0)}
    x = rows(2, 6)
    guard.absorb([x])
    net[0].weight.grad = torch.ones_like(net[0].weight)
    assert guard.preview([x], loss)["0"] < 1e-12, "a gradient on old inputs alone"
    new = rows(4, 6, seed=1)
    left = guard.preview([new[:2], new[2:]], loss)["0"]
    assert torch.equal(net[0].weight.grad, torch.ones_like(net[0].weight)), "nothing changed"
    G = sum(torch.autograd.grad(loss(net, part), net[0].weight)[0] for part in (new[:2], new[2:]))
    U = torch.linalg.svd(x, full_matrices=False).Vh.T
    assert left == pytest.approx(float((G - G @ U @ U.T).norm() / G.norm()))


def test_preview_of_bad_input_raises_an_error(rows, started):
    _, guard, _, new = started()
    with pytest.raises(rm.InputError, match="at least one batch"):
        guard.preview([], loss)
    with pytest.raises(rm.InputError, match="pass loss="):
        guard.preview([new])
    with pytest.raises(rm.InputError, match="one number"):
        guard.preview([new], lambda model, batch: model(batch))


GUARDS = [rm.deep.GradientProjection, rm.deep.OWM, rm.deep.ScaledProjection]


@pytest.mark.parametrize("make", GUARDS)
def test_choose_takes_the_loosest_setting_within_the_budget_and_leaves_the_weights(make, rows, mlp, answers):
    net = mlp()
    x, new = rows(60, 10) * torch.logspace(0.5, -1, 10), rows(20, 10, seed=1)
    target = answers(net, x)
    guard = make(net)
    guard.absorb([x])
    weights = {n: t.clone() for n, t in net.state_dict().items()}

    def train():
        optimizer = optim.SGD(net.parameters(), lr=0.2)
        with guard.protect(optimizer):
            for _ in range(15):
                optimizer.zero_grad()
                loss(net, new).backward()
                optimizer.step()

    def old_score():
        return 1 - float((answers(net, x) - target).square().mean() / target.square().mean())

    options = {"budget": 0.05, "new_score": lambda: -float(loss(net, new).detach())}
    coarse = guard.choose(train, old_score, refine=0, **options)
    assert all(old < 0.95 for _, old, _ in coarse.tried[:-1]) and coarse.value == coarse.tried[-1][0]
    choice = guard.choose(train, old_score, **options)
    tried = {value: old for value, old, _ in choice.tried}
    assert choice.tried[: len(coarse.tried)] == coarse.tried and len(choice.tried) <= len(coarse.tried) + 3
    assert choice == guard.choose(train, old_score, **options), "the same again"
    assert all(torch.equal(weights[n], t) for n, t in net.state_dict().items())
    assert choice.setting == guard.tuned[0] and getattr(guard, choice.setting) == choice.value
    assert choice.within == (tried[choice.value] >= 0.95)
    train()
    assert old_score() == pytest.approx(tried[choice.value], abs=1e-6)
    assert guard.report().tasks == 1


@pytest.mark.parametrize(
    ("setting", "values", "limit", "between"),
    [
        ("energy", (0.5, 0.9, 0.99, 1.0), 0.97, (0.9, 0.99)),
        ("energy", (0.5, 0.9, 0.99, 1.0), 0.9999, (0.99, 1.0)),
        ("damping", (1e4, 1e2, 1.0), 5.0, (1e2, 1.0)),
        ("alpha", (0.0, 1.0, 10.0), 0.3, (0.0, 1.0)),
    ],
)
def test_values_between_the_candidates_come_as_close_to_the_limit_as_halving_does(setting, values, limit, between):
    strict = -1 if setting == "damping" else 1
    calls = []

    def trial(value):
        calls.append(value)
        return value, float(strict * value >= strict * limit), math.nan

    loose, tight = between
    for refine in range(7):
        calls.clear()
        choice = loosest_within(setting, values, 1.0, refine, trial)
        assert choice.within and strict * choice.value >= strict * limit
        assert len(calls) == values.index(tight) + 1 + refine == len(choice.tried)
        assert all(min(between) < value < max(between) for value in calls[values.index(tight) + 1 :])
    outside = max((v for v in (*calls, loose) if strict * v < strict * limit), key=lambda v: strict * v)
    assert abs(choice.value - outside) < abs(tight - loose) / 16
    assert loosest_within(setting, values[-1:], 1.0, 3, trial).value == values[-1], "nothing looser was outside"
    none = loosest_within(setting, values, 2.0, 3, trial)
    assert not none.within and len(none.tried) == len(values) and none.value == values[-1]


def test_candidates_of_ones_own_are_not_refined_unless_asked(started):
    _, guard, _, _ = started()
    scores = iter([1.0, 0.0, 1.0])
    choice = guard.choose(lambda: None, lambda: next(scores), candidates=(0.5, 0.9))
    assert [value for value, *_ in choice.tried] == [0.5, 0.9] and guard.energy == choice.value == 0.9
    scores = iter([1.0, 0.0, 1.0, 0.0, 1.0])
    choice = guard.choose(lambda: None, lambda: next(scores), candidates=(0.5, 0.9), refine=2)
    assert guard.energy == choice.value == choice.tried[3][0] < 0.9
    scores = iter([1.0, 0.0, 1.0, 0.0])
    choice = guard.choose(lambda: None, lambda: next(scores), candidates=(0.5, 0.9), refine=1)
    assert guard.energy == choice.value == 0.9, "the last one tried was outside the budget"
    scores = iter([-1.0, -1.2, -1.04])  # such as minus a loss
    choice = guard.choose(lambda: None, lambda: next(scores), budget=0.05, candidates=(0.5, 0.9, 1.0))
    assert choice.within and choice.value == 0.9
    with pytest.raises(rm.InputError, match="old_score"):
        guard.choose(lambda: None, lambda: math.nan)
    with pytest.raises(rm.InputError, match="refine"):
        guard.choose(lambda: None, lambda: 1.0, refine=-1)
    for bad, name in (((None, lambda: 1.0), "train"), ((lambda: None, 0.9), "old_score")):
        with pytest.raises(rm.InputError, match=f"expected {name} to be a function"):
            guard.choose(*bad)


def test_a_setting_chosen_inside_a_block_is_used_from_then_on(started, moved):
    net, guard, old, new = started()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with guard.protect(optimizer):
        guard.choose(lambda: None, lambda: 1.0, candidates=(0.5,))
        for _ in range(3):
            optimizer.zero_grad()
            loss(net, new).backward()
            optimizer.step()
    assert moved(net, old) > 1e-6


def test_choose_that_fails_changes_nothing(started):
    net, guard, _, _ = started()
    weights = {n: t.clone() for n, t in net.state_dict().items()}

    def train():
        with torch.no_grad():
            net[0].weight.add_(1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        guard.choose(train, lambda: 1.0)
    assert guard.energy == 1.0
    assert all(torch.equal(weights[n], t) for n, t in net.state_dict().items())
    with pytest.raises(rm.InputError, match="budget"):
        guard.choose(train, lambda: 1.0, budget=-1)
    choice = rm.deep.GuardChoice("energy", 1.0, False, ((1.0, 0.5, math.nan),))
    assert "no candidate" in str(choice)


def test_with_projected_gradients_adam_moves_further_along_free_directions(rows):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 2, bias=False)).double()
    x = rows(2, 6)
    guard = rm.deep.GradientProjection(net)
    guard.absorb([x])
    before, start = net(x).detach(), net[0].weight.detach().clone()
    new = x + 1e-3 * rows(2, 6, seed=1)  # nearly all of its gradient is in protected directions
    U = torch.linalg.svd(x, full_matrices=False).Vh.T
    moved = []
    for gradients in (False, True):
        with torch.no_grad():
            net[0].weight.copy_(start)
        optimizer = optim.Adam(net.parameters(), lr=1e-2)
        with guard.protect(optimizer, gradients=gradients):
            loss(net, new).backward()
            optimizer.step()
        if gradients:  # what Adam saw has no protected part
            assert (net[0].weight.grad @ U).abs().max() < 1e-12
        torch.testing.assert_close(net(x).detach(), before)
        free = net[0].weight.grad - net[0].weight.grad @ U @ U.T
        moved.append(float((start - net[0].weight.detach()).flatten() @ free.flatten() / free.norm()))
        net.zero_grad()
    assert moved[1] > moved[0] and moved[1] > 0


@pytest.mark.parametrize("by_name", [False, True])
def test_gradients_of_a_closure_are_projected_too(by_name, rows):
    """`fit_stream` and Lightning hand closures to the optimizer: that changes no bit."""
    x, new, trained = rows(2, 6), rows(4, 6, seed=1), []
    for closures in (False, True):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 2)).double()
        guard = rm.deep.GradientProjection(net)
        guard.absorb([x])
        optimizer = optim.Adam(net.parameters(), lr=1e-2)

        def closure(net=net, optimizer=optimizer):
            optimizer.zero_grad()
            value = loss(net, new)
            value.backward()
            return value

        with guard.protect(optimizer, gradients=True):
            for _ in range(3):
                if not closures:
                    closure()
                    optimizer.step()
                elif by_name:
                    optimizer.step(closure=closure)
                else:
                    optimizer.step(closure)
        trained.append(net[0].weight.detach())
    assert torch.equal(*trained)


def test_choose_puts_back_buffers_gradients_and_modes_too(rows):
    class Running(nn.Module):
        """Statistics that are not in the state_dict, and are replaced by new tensors."""

        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.Linear(10, 3).double()
            self.register_buffer("mean", torch.zeros(10, dtype=torch.float64), persistent=False)

        def forward(self, x):
            if self.training:
                self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
            return self.layer(x - self.mean)

        def get_extra_state(self):
            return {"anything": 1}

        def set_extra_state(self, state):
            pass

    net, x = Running(), rows(3, 10)
    guard = rm.deep.GradientProjection(net, free=["mean"])
    guard.absorb([x])
    loss(net, x).backward()
    net.eval()
    weights, gradient, mean = net.layer.weight.detach().clone(), net.layer.weight.grad.clone(), net.mean
    value = mean.clone()

    def train():
        net.train()
        optimizer = optim.SGD(net.parameters(), lr=0.1)
        with guard.protect(optimizer):
            loss(net, rows(3, 10, seed=1)).backward()
            optimizer.step()

    guard.choose(train, lambda: 1.0, candidates=(0.5, 0.9))
    assert net.mean is mean and torch.equal(mean, value) and not net.training
    assert torch.equal(net.layer.weight, weights) and torch.equal(net.layer.weight.grad, gradient)


@pytest.mark.parametrize("score", [None, "high", [1.0, 2.0], torch.ones(2)])
def test_scores_that_are_no_numbers_are_refused(score, started):
    _, guard, _, _ = started()
    with pytest.raises(rm.InputError, match="expected old_score to return a number"):
        guard.choose(lambda: None, lambda: score)
    with pytest.raises(rm.InputError, match="expected new_score to return a number"):
        guard.choose(lambda: None, lambda: 1.0, new_score=lambda: score)
    assert guard.energy == 1.0


@pytest.mark.parametrize("bad", [lambda y: y.detach().mean(), lambda y: (y * math.nan).mean()])
def test_preview_of_a_loss_without_gradients_or_not_finite_raises_an_error(bad, started):
    net, guard, _, new = started()
    with pytest.raises(rm.InputError, match="expected a finite loss that depends on the parameters"):
        guard.preview([new], lambda model, batch: bad(model(batch)))
    assert all(p.grad is None for p in net.parameters())
