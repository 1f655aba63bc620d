"""The value found makes the model answer the target, and the weights stay as they were."""

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")


def test_a_plain_network():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 20), torch.nn.Tanh(), torch.nn.Linear(20, 4))
    before, x = [p.detach().clone() for p in net.parameters()], torch.randn(3, 6)
    found = rm.deep.find_value(net, "0", x, (), target=1, steps=100)
    assert all((a == b).all() and b.requires_grad for a, b in zip(before, net.parameters(), strict=True))
    assert found.loss < 0.5 and found.key.shape == (6,) and found.value.shape == (20,) and net.training
    own = rm.deep.find_value(net, "0", x, (), target=lambda out: (out - 1).square().mean())
    assert own.loss < (net(x) - 1).square().mean()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_finds_what_full_precision_finds(dtype):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 20), torch.nn.Tanh(), torch.nn.Linear(20, 4))
    x = torch.randn(2, 6)
    full = rm.deep.find_value(net, "0", x, (), target=torch.tensor(1), steps=30)
    half = rm.deep.find_value(net.to(dtype), "0", x.to(dtype), (), target=1, steps=30)
    torch.testing.assert_close(half.value.float(), full.value, rtol=0, atol=0.05 * float(full.value.abs().max()))
    assert half.loss == pytest.approx(full.loss, abs=0.05)


@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_models_of_transformers(kind):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if kind == "causal":
        config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=30, n_positions=12)
        model, name = transformers.GPT2LMHeadModel(config), "transformer.h.0.mlp.c_proj"
    else:
        config = transformers.BertConfig(
            num_hidden_layers=2, num_attention_heads=2, hidden_size=16, intermediate_size=32, vocab_size=30
        )
        model, name = transformers.BertForMaskedLM(config), "bert.encoder.layer.0.output.dense"
    model.eval()
    tokens = torch.randint(0, 30, (1, 6))
    batch = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    place = 5 if kind == "causal" else 3

    def loss(out):
        return torch.nn.functional.cross_entropy(out.logits[:, place], torch.tensor([7]))

    with torch.no_grad():
        before = float(loss(model(**batch)))
    how = {"steps": 60, "rate": 3.0, "decay": 0.0, "limit": 1e4}
    found = rm.deep.find_value(model, name, batch, place, 7, answer_at=place, **how)
    own = rm.deep.find_value(model, name, batch, place, loss, **how)
    torch.testing.assert_close(found.value, own.value)
    if kind == "masked":  # its last position predicts nothing
        with pytest.raises(rm.InputError, match="position of the mask token"):
            rm.deep.find_value(model, name, batch, place, 7)
    editor = rm.deep.Editor(model, name)
    editor.absorb([{"input_ids": torch.randint(0, 30, (8, 6))}])
    editor.edit(found.key[None], found.value[None], "fact", weight=np.inf)
    with torch.no_grad():
        after = float(loss(model(**batch)))
    assert found.loss < before - 0.1 and after < before - 0.1
    editor.undo("fact")


def test_an_edit_spread_over_layers_is_undone_everywhere():
    torch.manual_seed(0)
    net = torch.nn.Sequential(*(torch.nn.Linear(5, 5).double() for _ in range(3)))
    before = [layer.weight.detach().clone() for layer in net]
    rows = torch.randn(40, 5, dtype=torch.float64)
    editors = [rm.deep.Editor(net, f"{k}", strength=1e-6) for k in range(3)]
    for editor in editors:
        editor.absorb([rows])
    goal = torch.arange(5.0, dtype=torch.float64)
    rm.deep.edit_layers(editors, rows[:1], (), goal, "fact", weight=np.inf)
    np.testing.assert_allclose(net(rows[:1])[0].detach().numpy(), goal.numpy(), atol=1e-8)
    with pytest.raises(rm.InputError):
        rm.deep.edit_layers(editors, rows[:1], (), goal[:3], "other")
    assert [list(editor.edits()) for editor in editors] == [["fact"]] * 3
    with pytest.raises(rm.InputError, match="within one"), editors[1].together():  # where no share would be taken yet
        rm.deep.edit_layers(editors, rows[1:2], (), goal, "other")
    assert [list(editor.edits()) for editor in editors] == [["fact"]] * 3
    for editor in editors:
        editor.undo("fact")
    assert all((layer.weight == old).all() for layer, old in zip(net, before, strict=True))


class Residual(torch.nn.Module):
    """Two layers whose outputs are added to one stream of tokens."""

    def __init__(self, d):
        super().__init__()
        self.first, self.second = torch.nn.Linear(d, d).double(), torch.nn.Linear(d, d).double()

    def forward(self, x):
        x = x + self.first(torch.tanh(x))
        return x + self.second(torch.tanh(x))


def test_facts_are_spread_over_layers_as_memit_does():
    """Each layer takes its share of what is missing in the stream, by MEMIT's closed form, after the one before it."""
    torch.manual_seed(1)
    d, strength = 6, 4.0
    net, absorbed, x = Residual(d), torch.randn(50, 3, d).double(), torch.randn(2, 3, d).double()
    places = torch.tensor([2, 0])
    W = [layer.weight.detach().clone() for layer in (net.first, net.second)]
    b = [layer.bias.detach().clone() for layer in (net.first, net.second)]
    rows, goal = x[torch.arange(2), places], torch.randn(2, d).double()

    def run(X):
        k1 = torch.tanh(X)
        h1 = k1 @ W[0].T + b[0]
        k2 = torch.tanh(X + h1)
        return (k1, k2), k2 @ W[1].T + b[1]

    old, _ = run(absorbed.reshape(-1, d))
    for at in range(2):
        K, last = run(rows)
        C = old[at].T @ old[at] / len(old[at])
        R = (goal - last) / (2 - at)
        W[at] = W[at] + torch.linalg.solve(strength * C + K[at].T @ K[at], K[at].T @ R).T
    editors = [rm.deep.Editor(net, name, strength=strength, ridge=0.0) for name in ("first", "second")]
    for editor in editors:
        editor.absorb([absorbed])
    before = [editor.layer.weights() for editor in editors]
    rm.deep.edit_layers(editors, x, places, goal, "two facts")
    for layer, expected in zip((net.first, net.second), W, strict=True):
        torch.testing.assert_close(layer.weight.detach(), expected, rtol=1e-8, atol=1e-8)
    with pytest.raises(rm.InputError, match="position"):
        rm.deep.edit_layers(editors, x, torch.tensor([2, 3]), goal, "more")
    for editor, weights in zip(editors, before, strict=True):
        assert list(editor.edits()) == ["two facts"]
        editor.undo("two facts")
        assert (editor.layer.weights() == weights).all()


def test_bad_use_is_refused():
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 3))
    x = torch.randn(1, 4)
    for change in ({"layer": "9"}, {"position": 2}, {"target": 3}, {"target": lambda out: out}, {"steps": 0}):
        with pytest.raises(rm.InputError):
            rm.deep.find_value(**{"model": net, "layer": "0", "inputs": x, "position": (), "target": 0, **change})


def test_facts_found_together_are_those_found_alone():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(5, 12), torch.nn.Tanh(), torch.nn.Linear(12, 4)).double()
    x, facts, targets = torch.randn(4, 5).double(), torch.tensor([1, 0, 1, 0]), torch.tensor([2, 3, 2, 3])
    together = rm.deep.find_values(net, "0", x, (), targets, facts, steps=20, rate=0.3, limit=0.8)
    for fact, target in ((0, 3), (1, 2)):
        alone = rm.deep.find_value(net, "0", x[facts == fact], (), target, steps=20, rate=0.3, limit=0.8)
        torch.testing.assert_close(together.values[fact], alone.value, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(together.keys[fact], alone.key)
        assert float(together.losses[fact]) == pytest.approx(alone.loss, rel=1e-5)
    stream = torch.nn.Sequential(torch.nn.Linear(5, 5), torch.nn.Tanh(), torch.nn.Flatten(1), torch.nn.Linear(15, 3))
    rows, places = torch.randn(2, 3, 5), torch.tensor([2, 0])
    each = rm.deep.find_values(stream, "0", rows, places, torch.tensor([1, 2]), steps=5)
    torch.testing.assert_close(each.keys, rows[torch.arange(2), places])
    for change in ({"targets": [0.5, 1.0]}, {"targets": [1]}, {"targets": [1, 9]}, {"facts": [0, 2]}, {"positions": 7}):
        with pytest.raises(rm.InputError):
            use = {"inputs": rows, "positions": places, "targets": [1, 2], **change}
            rm.deep.find_values(stream, "0", **use)


def test_values_are_found_in_inference_mode_too():
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Embedding(9, 6), torch.nn.Flatten(1), torch.nn.Linear(12, 8), torch.nn.Linear(8, 4)
    )
    with torch.inference_mode():
        found = rm.deep.find_value(net, "2", torch.tensor([[1, 2]]), (), 3)
        made = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 3))
        with pytest.raises(rm.InputError, match="inference mode"):
            rm.deep.find_value(made, "0", torch.randn(1, 4), (), 2)
    torch.testing.assert_close(found.value, rm.deep.find_value(net, "2", torch.tensor([[1, 2]]), (), 3).value)
    editor = rm.deep.Editor(made, "1")
    before = made[1].weight.clone()
    editor.absorb([torch.randn(20, 4)])
    editor.edit(torch.randn(1, 4), torch.randn(1, 3), "a")
    assert (made[1].weight != before).any()
    editor.undo("a")
    assert (made[1].weight == before).all()


def test_a_layer_that_is_called_more_than_once_is_refused():
    """No call can be meant: an edit acts on all of them."""
    shared = torch.nn.Linear(4, 4)
    net, x = torch.nn.Sequential(shared, torch.nn.Tanh(), shared), torch.randn(2, 4)
    with pytest.raises(rm.InputError, match="called 2 times"):
        rm.deep.find_value(net, "0", x, (), 1)
    editor = rm.deep.Editor(net, "0")
    editor.absorb([torch.randn(20, 4)])
    with pytest.raises(rm.InputError, match="called 2 times"):
        rm.deep.edit_layers([editor], x, (), torch.ones(4), "a")
    assert not editor.edits()


def test_inputs_that_do_not_fit_are_refused_in_words():
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 3))
    for bad in (torch.randn(1, 5), torch.randn(1, 4).double()):
        with pytest.raises(rm.InputError, match=r"expected (batches|inputs)"):
            rm.deep.find_value(net, "0", bad, (), 1)
        with pytest.raises(rm.InputError, match=r"expected (batches|inputs)"):
            rm.deep.edit_layers([rm.deep.Editor(net, "0")], bad, (), torch.ones(4), "a")
    assert all(p.requires_grad for p in net.parameters())


def gpt2(**sizes):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = {"n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 30, "n_positions": 12, **sizes}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**config, bos_token_id=0, eos_token_id=0)).eval()


def test_padding_is_not_where_the_model_answers():
    """Contexts of several lengths, padded on the right: each answers after its own last token."""
    model, name = gpt2(), "transformer.h.1.mlp.c_proj"
    tokens, mask = torch.randint(1, 30, (2, 6)), torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0]])
    batch, places = {"input_ids": tokens * mask, "attention_mask": mask}, torch.tensor([3, 2])
    found = rm.deep.find_values(model, name, batch, places, torch.tensor([7, 8]), steps=20)
    for row, (length, target) in enumerate(((4, 7), (3, 8))):
        alone = rm.deep.find_value(model, name, {"input_ids": tokens[row : row + 1, :length]}, -1, target, steps=20)
        torch.testing.assert_close(found.values[row], alone.value, rtol=1e-4, atol=1e-5)
        assert float(found.losses[row]) == pytest.approx(alone.loss, rel=1e-4)
    one = rm.deep.find_value(model, name, batch, places, 7, steps=20)
    both = rm.deep.find_values(model, name, batch, places, torch.tensor([7, 7]), torch.tensor([0, 0]), steps=20)
    torch.testing.assert_close(one.value, both.values[0])


class Joined(torch.nn.Module):
    """A model that joins batch and length before its linear layers, as OPT does."""

    def __init__(self):
        super().__init__()
        self.table, self.up, self.down = torch.nn.Embedding(9, 6), torch.nn.Linear(6, 12), torch.nn.Linear(12, 6)

    def forward(self, input_ids, attention_mask=None, joined=True):
        x = self.table(input_ids).double()
        rows = x.reshape(-1, 6) if joined else x
        return x + self.down(torch.tanh(self.up(rows))).reshape(x.shape)


def test_positions_are_told_apart_where_a_model_joins_them():
    torch.manual_seed(0)
    net, tokens = Joined().double(), torch.randint(0, 9, (2, 4))
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    batches = [{"input_ids": tokens, "attention_mask": mask, "joined": joined} for joined in (True, False)]
    places, targets = torch.tensor([3, 1]), torch.tensor([5, 2])
    found = [rm.deep.find_values(net, "down", batch, places, targets, steps=5) for batch in batches]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
    before = net.down.weight.detach().clone()
    states = []
    for batch in batches:
        editor = rm.deep.Editor(net, "down")
        editor.absorb([batch])
        assert editor.report().absorbed == 6
        rm.deep.edit_layers([editor], batch, places, found[0].values, "facts")
        states.append(net.down.weight.detach().clone())
        editor.undo("facts")
        assert (net.down.weight == before).all()
    torch.testing.assert_close(*states)


def test_an_answer_is_kept_by_its_divergence():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(5, 12), torch.nn.Tanh(), torch.nn.Linear(12, 4)).double()
    x, weight = torch.randn(1, 5).double(), 2.0
    p = net(x).detach().softmax(1)

    def loss(output):  # the answer to x itself is kept, so that this is the whole problem
        q = output.log_softmax(1)
        return -q[0, 2] + weight * (p * (p.log() - q)).sum()

    how = {"steps": 30, "decay": 0.0}
    own = rm.deep.find_value(net, "0", x, (), loss, **how)
    found = rm.deep.find_value(net, "0", x, (), 2, keep=(x, ()), keep_weight=weight, **how)
    torch.testing.assert_close(found.value, own.value)
    other = torch.randn(1, 5).double()
    old = net(other).detach().log_softmax(1)

    def moved(weight):
        shift = rm.deep.find_value(net, "0", x, (), 2, keep=(other, ()), keep_weight=weight, **how).value - net[0](x)
        new = net[2](net[1](net[0](other) + shift)).detach().log_softmax(1)
        return float((old.exp() * (old - new)).sum())

    assert 0 < moved(100.0) < 0.1 * moved(1e-6)
    for wrong in (x, (x,), (x, "a"), (x, 3), (torch.randn(1, 4), ())):
        with pytest.raises(rm.InputError):
            rm.deep.find_value(net, "0", x, (), 2, keep=wrong)


def test_places_that_are_none_are_refused():
    model, name, batch = gpt2(), "transformer.h.1.mlp.c_proj", {"input_ids": torch.randint(0, 30, (2, 6))}
    for places in (
        {"position": "a"},
        {"answer_at": "a"},
        {"answer_at": 6},
        {"answer_at": (1, 2, 3)},
        {"answer_at": 0.5},
    ):
        with pytest.raises(rm.InputError):
            rm.deep.find_value(model, name, batch, **{"position": 2, "target": 7, **places})
    with pytest.raises(rm.InputError, match="function"):
        rm.deep.find_value(model, name, batch, 2, lambda out: out.logits.sum(), answer_at=2)
    with pytest.raises(rm.InputError, match="module"):
        rm.deep.find_value("model", name, batch, 2, 7)
    with pytest.raises(rm.InputError, match="targets"):
        rm.deep.find_values(model, name, batch, 2, "a")
    with pytest.raises(rm.InputError, match="position"):
        rm.deep.edit_layers([rm.deep.Editor(model, name)], batch, "a", torch.zeros(16), "a")
