"""Guards and online learners through a file: with the network beside it they go on as if nothing had happened."""

import copy
import warnings

import pytest

import remanence as rm
from remanence.store import describe

from .conftest import content_of, through_a_file

torch = pytest.importorskip("torch")


def network(kind=torch.float64, width=18, seed=0, norm=True):
    torch.manual_seed(seed)
    middle = torch.nn.LayerNorm(width) if norm else torch.nn.Identity()
    return torch.nn.Sequential(torch.nn.Linear(20, width), middle, torch.nn.Tanh(), torch.nn.Linear(width, 3)).to(kind)


def batch(seed, kind=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(5, n, generator=generator, dtype=torch.float64).to(kind) for n in (20, 3))


GUARDS = {
    "projection": lambda net: rm.deep.GradientProjection(net),
    "projection, energies": lambda net: rm.deep.GradientProjection(net, {"0": 0.9}, frozen=["3.bias"]),
    "owm": lambda net: rm.deep.OWM(net, 0.3, free=["3.*"]),
    "owm, dampings": lambda net: rm.deep.OWM(net, {"0": 0.3}),
    "ogd": lambda net: rm.deep.OGD(net, rank=40, of="label", frozen=["1"]),
    "ogd, all": lambda net: rm.deep.OGD(net),
}
LEARNERS = {
    "ebp": lambda net: rm.deep.EBP(net, ridge=0.5, forget=0.99, step=0.5),
    "linearized": lambda net: rm.deep.LinearizedRLS(net, ridge=0.5, layers=["3"]),
    "orfit": lambda net: rm.deep.ORFit(net),
    "orfit, rank": lambda net: rm.deep.ORFit(net, rank=4),
    "ekf": lambda net: rm.deep.EKF(net, noise=0.5, drift=0.01),
    "ekf, layers": lambda net: rm.deep.EKF(net, covariance="layers", loss="softmax"),
    "ekf, lowrank": lambda net: rm.deep.EKF(net, noise=(0.5, 1.0, 2.0), covariance="lowrank", rank=5),
}


def trained(guard, net, seed):
    """A guarded task; returns the weights as bytes."""
    x, y = batch(seed, next(net.parameters()).dtype)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    with guard.protect(optimizer):
        for _ in range(5):
            optimizer.zero_grad()
            (net(x) - y).square().mean().backward()
            optimizer.step()
    labels = y.argmax(1)
    guard.absorb([(x, labels)] if getattr(guard, "of", "") == "label" else [x])
    return weights(net)


def weights(net):
    return [value.flatten().view(torch.uint8).numpy().tobytes() for value in net.state_dict().values()]


@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", GUARDS)
def test_a_guard_goes_on_guarding(name, kind):
    net = network(kind)
    guard = GUARDS[name](net)
    trained(guard, net, 1), trained(guard, net, 2)
    twin = copy.deepcopy(net)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = through_a_file(guard, model=twin)
    assert type(loaded) is type(guard) and loaded.model is twin and loaded.settings == guard.settings
    assert content_of(loaded) == content_of(guard)
    assert trained(loaded, twin, 3) == trained(guard, net, 3)
    assert content_of(loaded) == content_of(guard)


def test_a_guard_of_bfloat16_weights_keeps_every_bit():
    net = network(torch.bfloat16)
    guard = rm.deep.GradientProjection(net, frozen=["3.bias"])
    guard.absorb([batch(1, torch.bfloat16)[0]])
    twin = copy.deepcopy(net)
    assert content_of(through_a_file(guard, model=twin)) == content_of(guard)


def test_a_guard_that_has_absorbed_nothing_can_be_saved():
    net = network()
    loaded = through_a_file(rm.deep.OWM(net), model=net)
    assert trained(loaded, net, 1)


@pytest.mark.parametrize("name", LEARNERS)
def test_an_online_learner_goes_on_learning(name):
    net = network(norm=name != "ebp")
    learner = LEARNERS[name](net)
    labels = torch.nn.functional.one_hot(torch.arange(5) % 3, 3).double()
    aims = [labels if "layers" in name else batch(seed)[1] for seed in range(4)]
    for seed in range(2):
        learner.step(batch(seed)[0], aims[seed])
    twin = copy.deepcopy(net)
    loaded = through_a_file(learner, model=twin)
    assert loaded.settings == learner.settings and content_of(loaded) == content_of(learner)
    for seed in (2, 3):
        errors = [each.step(batch(seed)[0], aims[seed]).numpy().tobytes() for each in (learner, loaded)]
        assert errors[0] == errors[1]
    assert weights(twin) == weights(net)


def test_the_network_must_be_brought_and_be_of_the_same_build(tmp_path):
    net = network()
    guard = rm.deep.GradientProjection(net)
    guard.absorb([batch(1)[0]])
    rm.save(guard, tmp_path / "g")
    with pytest.raises(rm.InputError, match=r"the network it belongs to .*rm\.load\(path, model=…\)"):
        rm.load(tmp_path / "g")
    for other in (network(width=19), network(torch.float32)):
        with pytest.raises(rm.InputError, match="got another one"):
            rm.load(tmp_path / "g", model=other)
    with pytest.raises(rm.InputError, match="expected a torch module"):
        rm.load(tmp_path / "g", model="net")
    with pytest.warns(UserWarning, match="weights are not those it had when its GradientProjection was saved"):
        rm.load(tmp_path / "g", model=network(seed=1))
    told = describe(tmp_path / "g").summary
    assert told["kind"] == "deep.GradientProjection" and told["network"] == "Sequential"
    assert told["settings"] == {"energy": 1.0, "frozen": [], "free": []}


def test_functions_among_the_settings_are_refused():
    guard = rm.deep.OGD(network(), of=lambda outputs, label: outputs[0])
    with pytest.raises(rm.InputError, match=r"got function as settings\..*never stored"):
        content_of(guard)


def test_a_model_taught_by_heads_that_grew_comes_back():
    net = network()
    guard = rm.deep.GradientProjection(net)
    guard.absorb([batch(1)[0]])
    guard.grow("3", 5)
    twin = copy.deepcopy(net)
    loaded = through_a_file(guard, model=twin)
    x = batch(1)[0]
    assert torch.equal(loaded.model(x), net(x)) and loaded.capacity() == guard.capacity()
