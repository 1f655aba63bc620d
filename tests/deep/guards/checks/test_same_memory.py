"""Memories of the same inputs agree, whatever basis they are in; those of other inputs do not."""

from dataclasses import replace

import pytest

import remanence as rm

torch = pytest.importorskip("torch")


def absorbed(x, kind=rm.deep.GradientProjection, shift=0.0):
    from remanence.deep.guards.checks.same_memory import _summary

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Embedding(6, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 3)).double()
    with torch.no_grad():
        net[1].weight += shift
    guard = kind(net)
    guard.absorb(x)
    return guard._memory, torch.tensor(_summary(guard._memory), dtype=torch.float64)


def agree(a, b):
    from remanence.deep.guards.checks.same_memory import _equal

    return len(a) == len(b) and _equal([a, b])


@pytest.mark.parametrize("kind", [rm.deep.GradientProjection, rm.deep.OWM, rm.deep.ScaledProjection])
def test_other_inputs_and_other_weights_give_another_memory(kind):
    x = torch.arange(2)[None]
    _, mine = absorbed([x], kind)
    assert agree(mine, absorbed([x], kind)[1])
    assert not agree(mine, absorbed([x + 1], kind)[1])
    assert not agree(mine, absorbed([x, x], kind)[1])
    assert not agree(mine, absorbed([x], kind, shift=0.1)[1])


def test_bases_of_one_space_agree():
    from remanence.deep.guards.checks.same_memory import _summary

    memory, mine = absorbed([torch.arange(2)[None]])
    kept = memory.directions["2"]
    turn = torch.linalg.qr(torch.randn(2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))[0]
    turned = replace(kept, basis=kept.basis @ turn, outputs=kept.outputs @ turn)
    found = torch.tensor(_summary(replace(memory, directions={"2": turned})), dtype=torch.float64)
    assert not torch.equal(kept.basis, turned.basis)
    assert agree(mine, found)
