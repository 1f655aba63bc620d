"""Many architectures: kept to rounding at energy 1 and accepted by the softer guards, or a clear error."""

import re
import warnings
from pathlib import Path

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
    net = nn.Sequential(nn.Linear(10, 30), nn.Tanh(), nn.Linear(30, 2))
    return torch.compile(net, backend="eager")


def shared_twice():
    layer = nn.Linear(20, 20)
    return nn.Sequential(nn.Linear(10, 20), layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(20, 2))


def last_output(part, head):
    return Of(lambda net, x: net.head(net.part(x)[0][:, -1]), part=part, head=head)


def packed():
    def use(net, x):
        lengths = torch.tensor([2, 4])
        sequence = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return net.head(nn.utils.rnn.pad_packed_sequence(net.part(sequence)[0], batch_first=True)[0].sum(1))

    part = nn.GRU(5, 16, num_layers=2, bidirectional=True, batch_first=True)
    return Of(use, part=part, head=nn.Linear(32, 2))


def cells(kind):
    def use(net, x):
        state = None
        for t in range(x.shape[1]):
            state = net.part(x[:, t], state)
        return net.head(state[0] if isinstance(state, tuple) else state)

    return Of(use, part=kind(5, 16), head=nn.Linear(16, 2))


def weight_normed():
    norm = nn.utils.parametrizations.weight_norm
    return nn.Sequential(norm(nn.Linear(10, 30)), nn.Tanh(), norm(nn.Linear(30, 20)), nn.Tanh(), nn.Linear(20, 2))


class ScaleNorm(nn.Module):
    """A norm of the user's own."""

    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.gain * x / x.norm(dim=-1, keepdim=True)


def upsampling():
    return nn.Sequential(
        nn.Conv2d(4, 12, 3, padding=1),
        nn.PReLU(),
        nn.ConvTranspose2d(12, 6, 3, stride=2, groups=2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(726, 2),
    )


def tied(bias):
    def use(net, x):
        return net.head(torch.tanh(net.inner(net.table(x))))

    net = Of(use, table=nn.Embedding(10, 24), inner=nn.Linear(24, 24), head=nn.Linear(24, 10, bias=bias))
    net.head.weight = net.table.weight
    return net


def experts():
    def use(net, x):
        gates = net.gate(x).softmax(-1)
        best = gates.argmax(-1)
        y = torch.zeros_like(x)
        for k, expert in enumerate(net.experts):
            mine = best == k
            y[mine] = gates[mine, k, None] * expert(x[mine])
        return net.head(y)

    parts = nn.ModuleList(nn.Sequential(nn.Linear(10, 12), nn.Tanh(), nn.Linear(12, 10)) for _ in range(3))
    return Of(use, gate=nn.Linear(10, 3), experts=parts, head=nn.Linear(10, 2))


def attention():
    def use(net, x):
        return net.head((x + net.part(x, x, x, need_weights=False)[0]).mean(1))

    return Of(use, part=nn.MultiheadAttention(24, 2, batch_first=True), head=nn.Linear(24, 2))


def learned_positions():
    def use(net, x):
        return net.head(torch.tanh(net.inner(x + net.positions(torch.arange(x.shape[1])))).mean(1))

    return Of(use, positions=nn.Embedding(6, 12), inner=nn.Linear(12, 20), head=nn.Linear(20, 2))


class Indexed(nn.Embedding):
    """Positions as Whisper has them: the module takes rows of its weight by their numbers."""

    def forward(self, x):
        return self.weight[torch.arange(x.shape[1])]


def indexed_positions():
    def use(net, x):
        return net.head(torch.tanh(net.inner(x + net.positions(x))).mean(1))

    return Of(use, positions=Indexed(6, 12), inner=nn.Linear(12, 20), head=nn.Linear(20, 2))


def rotary_positions():
    def use(net, x):
        q, k = (_rotated(part(x), net.angles[: x.shape[1]]) for part in (net.q, net.k))
        return net.head(((q @ k.mT).softmax(-1) @ net.v(x)).mean(1))

    net = Of(use, q=nn.Linear(12, 8), k=nn.Linear(12, 8), v=nn.Linear(12, 8), head=nn.Linear(8, 2))
    net.register_buffer("angles", torch.arange(6.0)[:, None] / torch.tensor([1.0, 10.0, 100.0, 1000.0]))
    return net


def _rotated(x, angles):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], dim=-1)


def transposed_linear():
    pytorch_utils = pytest.importorskip("transformers.pytorch_utils")
    return nn.Sequential(pytorch_utils.Conv1D(20, 10), nn.Tanh(), nn.Linear(20, 2))


def plain_adapters():
    def use(net, x):
        return net.head(torch.tanh(net.base(x) + net.B(net.A(x))))

    net = Of(use, base=nn.Linear(10, 12), A=nn.Linear(10, 2, bias=False), B=nn.Linear(2, 12, bias=False))
    net.head = nn.Linear(12, 2)
    nn.init.zeros_(net.B.weight)
    for part in (net.base, net.head):
        part.requires_grad_(False)
    return net


def unet():
    """Half the size and back, a skip past it, and names that adapters have too; the way back begins at zero."""
    net = Of(
        lambda net, x: net.out(torch.cat([h := torch.relu(net.norm(net.first(x))), net.up(net.down(h).relu())], 1)),
        first=nn.Conv2d(3, 6, 3, padding=1),
        norm=nn.BatchNorm2d(6),
        down=nn.Conv2d(6, 24, 2, stride=2, bias=False),
        up=nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(24, 24, 1)),
        out=nn.Sequential(nn.Conv2d(30, 1, 1), nn.Flatten(), nn.Linear(16, 3)),
    )
    nn.init.zeros_(net.up[1].weight)
    return net


def bottleneck():
    """Adapters of Houlsby et al., with an activation that is not zero at zero."""
    net = Of(
        lambda net, x: net.out((h := torch.tanh(net.first(x))) + net.up(torch.sigmoid(net.down(h)))),
        first=nn.Linear(10, 16),
        down=nn.Linear(16, 8, bias=False),
        up=nn.Linear(8, 16),
        out=nn.Linear(16, 3),
    )
    nn.init.zeros_(net.up.weight)
    return net


HELD = {
    "RNN": (lambda: last_output(nn.RNN(5, 16, batch_first=True), nn.Linear(16, 2)), (2, 3, 5)),
    "GRU": (lambda: last_output(nn.GRU(5, 16, batch_first=True), nn.Linear(16, 2)), (2, 3, 5)),
    "LSTM": (lambda: last_output(nn.LSTM(5, 16, 2, batch_first=True), nn.Linear(16, 2)), (2, 3, 5)),
    "packed bidirectional GRU": (packed, (2, 4, 5)),
    "GRUCell": (lambda: cells(nn.GRUCell), (2, 3, 5)),
    "LSTMCell": (lambda: cells(nn.LSTMCell), (2, 3, 5)),
    "weight norm": (weight_normed, (3, 10)),
    "RMSNorm": (lambda: nn.Sequential(nn.Linear(10, 20), nn.RMSNorm(20), nn.Linear(20, 2)), (3, 10)),
    "LayerNorm": (lambda: nn.Sequential(nn.Linear(10, 20), nn.LayerNorm(20), nn.Linear(20, 2)), (3, 10)),
    "a norm of the user's own": (
        lambda: nn.Sequential(nn.Linear(10, 20), ScaleNorm(20), nn.Linear(20, 2)),
        (3, 10),
    ),
    "ConvTranspose and PReLU": (upsampling, (1, 4, 5, 5)),
    "mixture of experts": (experts, (4, 10)),
    "einsum attention": (einsum_attention, (2, 3, 24)),
    "MultiheadAttention": (attention, (2, 3, 24)),
    "learned positions": (learned_positions, (2, 3, 12)),
    "positions indexed by their module": (indexed_positions, (2, 3, 12)),
    "rotary positions": (rotary_positions, (2, 3, 12)),
    "Conv1D of transformers": (transposed_linear, (3, 10)),
    "adapters B(A(x)) of plain Linear modules": (plain_adapters, (3, 10)),
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
    "U-Net": (unet, (1, 3, 4, 4)),
    "bottleneck adapters with an activation": (bottleneck, (2, 10)),
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
        assert moved(net, old) < 1.0


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("make", GUARDS)
def test_both_uses_of_a_tied_embedding_are_protected(bias, make, moved, answers):
    torch.manual_seed(0)
    net, x, new = tied(bias).double(), torch.tensor([[0, 1, 2]]), torch.tensor([[6, 7, 9]])
    guard = GUARDS[make](net)
    guard.absorb([x])
    old, optimizer = [(x, answers(net, x))], optim.AdamW(net.parameters(), lr=1e-2)
    losses = []
    with guard.protect(optimizer):
        for _ in range(10):
            optimizer.zero_grad()
            loss = (net(new) - 1).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    assert moved(net, old) < (1e-12 if make == "energy 1" else 0.5)
    before = net.table.weight.detach().clone()
    guard.load_state_dict(guard.state_dict())
    assert torch.equal(net.table.weight, before)


def test_lookups_of_an_embedding_that_computes_its_indices(moved, answers):
    class Positions(nn.Embedding):
        def forward(self, x):
            return super().forward(torch.arange(x.shape[1]) + 2)

    torch.manual_seed(0)
    net = nn.Sequential(Positions(20, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    x = torch.zeros(1, 3, dtype=torch.long)
    guard = rm.deep.GradientProjection(net, energy=0.9)
    guard.absorb([x])
    assert guard._memory.table_rows["0"].nonzero()[:, 0].tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("take", "expected"),
    [
        (lambda table, x: table.weight[x + 1], [1, 2, 3]),
        (lambda table, x: table.weight[4:6], [4, 5]),
        (lambda table, x: torch.index_select(table.weight, 0, x + 3), [3, 4, 5]),
        (lambda table, x: table.weight.mul(1.0)[x] * table.weight.shape[0], list(range(9))),
        (lambda table, x: nn.functional.embedding(x, table.weight.data), list(range(9))),
    ],
    ids=["indices", "slice", "index_select", "a product", "data"],
)
@pytest.mark.parametrize("make", GUARDS)
def test_rows_that_a_module_takes_from_its_table_are_protected(make, take, expected, moved, answers):
    class Table(nn.Embedding):
        def forward(self, x):
            return take(self, x)

    torch.manual_seed(0)
    net = nn.Sequential(Table(9, 6), nn.Tanh()).double()
    x = torch.arange(3)
    before = answers(net, x)
    guard = GUARDS[make](net)
    guard.absorb([x])
    assert guard._memory.table_rows["0"].nonzero()[:, 0].tolist() == expected
    optimizer = optim.SGD([net[0].weight], lr=1.0)
    with guard.protect(optimizer):
        for _ in range(3):
            net[0].weight.grad = torch.ones_like(net[0].weight)
            optimizer.step()
    assert moved(net, [(x, before)]) == 0


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


def old_weight_norm():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.utils.weight_norm(nn.Linear(4, 4))


def raw_adapters():
    net = nn.Linear(4, 4)
    net.lora_A, net.lora_B = nn.Parameter(torch.ones(2, 4)), nn.Parameter(torch.zeros(4, 2))
    return net


def raw_positions():
    return Of(lambda net, x: net.a(x + net.positions), a=nn.Linear(4, 4), positions=nn.Parameter(torch.zeros(3, 4)))


def pruned():
    from torch.nn.utils import prune

    return prune.l1_unstructured(nn.Linear(4, 4), "weight", amount=0.5)


def standardized():
    class Standardized(nn.Conv2d):
        def _conv_forward(self, x, weight, bias):
            return super()._conv_forward(x, weight - weight.mean((1, 2, 3), keepdim=True), bias)

    return Standardized(1, 4, 3)


REFUSED = {
    "LSTM with a projection": lambda: nn.LSTM(4, 4, proj_size=2),
    "spectral norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)),
    "orthogonal": lambda: nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)),
    "weight norm of a GRU": lambda: nn.utils.parametrizations.weight_norm(nn.GRU(4, 4), "weight_hh_l0"),
    "weight norm by hooks": old_weight_norm,
    "prune": pruned,
    "attention with its own keys": lambda: nn.MultiheadAttention(4, 2, add_bias_kv=True),
    "a raw Parameter": with_raw_parameter,
    "positions as a raw Parameter": raw_positions,
    "adapters A, B as raw Parameters (loralib)": raw_adapters,
    "a convolution of standardized weights": standardized,
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("make", GUARDS)
def test_unprotected_parameters_are_named_in_an_error(kind, make):
    with pytest.raises(rm.InputError, match="no rule protects"):
        GUARDS[make](REFUSED[kind]())


def test_the_page_lists_every_architecture():
    page = (Path(__file__).parents[3] / "docs" / "guarded-models.md").read_text().split("\n## ")[0]
    listed = dict(re.findall(r"^\| (.+) \| (exact|refused) \|$", page, re.MULTILINE))
    stock = [kind for kind in listed if "LlamaForCausalLM" in kind or "LoRA" in kind]  # test_transformers.py
    tied = ["an embedding tied to the head"]
    assert [kind for kind, result in listed.items() if result == "refused"] == list(REFUSED)
    assert {kind for kind, result in listed.items() if result == "exact"} == {*HELD, *stock, *tied}
    assert len(stock) == 2


@pytest.mark.parametrize("kind", HELD)
def test_kept_in_single_precision_while_the_new_loss_falls(kind, rows, moved, answers):
    build, shape = HELD[kind]
    torch.manual_seed(0)
    net = build().float()
    guard, (x, new) = rm.deep.GradientProjection(net), (rows(*shape).float(), rows(*shape, seed=1).float())
    guard.absorb([x])
    old, optimizer = [(x, answers(net, x))], optim.AdamW(net.parameters(), lr=1e-3)
    with guard.protect(optimizer):
        for _ in range(4):
            optimizer.zero_grad()
            (net(new) - 1).square().mean().backward()
            optimizer.step()
    assert (answers(net, new) - 1).square().mean() < (guard_free(build, new, answers) - 1).square().mean()
    assert moved(net, old) < 1e-4 * float(old[0][1].abs().max())


def guard_free(build, new, answers):
    """The outputs before training."""
    torch.manual_seed(0)
    return answers(build().float(), new)
