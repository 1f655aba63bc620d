"""Low-rank adapters, and models in which nothing can change any more."""

import copy
import warnings

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim


class LoraLayer:
    """As in peft: adapters by name beside a frozen layer."""


class Linear(nn.Module, LoraLayer):
    def __init__(self, base, rank):
        super().__init__()
        self.base_layer = base.requires_grad_(False)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base.in_features, rank, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(rank, base.out_features, bias=False)})
        nn.init.zeros_(self.lora_B["default"].weight)

    def forward(self, x):
        return self.base_layer(x) + self.lora_B["default"](self.lora_A["default"](x))


def adapted():
    torch.manual_seed(0)
    return nn.Sequential(Linear(nn.Linear(10, 10), 2), nn.Tanh(), Linear(nn.Linear(10, 3), 2)).double()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_new_adapters_learn_and_leave_the_outputs_on_earlier_inputs(dtype, rows, learn, moved, answers):
    net, x, new = adapted().to(dtype), rows(3, 10, dtype=dtype), rows(6, 10, seed=1, dtype=dtype)
    old = [(x, answers(net, x))]
    guard = rm.deep.GradientProjection(net)
    report = guard.absorb([x])
    assert moved(net, old) == 0, "A moved away from the inputs while B is zero"
    ranks = {layer.name: layer.rank for layer in report.layers}
    assert ranks["0.lora_A.default"] == 3
    assert ranks["0.lora_B.default"] == 0, "B is free"
    plain = copy.deepcopy(net)
    optimizer = optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=0.05)
    losses = learn(net, guard, new, optimizer, steps=40)
    assert losses[-1] < 0.5 * losses[0]
    assert moved(net, old) < (1e-13 if dtype is torch.float64 else 1e-6)
    learn(plain, rm.deep.GradientProjection(plain), new, optim.AdamW(plain.parameters(), lr=0.05), steps=40)
    assert moved(plain, old) > 1e-2, "without the guard they would have moved"


@pytest.mark.parametrize("tried", [(1.0,), (0.5, 1.0)])
def test_new_adapters_move_away_from_what_a_chosen_setting_protects(tried, rows, learn, moved, answers):
    """B is free, so whatever A lets through of earlier inputs would reach their outputs."""
    net, x, new = adapted(), rows(4, 10), rows(6, 10, seed=1)
    old = [(x, answers(net, x))]
    guard = rm.deep.GradientProjection(net, energy=0.5)
    guard.absorb([x])

    def train():
        return learn(net, guard, new, optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=0.05), steps=20)

    choice = guard.choose(train, lambda: -moved(net, old), candidates=tried)
    assert choice.value == 1.0 and -choice.tried[-1][1] < 1e-13
    assert [old_score < -1e-3 for _, old_score, _ in choice.tried] == [value < 1 for value in tried]
    assert moved(net, old) == 0, "no output has changed"
    losses = train()
    assert losses[-1] < losses[0] and moved(net, old) < 1e-13


def test_adapters_that_have_learned_are_protected_as_layers(rows, learn, moved, answers):
    net, first, second = adapted(), rows(2, 10), rows(2, 10, seed=1)
    guard, optimizer = rm.deep.GradientProjection(net), optim.AdamW(net.parameters(), lr=0.05)
    guard.absorb([first])
    learn(net, guard, second, optimizer)
    with pytest.warns(UserWarning, match=r"no direction is left in 0\.lora_B"):
        guard.absorb([second])
    old = [(x, answers(net, x)) for x in (first, second)]
    losses = learn(net, guard, rows(4, 10, seed=2), optimizer, steps=40)
    assert losses[-1] < losses[0], "A learns"
    assert moved(net, old) < 1e-13


@pytest.mark.parametrize("at_first", [0.0, 0.25])
@pytest.mark.parametrize(
    "make", [rm.deep.GradientProjection, lambda net: rm.deep.GradientProjection(net, energy=0.99), rm.deep.OWM]
)
def test_a_bias_of_b_is_frozen(make, at_first, rows, learn, moved, answers):
    """As peft's lora_bias=True: whatever A does to earlier inputs, the bias acts on their outputs."""
    net, x = adapted(), rows(3, 10)
    for layer in (net[0], net[2]):
        layer.lora_B["default"].bias = nn.Parameter(torch.full((layer.base_layer.out_features,), at_first).double())
    old, guard = [(x, answers(net, x))], make(net)
    guard.absorb([x])
    assert moved(net, old) == 0
    losses = learn(net, guard, rows(6, 10, seed=1), optim.AdamW(net.parameters(), lr=0.05), steps=40)
    assert losses[-1] < 0.5 * losses[0]
    for layer in (net[0], net[2]):
        assert bool((layer.lora_B["default"].bias == at_first).all()) and layer.lora_B["default"].weight.any()
    if make is rm.deep.GradientProjection:
        assert moved(net, old) < 1e-13


@pytest.mark.parametrize("make", [lambda net: rm.deep.GradientProjection(net, energy=0.999), rm.deep.OWM])
def test_soft_guards_move_new_adapters_too(make, rows, learn, moved, answers):
    net, x = adapted(), rows(40, 10) * torch.logspace(1, -2, 10, dtype=torch.float64)
    old, guard = [(x, answers(net, x))], make(net)
    guard.absorb([x])
    losses = learn(net, guard, rows(4, 10, seed=2), optim.AdamW(net.parameters(), lr=0.05))
    assert losses[-1] < losses[0]
    assert moved(net, old) < 1.0


def test_adapters_added_after_absorb_raise_an_error_until_their_inputs_were_absorbed(rows, learn, moved, answers):
    """As peft's add_adapter and set_adapter: the layer then answers earlier inputs through another pair."""
    net, x, new = adapted(), rows(3, 10), rows(6, 10, seed=1)
    old, guard = [(x, answers(net, x))], rm.deep.GradientProjection(net)
    guard.absorb([x])
    torch.manual_seed(1)
    for layer in (net[0], net[2]):
        fresh = Linear(layer.base_layer, 2).double()
        layer.lora_A["default"].requires_grad_(False)
        layer.lora_A["second"], layer.lora_B["second"] = fresh.lora_A["default"], fresh.lora_B["default"]
        layer.forward = lambda x, layer=layer: layer.base_layer(x) + layer.lora_B["second"](layer.lora_A["second"](x))
    optimizer = optim.AdamW([p for n, p in net.named_parameters() if "second" in n], lr=0.05)
    with (
        pytest.raises(rm.InputError, match=r"0\.lora_A\.second, 2\.lora_A\.second.*absorb those inputs once more"),
        guard.protect(optimizer),
    ):
        pytest.fail("the block was entered")
    assert guard.report().tasks == 1 and moved(net, old) == 0
    guard.absorb([x])
    assert moved(net, old) == 0
    losses = learn(net, guard, new, optimizer, steps=40)
    assert losses[-1] < 0.5 * losses[0]
    assert moved(net, old) < 1e-13


class TwiceA(Linear):
    """What A gives is used beside B, too."""

    def forward(self, x):
        return super().forward(x) + self.lora_A["default"](x).sum(-1, keepdim=True)


class Bottleneck(nn.Module):
    """An adapter of Houlsby et al. by its names, with an activation that is not zero at zero."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.first, self.down, self.up = nn.Linear(inputs, outputs), nn.Linear(outputs, 8, False), nn.Linear(8, outputs)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        h = torch.tanh(self.first(x))
        return h + self.up(torch.sigmoid(self.down(h)))


@pytest.mark.parametrize("kind", [lambda i, o: TwiceA(nn.Linear(i, o), 2), Bottleneck])
@pytest.mark.parametrize("make", [rm.deep.GradientProjection, lambda net: rm.deep.GradientProjection(net, energy=0.99)])
def test_a_pair_that_does_more_than_its_product_is_protected_as_two_layers(kind, make, rows, learn, moved, answers):
    torch.manual_seed(0)
    net, x = nn.Sequential(kind(20, 12)).double(), rows(3, 20)
    before = {n: t.clone() for n, t in net.state_dict().items()}
    guard, old = make(net), [(x, answers(net, x))]
    report = guard.absorb([x])
    assert moved(net, old) == 0 and all(torch.equal(before[n], t) for n, t in net.state_dict().items())
    assert {"up", "lora_B"} & {part for layer in report.layers if layer.rank for part in layer.name.split(".")}
    losses = learn(net, guard, rows(3, 20, seed=1), optim.AdamW(net.parameters(), lr=0.01), steps=40)
    assert losses[-1] < losses[0]
    assert moved(net, old) < (1e-12 if make is rm.deep.GradientProjection else 0.2)


def test_the_guard_of_all_parameters_together_takes_adapters(rows, learn):
    net = adapted()
    guard = rm.deep.OGD(net)
    guard.absorb([rows(3, 10)])
    losses = learn(net, guard, rows(3, 10, seed=1), optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1))
    assert losses[-1] < losses[0]


def stuck(rows):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    return net, rows(20, 4)


@pytest.mark.filterwarnings("ignore:no direction is left")
@pytest.mark.parametrize("kind", [rm.deep.GradientProjection, rm.deep.OGD])
def test_a_model_in_which_nothing_can_move_is_warned_about(kind, rows):
    net, x = stuck(rows)
    guard = kind(net)
    guard.absorb([x] if kind is rm.deep.GradientProjection else [x, rows(20, 4, seed=3)])
    before = [p.detach().clone() for p in net.parameters()]
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with (
        pytest.warns(UserWarning, match=r"none of the optimizers' parameters can change") as told,
        guard.protect(optimizer),
    ):
        net(x).square().sum().backward()
        optimizer.step()
    assert told[0].filename == __file__
    assert all(torch.allclose(p, b) for p, b in zip(net.parameters(), before, strict=True)), "the warning is right"


@pytest.mark.filterwarnings("ignore:no direction is left")
def test_where_anything_can_move_there_is_no_warning(rows):
    net, x = stuck(rows)
    cases = [
        rm.deep.GradientProjection(net, free=["2.bias"]),
        rm.deep.GradientProjection(net, energy=0.5),
        rm.deep.GradientProjection(net),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with cases[2].protect(optim.SGD(net.parameters())):  # nothing absorbed yet
            pass
    for guard, batch in zip(cases, (x, x, x[:2]), strict=True):
        guard.absorb([batch])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with guard.protect(optim.SGD(net.parameters())):
                pass
