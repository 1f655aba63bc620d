"""The projection by the complement of many protected directions is that by the directions themselves."""

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("count", [2, 5, 6, 7, 20])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("frozen", [None, "weight", "bias"])
def test_a_step_is_projected_onto_what_is_left(count, bias, frozen, rows):
    torch.manual_seed(0)
    net, X = nn.Sequential(nn.Linear(7, 3, bias=bias)).double(), rows(count, 7)
    if frozen and not bias:
        return
    guard = rm.deep.GradientProjection(net)
    guard.absorb([X])
    if frozen:
        net[0].get_parameter(frozen).requires_grad_(False)
    before = {n: p.detach().clone() for n, p in net[0].named_parameters()}
    optimizer = optim.SGD([p for p in net.parameters() if p.requires_grad] or net.parameters(), lr=0.1)
    with guard.protect(optimizer):
        for k in range(3):
            optimizer.zero_grad()
            (net(rows(4, 7, seed=k)) - 1).square().mean().backward()
            step = {n: -0.1 * p.grad for n, p in net[0].named_parameters() if p.grad is not None}
            optimizer.step()
            # the oracle: least-squares projection of the step onto the changes that leave the outputs alone
            names = [n for n in ("weight", "bias") if n in step]
            delta = torch.cat([step[n].reshape(3, -1) for n in names], dim=1)
            A = torch.cat([{"weight": X, "bias": torch.ones(count, 1).double()}[n] for n in names], dim=1)
            allowed = delta - delta @ torch.linalg.pinv(A) @ A
            now = torch.cat([net[0].get_parameter(n).detach().reshape(3, -1) for n in names], dim=1)
            was = torch.cat([before[n].reshape(3, -1) for n in names], dim=1)
            assert torch.allclose(now, was + allowed, atol=1e-12)
            before = {n: p.detach().clone() for n, p in net[0].named_parameters()}
