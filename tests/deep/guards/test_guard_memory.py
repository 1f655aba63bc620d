"""A guard that was saved and loaded continues bit for bit; a foreign state raises an error."""

import copy
import io

import pytest

import remanence as rm
from remanence.store.model_file import ModelFile, from_bytes, to_buffers

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim


class Mixed(nn.Module):
    """One of everything that a guard remembers in a way of its own."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.conv = nn.Embedding(30, 8), nn.Conv1d(8, 12, 2, groups=2)
        self.norm, self.scale = nn.BatchNorm1d(12), nn.Parameter(torch.ones(12))
        self.attention, self.head = nn.MultiheadAttention(12, 2, batch_first=True), nn.Linear(12, 3)

    def forward(self, i):
        h = self.norm(self.conv(self.words(i).transpose(1, 2))).transpose(1, 2) * self.scale
        return self.head((h + self.attention(h, h, h)[0]).mean(1))


MAKERS = {
    "gradient projection": lambda net: rm.deep.GradientProjection(net, frozen=["scale"]),
    "energy": lambda net: rm.deep.GradientProjection(net, energy=0.8, frozen=["scale"]),
    "OWM": lambda net: rm.deep.OWM(net, damping=0.1, frozen=["scale"]),
}


def task(number):
    return torch.randint(8 * number, 8 * number + 8, (2, 3), generator=torch.Generator().manual_seed(number))


def lesson(net, guard, optimizer, number, steps):
    x = task(number)
    net.train()
    with guard.protect(optimizer):
        for _ in range(4):
            optimizer.zero_grad()
            (net(x) - number).square().mean().backward()
            optimizer.step()
    guard.absorb([x])


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    return a == b


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.filterwarnings("ignore:no direction is left", "ignore:earlier inputs use")
def test_going_on_from_a_saved_state_changes_no_bit(kind, dtype, steps):
    net = Mixed().to(dtype)
    guard, optimizer = MAKERS[kind](net), optim.AdamW(net.parameters(), lr=0.01)
    for number in range(2):
        lesson(net, guard, optimizer, number, steps)
    again = Mixed().to(dtype)
    resumed, other = MAKERS[kind](again), optim.AdamW(again.parameters(), lr=0.01)
    for mine, theirs in ((net, again), (guard, resumed), (optimizer, other)):
        theirs.load_state_dict(through_a_file(mine.state_dict()))
    assert equal(guard.state_dict(), resumed.state_dict())
    assert str(guard.report()) == str(resumed.report())
    lesson(net, guard, optimizer, 2, steps)
    lesson(again, resumed, other, 2, steps)
    assert equal(net.state_dict(), again.state_dict())
    assert equal(guard.state_dict(), resumed.state_dict())


def test_a_state_is_a_copy(mlp, rows):
    net = mlp()
    guard = rm.deep.GradientProjection(net)
    guard.absorb([rows(3, 10)])
    kept = guard.state_dict()
    before = copy.deepcopy(kept)
    guard.load_state_dict(kept)
    for layer in kept["layers"].values():
        for value in layer.values():
            if isinstance(value, torch.Tensor):
                value.zero_()
    assert equal(guard.state_dict(), before)
    guard.absorb([rows(2, 10, seed=1)])
    assert not equal(guard.state_dict(), before)


def test_a_state_loaded_inside_a_block_is_what_it_protects(mlp, rows, moved, answers, steps):
    net = mlp()
    guard, x = rm.deep.GradientProjection(net), rows(3, 10)
    saved = rm.deep.GradientProjection(net)
    saved.absorb([x])
    old = [(x, answers(net, x))]
    optimizer = optim.AdamW(net.parameters(), lr=0.01)
    with guard.protect(optimizer):
        guard.load_state_dict(saved.state_dict())
        steps(optimizer, lambda: net(rows(3, 10, seed=1)).square().mean(), steps=3)
    assert moved(net, old) < 1e-13


def damaged(state, change):
    state = copy.deepcopy(state)
    change(state)
    return state


CHANGES = {
    "another guard": (lambda s: s.update(guard="OWM"), r"state_dict of a GradientProjection.*'OWM'"),
    "another format": (lambda s: s.update(format=3), "format 1 to 2"),
    "a part missing": (lambda s: s["layers"]["0"].pop("factor"), "damaged"),
    "layers missing": (lambda s: s.pop("layers"), "damaged"),
    "tasks as text": (lambda s: s.update(tasks="two"), "damaged"),
    "rows not a number": (lambda s: s["layers"]["0"].update(rows=float("nan")), "damaged"),
    "rows infinite": (lambda s: s["layers"]["0"].update(rows=float("inf")), "damaged"),
    "another layer": (lambda s: s["layers"].update(far=s["layers"].pop("0")), "layer far has .* and None here"),
    "another width": (lambda s: s["layers"].update({"0": s["layers"]["2"]}), r"layer 0 has .*\(1, 40, 41\) there"),
    "held elsewhere": (lambda s: s["held"].update(scale=torch.ones(2)), "scale is .* there and not frozen here"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_state_of_something_else_raises_an_error_and_nothing_changes(kind, mlp, rows):
    guard = rm.deep.GradientProjection(mlp())
    guard.absorb([rows(3, 10)])
    before = guard.state_dict()
    change, message = CHANGES[kind]
    with pytest.raises(rm.InputError, match=message):
        guard.load_state_dict(damaged(before, change))
    assert equal(guard.state_dict(), before)
    with pytest.raises(rm.InputError, match="state_dict"):
        guard.load_state_dict([before])


def places(state, path=()):
    """The path of every entry of a nested state."""
    for name, value in state.items():
        yield (*path, name)
        if isinstance(value, dict):
            yield from places(value, (*path, name))


def at(state, path):
    for name in path:
        state = state[name]
    return state


def refuses(guard, make, state):
    """The state raises an error in load_state_dict, which changes nothing, and FileError when read from a file."""
    before = guard.state_dict()
    with pytest.raises(rm.InputError, match="expected"):
        guard.load_state_dict(copy.deepcopy(state))
    assert equal(guard.state_dict(), before)
    forged = make(guard.model)
    forged.state_dict = lambda: state
    with pytest.raises(rm.FileError, match="expected"):
        from_bytes(b"".join(map(bytes, to_buffers(ModelFile(forged)))), model=guard.model)


@pytest.mark.parametrize("kind", [*MAKERS, "OGD"])
@pytest.mark.filterwarnings("ignore:no direction is left", "ignore:earlier inputs use", "ignore:the memory is full")
def test_a_missing_entry_or_a_nan_anywhere_in_a_saved_guard_is_noticed(kind):
    make = MAKERS.get(kind, lambda net: rm.deep.OGD(net, rank=40, frozen=["scale"]))
    net = Mixed().double()
    guard = make(net)
    guard.absorb([task(0)])
    state = guard.state_dict()
    paths = list(places(state))
    assert len(paths) > 20
    for path in paths:
        refuses(guard, make, damaged(state, lambda s, path=path: at(s, path[:-1]).pop(path[-1])))
    tensors = [
        path for path in paths if isinstance(at(state, path), torch.Tensor) and at(state, path).is_floating_point()
    ]
    assert len(tensors) > 5
    for path in tensors:
        refuses(guard, make, damaged(state, lambda s, path=path: at(s, path).view(-1)[0].fill_(float("nan"))))


def test_a_state_of_format_1_has_no_list_of_entries_and_loads(mlp, rows):
    guard = rm.deep.GradientProjection(mlp())
    guard.absorb([rows(3, 10)])
    state = guard.state_dict()
    guard.load_state_dict({name: part for name, part in state.items() if name != "entries"} | {"format": 1})
    assert equal(guard.state_dict(), state)


def test_the_same_parts_must_be_frozen(mlp, rows):
    net = mlp()
    guard = rm.deep.GradientProjection(net, frozen=["0"])
    guard.absorb([rows(3, 10)])
    with pytest.raises(rm.InputError, match=r"0\.weight.*not frozen here.*same frozen and free"):
        rm.deep.GradientProjection(net).load_state_dict(guard.state_dict())
    with pytest.raises(rm.InputError, match="another part frozen"):
        rm.deep.GradientProjection(net, frozen=["2.bias"]).load_state_dict(guard.state_dict())
    other = rm.deep.GradientProjection(net, frozen=["0", "4"])
    plain = rm.deep.GradientProjection(net)
    plain.absorb([rows(3, 10)])
    with pytest.raises(rm.InputError, match="None here"):
        other.load_state_dict(plain.state_dict())
