"""Low-rank adapters, and models in which nothing can change any more."""

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


@pytest.mark.parametrize("make", [rm.deep.GradientProjection, rm.deep.OWM])
def test_adapters_that_would_learn_nothing_raise_an_error(make, rows):
    with pytest.raises(rm.InputError, match=r"adapters .*0\.lora_A, 0\.lora_B.*as many inputs as its rank.*OGD"):
        make(adapted())
    make(adapted(), free=["*lora_*"])
    frozen = adapted()
    frozen.requires_grad_(False)
    frozen[2].base_layer.requires_grad_(True)
    guard = make(frozen)  # adapters that do not learn are layers like others
    guard.absorb([rows(3, 10)])
    frozen[0].lora_B.requires_grad_(True)
    with pytest.raises(rm.InputError, match="adapters"), guard.protect(optim.SGD(frozen.parameters())):
        pass


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
