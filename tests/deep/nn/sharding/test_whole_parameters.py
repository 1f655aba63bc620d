"""A sharded model is an ordinary one inside the block, and the same sharded one afterwards."""

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.rnn, self.head = nn.Embedding(5, 3), nn.GRU(3, 3), nn.Linear(3, 5, bias=False)
        self.head.weight = self.words.weight

    def forward(self, i):
        return self.features(i) @ self.head.weight.mT

    def features(self, i):
        return self.rnn(self.words(i))[0]


@pytest.fixture
def sharded(alone):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method

    net = Tied().double()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    mesh = init_device_mesh("cpu", (1,))
    fully_shard([net.rnn], mesh=mesh, mp_policy=policy)
    fully_shard(net, mesh=mesh, mp_policy=policy)
    register_fsdp_forward_method(net, "features")
    return net


def hooks(net):
    return [list(h) for m in net.modules() for h in (m._forward_pre_hooks.items(), m._forward_hooks.items())]


def test_inside_the_block_the_model_is_whole_and_in_full_precision(sharded):
    from remanence.deep.nn.sharding.whole_parameters import whole_parameters

    plain, x = Tied().double(), torch.arange(4)
    with torch.no_grad():
        assert sharded(x).dtype == torch.bfloat16
    sharded.unshard()  # as a root does in a forward pass, until the next backward pass
    assert sharded.words.weight.dtype == torch.bfloat16
    with whole_parameters(sharded) as shards, torch.no_grad():
        assert torch.equal(sharded(x), plain(x))
        assert torch.equal(sharded.features(x), plain.features(x))
        assert sharded.head.weight is sharded.words.weight
        assert len(shards) == len(list(sharded.parameters())) == 5
        assert all(type(p) is nn.Parameter and p.requires_grad for p in sharded.parameters())


def test_what_the_block_does_to_whole_parameters_and_hooks_is_gone_afterwards(sharded):
    from remanence.deep.nn.sharding.shards import is_shard, local
    from remanence.deep.nn.sharding.whole_parameters import whole_parameters

    with torch.no_grad():
        sharded(torch.arange(4))
        for module in (sharded, sharded.rnn):
            module.reshard()
    called = []
    kept = sharded.register_forward_pre_hook(lambda *_: called.append("kept"))
    gone = sharded.register_forward_pre_hook(lambda *_: called.append("gone"))
    before, method = hooks(sharded), sharded.features
    parameters = list(sharded.parameters())
    values = [local(p).clone() for p in parameters]
    with pytest.raises(ZeroDivisionError), whole_parameters(sharded), torch.no_grad():
        gone.remove()
        new = sharded.register_forward_pre_hook(lambda *_: called.append("new"))
        for p in sharded.parameters():
            p.zero_()
        sharded(torch.arange(4))
        raise ZeroDivisionError
    assert called == ["kept", "new"]
    new.remove()
    assert all(p is q and is_shard(p) for p, q in zip(parameters, sharded.parameters(), strict=True))
    assert all(torch.equal(local(p), value) for p, value in zip(parameters, values, strict=True))
    assert hooks(sharded) == [[h for h in part if h[0] != gone.id] for part in before]
    assert sharded.features == method
    kept.remove()


def test_an_ordinary_model_is_left_alone():
    from remanence.deep.nn.sharding.whole_parameters import whole_parameters

    net = Tied()
    with whole_parameters(net) as shards:
        assert not shards
