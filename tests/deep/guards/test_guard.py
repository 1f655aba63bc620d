"""The protect() block: how it ends, and what is absorbed, changed or raised inside and outside of it."""

import subprocess
import sys

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim


def loss_of(net, x):
    return (net(x) - 1).square().mean()


def lbfgs(parameters):
    return optim.LBFGS(parameters, max_iter=4, line_search_fn="strong_wolfe")


@pytest.mark.parametrize("make", [lambda p: optim.SGD(p, lr=0.1), lbfgs])
@pytest.mark.parametrize("kind", [KeyError, KeyboardInterrupt])
def test_after_an_exception_in_a_closure_old_outputs_are_kept_and_no_hook_is_left(make, kind, started, moved, hooks_of):
    net, guard, old, new = started()
    optimizer, calls = make(net.parameters()), []

    def closure():
        optimizer.zero_grad()
        loss = loss_of(net, new)
        loss.backward()
        calls.append(loss)
        if len(calls) == 3:  # for LBFGS in the middle of its line search
            with torch.no_grad():
                for p in net.parameters():
                    p.add_(0.01)  # whatever it had done by then
            raise kind
        return loss

    with pytest.raises(kind), guard.protect(optimizer):
        for _ in range(3):
            optimizer.step(closure)
    assert moved(net, old) < 1e-12
    assert hooks_of(net, optimizer) == 0 and not guard._blocks


def test_after_an_exception_while_absorbing_nothing_is_hooked_and_nothing_has_changed(started, rows, hooks_of):
    net, guard, _, new = started()
    net.train()
    before = guard.state_dict()

    def fails(model, batch):
        model(batch)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        guard.absorb([new], forward=fails)
    after = guard.state_dict()
    assert hooks_of(net) == 0 and net.training
    assert torch.backends.mha.get_fastpath_enabled()
    assert after["tasks"] == before["tasks"] == 1
    assert all(torch.equal(after["layers"][n]["factor"], layer["factor"]) for n, layer in before["layers"].items())


def test_the_gradient_the_optimizer_sees_is_the_users_own(started):
    """Only the step is projected: momentum and scaling are those of the task's own gradient."""
    net, guard, _, new = started()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    loss_of(net, new).backward()
    before = [p.grad.clone() for p in net.parameters()]
    with guard.protect(optimizer):
        optimizer.step()
    assert all(torch.equal(p.grad, g) for p, g in zip(net.parameters(), before, strict=True))


@pytest.mark.parametrize("make", [rm.deep.GradientProjection, lambda net: rm.deep.OWM(net, damping=1e-13)])
def test_tasks_absorbed_inside_one_block_are_protected_from_then_on(make, mlp, rows, moved, answers, steps):
    net = mlp()
    guard, optimizer, old = make(net), optim.AdamW(net.parameters(), lr=0.01), []
    with guard.protect(optimizer):
        for task in range(3):
            x = rows(3, 10, seed=task)
            steps(optimizer, lambda x=x: loss_of(net, x), steps=5)
            guard.absorb([x])
            old.append((x, answers(net, x)))
        steps(optimizer, lambda: loss_of(net, rows(3, 10, seed=9)), steps=5)
        assert moved(net, old) < 1e-9


def test_weights_moved_outside_a_block_are_told_and_taken_back(started, moved):
    net, guard, old, new = started()
    with torch.no_grad():
        net[2].weight.add_(0.1)
    optimizer = optim.SGD(net.parameters(), lr=0.0)
    with (
        pytest.warns(UserWarning, match=r"^2 changed outside protect\(\).*restores them") as told,
        guard.protect(optimizer),
    ):
        pass
    assert told[0].filename == __file__, "it points at the line that opened the block"
    assert moved(net, old) < 1e-13
    with torch.no_grad():
        net[2].weight.add_(0.1)
    with pytest.warns(UserWarning, match=r"^2 changed outside protect\(\).*current outputs") as told:
        guard.absorb([new])
    assert told[0].filename == __file__


def test_tensors_are_made_on_the_cpu_whatever_the_default_device_is(mlp, rows, learn, moved, answers):
    net, x, new = mlp(), rows(3, 10), rows(3, 10, seed=1)
    optimizer = optim.AdamW(net.parameters(), lr=0.01)
    y = rows(3, 3, seed=2)
    with torch.device("meta"):
        guard = rm.deep.GradientProjection(net)
        guard.absorb([x])
    old = [(x, answers(net, x))]
    with torch.device("meta"), guard.protect(optimizer):
        (net(new) - y).square().mean().backward()
        optimizer.step()
    assert moved(net, old) < 1e-13


@pytest.mark.parametrize("part", ["weight", "bias"])
def test_parameters_with_new_storage_inside_a_block_are_still_projected(part, started, moved):
    net, guard, old, new = started()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with guard.protect(optimizer):
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(net, new).backward()
            optimizer.step()
            assert moved(net, old) < 1e-13, "inside the block, before anything is settled"
            for layer in (net[0], net[2], net[4]):
                parameter = getattr(layer, part)
                parameter.data = parameter.data.clone()  # as a move to a device and back does


def test_a_block_that_is_open_when_the_interpreter_exits_is_closed_in_time():
    """As after an exception in a trainer, which leaves the block of its callback open; torch aborted."""
    program = """if True:
        import torch, remanence as rm
        net = torch.nn.Linear(4, 2)
        guard, optimizer = rm.deep.GradientProjection(net), torch.optim.AdamW(net.parameters())
        guard.absorb([torch.randn(2, 4)])
        block = guard.protect(optimizer)
        block.__enter__()
        net(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        raise SystemExit(3)
    """
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 3
