"""Random numbers in eval mode: what they change cannot be kept, and a trial draws them without a trace."""

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn = torch.nn


class Sampling(nn.Module):
    """As a variational autoencoder that samples in eval mode too; the numbers come from torch or from elsewhere."""

    def __init__(self, draw):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.draw = nn.Linear(10, 16), nn.Linear(16, 2), draw

    def forward(self, x):
        h = torch.tanh(self.first(x))
        return self.second(h + self.draw(h))


def elsewhere():
    generator = torch.Generator().manual_seed(0)
    return lambda h: torch.randn(h.shape, generator=generator, dtype=h.dtype)


@pytest.mark.parametrize(
    ("draw", "words"), [(torch.randn_like, "random numbers in eval mode"), (elsewhere(), "differ from call to call")]
)
def test_a_model_that_samples_in_eval_mode_is_refused(draw, words, rows):
    guard = rm.deep.GradientProjection(Sampling(draw).double())
    torch.manual_seed(0)
    with pytest.raises(rm.InputError, match=words):
        guard.absorb([rows(3, 10)])
    assert guard.report().tasks == 0


def test_noise_that_reaches_no_layer_is_kept_as_it_is(rows, learn):
    class Noisy(Sampling):
        def forward(self, x):
            y = super().forward(x)
            return y + torch.randn_like(y)

    net, x = Noisy(torch.zeros_like).double(), rows(3, 10)
    guard = rm.deep.GradientProjection(net)
    guard.absorb([x])
    torch.manual_seed(1)
    before = net(x).detach()
    losses = learn(net, guard, rows(3, 10, seed=1), torch.optim.SGD(net.parameters(), lr=0.1))
    torch.manual_seed(1)
    assert len(losses) and (net(x) - before).abs().max() < 1e-12


def test_the_trial_draws_no_random_numbers_of_the_caller(rows):
    net, x = nn.Sequential(nn.Linear(10, 16), nn.Dropout(), nn.Linear(16, 2)).double(), rows(3, 10)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    rm.deep.GradientProjection(net).absorb([x])
    assert torch.equal(torch.rand(3), expected)
