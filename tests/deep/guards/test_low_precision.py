"""Weights in bfloat16 and float16 with memories in higher precision: old outputs are kept to the weights' rounding."""

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_what_rounding_moves_does_not_grow_with_the_steps(dtype, mlp, rows, moved, answers):
    net, x, new = mlp(dtype=dtype), rows(3, 10, dtype=dtype), rows(6, 10, seed=1, dtype=dtype)
    guard = rm.deep.GradientProjection(net)
    guard.absorb([x])
    assert all(kept.basis.dtype == torch.float64 for kept in guard._memory.directions.values())
    old, optimizer = [(x, answers(net, x))], optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    shifts, losses = [], []
    with guard.protect(optimizer):
        for _ in range(60):
            optimizer.zero_grad()
            loss = (net(new) - 1).square().mean()
            loss.backward()
            optimizer.step()
            shifts.append(moved(net, old))
            losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
    scale = float(torch.finfo(dtype).eps) * max(1.0, float(old[0][1].abs().max()))
    assert max(shifts) < 16 * scale
    assert max(shifts[40:]) < 4 * max(max(shifts[:10]), scale)


@pytest.mark.parametrize("make", [rm.deep.GradientProjection, lambda net: rm.deep.ScaledProjection(net, alpha=1e9)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_what_varies_around_a_large_mean_is_protected(dtype, make, rows):
    """As behind a layer norm: each direction but one holds a few percent of the inputs' norm, far above rounding."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 8, bias=False)).to(dtype)
    x = (10 + rows(20, 32)).to(dtype)
    guard = make(net)
    assert guard.absorb([x]).layers[0].rank == 20
    before = net[0].weight.detach().double()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with guard.protect(optimizer):
        for step in range(10):
            net[0].weight.grad = rows(8, 32, seed=step, dtype=dtype)
            optimizer.step()
    after = net[0].weight.detach().double()
    moved = (x.double() @ (after - before).T).norm(dim=1) / x.double().norm(dim=1)
    allowed = float(torch.finfo(dtype).eps) * (before.norm() + after.norm())  # what rounding both matrices may do
    assert (after - before).norm() > 0.5 * before.norm()
    assert moved.max() < allowed


@pytest.mark.parametrize("inputs", [8, 32, 128])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_rounding_of_the_inputs_takes_hardly_a_direction(dtype, inputs, rows):
    few = rows(3 * inputs, 3) @ rows(3, inputs, seed=1)
    assert torch.linalg.matrix_rank(few.to(dtype).double()) == inputs, "rounding fills the space"
    guard = rm.deep.GradientProjection(nn.Linear(inputs, 2, bias=False).to(dtype))
    assert 3 <= guard.absorb([few.to(dtype)]).layers[0].rank <= 3 + inputs // 64


def test_a_transformer_in_bfloat16_is_kept_as_well_as_its_weights_can_be():
    """Rounding the weights of a model guarded in float32 to bfloat16 moves these old logits by 0.2 %."""
    pytest.importorskip("transformers")
    from .transformer_models import NEW, OLD, make, outputs, train

    net = make("gpt2").to(torch.bfloat16)
    guard = rm.deep.GradientProjection(net)
    before = outputs("gpt2", net, OLD).detach().float()
    guard.absorb([{"input_ids": OLD}])
    losses = train("gpt2", net, guard, NEW, lr=3e-3)
    assert losses[-1] < losses[0]
    moved = (outputs("gpt2", net, OLD).detach().float() - before).abs().max() / before.abs().max()
    assert moved < 0.02


@pytest.mark.parametrize(
    "options", [{"foreach": True}, {"fused": True}, {"foreach": False}], ids=["foreach", "fused", "one by one"]
)
def test_every_implementation_of_an_optimizer(options, started, moved):
    net, guard, old, new = started()
    optimizer = optim.AdamW(net.parameters(), lr=1e-2, **options)
    with guard.protect(optimizer):
        for _ in range(5):
            optimizer.zero_grad()
            (net(new) - 1).square().mean().backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
    assert moved(net, old) < 1e-12
