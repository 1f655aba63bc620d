"""Energy below 1: fewer directions, and a report that matches the measured drift."""

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim


def seen_by(net, x):
    """The inputs, with a constant one appended, and the outputs of every Linear layer."""
    found = {}
    for name, layer in net.named_children():
        if isinstance(layer, nn.Linear):
            found[name] = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1).detach(), layer(x).detach()
        x = layer(x)
    return found


def of_layer(layer, X):
    return X @ torch.cat([layer.weight, layer.bias[:, None]], 1).detach().T


@pytest.mark.parametrize("make", [lambda n: rm.deep.GradientProjection(n, energy=0.8), lambda n: rm.deep.OWM(n, 0.5)])
def test_the_drift_reported_is_the_movement_on_the_absorbed_inputs(make, mlp, rows, learn):
    net = mlp(hidden=12)
    guard = make(net)
    optimizer = optim.AdamW(net.parameters(), lr=0.01)
    stored = []
    for task in range(3):
        x = rows(8, 10, seed=task)
        learn(net, guard, x, optimizer, seed=task)
        guard.absorb([x[:3], x[3:]])
        stored.append(seen_by(net, x))
    learn(net, guard, rows(8, 10, seed=9), optimizer)
    for layer in guard.report().layers:
        then = [seen[layer.name] for seen in stored]
        moved = sum((of_layer(net.get_submodule(layer.name), X) - Y).square().sum() for X, Y in then)
        size = sum(Y.square().sum() for _, Y in then)
        assert layer.drift == pytest.approx(float((moved / size).sqrt()), rel=1e-9)
        assert layer.drift > 1e-4 and layer.rows == 24


def test_no_drift_is_reported_where_nothing_moved(mlp, rows):
    net = mlp()
    report = rm.deep.GradientProjection(net, energy=0.5).absorb([rows(6, 10)])
    assert all(layer.drift < 1e-14 for layer in report.layers)


@pytest.mark.parametrize("energy", [0.5, 0.9, 0.99, 1 - 1e-6])
def test_the_fewest_directions_that_hold_the_energy_are_protected(energy, rows):
    net = nn.Linear(12, 2, bias=False).double()
    guard = rm.deep.GradientProjection(net, energy=energy)
    spectrum = torch.logspace(0, -4, 12, dtype=torch.float64)
    for task in range(2):
        X = rows(20, 12, seed=task) * spectrum
        old = guard._memory.directions["linear"].basis[0] if task else torch.zeros(12, 0, dtype=torch.float64)
        guard.absorb([X])
        U = guard._memory.directions["linear"].basis[0]
        assert (U.T @ U - torch.eye(U.shape[1], dtype=torch.float64)).abs().max() < 1e-14
        outside = lambda V, X=X: float((X - X @ V @ V.T).square().sum() / X.square().sum())
        assert outside(U) <= 1 - energy + 1e-12
        # no fewer would do: of all directions beside the old ones the leading ones of what they leave are the best
        rest = X - X @ old @ old.T
        best = torch.linalg.svd(rest).Vh[: U.shape[1] - old.shape[1] - 1].T
        if U.shape[1] > old.shape[1]:
            assert outside(torch.cat([old, best], 1)) > 1 - energy


def test_less_energy_leaves_more_room_and_lets_more_through(mlp, rows, learn, moved, answers):
    ranks, shifts = [], []
    for energy in (0.5, 0.9, 1.0):
        net = mlp()
        guard = rm.deep.GradientProjection(net, energy=energy)
        x = rows(8, 10)
        report = guard.absorb([x])
        old = [(x, answers(net, x))]
        learn(net, guard, rows(8, 10, seed=1), optim.AdamW(net.parameters(), lr=0.01))
        ranks.append([layer.rank for layer in report.layers])
        shifts.append(moved(net, old))
    assert all(a < b < c for a, b, c in zip(*ranks, strict=True))
    assert shifts[0] > shifts[1] > 1e-3 and shifts[2] < 1e-13


def test_layers_may_have_energies_of_their_own(mlp, rows):
    net = mlp()
    whole = rm.deep.GradientProjection(net).absorb([rows(8, 10)])
    some = rm.deep.GradientProjection(net, energy={"2": 0.6}).absorb([rows(8, 10)])
    ranks = {layer.name: layer.rank for layer in some.layers}
    assert ranks["0"] == ranks["4"] == 8 > ranks["2"] >= 1
    assert {layer.name: layer.rank for layer in whole.layers} == {"0": 8, "2": 8, "4": 8}


def test_a_full_layer_is_named_once_it_is_full(rows):
    net = nn.Sequential(nn.Linear(5, 30), nn.Tanh(), nn.Linear(30, 2)).double()
    guard = rm.deep.GradientProjection(net)
    guard.absorb([rows(3, 5)])
    assert guard.capacity() == {"0": pytest.approx(0.5), "2": pytest.approx(3 / 31)}
    with pytest.warns(UserWarning, match=r"no direction is left in 0:.*energy below 1"):
        guard.absorb([rows(9, 5, seed=1)])
    assert guard.capacity()["0"] == 1.0


def test_a_report_prints_as_a_table(rows, mlp):
    guard = rm.deep.GradientProjection(mlp())
    text = str(guard.absorb([rows(4, 10)]))
    assert text.splitlines()[0] == "GradientProjection after 1 tasks"
    assert "4 of 11" in text and "36%" in text
    assert repr(guard) == "<GradientProjection of 3 layers, 1 tasks, rank 12>"


@pytest.mark.filterwarnings("ignore:no direction is left")
def test_few_dimensional_features_of_a_single_precision_network_take_few_directions(rows):
    """Features repeat only to rounding there: noise is not a direction."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(20, 3), nn.Linear(3, 50), nn.Linear(50, 2))
    report = rm.deep.GradientProjection(net).absorb([rows(100, 20, dtype=torch.float32)])
    assert [layer.rank for layer in report.layers][1:] == [4, 4]
