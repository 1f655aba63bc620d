"""Stock transformers and their adapters are kept to rounding with default settings, and learn."""

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from .transformer_models import NEW, OLD, TARGETS, adapted, batch, make, outputs, train  # noqa: E402

ADAPTERS = {"LoRA": {}, "rsLoRA": {"use_rslora": True}, "DoRA": {"use_dora": True}}


def moved(kind, net, before):
    after = outputs(kind, net, OLD).detach()
    return float((after - before).abs().max() / before.abs().max())


def check_exact(kind, net, dtype, lr=1e-2):
    net = net.to(dtype)
    guard = rm.deep.GradientProjection(net)
    before = outputs(kind, net, OLD).detach()
    guard.absorb([batch(kind, OLD)])
    losses = train(kind, net, guard, NEW, lr=lr)
    assert losses[-1] < losses[0]
    assert moved(kind, net, before) < (1e-9 if dtype is torch.float64 else 1e-4)
    return guard


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("kind", TARGETS)
def test_stock_models_are_exact(kind, dtype):
    check_exact(kind, make(kind), dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("kind", TARGETS)
def test_adapters_on_them_are_exact(kind, adapter, dtype):
    net = adapted(kind, **ADAPTERS[adapter])
    guard = check_exact(kind, net, dtype, lr=5e-2)
    again = rm.deep.GradientProjection(net)
    again.load_state_dict(guard.state_dict())
    assert not list(rm.deep.guards.guard_memory.moved_names(again._memory, again._roles))


@pytest.mark.parametrize("energy", [0.95, 1.0])
@pytest.mark.parametrize("kind", TARGETS)
def test_padding_does_not_count(kind, energy):
    """Padded positions neither use up directions nor keep the outputs there; the real ones are kept."""
    net = make(kind).double()
    plain, padded = batch(kind, OLD), batch(kind, torch.cat([OLD, torch.full((2, 2), 39)], dim=1))
    if kind == "t5":
        padded["decoder_input_ids"] = plain["decoder_input_ids"]
    padded["attention_mask"] = torch.tensor([[1] * 6 + [0] * 2] * 2)
    guards = [rm.deep.GradientProjection(net, energy=energy) for _ in range(2)]
    reports = [guard.absorb([b]) for guard, b in zip(guards, (plain, padded), strict=True)]
    rows = [{layer.name: layer.rows for layer in report.layers} for report in reports]
    if kind != "t5":  # the others see no difference at all
        assert rows[0] == rows[1]
        looked_up = guards[1]._memory.table_rows.values()
        assert not any(used[39] for used in looked_up if len(used) == 40)
    before = outputs(kind, net, OLD).detach()
    with torch.no_grad():  # some versions of transformers take T5's softmax in float32, which sees the padding
        apart = 0.0 if kind != "t5" else float((net(**padded).logits - before).abs().max() / before.abs().max())
    train(kind, net, guards[1], NEW)
    if energy == 1.0:
        assert moved(kind, net, before) < max(1e-9, 100 * apart)


def test_nothing_but_padding_raises_an_error():
    net = make("bert").double()
    guard = rm.deep.GradientProjection(net)
    empty = {"input_ids": OLD, "attention_mask": torch.zeros_like(OLD)}
    with pytest.raises(rm.InputError, match="padding"):
        guard.absorb([empty])
    assert guard.report().tasks == 0


def test_guarded_adapters_learn_as_well_as_plain_ones():
    """The new loss is within 2 % of plain LoRA's, and the old logits stay (float32)."""
    plain, net = adapted("llama", rank=16), adapted("llama", rank=16)
    before = outputs("llama", net, OLD[:1]).detach()
    guard = rm.deep.GradientProjection(net)
    guard.absorb([batch("llama", OLD[:1])])
    losses = [train("llama", n, g, NEW[:1], steps=60) for n, g in ((plain, None), (net, guard))]
    assert losses[1][-1] < 0.98 * losses[1][0]
    assert losses[1][-1] <= 1.02 * losses[0][-1]
    assert float((outputs("llama", net, OLD[:1]) - before).detach().abs().max()) <= 1e-5
    assert float((outputs("llama", plain, OLD[:1]) - before).detach().abs().max()) > 1e-3
