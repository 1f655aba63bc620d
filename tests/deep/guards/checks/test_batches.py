"""Batches that do not fit the model raise a clear error and change nothing."""

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn = torch.nn

GUARDS = [rm.deep.GradientProjection, rm.deep.OWM, rm.deep.OGD]


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(10, 3)

    def forward(self, pixels):
        return self.layer(pixels)


CASES = {
    "pairs": (nn.Linear, lambda x: (x, torch.zeros(3)), r"2 positional inputs.*\(x for x, y in loader\).*forward="),
    "lists": (nn.Linear, lambda x: [x, torch.zeros(3)], r"\(x for x, y in loader\)"),
    "triples": (nn.Linear, lambda x: (x, x, x), r"3 positional inputs.*forward="),
    "labels": (
        Named,
        lambda x: {"pixels": x, "labels": x},
        r"takes \(pixels\), got a dict of .*'labels'; .*forward=",
    ),
    "single": (nn.Linear, lambda x: x.float(), r"expected inputs of torch.float64.*got torch.float32.*\.to\("),
    "in a dict": (Named, lambda x: {"pixels": x.half()}, r"expected inputs of torch.float64.*got torch.float16"),
}


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("make", GUARDS)
def test_they_raise_a_clear_error(kind, make, rows):
    model, batch, message = CASES[kind]
    net = (Named() if model is Named else nn.Sequential(nn.Linear(10, 3))).double()
    guard = make(net)
    with pytest.raises(rm.InputError, match=message):
        guard.absorb([batch(rows(3, 10))])
    assert guard.report().tasks == 0


@pytest.mark.parametrize("make", GUARDS)
def test_with_a_forward_of_ones_own_the_precision_is_still_told(make, rows):
    guard = make(nn.Sequential(nn.Linear(10, 3)).double())
    pairs = [(rows(3, 10).float(), torch.zeros(3))]
    with pytest.raises(rm.InputError, match=r"expected inputs of torch\.float64"):
        guard.absorb(pairs, lambda model, batch: model(batch[0]))


@pytest.mark.parametrize("make", [rm.deep.GradientProjection, rm.deep.OWM])
def test_layers_called_under_vmap_cannot_be_watched(make, rows):
    class Mapped(Named):
        def forward(self, pixels):
            return torch.func.vmap(self.layer)(pixels)

    with pytest.raises(rm.InputError, match=r"under vmap.*whole batch.*OGD"):
        make(Mapped().double()).absorb([rows(3, 10)])


def test_a_model_that_cannot_be_mapped_is_still_absorbed_one_by_one(rows):
    class Branching(Named):
        def forward(self, pixels):
            return self.layer(pixels) * (2 if float(pixels.sum()) > 0 else 1)

    report = rm.deep.OGD(Branching().double()).absorb([rows(3, 10)])
    assert report.rank == 9


def test_mistakes_of_the_models_own_stay_what_they_are(rows):
    class Wrong(Named):
        def forward(self, pixels):
            return self.layer(pixels) + None

    with pytest.raises(TypeError, match="unsupported operand"):
        rm.deep.GradientProjection(Wrong().double()).absorb([rows(3, 10)])


def test_models_of_two_inputs_and_mappings_are_called_as_before(rows):
    from collections import UserDict

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(10, 3)

        def forward(self, x, y=None, **more):
            return self.layer(x if y is None else x + y)

    x = rows(3, 10)
    for batch in ((x, x), {"x": x, "y": x, "labels": x}, UserDict({"x": x})):
        rm.deep.GradientProjection(Two().double()).absorb([batch])
