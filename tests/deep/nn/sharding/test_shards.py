"""What each process holds of a sharded model, and what a guard or learner cannot do with it."""

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn = torch.nn


@pytest.fixture
def shard(alone):
    """Shard a model over the one process there is; the guards see no difference."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (1,))
    return lambda model, **options: fully_shard(model, mesh=mesh, **options)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).double()


ROWS = torch.eye(4, dtype=torch.float64)[:2]
REFUSED = {
    "OGD": rm.deep.OGD,
    "GEM": rm.deep.GEM,
    "Constrained": rm.deep.Constrained,
    "EBP": rm.deep.EBP,
    "ORFit": rm.deep.ORFit,
    "LinearizedRLS": rm.deep.LinearizedRLS,
    "EKF": rm.deep.EKF,
    "Editor": lambda net: rm.deep.Editor(net, "0"),
    "fit_stream": lambda net: rm.deep.fit_stream(net, rm.streams.digits(2), optimizer=torch.optim.SGD),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_needs_every_weight_in_one_process_raises_an_error(kind, shard):
    net = network()
    shard(net)
    with pytest.raises(rm.InputError, match=r"sharded over processes \(fully_shard\).*DistributedDataParallel"):
        REFUSED[kind](net)


@pytest.mark.parametrize("kind", ["OGD", "GEM", "Constrained"])
def test_other_guards_raise_an_error_if_the_model_is_sharded_later(kind, shard):
    net = network()
    guard = REFUSED[kind](net)
    shard(net)
    with pytest.raises(rm.InputError, match="sharded over processes"):
        guard.absorb([(ROWS, ROWS[:, :2])])
    with (
        pytest.raises(rm.InputError, match="sharded over processes"),
        guard.protect(torch.optim.SGD(net.parameters(), lr=0.1)),
    ):
        pass


def test_learners_and_editors_raise_an_error_if_the_model_is_sharded_later(shard):
    net = network()
    learner, editor = rm.deep.EBP(net), rm.deep.Editor(net, "0")
    shard(net)
    with pytest.raises(rm.InputError, match="sharded over processes"):
        learner.step(ROWS, ROWS[:, :2])
    with pytest.raises(rm.InputError, match="sharded over processes"):
        editor.edit(ROWS.numpy(), torch.ones(2, 6).double().numpy(), "one")


def test_a_layer_of_a_sharded_model_does_not_grow(shard):
    net = network()
    shard(net)
    with pytest.raises(rm.InputError, match=r"sharded over processes.*grow"):
        rm.deep.GradientProjection(net).grow("2", 3)


def test_a_part_of_a_sharded_model_raises_an_error(shard):
    net = network()
    shard(net)
    with pytest.raises(rm.InputError, match=r"expected a model that fully_shard was called on.*weight"):
        rm.deep.GradientProjection(net[0])


def test_trained_parameters_that_are_not_sharded_raise_an_error(shard):
    net = network()
    shard(net[0])
    with pytest.raises(rm.InputError, match=r"got 2\.weight whole.*not averaged"):
        rm.deep.GradientProjection(net)
    net[2].requires_grad_(False)
    rm.deep.GradientProjection(net).absorb([ROWS])


def test_parameters_that_are_not_split_by_rows_raise_an_error(shard):
    from torch.distributed.tensor import Shard

    net = network()
    shard(net, shard_placement_fn=lambda p: Shard(p.dim() - 1))
    with pytest.raises(rm.InputError, match=r"by rows over all 1 processes.*0\.weight as .*dim=1"):
        rm.deep.GradientProjection(net)


def test_weights_that_are_computed_from_shards_raise_an_error(shard):
    net = network()
    nn.utils.parametrizations.weight_norm(net[0])
    shard(net)
    with pytest.raises(rm.InputError, match=r"parametrizations\.weight\.original0 is sharded.*remove"):
        rm.deep.GradientProjection(net)


def test_optimizers_that_cannot_train_shards_raise_an_error(shard):
    net = network()
    early = torch.optim.SGD(net.parameters(), lr=0.1)
    shard(net)
    guard = rm.deep.GradientProjection(net)
    with pytest.raises(rm.InputError, match="expected an optimizer of the sharded parameters"), guard.protect(early):
        pass
    with torch.no_grad():
        net(ROWS)
    late = torch.optim.SGD(net.parameters(), lr=0.1)  # of the whole parameters, which the root keeps until backward()
    with pytest.raises(rm.InputError, match=r"call reshard\(\)"), guard.protect(late):
        pass
    with pytest.raises(rm.InputError, match="got LBFGS"), guard.protect(torch.optim.LBFGS(net.parameters())):
        pass


def test_dora_on_shards_raises_an_error(shard):
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    net = peft.get_peft_model(
        transformers.LlamaForCausalLM(config), peft.LoraConfig(r=2, target_modules=["q_proj"], use_dora=True)
    )
    shard(net)
    with pytest.raises(rm.InputError, match=r"magnitude_vector.*LoRA without DoRA"):
        rm.deep.GradientProjection(net)
