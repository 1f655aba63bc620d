"""A weight used outside its module's calls is found before a memory is accepted, by every layer guard."""

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim
F = nn.functional

GUARDS = {
    "energy 1": rm.deep.GradientProjection,
    "energy .95": lambda net, **names: rm.deep.GradientProjection(net, energy=0.95, **names),
    "by layer": lambda net, **names: rm.deep.GradientProjection(net, energy=dict.fromkeys(_layers(net), 0.5), **names),
    "OWM": rm.deep.OWM,
    "OWM, hard": lambda net, **names: rm.deep.OWM(net, damping=1e-3, **names),
}


def _layers(net):
    return [name for name, module in net.named_modules() if isinstance(module, nn.Linear)][1:]


class Base(nn.Module):
    def inputs(self, rows):  # more rows than inputs, strong and weak: no direction is quite free
        return rows(40, 6) * torch.logspace(0.5, -2, 6)

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.out = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 2)


class ByFunction(Base):
    """b is called as a module in one place and by F.linear in another."""

    def forward(self, x):
        return self.out(F.linear(torch.tanh(self.a(x) + self.b(x)), self.b.weight) + x)


class ByProduct(Base):
    def forward(self, x):
        return self.out(torch.tanh(self.a(x) + self.b(x)) @ self.b.weight)


class ByForward(Base):
    def forward(self, x):
        return self.out(torch.tanh(self.b.forward(torch.tanh(self.a(x)))))


class ByOldView(Base):
    """A view of the weight taken when the model was made."""

    def __init__(self):
        super().__init__()
        self.b.double()
        self.views = [self.b.weight.detach().T]

    def forward(self, x):
        return self.out(torch.tanh(self.a(x) + self.b(x)) @ self.views[0])


class Tied(nn.Module):
    """A language model that scores by its table, and one that looks its table up beside the module."""

    def inputs(self, rows):
        return torch.arange(4)[None]

    def __init__(self, beside):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.layer, self.beside = nn.Embedding(12, 6), nn.Linear(6, 6), beside

    def forward(self, i):
        if self.beside:
            return self.layer(self.table(i) + F.embedding(11 - i, self.table.weight))
        return F.linear(self.layer(self.table(i)), self.table.weight)


CASES = {
    "F.linear": (ByFunction, "b.weight"),
    "a product": (ByProduct, "b.weight"),
    "forward": (ByForward, "b.weight"),
    "an old view": (ByOldView, "b.weight"),
    "F.embedding": (lambda: Tied(True), "table.weight"),
    "tied by F.linear": (lambda: Tied(False), "table.weight"),
}


HELD_WHOLE = {("F.linear", "energy 1"), ("a product", "energy 1"), ("an old view", "energy 1")}  # no direction is free


@pytest.mark.parametrize(("kind", "make"), [(k, m) for k in CASES for m in GUARDS if (k, m) not in HELD_WHOLE])
def test_a_weight_used_outside_its_module_is_named_in_an_error(kind, make, rows):
    model, name = CASES[kind]
    net = model().double()
    x = net.inputs(rows)
    guard = GUARDS[make](net)
    before = [p.detach().clone() for p in net.parameters()]
    with pytest.raises(rm.InputError, match=rf"trial step .*: {name}\b.*outside .* own call.*Nothing was absorbed"):
        guard.absorb([x])
    assert guard.report().tasks == 0
    assert all(torch.equal(p, b) for p, b in zip(net.parameters(), before, strict=True))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())
    if make != "by layer":  # which names the layer that is frozen here
        GUARDS[make](net, frozen=[name, *(["b.bias"] if kind == "forward" else [])]).absorb([x])


def test_if_all_directions_are_protected_a_second_use_is_exact_and_accepted(rows, learn, moved, answers):
    net = ByFunction().double()
    x = rows(40, 6)
    guard = rm.deep.GradientProjection(net)
    with pytest.warns(UserWarning, match="no direction is left"):
        guard.absorb([x])
    old = [(x, answers(net, x))]
    learn(net, guard, rows(3, 6, seed=1), optim.SGD(net.parameters(), lr=0.1))
    assert moved(net, old) < 1e-12


@pytest.mark.parametrize("make", ["energy .95", "OWM"])
def test_a_replaced_forward_with_other_outputs_raises_an_error(make, rows):
    net = Base().double()
    net.forward = lambda x: net.out(net.a(x))
    net.a.forward = lambda x: F.linear(x.square(), net.a.weight, net.a.bias)
    with pytest.raises(rm.InputError, match=r"a computes something else than Linear"):
        GUARDS[make](net).absorb([rows(4, 6)])
    net.a.forward = lambda x: nn.Linear.forward(net.a, x)  # as tools do that only look at a call
    GUARDS[make](net).absorb([rows(4, 6)])


class Faint(nn.Module):
    """A table that adds little to the outputs by its weight, beside layers called as modules."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.layer, self.out = nn.Embedding(8, 16), nn.Linear(16, 16), nn.Linear(16, 3)

    def forward(self, x):
        return self.out(torch.tanh(self.layer(x + 1e-5 * self.table.weight[: x.shape[1]])))


class HookedByUser(nn.Module):
    """A hook of the user multiplies by the weight once more; it belongs to no call of the module."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.out = nn.Linear(16, 16), nn.Linear(16, 3)
        self.layer.register_forward_hook(lambda layer, given, found: found + 1e-3 * (given[0] - 1) @ layer.weight.T)

    def forward(self, x):
        return self.out(torch.tanh(self.layer(x)))


@pytest.mark.parametrize("make", ["energy 1", "energy .95", "OWM"])
@pytest.mark.parametrize(("model", "name"), [(Faint, "table.weight"), (HookedByUser, "layer.weight")])
def test_a_use_outside_that_one_step_hardly_shows_in_single_precision_is_found(model, name, make, rows):
    """One step of a tenth moves these outputs by less than the rounding of a network, a training by much more."""
    net = model()
    with pytest.raises(rm.InputError, match=rf"{name} acts outside"):
        GUARDS[make](net).absorb([rows(2, 5, 16, dtype=torch.float32)])
    GUARDS[make](net, frozen=[name]).absorb([rows(2, 5, 16, dtype=torch.float32)])


def test_outputs_that_are_masked_by_infinity_are_accepted_and_kept(rows, learn, moved, answers):
    class Masked(Base):
        def forward(self, x):
            y = self.out(torch.tanh(self.a(x)))
            return torch.cat([y, torch.full_like(y, -torch.inf)], 1)

    net, x = Masked().double(), rows(3, 6)
    for make in ("energy 1", "energy .95", "OWM"):
        GUARDS[make](Masked().double()).absorb([x])
    guard = rm.deep.GradientProjection(net)
    guard.absorb([x])
    kept = answers(net, x)[:, :2]
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with guard.protect(optimizer):
        for _ in range(5):
            optimizer.zero_grad()
            net(rows(3, 6, seed=1))[:, :2].square().mean().backward()
            optimizer.step()
    assert (answers(net, x)[:, :2] - kept).abs().max() < 1e-12


@pytest.mark.parametrize("make", ["energy .95", "OWM"])
def test_a_replaced_forward_that_takes_other_inputs_raises_an_error(make, rows):
    """Its class cannot do what it does: an error of ours, not torch's."""
    net = Base()
    net.forward = lambda x: net.out(net.a(x))
    net.a.forward = lambda x: F.linear(x.float(), net.a.weight, net.a.bias)
    with pytest.raises(rm.InputError, match=r"a computes something else than Linear"):
        GUARDS[make](net).absorb([rows(4, 6)])


class Forces(Base):
    """As neural force fields and physics-informed networks: what is returned is a derivative by the inputs."""

    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            energy = self.out(torch.tanh(self.a(x))).sum()
            return torch.autograd.grad(energy, x, create_graph=True)[0]


@pytest.mark.parametrize("make", ["energy 1", "energy .95", "OWM"])
def test_derivatives_in_the_forward_pass_use_weights_outside_their_calls(make, rows):
    net = Forces().double()
    before = [p.detach().clone() for p in net.parameters()]
    with pytest.raises(rm.InputError, match=r"a\.weight.* acts outside"):
        GUARDS[make](net).absorb([rows(3, 6)])
    assert all(torch.equal(p, b) for p, b in zip(net.parameters(), before, strict=True))
