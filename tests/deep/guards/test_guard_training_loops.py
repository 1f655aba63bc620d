"""Many kinds of training loop: old outputs are kept and no hook is left behind."""

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim


def loss_of(net, x):
    return (net(x) - 1).square().mean()


def test_schedulers_and_gradient_accumulation(started, moved):
    net, guard, old, new = started()
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
    first = float(loss_of(net, new).detach())
    with guard.protect(optimizer):
        for _ in range(10):
            for part in new.split(2):
                (loss_of(net, part) / 3).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            assert moved(net, old) < 1e-13, "after every single step"
    assert float(loss_of(net, new).detach()) < 0.5 * first


@pytest.mark.parametrize("scaled", [False, True])
def test_mixed_precision(started, moved, scaled):
    """Held in single precision to its own rounding, also where the step is made under autocast."""
    net, guard, old, new = started(torch.float32)
    optimizer = optim.AdamW(net.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    first = float(loss_of(net, new).detach())
    with guard.protect(optimizer):
        for _ in range(10):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = loss_of(net, new)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            assert moved(net, old) < 1e-6, "inside the block too, before anything is settled"
    assert float(loss_of(net, new).detach()) < 0.7 * first
    assert moved(net, old) < 1e-6


def test_absorbing_under_autocast_takes_features_in_full_precision(mlp, rows):
    net, x = mlp(dtype=torch.float32), rows(3, 10, dtype=torch.float32)
    guard, plain = rm.deep.GradientProjection(net), rm.deep.GradientProjection(net)
    plain.absorb([x])
    with torch.autocast("cpu", torch.bfloat16):
        guard.absorb([x])
    same = [torch.equal(guard._memory.directions[n].basis, plain._memory.directions[n].basis) for n in ("0", "2", "4")]
    assert all(same)


@pytest.mark.parametrize("how", ["wrapped", "in place", "inside"])
def test_compiled_models(how, rows, learn, moved, answers):
    torch._dynamo.reset()
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(10, 20), nn.BatchNorm1d(20), nn.Tanh())
    net = nn.Sequential(inner, nn.Linear(20, 2)).double()
    optimizer = optim.AdamW(net.parameters(), lr=0.01)
    if how == "inside":
        net[0] = torch.compile(inner, backend="eager")
    used = torch.compile(net, backend="eager") if how == "wrapped" else net
    if how == "in place":
        net.compile(backend="eager")
    guard = rm.deep.GradientProjection(used)
    old = []
    for task in range(2):
        x = rows(3, 10, seed=task)
        used.train()
        losses = learn(used, guard, x, optimizer, seed=task, steps=8)
        assert losses[-1] < losses[0]
        if task == 0:
            stats = inner[1].running_mean.clone()
        guard.absorb([x])
        old.append((x, answers(used, x)))
    assert torch.equal(inner[1].running_mean, stats), "its statistics are those of the first task"
    with guard.protect(optimizer):
        used.train()
        assert (used(x) - old[-1][1]).abs().max() < 1e-12, "and it normalises by them"
    assert moved(used, old) < 1e-12


class Trainer:
    """As trainers do it: the optimizer wrapped, the step called with a closure that does everything."""

    class Wrapped:
        def __init__(self, optimizer):
            self.optimizer = optimizer

        def step(self, closure):
            return self.optimizer.step(closure=closure)

    def __init__(self, net, optimizer):
        self.net, self.optimizer = net, self.Wrapped(optimizer)

    def training_step(self, x):
        def closure():
            self.optimizer.optimizer.zero_grad()
            loss = loss_of(self.net, x)
            loss.backward()
            return loss

        return float(self.optimizer.step(closure).detach())


@pytest.mark.parametrize("make", [optim.AdamW, lambda p: optim.LBFGS(p, max_iter=4, line_search_fn="strong_wolfe")])
def test_a_trainer_that_wraps_the_optimizer(make, started, moved):
    net, guard, old, new = started()
    trainer = Trainer(net, make(net.parameters()))
    with pytest.raises(rm.InputError, match=r"got \['Net'\].*the inner one"), guard.protect(type("Net", (), {})()):
        pass
    with guard.protect(trainer.optimizer):  # the wrapper is looked through
        losses = [trainer.training_step(new) for _ in range(10)]
    assert losses[-1] < losses[0] and moved(net, old) < 1e-12


def test_two_optimizers_for_two_halves(started, moved, hooks_of):
    net, guard, old, new = started()
    optimizers = optim.SGD(net[0].parameters(), lr=0.1, momentum=0.9), optim.AdamW(net[2:].parameters(), lr=0.01)
    first = float(loss_of(net, new).detach())
    with guard.protect(*optimizers):
        for _ in range(10):
            net.zero_grad()
            loss_of(net, new).backward()
            for optimizer in optimizers:
                optimizer.step()
                assert moved(net, old) < 1e-13
    assert float(loss_of(net, new).detach()) < first
    assert hooks_of(net, *optimizers) == 0


def test_what_an_unguarded_optimizer_does_inside_the_block_is_taken_back_at_its_end(started, moved):
    net, guard, old, new = started()
    guarded, other = optim.SGD(net[0].parameters(), lr=0.1), optim.SGD(net[2:].parameters(), lr=0.1)
    with pytest.warns(UserWarning, match=r"^2, 4 changed inside protect\(\)"), guard.protect(guarded):
        loss_of(net, new).backward()
        other.step()
        assert moved(net, old) > 1e-3
    assert moved(net, old) < 1e-13
