"""A batch of every kind is tried, not the first batch only."""

import pytest

import remanence as rm
from remanence.deep.guards.checks.batch_kinds import BatchKinds

torch = pytest.importorskip("torch")
nn = torch.nn


class Two(nn.Module):
    """Two kinds of inputs; the second goes past the module of the head."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.text, self.image, self.head = nn.Linear(10, 16), nn.Linear(6, 16), nn.Linear(16, 2)

    def forward(self, text=None, image=None, which="text"):
        if text is not None and which == "text":
            return self.head(torch.tanh(self.text(text)))
        h = torch.tanh(self.image(image) if image is not None else self.text(text))
        return nn.functional.linear(h, self.head.weight, self.head.bias)


@pytest.mark.parametrize("make", [rm.deep.GradientProjection, rm.deep.OWM])
@pytest.mark.parametrize("other", ["image", "which"])
def test_a_use_outside_its_module_in_a_later_batch_is_found(make, other, rows):
    first = {"text": rows(3, 10), **({"which": "text"} if other == "which" else {})}
    second = {"image": rows(3, 6)} if other == "image" else {"text": rows(3, 10, seed=1), "which": "image"}
    make(Two().double()).absorb([first])
    guard = make(Two().double())
    with pytest.raises(rm.InputError, match=r"head\.weight.*acts outside"):
        guard.absorb([first, second])
    assert guard.report().tasks == 0
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in guard.model.modules())


class Choice(nn.Module):
    """Which layer is called depends on the numbers of a batch, as in a mixture of experts."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.head = nn.Linear(10, 16), nn.Linear(10, 16), nn.Linear(16, 2)

    def forward(self, x):
        if x.mean() > 0:
            return self.head(self.a(x))
        return self.b(x) @ self.head.weight.T


def test_a_batch_that_calls_other_modules_is_tried_too(rows):
    x = rows(3, 10).abs()
    rm.deep.GradientProjection(Choice().double()).absorb([x])
    with pytest.raises(rm.InputError, match=r"head\.weight"):
        rm.deep.GradientProjection(Choice().double()).absorb([x, -x])


class IgnoresPadding(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.layer, self.head = nn.Embedding(20, 12), nn.Conv1d(12, 16, 3, padding=1), nn.Linear(16, 2)

    def forward(self, input_ids, attention_mask=None):
        return self.head(torch.relu(self.layer(self.table(input_ids).mT)).amax(2))


def test_a_model_whose_outputs_depend_on_padding_is_refused_wherever_the_padding_is():
    words = torch.randint(1, 20, (3, 6), generator=torch.Generator().manual_seed(0))
    padded, mask = words.clone(), torch.ones_like(words)
    padded[:, 4:], mask[:, 4:] = 0, 0
    whole = {"input_ids": words, "attention_mask": torch.ones_like(words)}
    rm.deep.GradientProjection(IgnoresPadding().double()).absorb([whole])
    with pytest.raises(rm.InputError, match="Nothing was absorbed"):
        rm.deep.GradientProjection(IgnoresPadding().double()).absorb(
            [whole, {"input_ids": padded, "attention_mask": mask}]
        )


def test_few_batches_are_kept(rows):
    net, x = Choice().double(), rows(3, 10).abs()
    kinds = BatchKinds(net)
    with kinds.watch():
        for batch in kinds.sorted([x, x + 1, -x, x[:2], -x, {"x": x}, {"x": x + 1}]):
            net(**batch) if isinstance(batch, dict) else net(batch)
    assert [type(batch) for batch in kinds.batches] == [torch.Tensor, torch.Tensor, dict]
    assert kinds.batches[1] is not x and (kinds.batches[1] == -x).all()


def test_a_forward_that_takes_labels_out_of_the_batch_finds_them_each_time(rows):
    def forward(model, batch):
        batch.pop("labels")
        return model(**batch)

    batches = [{"text": rows(3, 10), "labels": 1}]
    assert rm.deep.GradientProjection(Two().double()).absorb(batches, forward).tasks == 1
    assert "labels" in batches[0]


@pytest.mark.parametrize("pack", [lambda x: x, lambda x: (x,), lambda x: {"x": x}])
def test_a_model_that_normalizes_its_inputs_in_place_is_protected(pack, rows):
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.second = nn.Linear(10, 16), nn.Linear(16, 2)

        def forward(self, x):
            return self.second(torch.tanh(self.first(x.sub_(0.5).div_(2.0))))

    net, x = InPlace().double(), rows(3, 10)
    guard, before = rm.deep.GradientProjection(net), net(x.clone()).detach()
    guard.absorb([pack(x)])
    assert torch.equal(x, rows(3, 10)), "the batches of the user stay as they are"
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with guard.protect(optimizer):
        for _ in range(5):
            optimizer.zero_grad()
            (net(rows(3, 10, seed=1)) - 1).square().mean().backward()
            optimizer.step()
    assert (net(x) - before).abs().max() < 1e-13


@pytest.mark.parametrize(
    "other", [lambda k: {"text": [f"a customer wrote {k}", "and another"]}, lambda k: {"places": [1, 2, 3] * k}]
)
def test_what_differs_in_every_batch_is_no_choice(other):
    """Otherwise every batch would be kept, and tried."""
    net, x = nn.Linear(3, 2), torch.ones(2, 3)
    for count, kept in ((3, 3), (8, 8), (200, 8)):
        kinds = BatchKinds(net)
        batches = [{"x": x} | other(k) for k in range(count)]
        with kinds.watch():
            for batch in kinds.sorted(batches):
                net(batch["x"])
        assert len(kinds.batches) == kept and kinds.batches[0] is batches[0]
