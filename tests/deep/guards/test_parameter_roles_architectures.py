"""Many architectures: kept to rounding at energy 1 and accepted by the softer guards, or a clear error."""

import warnings

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim


class Of(nn.Module):
    """Named parts and the function that uses them."""

    def __init__(self, use, **parts):
        super().__init__()
        self.use = use
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.use(self, x)


def einsum_attention():
    def use(net, x):
        q, k, v = (part(x).unflatten(-1, (2, 12)) for part in (net.q, net.k, net.v))
        weights = torch.einsum("bihd,bjhd->bhij", q, k).softmax(-1)
        return net.out(torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2).mean(1))

    return Of(use, q=nn.Linear(24, 24), k=nn.Linear(24, 24), v=nn.Linear(24, 24), out=nn.Linear(24, 2))


def encoder():
    layer = nn.TransformerEncoderLayer(24, 2, 48, dropout=0.0, batch_first=True)
    mask = torch.tensor([[False, False, True], [False, False, False]])
    return Of(
        lambda net, x: net.head(net.body(x, src_key_padding_mask=mask)[:, 0]),
        body=nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
        head=nn.Linear(24, 2),
    )


def whole_transformer():
    body = nn.Transformer(24, 2, 1, 1, 48, dropout=0.0, batch_first=True)
    return Of(lambda net, x: net.head(net.body(x, x.flip(1)).mean(1)), body=body, head=nn.Linear(24, 2))


def convolutions(norm=nn.Identity):
    return nn.Sequential(
        nn.Conv2d(4, 8, 3, groups=2, padding=1),
        norm(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, groups=8, padding=1),
        nn.Conv2d(8, 6, 1),
        nn.Flatten(),
        nn.Linear(150, 2),
    )


def checkpointed():
    from torch.utils.checkpoint import checkpoint

    body = nn.Sequential(nn.Linear(10, 30), nn.Tanh(), nn.Linear(30, 30), nn.Tanh())
    return Of(lambda net, x: net.head(checkpoint(net.body, x, use_reentrant=False)), body=body, head=nn.Linear(30, 2))


def recurrent_use():
    def use(net, x):
        h = torch.zeros(len(x), 20, dtype=x.dtype)
        for _ in range(3):
            h = torch.tanh(net.inner(h) + net.outer(x))
        return net.head(h)

    return Of(use, inner=nn.Linear(20, 20), outer=nn.Linear(10, 20), head=nn.Linear(20, 2))


def compiled():
    torch._dynamo.reset()
    net = nn.Sequential(nn.Linear(10, 30), nn.Tanh(), nn.Linear(30, 2)).double()
    return torch.compile(net, backend="eager")


def shared_twice():
    layer = nn.Linear(20, 20)
    return nn.Sequential(nn.Linear(10, 20), layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(20, 2))


HELD = {
    "einsum attention": (einsum_attention, (2, 3, 24)),
    "TransformerEncoder with a padding mask": (encoder, (2, 3, 24)),
    "Transformer": (whole_transformer, (2, 3, 24)),
    "grouped and depthwise convolutions": (convolutions, (1, 4, 5, 5)),
    "channels last": (lambda: convolutions().to(memory_format=torch.channels_last), (1, 4, 5, 5)),
    "BatchNorm": (lambda: convolutions(nn.BatchNorm2d), (1, 4, 5, 5)),
    "InstanceNorm": (lambda: convolutions(nn.InstanceNorm2d), (1, 4, 5, 5)),
    "gradient checkpointing": (checkpointed, (3, 10)),
    "torch.compile": (compiled, (3, 10)),
    "DataParallel": (lambda: nn.DataParallel(checkpointed()), (3, 10)),
    "recurrent use of a Linear": (recurrent_use, (2, 10)),
    "a layer called twice": (shared_twice, (2, 10)),
}
GUARDS = {
    "energy 1": rm.deep.GradientProjection,
    "energy .95": lambda net: rm.deep.GradientProjection(net, energy=0.95),
    "OWM": rm.deep.OWM,
}


@pytest.mark.parametrize("kind", HELD)
@pytest.mark.parametrize("make", GUARDS)
def test_kept_to_rounding_at_energy_1_and_accepted_by_the_others(kind, make, rows, moved, answers):
    build, shape = HELD[kind]
    torch.manual_seed(0)
    net = build().double()
    guard, (x, new) = GUARDS[make](net), (rows(*shape), rows(*shape, seed=1))
    guard.absorb([x])
    old, start = [(x, answers(net, x))], [p.detach().clone() for p in net.parameters()]
    optimizer = optim.AdamW(net.parameters(), lr=1e-3)
    net.train()
    with guard.protect(optimizer), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for _ in range(4):
            optimizer.zero_grad()
            (net(new) - 1).square().mean().backward()
            optimizer.step()
    assert any(not torch.equal(p, s) for p, s in zip(net.parameters(), start, strict=True))
    if make == "energy 1":
        assert moved(net, old) < 1e-12
    else:
        assert 0 < moved(net, old) < 1.0


def test_parameters_that_were_reassigned_are_protected(mlp, rows, moved, answers):
    net, x = mlp(), rows(3, 10)
    guard = rm.deep.GradientProjection(net)
    guard.absorb([x])
    net.load_state_dict({n: t.clone() for n, t in net.state_dict().items()}, assign=True)
    old, optimizer = [(x, answers(net, x))], optim.AdamW(net.parameters(), lr=0.01)
    with guard.protect(optimizer):
        for _ in range(4):
            optimizer.zero_grad()
            (net(rows(3, 10, seed=1)) - 1).square().mean().backward()
            optimizer.step()
            assert moved(net, old) < 1e-12


def with_raw_parameter():
    return Of(lambda net, x: net.a(x) * net.scale, a=nn.Linear(4, 4), scale=nn.Parameter(torch.ones(4)))


def pruned():
    from torch.nn.utils import prune

    return prune.l1_unstructured(nn.Linear(4, 4), "weight", amount=0.5)


REFUSED = {
    "RNN": lambda: nn.RNN(4, 4),
    "GRU": lambda: nn.GRU(4, 4),
    "LSTM": lambda: nn.LSTM(4, 4),
    "GRUCell": lambda: nn.GRUCell(4, 4),
    "PReLU": lambda: nn.Sequential(nn.Linear(4, 4), nn.PReLU()),
    "ConvTranspose1d": lambda: nn.ConvTranspose1d(2, 2, 3),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
    "spectral norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)),
    "orthogonal": lambda: nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)),
    "prune": pruned,
    "attention with its own keys": lambda: nn.MultiheadAttention(4, 2, add_bias_kv=True),
    "a raw Parameter": with_raw_parameter,
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("make", GUARDS)
def test_unprotected_parameters_are_named_in_an_error(kind, make):
    with pytest.raises(rm.InputError, match="no rule protects"):
        GUARDS[make](REFUSED[kind]())
