"""Orthogonal gradient descent as a guard: supported models and settings, and errors."""

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn = torch.nn


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).double()


class Scaled(nn.Module):
    """Linear in its parameters, which belong to no layer."""

    def __init__(self):
        super().__init__()
        self.weight, self.scale = nn.Parameter(draw(5, 5, 2, seed=1)), nn.Parameter(draw(3, seed=2))

    def forward(self, x):
        return torch.einsum("ni,ijc,nj->nc", x, self.weight, x) + (self.scale * x[:, :3].sin()).sum(1, keepdim=True)


def train(net, optimizer, x, y, steps=20):
    for _ in range(steps):
        optimizer.zero_grad()
        (net(x) - y).square().mean().backward()
        optimizer.step()


def moved(net, x, before):
    return float((net(x).detach() - before).abs().max())


class Recurrent(nn.Module):
    """Layers that no rule of the layer guards knows, asked by name."""

    def __init__(self, kind, width):
        super().__init__()
        self.tokens, self.recurrent, self.out = (
            nn.Embedding(9, 4),
            kind(4, width, batch_first=True),
            nn.Linear(width, 2),
        )

    def forward(self, tokens, shift):
        return self.out(self.recurrent(self.tokens(tokens))[0][:, -1] + shift)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_networks_that_cannot_be_mapped_over_samples_and_inputs_by_name(kind):
    torch.manual_seed(0)
    net = Recurrent(kind, 5).double()
    batch = {"tokens": torch.randint(0, 9, (3, 4)), "shift": draw(3, 5)}
    guard = rm.deep.OGD(net)
    with torch.random.fork_rng():
        guard.absorb([batch])
    J = [[torch.cat([g.flatten() for g in torch.autograd.grad(net(**batch)[i, k], list(net.parameters()))])
          for k in range(2)] for i in range(3)]  # fmt: skip
    G = torch.stack([row for rows in J for row in rows])
    basis = guard.state_dict()["directions"].T
    assert basis.shape[1] == 6
    torch.testing.assert_close(G @ basis @ basis.T, G, rtol=0, atol=1e-13)
    by_place = rm.deep.OGD(net)
    by_place.absorb([(batch["tokens"], batch["shift"])])
    torch.testing.assert_close(by_place.state_dict()["directions"].T, basis, rtol=0, atol=1e-12)
    labelled = rm.deep.OGD(net, of="label")
    labelled.absorb([(batch["tokens"], torch.tensor([0, 1, 1]))], forward=lambda model, t: model(t, batch["shift"][:1]))
    assert labelled.report().rank == 3


def test_batch_statistics_stay_and_dropout_is_off_while_absorbing():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 2)).double()
    guard, optimizer = rm.deep.OGD(net), torch.optim.SGD(net.parameters(), lr=1e-5)
    net.train()
    with guard.protect(optimizer):
        train(net, optimizer, draw(9, 6), draw(9, 2, seed=1), steps=3)
    assert int(net[1].num_batches_tracked) == 3, "free during the first task"
    guard.absorb([draw(9, 6)])
    assert net.training and all(m.training for m in net)
    stored = {name: b.clone() for name, b in net.named_buffers()}
    net.eval()
    x, before = draw(9, 6), net(draw(9, 6)).detach()
    net.train()
    with guard.protect(optimizer):
        train(net, optimizer, draw(9, 6, seed=2), draw(9, 2, seed=3), steps=3)
        assert net[2].training and not net[1].training
    assert net[1].training
    assert all(torch.equal(b, stored[name]) for name, b in net.named_buffers())
    net.eval()
    assert 0 < moved(net, x, before) < 1e-7


def test_frozen_free_and_what_the_optimizer_does_not_hold():
    net, x = mlp(), draw(5, 6)
    guard = rm.deep.OGD(net, frozen=["0.bias"], free=["2.*"])
    guard.absorb([x])
    assert guard.report().parameters == 96, "only the first weight is protected by directions"
    start = {name: p.detach().clone() for name, p in net.named_parameters()}
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with guard.protect(optimizer):
        train(net, optimizer, draw(5, 6, seed=1), draw(5, 3, seed=2))
    changed = {name: not torch.equal(p, start[name]) for name, p in net.named_parameters()}
    assert changed == {"0.weight": True, "0.bias": False, "2.weight": True, "2.bias": True}


@pytest.mark.parametrize("how", ["optimizer", "requires_grad"])
def test_untrained_parameters_stay_identical_and_the_others_keep_the_outputs(how):
    net, x = Scaled(), draw(2, 5)
    guard = rm.deep.OGD(net)
    guard.absorb([x])
    scale, weight, before = net.scale.detach().clone(), net.weight.detach().clone(), net(x).detach()
    net.scale.requires_grad_(how != "requires_grad")
    optimizer = torch.optim.SGD([net.weight], lr=0.1)
    with guard.protect(optimizer):
        train(net, optimizer, draw(5, 5, seed=1), draw(5, 2, seed=2))
    assert torch.equal(net.scale, scale) and not torch.equal(net.weight, weight)
    assert moved(net, x, before) < 1e-13
    guard.absorb([draw(2, 5, seed=5)])
    assert guard.report().rank == 8, "gradients of what stands still now are remembered for later"


def test_resumes_to_the_bit(tmp_path):
    def run(interrupted):
        net = mlp()
        guard, optimizer = rm.deep.OGD(net, rank=20), torch.optim.AdamW(net.parameters(), lr=0.01)
        for task in range(3):
            if interrupted and task == 2:
                torch.save([net.state_dict(), optimizer.state_dict(), guard.state_dict()], tmp_path / "run.pt")
                net = mlp()
                guard, optimizer = rm.deep.OGD(net, rank=20), torch.optim.AdamW(net.parameters(), lr=0.01)
                for thing, state in zip((net, optimizer, guard), torch.load(tmp_path / "run.pt"), strict=True):
                    thing.load_state_dict(state)
            x = draw(3, 6, seed=task)
            with guard.protect(optimizer):
                train(net, optimizer, x, draw(3, 3, seed=9), steps=5)
            with pytest.warns(UserWarning, match="full") if task == 2 else torch.no_grad():
                guard.absorb([x])
        return guard.state_dict() | net.state_dict()

    whole, resumed = run(False), run(True)
    assert whole.keys() == resumed.keys()
    for name, value in whole.items():
        assert torch.equal(value, resumed[name]) if isinstance(value, torch.Tensor) else value == resumed[name]


def test_a_step_that_dies_half_way_and_moves_outside_of_the_block():
    net, x = Scaled(), draw(3, 5)
    guard, optimizer = rm.deep.OGD(net), torch.optim.SGD(net.parameters(), lr=0.1)
    guard.absorb([x])
    before = net(x).detach()

    def dies():
        net.weight.data.add_(1.0)
        raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="luck"), guard.protect(optimizer):
        optimizer.step(dies)
    assert moved(net, x, before) < 1e-13, "put right on the way out"
    net.weight.data.add_(1.0)
    assert moved(net, x, before) > 0.1
    with pytest.warns(UserWarning, match="changed outside protect.*restores them"), guard.protect(optimizer):
        pass
    assert moved(net, x, before) < 1e-13
    assert not optimizer._optimizer_step_post_hooks


def test_every_process_of_a_distributed_run_learns_what_all_of_them_saw(monkeypatch, tmp_path):
    """One process that is told of the other's gradients ends with the memory of both."""
    net, x = Scaled(), draw(4, 5)
    together, mine, theirs = rm.deep.OGD(net), rm.deep.OGD(net), rm.deep.OGD(net)
    together.absorb([x])
    theirs.absorb([x[2:]])
    seen = theirs._memory.spectrum
    told = [torch.tensor([4.0, seen.rank, seen.dropped]), torch.from_numpy(seen.rows())]
    memory = rm.deep.guards.gradient_memory
    monkeypatch.setattr(memory, "all_gather", lambda tensor, device: [tensor, told.pop(0)])
    mine._distributed = True
    report = mine.absorb([x[:2]])
    assert report.rows == 8 and not told
    a, b = (guard.state_dict()["directions"].T for guard in (together, mine))
    torch.testing.assert_close(a @ a.T, b @ b.T, rtol=0, atol=1e-12)


def other(**changes):
    state = rm.deep.OGD(mlp()).state_dict()
    return state | changes


REFUSED = {
    "no kind of gradient": (lambda net: rm.deep.OGD(net, of="all"), "expected of to be one of logits, label, loss"),
    "no directions": (lambda net: rm.deep.OGD(net, rank=0), "expected rank to be an integer of at least 1"),
    "not a module": (lambda net: rm.deep.OGD(net.forward), "expected a torch.nn.Module"),
    "an unknown name": (lambda net: rm.deep.OGD(net, frozen=["head"]), "got 'head'"),
    "nothing left": (lambda net: rm.deep.OGD(net, free=["*"]), "parameters that require gradients"),
    "no batch": (lambda net: rm.deep.OGD(net).absorb([]), "at least one batch"),
    "an empty batch": (lambda net: rm.deep.OGD(net).absorb([draw(0, 6)]), "leave out empty batches"),
    "no sample": (lambda net: rm.deep.OGD(net).absorb([torch.tensor(1.0)]), "one sample as x"),
    "NumPy inputs": (lambda net: rm.deep.OGD(net).absorb([np.ones((2, 6))]), "tensors of inputs"),
    "another width": (lambda net: rm.deep.OGD(net).absorb([draw(2, 5)]), "accepts samples of shape"),
    "NaN": (lambda net: rm.deep.OGD(net).absorb([draw(2, 6) * torch.nan]), "NaN or infinity"),
    "labels without use": (lambda net: rm.deep.OGD(net).absorb([(draw(2, 6), torch.ones(2))]), "2 positional inputs"),
    "no labels": (lambda net: rm.deep.OGD(net, of="label").absorb([draw(2, 6)]), "batches of .inputs, labels."),
    "a label too high": (lambda net: rm.deep.OGD(net, of="label").absorb([(draw(2, 6), [0, 3])]), "labels from 0 to 2"),
    "a label below 0": (lambda net: rm.deep.OGD(net, of="loss").absorb([(draw(2, 6), [-100, 1])]), "got -100 to 1"),
    "labels too few": (lambda net: rm.deep.OGD(net, of="label").absorb([(draw(2, 6), [0])]), "got .1,. of torch.int64"),
    "targets as labels": (lambda net: rm.deep.OGD(net, of="label").absorb([(draw(2, 6), draw(2, 3))]), "integer"),
    "targets of another width": (lambda net: rm.deep.OGD(net, of="loss").absorb([(draw(2, 6), draw(2, 2))]), "2, 3"),
    "text as labels": (lambda net: rm.deep.OGD(net, of="label").absorb([(draw(2, 6), ["a", "b"])]), "labels as a"),
    "a function of no number": (
        lambda net: rm.deep.OGD(net, of=lambda f, y: f).absorb([(draw(2, 6), torch.ones(2))]),
        "scalar",
    ),
    "another optimizer": (
        lambda net: rm.deep.OGD(net).protect(torch.optim.SGD(mlp().parameters())).__enter__(),
        "has none of them",
    ),
    "another guard's state": (
        lambda net: rm.deep.OGD(net).load_state_dict(rm.deep.GradientProjection(net).state_dict()),
        "expected the state_dict of a OGD",
    ),
    "a state of other parameters": (
        lambda net: rm.deep.OGD(net).load_state_dict(rm.deep.OGD(nn.Linear(6, 3)).state_dict()),
        "create the guard with the same model",
    ),
    "a state of more directions": (
        lambda net: rm.deep.OGD(net, rank=2).load_state_dict(other(strength=torch.ones(3, dtype=torch.float64))),
        "at most 2 directions, got 3",
    ),
    "a state that holds more": (
        lambda net: rm.deep.OGD(net).load_state_dict(other(tasks=1, held={"2.bias": torch.ones(3)})),
        "same frozen and free",
    ),
    "batch norm without statistics": (
        lambda net: rm.deep.OGD(nn.Sequential(net, nn.BatchNorm1d(3, track_running_stats=False))),
        "track_running_stats=True",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_use_raises_an_error_clearly(name):
    does, words = REFUSED[name]
    with pytest.raises(rm.InputError, match=words):
        does(mlp())


def test_errors_change_nothing():
    net = mlp()
    guard = rm.deep.OGD(net)
    guard.absorb([draw(2, 6)])
    before = guard.state_dict()
    with pytest.raises(rm.InputError, match="NaN"):
        guard.absorb([draw(2, 6, seed=1), draw(2, 6) * torch.nan])
    assert torch.equal(guard.state_dict()["directions"].T, before["directions"].T) and guard.report().tasks == 1


def test_a_changed_model_raises_an_error():
    net = mlp()
    net[0].bias.requires_grad_(False)
    guard, optimizer = rm.deep.OGD(net), torch.optim.SGD(net.parameters())
    net[0].bias.requires_grad_(True)
    with pytest.raises(rm.InputError, match="0\\.bias was added or made trainable"):
        guard.absorb([draw(2, 6)])
    net[0].bias.requires_grad_(False)
    net[2] = nn.Linear(16, 4).double()
    with pytest.raises(rm.InputError, match="2\\.weight is not among its parameters"), guard.protect(optimizer):
        pass
