"""A network as a function of one vector, and its per-sample derivatives."""

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from remanence.deep.nn.flat_parameters import FlatParameters, as_batch, trainable  # noqa: E402


def network(dtype=torch.float64):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 3, bias=False)
    ).to(dtype)


def inputs(n=7):
    return torch.randn(n, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def by_differences(net, flat, x, h=1e-6):
    """The Jacobians by central differences, in eval mode, through the parameters themselves."""
    net.eval()
    start, columns = flat.vector(), []
    with torch.no_grad():
        for k in range(flat.size):
            step = torch.zeros_like(start)
            step[k] = h
            flat.write(start + step)
            ahead = net(x)
            flat.write(start - step)
            columns.append((ahead - net(x)) / (2 * h))
        flat.write(start)
    return torch.stack(columns, dim=2)


@pytest.mark.parametrize("n", [1, 7])
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_jacobians_are_those_of_differences_at_any_chunk(n, chunk_size):
    net, x = network(), inputs(n)
    flat = FlatParameters(net)
    values, J = flat.linearized(x, chunk_size=chunk_size)
    assert J.shape == (n, 3, flat.size) and not J.requires_grad and not values.requires_grad
    torch.testing.assert_close(J, by_differences(net, flat, x), rtol=0, atol=1e-8)
    torch.testing.assert_close(values, net.eval()(x).detach())


def test_one_sample_and_many_give_the_same_derivatives():
    net, x = network(), inputs()
    flat = FlatParameters(net)
    together = flat.linearized(x)[1]
    for i in range(len(x)):
        torch.testing.assert_close(flat.linearized(x[i : i + 1])[1][0], together[i])


def test_derivatives_can_be_asked_for_elsewhere_without_moving_the_network():
    net, x = network(), inputs()
    flat = FlatParameters(net)
    before = flat.vector()
    elsewhere = before + 0.1
    J = flat.linearized(x, at=elsewhere)[1]
    one = flat.linearized(x[:1], at=elsewhere)[1]
    assert torch.equal(flat.vector(), before)
    flat.write(elsewhere)
    torch.testing.assert_close(J, flat.linearized(x)[1])
    torch.testing.assert_close(one[0], J[0])


def test_gradients_of_one_number_per_sample():
    net, x = network(), inputs()
    flat = FlatParameters(net)
    values, J = flat.linearized(x)
    V = torch.randn(7, 3, dtype=torch.float64)
    torch.testing.assert_close(flat.gradients(x, lambda f, v: f @ v, V), torch.einsum("nc,ncd->nd", V, J))
    y = torch.randn(7, 3, dtype=torch.float64)
    expected = torch.einsum("nc,ncd->nd", 2 * (values - y), J)
    torch.testing.assert_close(flat.gradients(x, lambda f, t: ((f - t) ** 2).sum(), y, chunk_size=3), expected)


def test_modes_and_statistics_are_put_back():
    net, x = network(), inputs()
    net.train()
    net[3].eval()
    statistics = net[1].running_mean.clone()
    FlatParameters(net).linearized(x)
    FlatParameters(net).linearized(x[:1])
    assert net.training and net[1].training and not net[3].training
    assert torch.equal(net[1].running_mean, statistics)
    assert all(p.grad is None for p in net.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_vector_written_is_the_vector_read(dtype):
    net = network(dtype)
    flat = FlatParameters(net)
    kept = dict(net.named_parameters())
    vector = torch.arange(flat.size, dtype=dtype)
    flat.write(vector)
    assert torch.equal(flat.vector(), vector) and flat.vector().dtype == dtype
    assert all(kept[name] is p for name, p in net.named_parameters()), "the parameters are moved, not replaced"
    joined = torch.cat([p.detach().flatten() for p in net.parameters()])
    assert torch.equal(joined, vector)


def test_frozen_parameters_are_left_out_and_layers_can_be_chosen():
    net = network()
    net[0].bias.requires_grad_(False)
    assert trainable(net) == ("0.weight", "1.weight", "1.bias", "4.weight")
    assert FlatParameters(net, ["4", "1.bias"]).names == ("1.bias", "4.weight")
    assert FlatParameters(net, ["4"]).size == 18
    for layers in (["0.bias"], ["5"], ["1.b"]):
        with pytest.raises(rm.InputError, match=r"layers.*4\.weight"):
            FlatParameters(net, layers)
    with pytest.raises(rm.InputError, match="unfreeze"):
        FlatParameters(net.requires_grad_(False))


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 2)

    def forward(self, x):
        return self.inner(x), x


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize(
    "net", [nn.Sequential(nn.Linear(4, 3), nn.Unflatten(1, (3, 1))), Pair(), nn.Sequential(nn.Linear(5, 1))]
)
def test_a_network_that_cannot_process_the_batch_raises_an_error(net, n):
    with pytest.raises(rm.InputError, match="expected"):
        FlatParameters(net.double()).linearized(inputs(n))


def test_bad_batches_raise_errors():
    like = torch.zeros(1)
    for bad in (torch.tensor(1.0), torch.zeros(0, 3), [[1.0], [2.0, 3.0]], torch.tensor([[float("nan")]]), [[1j]]):
        with pytest.raises(rm.InputError):
            as_batch(bad, like)
    assert as_batch(np.ones((2, 3)), like).dtype == torch.float32
    assert as_batch(np.ones((2, 3), int), like).dtype == torch.int64, "tokens stay integers"
