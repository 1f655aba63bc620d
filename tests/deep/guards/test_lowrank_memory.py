"""A memory of bounded rank: the full one while it suffices, the strongest directions and their share beyond that."""

import copy

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim
GUARDS = [rm.deep.GradientProjection, rm.deep.OWM, rm.deep.ScaledProjection]


def test_a_sufficient_rank_is_as_good_as_a_full_memory(mlp, rows, learn, moved, answers):
    net, old = mlp(), []
    guard, optimizer = rm.deep.GradientProjection(net, memory="lowrank", rank=20), None
    for task in range(3):
        x = rows(3, 10, seed=task)
        report = guard.absorb([x[:2], x[2:]])
        old.append((x, answers(net, x)))
        optimizer = optim.AdamW(net.parameters(), lr=1e-2)
        losses = learn(net, guard, rows(3, 10, seed=50 + task), optimizer)
        assert losses[-1] < losses[0]
        assert moved(net, old) < 1e-10
    assert all(layer.kept > 1 - 1e-12 and layer.drift < 1e-6 for layer in report.layers)


@pytest.mark.parametrize("make", GUARDS)
def test_beyond_the_rank_the_strongest_directions_are_kept(make, rows):
    torch.manual_seed(0)
    net, X = nn.Sequential(nn.Linear(30, 2, bias=False)).double(), rows(600, 30) * torch.logspace(0, -2, 30)
    guard = make(net, memory="lowrank", rank=8)
    report = guard.absorb([X[:300], X[300:]])
    (layer,) = report.layers
    energies = torch.linalg.svdvals(X).square()
    share = float(energies[:8].sum() / energies.sum())
    assert layer.rank <= 8
    assert layer.drift < 1e-12, "nothing has been trained since"
    assert share - 0.02 < layer.kept <= share + 1e-9
    kept = guard._memory.directions["0"].basis[0]
    leading = torch.linalg.svd(X, full_matrices=False).Vh[:4].T
    assert float((leading - kept @ (kept.T @ leading)).norm()) < 0.2


@pytest.mark.parametrize("make", GUARDS)
def test_saved_and_loaded(make, mlp, rows, tmp_path):
    net = mlp()
    guard = make(net, memory="lowrank", rank=5)
    guard.absorb([rows(20, 10)])
    rm.save(guard, tmp_path / "guard")
    again = rm.load(tmp_path / "guard", model=net)
    assert again.settings == guard.settings
    assert [layer.kept for layer in again.report().layers] == pytest.approx(
        [layer.kept for layer in guard.report().layers]
    )
    again.absorb([rows(4, 10, seed=1)])
    with pytest.raises(rm.InputError, match="memory='full'"):
        make(net).load_state_dict(guard.state_dict())
    full = make(net)
    full.absorb([rows(3, 10)])
    with pytest.raises(rm.InputError, match="memory='lowrank'"):
        make(net, memory="lowrank").load_state_dict(full.state_dict())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("make", GUARDS)
def test_a_share_of_the_energy_takes_the_fewest_directions_that_hold_it(make, dtype, rows, tmp_path):
    torch.manual_seed(0)
    net, X = nn.Sequential(nn.Linear(30, 2, bias=False)).double(), rows(600, 30) * torch.logspace(0, -2, 30)
    net, X = net.to(dtype), X.to(dtype)
    guard = make(net, memory="lowrank", rank=0.9)
    (layer,) = guard.absorb(X.split(100)).layers
    energies = torch.linalg.svdvals(X.double()).square()
    shares = energies.cumsum(0) / energies.sum()
    fewest = int((shares < 0.9).sum()) + 1
    assert layer.rank == fewest and layer.kept == pytest.approx(float(shares[fewest - 1]), abs=1e-3)
    assert layer.drift < 1e-5
    rm.save(guard, tmp_path / "guard")
    again = rm.load(tmp_path / "guard", model=net)
    assert again.settings == guard.settings and again.settings["rank"] == 0.9
    again.absorb([X[:50]])


@pytest.mark.parametrize("make", GUARDS)
def test_bytes_hold_as_many_directions_as_fit(make, mlp, rows):
    net = mlp()

    def size(guard):
        layers = guard.state_dict()["layers"].values()
        parts = ("basis", "answers", "factor", "target", "rest")
        return sum(layer[part].numel() * 8 for layer in layers for part in parts)

    for room in (9000, 20000, 10**9):
        guard = make(net, memory="lowrank", max_bytes=room)
        guard.absorb([rows(50, 10)])
        assert size(guard) <= room
        assert guard.settings["rank"] == guard._rank
        if room < 10**9:
            more = make(net, memory="lowrank", rank=guard._rank + 1)
            more.absorb([rows(50, 10)])
            assert size(more) > 0.9 * room
    assert guard._rank == 41, "all directions of the widest layer"
    with pytest.raises(rm.InputError, match="max_bytes of at least"):
        make(net, memory="lowrank", max_bytes=100)


def moved_in_training(net, X, new, **options):
    """How far old outputs move while a copy of a network learns something new, in the size of the outputs."""
    net = copy.deepcopy(net)
    guard, before = rm.deep.GradientProjection(net, **options), net(X).detach()
    guard.absorb(X.split(64))
    optimizer = optim.AdamW(net.parameters(), lr=1e-3)
    with guard.protect(optimizer):
        for _ in range(30):
            optimizer.zero_grad()
            (net(new) - 1).square().mean().backward()
            optimizer.step()
    return float((net(X).detach() - before).norm() / before.norm())


@pytest.mark.parametrize(("energy", "slack"), [(0.99, 1.5), (0.999, 1.5), (1.0, 5.0)])
def test_old_outputs_move_as_little_as_with_a_full_memory(energy, slack):
    """Classes one after the other in single precision, each with strengths over five decades."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(150, 100), nn.ReLU(), nn.Linear(100, 3))
    classes = [torch.randn(200, 5) * torch.logspace(0, -5, 5) @ torch.randn(5, 150) for _ in range(4)]
    X, new = torch.cat(classes), torch.randn(50, 150)
    first = dict.fromkeys(["0"], energy)
    full = moved_in_training(net[:1], X, new, energy=first)
    bounded = moved_in_training(net[:1], X, new, energy=first, memory="lowrank", rank=60)
    assert bounded <= slack * full + 1e-5, (bounded, full)
    assert full < 0.1 and bounded < 0.1


BAD = [
    {"memory": "small"},
    {"rank": 4},
    {"max_bytes": 10**6},
    {"memory": "lowrank", "rank": 0},
    {"memory": "lowrank", "rank": 1.0},
    {"memory": "lowrank", "rank": 4, "max_bytes": 10**6},
    {"memory": "lowrank", "max_bytes": 0},
]


@pytest.mark.parametrize("options", BAD)
def test_bad_settings_raise_an_error(options, mlp):
    with pytest.raises(rm.InputError):
        rm.deep.GradientProjection(mlp(), **options)
