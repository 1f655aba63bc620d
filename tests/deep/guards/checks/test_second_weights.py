"""Averaged copies and optimizers with two sets of weights: warnings where the guard can detect them."""

import copy
import gc
import warnings

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim
AveragedModel = optim.swa_utils.AveragedModel


@pytest.fixture(autouse=True)
def no_copies_of_other_tests():
    gc.collect()


def loss_of(net, x):
    return (net(x) - 1).square().mean()


def train(net, optimizer, x, steps=10, after=lambda: None):
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(net, x).backward()
        optimizer.step()
        after()


class ScheduleFree(optim.Optimizer):
    """Schedule-free SGD: trains at y, predicts at the average x; eval() and train() switch the parameters."""

    def __init__(self, parameters, lr=0.1, beta=0.9):
        super().__init__(parameters, {"lr": lr, "beta": beta, "k": 0, "train_mode": True})

    @torch.no_grad()
    def eval(self):
        self._switch(False, lambda beta: 1 - 1 / beta)

    @torch.no_grad()
    def train(self):
        self._switch(True, lambda beta: 1 - beta)

    def _switch(self, mode, weight):
        for group in self.param_groups:
            if group["train_mode"] != mode:
                for p in group["params"]:
                    if "z" in self.state[p]:
                        p.lerp_(self.state[p]["z"], weight(group["beta"]))
                group["train_mode"] = mode

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            share = 1 / (group["k"] + 1)
            for p in group["params"]:
                z = self.state[p].setdefault("z", p.detach().clone())
                p.lerp_(z, share)
                p.add_(p.grad, alpha=group["lr"] * (group["beta"] * (1 - share) - 1))
                z.sub_(p.grad, alpha=group["lr"])
            group["k"] += 1


def test_an_optimizer_left_in_train_mode_at_the_end_of_a_block_is_warned_about(started, moved):
    net, guard, old, new = started()
    optimizer = ScheduleFree(net.parameters())
    with (
        pytest.warns(UserWarning, match=r"ScheduleFree.*\.eval\(\) as the last line") as told,
        guard.protect(optimizer),
    ):
        train(net, optimizer, new)
    assert told[0].filename == __file__
    assert moved(net, old) < 1e-12
    optimizer.eval()
    assert moved(net, old) > 1e-3, "the warning is right"


def test_eval_weights_are_protected_if_switched_inside_the_block(started, moved):
    net, guard, old, new = started()
    optimizer = ScheduleFree(net.parameters())
    before = float(loss_of(net, new).detach())
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with guard.protect(optimizer):
                optimizer.train()
                train(net, optimizer, new)
                optimizer.eval()
        assert moved(net, old) < 1e-12
    assert float(loss_of(net, new).detach()) < before


def test_one_that_does_not_show_its_mode_is_warned_about_when_the_block_begins(started):
    class Hidden(ScheduleFree):
        def __init__(self, parameters):
            super().__init__(parameters)
            self.param_groups[0].pop("train_mode")

    net, guard, _, _ = started()
    with (
        pytest.warns(UserWarning, match=r"Hidden has train\(\) and eval\(\)"),
        guard.protect(Hidden(net.parameters())),
    ):
        pass


def test_a_running_average_from_before_the_task_was_absorbed_is_warned_about(mlp, rows, moved, answers):
    net, x, new = mlp(), rows(3, 10), rows(6, 10, seed=1)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    average = AveragedModel(net, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.9))
    train(net, optimizer, x, after=lambda: average.update_parameters(net))
    guard = rm.deep.GradientProjection(net)
    guard.absorb([x])
    old = [(x, answers(average, x))]
    with pytest.warns(UserWarning, match=r"AveragedModel .*other weights") as told, guard.protect(optimizer):
        train(net, optimizer, new, after=lambda: average.update_parameters(net))
    assert told[0].filename == __file__
    assert moved(average, old) > 1e-3, "the warning is right"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with guard.protect(optimizer):  # looked for once a memory
            pass


def test_a_running_average_of_guarded_weights_is_protected_without_a_warning(started, moved):
    net, guard, old, new = started()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    other = AveragedModel(nn.Linear(3, 2))  # of another model
    other.update_parameters(nn.Linear(3, 2))
    average = AveragedModel(net, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.9))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with guard.protect(optimizer):
            train(net, optimizer, new, after=lambda: average.update_parameters(net))
    assert moved(average, old) < 1e-12
    assert any(not torch.equal(p, q) for p, q in zip(average.module.parameters(), net.parameters(), strict=True))


def test_statistics_changed_after_a_block_are_reported_at_the_next(rows, answers, moved):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(10, 20), nn.BatchNorm1d(20), nn.Linear(20, 2)).double()
    guard = rm.deep.GradientProjection(net)
    guard.absorb([rows(3, 10)])
    kept = copy.deepcopy(net[1].state_dict())
    optim.swa_utils.update_bn([rows(6, 10, seed=1)], net)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with pytest.warns(UserWarning, match=r"1\.running_mean.*changed outside protect"), guard.protect(optimizer):
        pass
    assert all(torch.equal(net[1].state_dict()[n], value) for n, value in kept.items())
