"""The recorded inputs of a layer reproduce its outputs, for every supported kind of layer."""

import itertools

import pytest

import remanence as rm
from remanence.deep.nn.layer_rules import patches

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("padding_mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_is_its_matrix_on_patches(padding_mode, groups, rows):
    for stride, dilation, padding in itertools.product((1, 2), (1, 2), (0, 1, "same", "valid")):
        if padding == "same" and stride > 1:
            continue
        for kind, shape, kernel in ((nn.Conv1d, (9,), 3), (nn.Conv2d, (7, 8), (3, 2)), (nn.Conv3d, (5, 6, 5), 2)):
            if kind is nn.Conv3d and padding_mode == "reflect":
                continue  # torch has none
            conv = kind(4, 6, kernel, stride, padding, dilation, groups, padding_mode=padding_mode).double()
            x = rows(2, 4, *shape)
            W = conv.weight.reshape(groups, 6 // groups, -1)
            ours = patches(x, conv) @ W.transpose(1, 2) + conv.bias.reshape(groups, 1, -1)  # (g, n·places, out/g)
            theirs = conv(x).reshape(2, groups, 6 // groups, -1).permute(1, 0, 3, 2).reshape(ours.shape)
            assert (ours - theirs).abs().max() < 1e-12, (kind.__name__, stride, dilation, padding)
            assert torch.equal(patches(x[0], conv), patches(x[:1], conv))


class Lora(nn.Module):
    """A frozen layer beside a trained pair of thin ones."""

    def __init__(self):
        super().__init__()
        self.base, self.down, self.up = nn.Linear(12, 12), nn.Linear(12, 4, bias=False), nn.Linear(4, 12, bias=False)
        self.base.requires_grad_(False)

    def forward(self, x):
        return torch.tanh(self.base(x) + self.up(self.down(x)))


class Tied(nn.Module):
    """Two names for one layer, a second layer with the same weight and bias, and one layer called twice."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.twice = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 12)
        self.c = self.a
        self.b.weight, self.b.bias = self.a.weight, self.a.bias

    def forward(self, x):
        h = self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))
        return self.twice(torch.tanh(self.twice(h)))


class Words(nn.Module):
    """Tables, one of them shared, and a bag of words."""

    def __init__(self):
        super().__init__()
        self.words, self.again, self.bag = nn.Embedding(40, 12), nn.Embedding(40, 12), nn.EmbeddingBag(40, 12)
        self.again.weight = self.words.weight
        self.out = nn.Linear(12, 3)

    def forward(self, i):
        return self.out(self.words(i).mean(1) + self.again((i + 7) % 40).mean(1) * self.bag(i))


class Apart(nn.Module):
    """Attention whose keys and values have widths of their own, called by name."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(12, 2, kdim=10, vdim=8, batch_first=True)

    def forward(self, x):
        return self.attention(query=x, key=x[..., :10], value=x[..., :8])[0]


def encoder():
    layer = nn.TransformerEncoderLayer(12, 2, 24, dropout=0.2, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


NETWORKS = {
    "three axes": (lambda: nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.Linear(20, 3)), (2, 2, 12)),
    "one vector": (lambda: nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.Linear(20, 3)), (12,)),
    "grouped": (
        lambda: nn.Sequential(nn.Conv1d(4, 8, 3, groups=4), nn.Tanh(), nn.Flatten(), nn.Linear(40, 2)),
        (1, 4, 7),
    ),
    "volume": (lambda: nn.Sequential(nn.Conv3d(3, 4, 2), nn.Tanh(), nn.Flatten(), nn.Linear(32, 2)), (1, 3, 3, 3, 3)),
    "lora": (lambda: nn.Sequential(Lora(), nn.Dropout(0.3), nn.Linear(12, 2)), (2, 12)),
    "tied": (Tied, (1, 12)),
    "apart": (Apart, (1, 2, 12)),
    "encoder": (encoder, (1, 3, 12)),
    "one layer": (lambda: nn.Linear(12, 3), (4, 12)),
    "group norm": (
        lambda: nn.Sequential(nn.Conv2d(4, 20, 2), nn.GroupNorm(4, 20), nn.Flatten(), nn.Linear(80, 2)),
        (1, 4, 3, 3),
    ),
}


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.filterwarnings("ignore:no direction is left")
def test_networks_of_many_kinds_keep_their_outputs(kind, rows, learn, moved, answers):
    torch.manual_seed(0)
    make, shape = NETWORKS[kind]
    net = make().double()
    guard = rm.deep.GradientProjection(net)
    optimizer = optim.AdamW(net.parameters(), lr=0.01)
    old = []
    for task in range(2):
        x = rows(*shape, seed=task)
        net.train()
        losses = learn(net, guard, x, optimizer, seed=task, steps=10)
        guard.absorb([x])
        old.append((x, answers(net, x)))
    assert losses[-1] < losses[0]
    assert moved(net, old) < 1e-11


def test_rows_of_tables_that_were_looked_up_stay_to_the_bit_and_the_others_learn(moved, learn, answers):
    torch.manual_seed(0)
    net = Words().double()
    guard = rm.deep.GradientProjection(net)
    old, new = torch.tensor([[1, 2], [2, 5]]), torch.tensor([[20, 21]])
    guard.absorb([old])
    before, then = net.words.weight.detach().clone(), [(old, answers(net, old))]
    learn(net, guard, new, optim.AdamW(net.parameters(), lr=0.05))
    assert moved(net, then) < 1e-14
    still = (net.words.weight == before).all(1).nonzero()[:, 0].tolist()
    assert still == [1, 2, 5, 8, 9, 12], "the rows of both names of the table"
    assert guard.capacity()["words"] == pytest.approx(3 / 40)


def test_padded_batches_of_a_transformer(rows, learn):
    """In eval mode torch takes short cuts around the layers' own calls; they must be seen all the same."""
    torch.manual_seed(0)
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1).double()
    guard = rm.deep.GradientProjection(net)
    x, padding = rows(2, 3, 8), torch.tensor([[False, False, True], [False, False, False]])
    report = guard.absorb([{"src": x, "src_key_padding_mask": padding}])
    assert all(layer.rows == 6 for layer in report.layers)
    net.eval()
    before = net(x, src_key_padding_mask=padding).detach()
    net.train()
    learn(net, guard, rows(1, 3, 8, seed=1), optim.AdamW(net.parameters(), lr=0.01), steps=5)
    net.eval()
    assert (net(x, src_key_padding_mask=padding) - before)[~padding].abs().max() < 1e-13


def test_weights_in_another_memory_order(rows, learn, moved, answers):
    net = nn.Sequential(nn.Conv2d(4, 30, 2), nn.Tanh(), nn.Flatten(), nn.Linear(120, 2)).double()
    net = net.to(memory_format=torch.channels_last)
    net[3].weight = nn.Parameter(net[3].weight.detach().t().contiguous().t())
    assert not net[0].weight.is_contiguous() and not net[3].weight.is_contiguous()
    guard = rm.deep.GradientProjection(net)
    x = rows(2, 4, 3, 3)
    guard.absorb([x])
    old = [(x, answers(net, x))]
    losses = learn(net, guard, rows(2, 4, 3, 3, seed=1), optim.AdamW(net.parameters()), steps=5)
    assert moved(net, old) < 1e-13 and losses[-1] < losses[0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_what_it_can_hold(dtype, rows, moved, answers, steps):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(8, 24, 3, groups=2), nn.Tanh(), nn.Flatten(), nn.Linear(96, 3)).to(dtype)
    guard = rm.deep.GradientProjection(net)
    x = rows(1, 8, 6, dtype=dtype)
    guard.absorb([x])
    old, start = [(x, answers(net, x))], net[0].weight.detach().clone()
    optimizer, new = optim.SGD(net.parameters(), lr=0.05), rows(2, 8, 6, seed=1, dtype=dtype)
    with guard.protect(optimizer):
        steps(optimizer, lambda: (net(new).float() - 2).square().mean(), steps=30)
    features = net[:3](x).detach().abs().float()
    rounding = 4 * torch.finfo(dtype).eps * float((features @ net[3].weight.detach().abs().float().T).max())
    assert moved(net, old) < rounding
    assert (net[0].weight - start).abs().max() > 0.03


def test_a_bias_in_another_precision_than_its_weight(rows, moved, answers):
    for weight, bias in ((torch.float64, torch.float32), (torch.float32, torch.float64)):
        net = nn.Linear(6, 2)
        net.weight, net.bias = nn.Parameter(net.weight.to(weight)), nn.Parameter(net.bias.to(bias))
        guard = rm.deep.GradientProjection(net)
        x = rows(2, 6)
        net.forward = lambda x, net=net: nn.functional.linear(x.double(), net.weight.double(), net.bias.double())
        guard.absorb([x])
        old = [(x, answers(net, x))]
        optimizer = optim.SGD(net.parameters(), lr=0.1)
        with guard.protect(optimizer):
            for _ in range(5):
                optimizer.zero_grad()
                (net(rows(2, 6, seed=1)) - 1).square().sum().backward()
                optimizer.step()
                assert moved(net, old) < 1e-5


@pytest.mark.filterwarnings("ignore:no direction is left")
def test_layers_without_any_direction_and_layers_never_called(rows, learn, moved, answers):
    net = nn.Sequential(nn.Linear(5, 8, bias=False), nn.ReLU(), nn.Linear(8, 2)).double()
    net.unused = nn.Linear(3, 3).double()
    net.forward = lambda x: net[2](net[1](net[0](x)))
    guard = rm.deep.GradientProjection(net)
    report = guard.absorb([torch.zeros(2, 5, dtype=torch.float64)])
    assert {layer.name: layer.rank for layer in report.layers} == {"0": 0, "2": 1, "unused": 0}
    learn(net, guard, rows(3, 5), optim.AdamW(net.parameters(), lr=0.1))
    assert net[0].weight.abs().max() > 0.1
    assert guard.capacity()["unused"] == 0


@pytest.mark.filterwarnings("ignore:no direction is left")
def test_a_stream_of_batches_is_used_once_and_let_go(rows):
    import weakref

    net = nn.Linear(6, 2).double()
    alive, most = set(), 0

    def stream():
        nonlocal most
        for seed in range(20):
            x = rows(50, 6, seed=seed)
            alive.add(seed)
            weakref.finalize(x, alive.discard, seed)
            yield x
            del x
            most = max(most, len(alive))

    guard = rm.deep.GradientProjection(net, energy=0.9)
    assert guard.absorb(stream()).layers[0].rows == 1000
    assert most <= 3  # the first one, for a trial at the end, and the one at hand
    assert all(len(root.factor) == 7 for root in guard._memory.roots["linear"])


def test_many_rows_are_folded_in_pieces(rows, monkeypatch):
    """A convolution makes thousands of rows of one image: they are never in float64 all at once."""
    from remanence.deep.guards import input_recorder
    from remanence.deep.nn.layers import WeightMatrix

    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.Flatten(), nn.Linear(64, 2)).double()
    whole = rm.deep.GradientProjection(net)
    whole.absorb([rows(3, 2, 6, 6)])
    pieces, completed = [], WeightMatrix.completed
    monkeypatch.setattr(input_recorder, "FOLD_AT_ONCE", 10)
    monkeypatch.setattr(
        WeightMatrix, "completed", lambda self, part: pieces.append(part.shape[1]) or completed(self, part)
    )
    cut = rm.deep.GradientProjection(net)
    cut.absorb([rows(3, 2, 6, 6)])
    assert pieces == [10, 10, 10, 10, 8, 3]
    for name in ("0", "2"):
        for a, b in zip(whole._memory.roots[name], cut._memory.roots[name], strict=True):
            assert abs(a.factor.T @ a.factor - b.factor.T @ b.factor).max() < 1e-12
