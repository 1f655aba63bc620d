"""Bad use raises an error before anything changes, with what was expected and what to try."""

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim

GUARDS = [rm.deep.GradientProjection, rm.deep.OWM]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(4, 6, proj_size=5, batch_first=True), nn.Linear(5, 2)
        self.offset = nn.Parameter(torch.zeros(5))

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1] + self.offset)


@pytest.mark.parametrize("make", GUARDS)
def test_parameters_without_a_rule_are_named_with_the_choices(make, rows, moved, answers, learn):
    torch.manual_seed(0)
    net = Recurrent().double()
    with pytest.raises(rm.InputError, match=r"no rule protects offset, rnn\.weight_ih_l0.*frozen=.*free=.*'rnn\.\*'"):
        make(net)
    guard = make(net, frozen=["rnn.*", "offset"])
    x = rows(1, 3, 4)
    guard.absorb([x])
    old = [(x, answers(net, x))]
    learn(net, guard, rows(1, 3, 4, seed=1), optim.SGD(net.parameters(), lr=0.1))
    assert moved(net, old) < (1e-13 if make is rm.deep.GradientProjection else 1.0)


@pytest.mark.parametrize("make", GUARDS)
def test_what_becomes_trainable_later_raises_an_error_before_it_can_leak(make, rows):
    net = Recurrent().double()
    net.rnn.requires_grad_(False)
    net.offset.requires_grad_(False)
    guard = make(net)
    guard.absorb([rows(1, 3, 4)])
    net.rnn.requires_grad_(True)
    with pytest.raises(rm.InputError, match="no rule protects rnn"), guard.protect(optim.SGD(net.parameters())):
        pass
    with pytest.raises(rm.InputError, match="no rule protects rnn"):
        guard.absorb([rows(1, 3, 4)])
    assert guard.report().tasks == 1


def tied_table():
    net = nn.Sequential(nn.Embedding(6, 4), nn.Linear(4, 6))
    net[1].weight = net[0].weight
    return net


def tied_without_bias():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    net[1].weight = net[0].weight
    return net


def overridden():
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    return nn.Sequential(nn.Linear(3, 3), Doubled(3, 2))


def made_in_inference_mode():
    with torch.inference_mode():
        return nn.Linear(3, 2)


MODELS = {
    "no module": (lambda: "net", {}, "expected a torch.nn.Module, got str"),
    "unknown frozen": (lambda: nn.Linear(2, 2), {"frozen": ["head"]}, "'head'; the model has weight, bias"),
    "unknown free": (lambda: nn.Linear(2, 2), {"free": ["x.*"]}, r"'x\.\*'"),
    "a string": (lambda: nn.Linear(2, 2), {"frozen": "bias"}, r"the one string 'bias'; try frozen=\('bias',\)"),
    "tied but for the bias": (tied_without_bias, {}, "0 and 1 share a weight but not the bias"),
    "a table that rescales": (lambda: nn.Embedding(5, 2, max_norm=1.0), {}, "max_norm"),
    "no size yet": (lambda: nn.LazyLinear(3), {}, "no size yet; run one batch"),
    "complex": (lambda: nn.Linear(2, 2, dtype=torch.complex64), {}, "real parameters"),
    "inference mode": (made_in_inference_mode, {}, "got weight made in inference_mode"),
    "another forward": (overridden, {}, r"no rule protects 1\.weight, 1\.bias"),
    "spectral norm": (
        lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(2, 2)),
        {},
        "no rule protects .*remove_parametrizations",
    ),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("make", GUARDS)
def test_models_that_cannot_be_protected(kind, make):
    model, names, message = MODELS[kind]
    with pytest.raises(rm.InputError, match=message):
        make(model(), **names)


def test_a_tied_table_may_be_frozen(learn, moved, answers):
    torch.manual_seed(0)
    net = tied_table().double()
    guard = rm.deep.GradientProjection(net, frozen=["0.weight"])
    guard.absorb([torch.tensor([1, 2])])
    old = [(torch.tensor([1, 2]), answers(net, torch.tensor([1, 2])))]
    learn(net, guard, torch.tensor([3]), optim.SGD(net.parameters(), lr=0.1), steps=3)
    assert moved(net, old) == 0


@pytest.mark.parametrize("energy", [0.0, -0.5, 1.5, float("nan"), "all", {"0": 2.0}, {"none": 0.5}, {"0": None}])
def test_energies_out_of_range_or_of_no_layer(energy, mlp):
    if isinstance(energy, float):  # the whole energy is allowed, and the error says so
        with pytest.raises(rm.InputError, match="above 0 and at most 1, got"):
            rm.deep.GradientProjection(mlp(), energy)
    with pytest.raises(rm.InputError, match="energy"):
        rm.deep.GradientProjection(mlp(), energy=energy)


def a_nan(x):
    x = x.clone()
    x[1, 2] = float("nan")
    return x


BATCHES = {
    "none": (lambda x: [], "at least one batch"),
    "a used generator": (lambda x: iter(()), "generator used up"),
    "no rows": (lambda x: [x[:0]], "none that did; are they empty"),
    "one tensor": (lambda x: x, r"got Tensor; for a single batch pass \[batch\]"),
    "nothing": (lambda x: None, "got NoneType"),
    "a data set": (lambda x: torch.utils.data.TensorDataset(x), "got TensorDataset"),
    "numbers": (lambda x: [1, 2], "got int"),
    "too narrow": (lambda x: [x, x[:, :-1]], r"got torch.float64 \(3, 9\) \(.*\); check their shape"),
    "integers": (lambda x: [x.long()], r"got torch.int64 \(3, 10\)"),
    "NaN": (lambda x: [x, a_nan(x)], "layer 0 contain NaN"),
    "infinity": (lambda x: [x / 0], "layer 0 contain NaN"),
    "infinity inside": (lambda x: [x * 1e300, x * 1e308], "contain NaN or infinity"),
}


@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize("make", GUARDS)
def test_batches_that_cannot_be_absorbed_change_nothing(kind, make, mlp, rows):
    net, (batches, message) = mlp(), BATCHES[kind]
    guard, x = make(net), rows(3, 10)
    guard.absorb([x])
    before, weights = str(guard.report()), [p.detach().clone() for p in net.parameters()]
    with pytest.raises(rm.InputError, match=message):
        guard.absorb(batches(x))
    assert str(guard.report()) == before
    assert all(torch.equal(p, w) for p, w in zip(net.parameters(), weights, strict=True))


@pytest.mark.parametrize("kind", [nn.Conv1d, nn.Conv2d, nn.Conv3d])
@pytest.mark.parametrize("axes", [1, 6])
def test_inputs_of_a_convolution_with_other_axes_change_nothing(kind, axes):
    net = nn.Sequential(kind(1, 2, 2)).double()
    guard = rm.deep.GradientProjection(net)
    with pytest.raises(rm.InputError, match=rf"axes for a {kind.__name__}"):
        guard.absorb([torch.ones((1,) * axes).double()])
    assert guard.report().tasks == 0


def test_weights_that_are_nan(mlp, rows):
    net = mlp()
    with torch.no_grad():
        net[4].weight[0, 0] = float("nan")
    with pytest.raises(rm.InputError, match=r"layer 4 contain NaN or infinity.*weights"):
        rm.deep.GradientProjection(net).absorb([rows(2, 10)])


def test_an_empty_batch_among_others_is_harmless(mlp, rows):
    x = rows(3, 10)
    a, b = (rm.deep.GradientProjection(mlp()).absorb(parts) for parts in ([x[:0], x], [x]))
    assert str(a) == str(b)


@pytest.mark.parametrize("make", GUARDS)
def test_optimizers_that_are_none_or_of_another_model(make, mlp, rows):
    guard = make(mlp())
    for given, message in (
        ((), r"one or more torch\.optim optimizers.*got \[\]"),
        (("AdamW",), r"got \['str'\]"),
        ((optim.SGD(mlp().parameters()),), "has none of them.*another model"),
    ):
        with pytest.raises(rm.InputError, match=message), guard.protect(*given):
            pass


class Functional(nn.Module):
    """Uses a weight beside its module's own call."""

    def __init__(self, table):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.layer = nn.Embedding(12, 6) if table else None, nn.Linear(6, 6)

    def forward(self, x):
        if self.table is not None:
            return self.layer(self.table(x)) @ self.table.weight.T
        return nn.functional.linear(torch.tanh(self.layer(x)), self.layer.weight.T)


def test_layers_that_are_not_called_as_modules_are_not_considered_protected(rows):
    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 2)

        def forward(self, x):
            return self.last.forward(self.first.forward(x) if x.shape[0] == 1 else self.first(x))

    guard = rm.deep.GradientProjection(Around().double())
    with pytest.raises(rm.InputError, match="called as modules"):
        guard.absorb([rows(1, 6)])
    with pytest.raises(rm.InputError, match="a trial step"):
        guard.absorb([rows(2, 6)])


@pytest.mark.parametrize("table", [True, False])
def test_a_weight_used_outside_its_module_is_found_by_a_trial_step(table, rows):
    net = Functional(table).double()
    x = torch.tensor([1, 3]) if table else rows(2, 6)
    guard = rm.deep.GradientProjection(net)
    weights = [p.detach().clone() for p in net.parameters()]
    with pytest.raises(rm.InputError, match=r"a trial step .* changed the outputs.*Nothing was absorbed"):
        guard.absorb([x])
    assert all(torch.equal(p, w) for p, w in zip(net.parameters(), weights, strict=True))
    assert guard.report().tasks == 0 and guard.state_dict()["layers"] == {}
    name = "table.weight" if table else "layer.weight"
    rm.deep.GradientProjection(net, frozen=[name]).absorb([x])


def test_a_model_with_randomness_of_its_own_in_eval_mode_is_judged_by_it(rows):
    net = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 2)).double()
    guard = rm.deep.GradientProjection(net)
    torch.manual_seed(0)
    guard.absorb([rows(2, 6)], forward=lambda model, x: model(x) + 0.1 * torch.randn(2, 2, dtype=torch.float64))
    assert guard.report().tasks == 1


@pytest.mark.parametrize("make", GUARDS)
def test_a_model_half_on_another_device_raises_an_error(make, mlp, rows):
    net = mlp()
    guard = make(net)
    guard.absorb([rows(3, 10)])
    net[2].to("meta")
    with pytest.raises(rm.InputError, match=r"2\.weight on the meta device"):
        guard.absorb([rows(3, 10)])
    with pytest.raises(rm.InputError, match="meta"), guard.protect(optim.SGD(net.parameters(), lr=0.1)):
        pass
    with pytest.raises(rm.InputError, match="meta"):
        make(net)
    assert guard._memory.tasks == 1


@pytest.mark.parametrize("make", GUARDS)
def test_an_optimizer_made_before_a_layer_was_replaced_raises_an_error(make, mlp, rows):
    net = mlp()
    guard, optimizer = make(net), optim.SGD(net.parameters(), lr=0.1)
    guard.absorb([rows(3, 10)])
    guard.grow("4", 5)
    with pytest.raises(rm.InputError, match=r"4\.weight is not among its parameters.*Create a new one"):
        guard.protect(optimizer).__enter__()
    assert not optimizer._optimizer_step_post_hooks
    with guard.protect(optim.SGD(net.parameters(), lr=0.1)):
        pass


@pytest.mark.parametrize("make", GUARDS)
def test_a_frozen_model_raises_an_error(make, mlp):
    with pytest.raises(rm.InputError, match="all are frozen"):
        make(mlp().requires_grad_(False))
