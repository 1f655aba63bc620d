"""protect(…, every=k): several steps are projected together."""

import warnings

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim

GUARDS = {
    "GradientProjection": rm.deep.GradientProjection,
    "energy": lambda net: rm.deep.GradientProjection(net, 0.9),
    "OWM": lambda net: rm.deep.OWM(net, 1.0),
    "ScaledProjection": lambda net: rm.deep.ScaledProjection(net, 3.0),
    "OGD": rm.deep.OGD,
}


def linear_loss(net, x):
    """Of a linear layer: its gradient is the same everywhere, and so are the steps, projected or not."""
    return (net(x) * torch.arange(1.0, 4.0, dtype=x.dtype)).mean()


@pytest.mark.parametrize("kind", GUARDS)
@pytest.mark.parametrize("every", [2, 3, 7, 100])
def test_steps_projected_together_are_the_sum_of_steps_projected_alone(kind, every, rows):
    ends = []
    for k in (1, every):
        torch.manual_seed(0)
        net = nn.Linear(10, 3).double()
        guard = GUARDS[kind](net)
        guard.absorb([rows(4, 10)])
        start = net.weight.detach().clone()
        optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        with guard.protect(optimizer, every=k):
            for _ in range(10):
                optimizer.zero_grad()
                linear_loss(net, rows(5, 10, seed=1)).backward()
                optimizer.step()
        ends.append(torch.cat([net.weight, net.bias[:, None]], 1).detach())
        assert (net.weight - start).abs().max() > 0.1
    assert (ends[0] - ends[1]).abs().max() < 1e-13


def test_outputs_are_kept_after_every_third_step_and_at_the_end(started, moved):
    net, guard, old, new = started()
    optimizer, distances = optim.AdamW(net.parameters(), lr=0.01), []
    with warnings.catch_warnings(), guard.protect(optimizer, every=3):
        warnings.simplefilter("error")  # steps that wait are no changes by others
        for _ in range(8):
            optimizer.zero_grad()
            (net(new) - 1).square().mean().backward()
            optimizer.step()
            distances.append(moved(net, old))
        last = moved(net, old)
    assert max(distances[2::3]) < 1e-12 and last > 1e-4 and min(distances[0::3] + distances[1::3]) > 1e-4
    assert moved(net, old) < 1e-12 and guard._steps == []


@pytest.mark.parametrize("make", [rm.deep.GradientProjection, rm.deep.OGD])
def test_absorbing_inside_the_block_projects_first(make, started, moved, rows):
    net, guard, old, new = started(make=make)
    if make is rm.deep.OGD:
        net, old = (linear := nn.Linear(10, 3).double()), [(rows(3, 10), None)]
        guard = make(linear)
        guard.absorb([old[0][0]])
        old = [(old[0][0], linear(old[0][0]).detach())]
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with guard.protect(optimizer, every=100):
            for _ in range(5):
                optimizer.zero_grad()
                (net(new) - 1).square().mean().backward()
                optimizer.step()
            assert moved(net, old) > 1e-3
            guard.absorb([new[:2]])
            assert moved(net, old) < 1e-12


def test_an_exception_leaves_no_step_unprojected(started, moved):
    net, guard, old, new = started()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with pytest.raises(KeyError), guard.protect(optimizer, every=10):
        (net(new) - 1).square().mean().backward()
        optimizer.step()
        assert moved(net, old) > 1e-4
        raise KeyError
    assert moved(net, old) < 1e-12


def test_steps_during_the_backward_pass_are_counted_by_optimizer(started, moved):
    net, guard, old, new = started()
    optimizers = [optim.SGD([p], lr=0.05) for p in net.parameters()]

    def step(optimizer):
        def hook(_):
            optimizer.step()
            optimizer.zero_grad()

        return hook

    hooks = [p.register_post_accumulate_grad_hook(step(o)) for p, o in zip(net.parameters(), optimizers, strict=True)]
    with guard.protect(*optimizers, every=2):
        distances = []
        for _ in range(4):
            (net(new) - 1).square().mean().backward()
            distances.append(moved(net, old))
    assert min(distances[0::2]) > 1e-5 and max(distances[1::2]) < 1e-12
    assert moved(net, old) < 1e-12
    for hook in hooks:
        hook.remove()


@pytest.mark.parametrize("every", [0, -1, 1.5, True, None, "2"])
def test_other_numbers_raise_an_error(every, started):
    net, guard, _, _ = started()
    with pytest.raises(rm.InputError, match="every"), guard.protect(optim.SGD(net.parameters(), lr=0.1), every=every):
        pass


@pytest.mark.parametrize("make", [rm.deep.GEM, rm.deep.Constrained])
def test_guards_that_act_on_every_step_raise_an_error(make, mlp):
    net = mlp()
    guard = make(net)
    with (
        pytest.raises(rm.InputError, match=f"every=1 with {make.__name__}.*got 2"),
        guard.protect(optim.SGD(net.parameters(), lr=0.1), every=2),
    ):
        pass
