"""Padding is told apart from features by the axis, not by the size."""

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn = torch.nn


class Pooled(nn.Module):
    def __init__(self, width):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.layer, self.head = nn.Embedding(20, width), nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, input_ids, attention_mask):
        h = torch.tanh(self.layer(self.table(input_ids))) * attention_mask[..., None]
        return self.head(h.sum(1) / attention_mask.sum(1, keepdim=True))


@pytest.mark.parametrize("width", [6, 9])
def test_a_head_on_as_many_features_as_there_are_positions_is_protected(width):
    """A classifier of 128 features on texts padded to 128 words is common."""
    words = torch.randint(0, 20, (2, 6), generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0]])
    batch, net = {"input_ids": words, "attention_mask": mask}, Pooled(width).double()
    guard, before = rm.deep.GradientProjection(net), net(**batch).detach()
    report = guard.absorb([batch])
    assert {layer.name: layer.rows for layer in report.layers} == {"layer": 5, "head": 2}
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    losses = []
    with guard.protect(optimizer):
        for _ in range(20):
            optimizer.zero_grad()
            loss = (net(words.flip(0), torch.ones_like(mask)) - 1).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
    assert losses[-1] < losses[0] and (net(**batch) - before).abs().max() < 1e-12
