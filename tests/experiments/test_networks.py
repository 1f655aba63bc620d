"""The experiments with networks run from end to end on small made-up images, and choose settings without test rows."""

import numpy as np
import pytest
import torch
from torch import nn

import remanence as rm
from experiments import (
    data,
    disjoint_mnist,
    networks,
    permuted_mnist,
    permuted_mnist_wide,
    rotated_digits,
    task_incremental_cifar,
)


def made_up(*_):
    """600 + 100 noisy images of ten patterns."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 200, (10, 784))
    split = []
    for rows in (600, 100):
        y = np.arange(rows, dtype=np.uint8) % 10
        split += [np.clip(patterns[y] + rng.normal(0, 30, (rows, 784)), 0, 255).astype(np.uint8), y]
    return tuple(split)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(data, "mnist", made_up)


def test_a_network_of_a_seed_is_the_same_and_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    first, second = (networks.seeded(permuted_mnist.network, 3) for _ in range(2))
    other = networks.seeded(permuted_mnist.network, 4)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first[0].weight, second[0].weight) and not torch.equal(first[0].weight, other[0].weight)


def test_the_convolutional_network_takes_rows_of_pixels():
    net = task_incremental_cifar.network()
    assert net(torch.zeros(2, 3072)).shape == (2, 10)


def test_rows_kept_aside_are_no_training_rows():
    X, y = np.arange(50.0)[:, None], np.arange(50)
    kept, y_kept, aside, y_aside = networks.set_aside(X, y, 10, seed=0)
    assert len(kept) == 40 and sorted([*y_kept, *y_aside]) == list(range(50))
    assert (kept[:, 0] == y_kept).all() and (aside[:, 0] == y_aside).all()


def test_rows_of_a_table_come_back_under_their_own_names():
    assert networks.side_by_side(lambda item: 2 * item, [3, 1, 2], "doubling") == {3: 6, 1: 2, 2: 4}


def test_figures_are_read_from_the_error_matrix():
    values = [[0.9, 0.1, 0.3], [0.8, 0.7, 0.2]]  # after 0, 1 and 2 tasks
    matrix = rm.ErrorMatrix(np.array(values), loss="zero_one")
    name, right, transfer, learned, _, _ = networks.line("method", matrix)
    assert (name, right, transfer, learned) == ("method", "75.00 %", "-20.00 %", "85.00 %")
    tasks = [rm.Task("a", np.ones((n, 1)), np.ones(n, int)) for n in (30, 10)]
    assert networks.right_rows(matrix, tasks) == pytest.approx((30 * 0.7 + 10 * 0.8) / 40)


def test_curves_are_of_the_tasks_learned_so_far():
    matrix = rm.ErrorMatrix(np.array([[0.9, 0.1, 0.3], [0.8, 0.7, 0.2]]), loss="zero_one")
    found = networks.curves("words", {"method": matrix, "all": matrix}, "all")
    assert found.lines == {"method": [pytest.approx(0.9), pytest.approx(0.75)]}
    assert found.ceiling == {"all": pytest.approx(0.75)}


def test_permuted_card(monkeypatch, tmp_path):
    monkeypatch.setattr(permuted_mnist, "QUICK", permuted_mnist.Size(2, 300, 1, 5, 1))
    monkeypatch.setattr(permuted_mnist, "OWM", ((100.0, 0.1),))
    monkeypatch.setattr(permuted_mnist, "SGP", ((1.0, 0.1),))
    card = permuted_mnist.make(True, tmp_path)
    assert [len(table.rows) for table in card.tables] == [6, 2] and card.holds
    assert not list(tmp_path.iterdir())  # a small version keeps no checkpoints
    card.write(tmp_path, "command", 1.0)


def test_wide_permuted_card(monkeypatch, tmp_path):
    monkeypatch.setattr(permuted_mnist_wide, "QUICK", permuted_mnist.Size(2, 300, 1, 0, 1))
    card = permuted_mnist_wide.make(True, tmp_path)
    names = [row[0].split(":")[0] for row in card.tables[0].rows]
    assert names == ["Finetuning", "OWM, chosen to forget little", "Joint"] and card.holds
    assert len(card.tables[1].rows) == len(permuted_mnist_wide.OWM)
    card.write(tmp_path, "command", 1.0)


@pytest.mark.parametrize("batch", [20, 100])
def test_the_rate_falls_to_zero_within_each_task(batch, monkeypatch, tmp_path):
    rates = []
    step = torch.optim.Adam.step
    monkeypatch.setattr(
        torch.optim.Adam,
        "step",
        lambda self, *a, **k: (rates.append(self.param_groups[0]["lr"]), step(self, *a, **k))[1],
    )
    way = permuted_mnist.Way("OWM", 100.0, rate=0.01, batch=batch, width=20, adam=True)
    permuted_mnist.fitted(permuted_mnist.Size(2, 300, 2, 0, 1), tmp_path, None, way)
    steps = len(rates) // 2
    assert steps == 2 * -(-270 // batch)
    for task in (rates[:steps], rates[steps:]):
        assert task == sorted(task, reverse=True) and task[0] == 0.01 and 0 < task[-1] < 0.01 * 0.6


def test_an_interrupted_experiment_continues(monkeypatch, tmp_path):
    size, way = permuted_mnist.Size(2, 300, 2, 5, 1), permuted_mnist.Way("OWM", 100.0, rate=0.1, batch=100)
    whole = permuted_mnist.fitted(size, tmp_path, None, way)
    monkeypatch.chdir(tmp_path)
    absorb, calls = rm.deep.OWM.absorb, []

    def stops_at_the_second(guard, *given, **named):
        calls.append(guard)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return absorb(guard, *given, **named)

    monkeypatch.setattr(rm.deep.OWM, "absorb", stops_at_the_second)
    with pytest.raises(KeyboardInterrupt), networks.checkpoints("name", quick=False) as kept:
        permuted_mnist.fitted(size, tmp_path, kept, way)
    assert len(list(kept.iterdir())) == 1
    with networks.checkpoints("name", quick=False) as kept:
        resumed = permuted_mnist.fitted(size, tmp_path, kept, way)
    np.testing.assert_array_equal(resumed.values, whole.values)
    assert len(calls) == 3 and not kept.exists()  # the first task was not learned again; nothing stays when all is done


def test_other_settings_have_another_checkpoint(tmp_path):
    names = {networks.checkpoint_of(tmp_path, permuted_mnist.Way("OWM", 1.0, rate=rate)) for rate in (0.1, 0.1, 0.2)}
    assert len(names) == 2 and networks.checkpoint_of(None, "anything") is None


def test_images_are_mirrored_in_training_only():
    mirrored, images = task_incremental_cifar.Mirrored(), torch.arange(24.0).reshape(4, 1, 2, 3).repeat(50, 1, 1, 1)
    assert torch.equal(mirrored.eval()(images), images)
    torch.manual_seed(0)
    seen = mirrored.train()(images)
    same, turned = ((seen == other).flatten(1).all(1) for other in (images, images.flip(-1)))
    assert (same ^ turned).all() and 70 < turned.sum() < 130


def forgetting(*errors):
    """Tasks that were learned to an error of 0.06 each, and what errors they ended with."""
    values = np.column_stack([np.full(3, 0.9), np.full((3, 3), 0.06)])
    values[:, -1] = errors
    return rm.ErrorMatrix(values, loss="zero_one")


def test_permuted_claims_follow_the_figures():
    good, bad = forgetting(0.06, 0.06, 0.06), forgetting(0.2, 0.2, 0.06)
    assert all(claim.holds for claim in permuted_mnist._claims(good, good))
    assert not any(claim.holds for claim in permuted_mnist._claims(bad, bad))
    assert [claim.holds for claim in permuted_mnist_wide.claims(forgetting(0.03, 0.06, 0.03))] == [True, False]
    assert [claim.holds for claim in permuted_mnist_wide.claims(good)] == [False, True]


def test_permuted_settings_are_chosen_by_accuracy_and_by_what_is_forgotten():
    wild, steady, slow = (permuted_mnist.Way("OWM", damping, judged_by_test=False) for damping in (9.0, 5.0, 1.0))
    tried = {
        wild: forgetting(0.07, 0.07, 0.01),
        steady: forgetting(0.06, 0.06, 0.06),
        slow: forgetting(0.06, 0.06, 0.3),
    }
    asked = permuted_mnist.chosen(tried)
    assert [way.setting for way in asked] == [9.0, 5.0] and all(way.judged_by_test for way in asked)
    assert permuted_mnist.chosen({wild: tried[wild]})[1].setting == 9.0  # nothing forgets so little


def test_disjoint_card_chooses_on_training_rows(monkeypatch, tmp_path):
    setting = disjoint_mnist.Setting(10.0, 0.05, 0.01, 1, False)
    useless = disjoint_mnist.Setting(10.0, 1e-9, 1e-9, 1, True)
    size = disjoint_mnist.Size(300, 1, {2: (useless, setting)})
    monkeypatch.setattr(disjoint_mnist, "QUICK", size)
    monkeypatch.setattr(disjoint_mnist, "WIDTH", 40)
    card = disjoint_mnist.make(True, tmp_path)
    compared, choices = card.tables
    assert len(compared.rows) == 4 and len(choices.rows) == 2
    shares = [float(row[2].rstrip(" %")) for row in choices.rows]
    assert shares[1] > shares[0]
    rows = disjoint_mnist.stream_of(size, tmp_path, 2, judged_by_test=False)
    train = made_up()[0][:300] / np.float32(255)
    assert all((train == row).all(axis=1).any() for task in rows for row in task.X_test)
    card.write(tmp_path, "command", 1.0)


@pytest.mark.parametrize("ahead", [True, False])
def test_owm_absorbs_ahead_where_the_setting_says_so(monkeypatch, ahead):
    monkeypatch.setattr(disjoint_mnist, "WIDTH", 40)
    learner = disjoint_mnist.OWMLearner(disjoint_mnist.Setting(1.0, 0.01, 0.001, 1, ahead))
    X, y, _, _ = made_up()
    learner.partial_fit(X[:100] / np.float32(255), y[:100].astype(int))
    assert learner.guard.report().layers[0].rows == (200 if ahead else 100)


def test_rotated_card_chooses_without_the_images_it_asks(monkeypatch, tmp_path):
    monkeypatch.setattr(rotated_digits, "QUICK", rotated_digits.Size(20, 2))
    monkeypatch.setattr(rotated_digits, "RANKS", {3: "ORFit, rank 3", None: "ORFit, every direction"})
    card = rotated_digits.make(True, tmp_path)
    assert [row[0] for row in card.tables[0].rows][2:4] == ["ORFit, rank 3", "ORFit, every direction"]
    rows = rotated_digits.rows_of(rotated_digits.Size(20, 2), tmp_path)
    learned, chosen, asked = (set(map(tuple, rows[name][0].tolist())) for name in ("learn", "choose", "ask"))
    assert not learned & chosen and not learned & asked and not chosen & asked


def test_an_image_turned_by_a_quarter_is_the_image_turned():
    image = np.arange(784.0).reshape(1, 28, 28)
    small = rotated_digits.turned(image.reshape(1, -1), np.array([90.0])).reshape(14, 14).numpy()
    plain = np.rot90(image[0]).reshape(14, 2, 14, 2).mean(axis=(1, 3)) / 255
    np.testing.assert_allclose(small, plain, atol=1e-6)


def test_cifar_card(monkeypatch, tmp_path):
    def photographs(*_):
        rng = np.random.default_rng(0)
        labels = [np.arange(n, dtype=np.uint8) % 10 for n in (400, 50)]
        rows = [np.clip(20.0 * y[:, None] + rng.normal(0, 9, (len(y), 3072)), 0, 255).astype(np.uint8) for y in labels]
        return rows[0], labels[0], rows[1], labels[1]

    def small_network():
        trunk = nn.Sequential(nn.Unflatten(1, (3, 32, 32)), nn.Conv2d(3, 4, 3, stride=8), nn.ReLU(), nn.Flatten())
        return rm.deep.MultiHead(trunk, 64, [2] * 5)

    monkeypatch.setattr(data, "cifar10", photographs)
    monkeypatch.setattr(task_incremental_cifar, "network", small_network)
    monkeypatch.setattr(task_incremental_cifar, "QUICK", task_incremental_cifar.Size(400, 1, 4, 1, 2, 2))
    candidates = {"GradientProjection": (0.5, 0.9), "OWM": (10.0,), "ScaledProjection": (1.0,)}
    monkeypatch.setattr(task_incremental_cifar, "CANDIDATES", candidates)
    card = task_incremental_cifar.make(True, tmp_path)
    names = [[row[0] for row in table.rows] for table in card.tables]
    assert names[0][:2] == ["Finetuning", "GradientProjection, all directions"] and len(names[0]) == 6
    assert names[0][2] in names[1] and names[0][3] == names[1][2] == "OWM, damping 10"
    assert names[0][4] == names[1][3] == "ScaledProjection, alpha 1"
    assert all("published" not in table.columns for table in card.tables)
    for row in (row for table in card.tables for row in table.rows):
        of_seeds = [float(share.rstrip(" %")) for share in row[-1].split(", ")]
        assert len(of_seeds) == 2 and float(row[1].rstrip(" %")) == pytest.approx(np.mean(of_seeds), abs=0.011)


def test_cifar_settings_are_chosen_by_the_mean_over_seeds():
    """The best single run is of a setting that is worse on average."""
    lucky, steady = (task_incremental_cifar.Way("OWM", damping, judged_by_test=False) for damping in (1.0, 2.0))
    errors = {(lucky, 0): 0.0, (lucky, 1): 0.5, (steady, 0): 0.1, (steady, 1): 0.2}
    each = {run: forgetting(error, error, error) for run, error in errors.items()}
    mean = task_incremental_cifar.averaged(each)
    assert networks.accuracy(mean[lucky]) == pytest.approx(0.75) and networks.accuracy(mean[steady]) == pytest.approx(
        0.85
    )
    asked = task_incremental_cifar._best(mean, "OWM")
    assert asked.setting == 2.0 and asked.judged_by_test
