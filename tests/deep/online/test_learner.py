"""Common behaviour of the online learners: errors change nothing, saving is exact, frozen parameters stay."""

import copy
import json

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

LEARNERS = {
    "ORFit": lambda net: rm.deep.ORFit(net),
    "ORFit(rank)": lambda net: rm.deep.ORFit(net, rank=5),
    "EBP": lambda net: rm.deep.EBP(net, ridge=0.5, forget=0.99),
    "LinearizedRLS": lambda net: rm.deep.LinearizedRLS(net, ridge=0.5, forget=0.99),
    "EKF": lambda net: rm.deep.EKF(net, noise=[0.1, 0.2], drift=1e-3),
    "EKF(layers)": lambda net: rm.deep.EKF(net, noise=0.1, drift=1e-3, covariance="layers"),
    "EKF(lowrank)": lambda net: rm.deep.EKF(net, noise=0.1, drift=1e-3, covariance="lowrank", rank=6),
    "EKF(softmax)": lambda net: rm.deep.EKF(net, loss="softmax"),
}
every_learner = pytest.mark.parametrize("name", LEARNERS)


def network(dtype=torch.float64):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 2)).to(dtype)


def batches(name, sizes=(1, 4, 2, 3)):
    rng = np.random.default_rng(5)
    for n in sizes:
        x = rng.standard_normal((n, 3))
        y = np.stack([np.sin(x[:, 0]), x[:, 1] * x[:, 2]], axis=1)
        yield torch.from_numpy(x), torch.from_numpy(np.eye(2)[(y[:, 0] > 0).astype(int)] if "softmax" in name else y)


def weights(learner):
    return learner.flat.vector().clone()


def frozen_copy(learner):
    return json.loads(json.dumps(copy.deepcopy(learner.state_dict()), default=lambda t: t.tolist()))


@every_learner
def test_errors_are_those_before_the_batch_is_learned(name):
    net = network()
    learner = LEARNERS[name](net)
    for x, y in batches(name):
        before = copy.deepcopy(net).eval()
        errors = learner.step(x, y)
        answers = before(x).detach()
        expected = y - (answers.softmax(1) if "softmax" in name else answers)
        if "ORFit" in name:  # the samples of a batch go one by one
            errors, expected = errors[:1], expected[:1]
        torch.testing.assert_close(errors, expected)
        assert not torch.equal(weights(learner), torch.cat([p.detach().flatten() for p in before.parameters()]))


@every_learner
def test_a_saved_learner_goes_on_exactly(name, tmp_path):
    net = network()
    learner = LEARNERS[name](net)
    parts = list(batches(name))
    for x, y in parts[:2]:
        learner.step(x, y)
    torch.save({"learner": learner.state_dict(), "net": net.state_dict()}, tmp_path / "saved.pt")
    for x, y in parts[2:]:
        learner.step(x, y)
    saved = torch.load(tmp_path / "saved.pt", weights_only=True)
    twin = LEARNERS[name](network())
    twin.model.load_state_dict(saved["net"])
    twin.load_state_dict(saved["learner"])
    for x, y in parts[2:]:
        twin.step(x, y)
    assert torch.equal(weights(twin), weights(learner))
    assert frozen_copy(twin) == frozen_copy(learner)


@every_learner
def test_a_state_is_tensors_and_plain_values(name):
    learner = LEARNERS[name](network())
    for x, y in batches(name):
        learner.step(x, y)
    state = learner.state_dict()
    memory = state.pop("memory")
    assert json.loads(json.dumps(state)) == state
    for part in memory.values():
        assert type(part) in (int, float) or (isinstance(part, torch.Tensor) and part.dtype == torch.float64)
    taken = copy.deepcopy(memory)
    learner.step(*next(batches(name)))
    for key, part in memory.items():
        assert torch.equal(torch.as_tensor(part), torch.as_tensor(taken[key])), "a state taken is not changed later"


@every_learner
def test_errors_change_nothing(name):
    learner = LEARNERS[name](network())
    good = list(batches(name))
    learner.step(*good[0])
    before, state = weights(learner), frozen_copy(learner)
    x, y = good[1]
    hole, gap = x.clone(), y.clone()
    hole[-1, 0], gap[-1, 1] = float("nan"), float("inf")
    bad = [(hole, y), (x, gap), (x, y[:2]), (x, y[:, :1]), (x, y[:, 0]), (x[:, :2], y), (x[:0], y[:0]), (x, "text")]
    for data in bad:
        with pytest.raises(rm.InputError):
            learner.step(*data)
        assert torch.equal(weights(learner), before) and frozen_copy(learner) == state
    with torch.no_grad():
        learner.model[0].weight[0, 0] = float("inf")
    with pytest.raises(rm.NumericalError):
        learner.step(x, y)
    assert frozen_copy(learner) == state


@every_learner
def test_another_learners_state_raises_an_error(name):
    learner = LEARNERS[name](network())
    learner.step(*next(batches(name)))
    before = frozen_copy(learner)
    state = learner.state_dict()
    wider = LEARNERS[name](nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2)).double()).state_dict()
    tensor = next(key for key, part in state["memory"].items() if isinstance(part, torch.Tensor))
    part = state["memory"][tensor]
    nan, short = part.clone(), part[..., :-1]
    nan.view(-1)[0] = float("nan")
    for bad in (
        {},
        wider,
        {**state, "kind": "Other"},
        {**state, "settings": {}},
        {**state, "memory": {}},
        {**state, "memory": {**state["memory"], tensor: nan}},
        {**state, "memory": {**state["memory"], tensor: -part}} if "EKF" in name else {},
        {**state, "memory": {**state["memory"], tensor: short[..., :0] if part.ndim == 1 else short[:-1]}},
    ):
        with pytest.raises(rm.InputError, match="expected"):
            learner.load_state_dict(bad)
        assert frozen_copy(learner) == before


@every_learner
def test_parameters_that_are_frozen_stay(name):
    net = network()
    net[0].bias.requires_grad_(False)
    net[3].weight.requires_grad_(False)
    kept = copy.deepcopy(net.state_dict())
    learner = LEARNERS[name](net)
    assert learner.flat.names == ("0.weight", "3.bias") and "17 parameters" in repr(learner)
    for x, y in batches(name):
        learner.step(x, y)
    for key, value in net.state_dict().items():
        assert torch.equal(value, kept[key]) == (key in ("0.bias", "3.weight"))


@every_learner
def test_a_network_in_single_precision_learns_the_same_to_its_precision(name):
    single, double = LEARNERS[name](network(torch.float32)), LEARNERS[name](network())
    for x, y in batches(name):
        errors = single.step(x.numpy(), y.numpy())
        double.step(x, y)
        assert errors.dtype == torch.float32
    assert weights(single).dtype == torch.float32
    torch.testing.assert_close(
        weights(single).double(), weights(double), rtol=0, atol=2e-3 if "ORFit" in name else 1e-4
    )


@every_learner
def test_learning_leaves_no_gradients_and_no_hooks_and_works_under_no_grad(name):
    net = network()
    learner, twin = LEARNERS[name](net), LEARNERS[name](network())
    x, y = next(batches(name))
    with torch.no_grad():
        learner.step(x, y)
    twin.step(x, y)
    assert torch.equal(weights(learner), weights(twin))
    assert all(p.grad is None and p.requires_grad for p in net.parameters())
    assert not any(module._forward_hooks for module in net.modules()) and net.training


@every_learner
def test_the_repr_says_what_it_is(name):
    text = repr(LEARNERS[name](network()))
    assert text.startswith(name.split("(")[0] + "(Sequential: 32 parameters, ") and "\n" not in text and len(text) < 160


@pytest.mark.parametrize(
    "make",
    [
        lambda net: rm.deep.ORFit(net, rank=0),
        lambda net: rm.deep.ORFit(net, tolerance=2.0),
        lambda net: rm.deep.EBP(net, ridge=0.0),
        lambda net: rm.deep.EBP(net, forget=-1.0),
        lambda net: rm.deep.EBP(net, step=0),
        lambda net: rm.deep.LinearizedRLS(net, ridge="auto"),
        lambda net: rm.deep.LinearizedRLS(net, forget=0),
        lambda net: rm.deep.EKF(net, noise=0.0),
        lambda net: rm.deep.EKF(net, noise=[1.0, -1.0]),
        lambda net: rm.deep.EKF(net, drift=-1.0),
        lambda net: rm.deep.EKF(net, drift=[1.0, 2.0]),
        lambda net: rm.deep.EKF(net, ridge=np.inf),
        lambda net: rm.deep.EKF(net, covariance="diagonal"),
        lambda net: rm.deep.EKF(net, covariance="lowrank", rank=0),
        lambda net: rm.deep.EKF(net, loss="hinge"),
        lambda net: rm.deep.EKF(net, noise=[1.0, 1.0], loss="softmax"),
        lambda net: rm.deep.EKF("network"),
        lambda net: rm.deep.EKF(nn.Linear(300, 200)),
        lambda net: rm.deep.LinearizedRLS(nn.Linear(300, 200)),
    ],
)
def test_settings_are_looked_at(make):
    with pytest.raises(rm.InputError, match="expected"):
        make(network())


@every_learner
def test_targets_in_bfloat16_are_learned_by_a_network_in_bfloat16(name):
    learner = LEARNERS[name](network(torch.bfloat16))
    x, y = (part.bfloat16() for part in next(batches(name, sizes=(3,))))
    before = weights(learner)
    errors = learner.step(x, y)
    assert errors.dtype == torch.bfloat16 and not torch.equal(weights(learner), before)
    with pytest.raises(rm.InputError, match="numbers in memory, got a tensor on meta"):
        learner.step(x, y.to("meta"))
    with pytest.raises(rm.InputError, match="on meta"):
        learner.step(x.to("meta"), y)


@every_learner
@pytest.mark.parametrize(
    ("net", "message"),
    [
        (lambda: nn.LazyLinear(2), "weight has no size yet; run one batch"),
        (lambda: nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2, device="meta")), r"got 1\.weight on the meta device"),
        (lambda: nn.Linear(3, 2, dtype=torch.complex64), "real values, got weight of torch.complex64"),
    ],
)
def test_parameters_without_real_values_are_refused(name, net, message):
    with pytest.raises(rm.InputError, match=message):
        LEARNERS[name](net())
