"""Whatever a model returns its numbers in, a weight that is used outside its module is found."""

from dataclasses import dataclass

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn = torch.nn


@dataclass
class Output:
    logits: object


class Slots:
    __slots__ = ("logits", "unset")

    def __init__(self, logits):
        self.logits = logits


def circular(y):
    output = Output([y])
    output.logits.append(output)
    return output


WRAPPED = {
    "a tensor": lambda y: y,
    "a dataclass": Output,
    "an object with slots": lambda y: [Slots(y)],
    "an object that holds itself": circular,
    "complex numbers": lambda y: torch.complex(y, y),
    "a sparse tensor": lambda y: y.to_sparse(),
    "a distribution": lambda y: torch.distributions.Normal(y, 1.0),
}


class Net(nn.Module):
    def __init__(self, wrap, outside):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.wrap, self.outside = nn.Linear(10, 16), nn.Linear(16, 2), wrap, outside

    def forward(self, x):
        h = torch.tanh(self.first(x))
        weight, bias = self.second.weight, self.second.bias
        return self.wrap(nn.functional.linear(h, weight, bias) if self.outside else self.second(h))


@pytest.mark.parametrize("kind", WRAPPED)
@pytest.mark.parametrize("make", [rm.deep.GradientProjection, rm.deep.OWM])
def test_numbers_are_compared_in_whatever_a_model_returns(kind, make, rows):
    x = rows(3, 10)
    with pytest.raises(rm.InputError, match=r"second\.weight.*acts outside"):
        make(Net(WRAPPED[kind], outside=True).double()).absorb([x])
    assert make(Net(WRAPPED[kind], outside=False).double()).absorb([x]).tasks == 1


@pytest.mark.parametrize("wrap", [lambda y: y.argmax(1), lambda y: None, lambda y: y.tolist()])
def test_outputs_without_numbers_to_compare_are_refused(wrap, rows):
    guard = rm.deep.GradientProjection(Net(wrap, outside=False).double())
    with pytest.raises(rm.InputError, match=r"expected a model that returns floating-point numbers.*forward="):
        guard.absorb([rows(3, 10)])
    assert guard.report().tasks == 0


def test_outputs_that_are_not_a_number_at_the_same_places_are_kept(rows, learn):
    """As the attention of a row in which everything is masked."""
    mask = torch.tensor([1.0, torch.nan, torch.nan], dtype=torch.float64)[:, None]
    net, x = Net(lambda y: y, outside=False).double(), rows(3, 10)
    hook = net.register_forward_hook(lambda module, given, y: y * mask[: len(y)])
    guard = rm.deep.GradientProjection(net)
    assert guard.absorb([x]).tasks == 1
    hook.remove()
    before = net(x).detach()
    losses = learn(net, guard, rows(3, 10, seed=1), torch.optim.SGD(net.parameters(), lr=0.1))
    assert losses[-1] < losses[0] and (net(x) - before).abs().max() < 1e-12


def test_a_coarse_number_beside_an_output_leaves_its_tolerance(rows):
    """As a cache in single precision beside the outputs of a model in double precision."""
    x = rows(3, 10)
    net = Net(lambda y: (y, torch.zeros(3, dtype=torch.float16)), outside=False).double()
    net.faint = nn.Linear(10, 2).double()
    hook = net.register_forward_hook(lambda net, given, out: (out[0] + 1e-5 * given[0] @ net.faint.weight.T, *out[1:]))
    with pytest.raises(rm.InputError, match=r"faint\.weight"):
        rm.deep.GradientProjection(net).absorb([x])
    hook.remove()
    assert rm.deep.GradientProjection(net).absorb([x]).tasks == 1
