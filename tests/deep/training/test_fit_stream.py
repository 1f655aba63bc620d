"""Training over a stream equals a hand-written loop."""

import doctest

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402


def by_hand(sgd, model, blocks, loss, epochs, keep=False, scheduler=None):
    """All rows of a block at each step: then the order of the rows does not matter."""
    optimizer = sgd(model.parameters())
    for X, Y in blocks:
        optimizer = optimizer if keep else sgd(model.parameters())
        plan = scheduler(optimizer) if scheduler else None
        for _ in range(epochs):
            optimizer.zero_grad()
            loss(model(torch.as_tensor(X)), torch.as_tensor(Y)).backward()
            optimizer.step()
            if plan is not None:
                plan.step()
    return model


@pytest.mark.parametrize("keep", [False, True])
def test_full_batches_make_the_steps_of_a_hand_written_loop(net, labelled, sgd, near, keep):
    stream, ours = labelled(), net()
    rm.deep.fit_stream(ours, stream, optimizer=sgd, epochs=7, batch_size=24, keep_optimizer=keep)
    blocks = [(task.X, task.Y) for task in stream]
    assert near(ours, by_hand(sgd, net(), blocks, nn.functional.cross_entropy, 7, keep))


def test_schedulers_are_stepped_once_an_epoch_and_begin_anew_with_every_task(net, numbers, sgd, near):
    stream, ours = numbers(), net(outputs=2)
    halve = lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    rm.deep.fit_stream(ours, stream, optimizer=sgd, epochs=5, batch_size=20, scheduler=halve)
    blocks = [(task.X, task.Y) for task in stream]
    assert near(ours, by_hand(sgd, net(outputs=2), blocks, nn.functional.mse_loss, 5, scheduler=halve))


def test_schedulers_may_be_stepped_after_every_batch(net, numbers, sgd):
    rates = []

    def recording(parameters):
        optimizer = sgd(parameters)
        optimizer.register_step_pre_hook(lambda o, *_: rates.append(o.param_groups[0]["lr"]))
        return optimizer

    fall = lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    settings = {"epochs": 2, "batch_size": 8, "scheduler": fall, "scheduler_step": "batch"}
    rm.deep.fit_stream(net(outputs=2), numbers()[:2], optimizer=recording, **settings)
    first, steps = rates[0], 2 * -(-len(numbers()[0].X) // 8)
    assert rates == 2 * [first * 0.5**k for k in range(steps)]


def test_every_row_is_used_once_an_epoch_and_the_last_batch_is_smaller(net, sgd):
    seen = []

    def loss(outputs, targets):
        seen.append(targets[:, 0].tolist())
        return nn.functional.mse_loss(outputs, targets)

    X = np.arange(10.0)[:, None] / 10
    rm.deep.fit_stream(net(1, 1), [rm.Task("a", X, X)], optimizer=sgd, epochs=2, batch_size=4, loss=loss)
    assert [len(batch) for batch in seen] == [4, 4, 2, 4, 4, 2]
    first, second = [*seen[0], *seen[1], *seen[2]], [*seen[3], *seen[4], *seen[5]]
    assert sorted(first) == sorted(second) == X[:, 0].tolist()
    assert first != second, "each epoch has an order of its own"


def test_the_reported_loss_is_the_mean_over_the_rows_as_they_were_met(net, numbers, sgd):
    met = []

    def loss(outputs, targets):
        value = nn.functional.mse_loss(outputs, targets)
        met.append(value.item() * len(targets))
        return value

    task = numbers(1, rows=10)
    fit = rm.deep.fit_stream(net(outputs=2), task, optimizer=sgd, epochs=1, batch_size=4, loss=loss)
    assert fit.losses[0][0] == pytest.approx(sum(met) / 10, rel=1e-12)


def test_the_matrix_holds_the_errors_of_the_model_after_each_task(net, labelled, sgd):
    stream = labelled(3)
    fit = rm.deep.fit_stream(net(outputs=6), stream, optimizer=sgd, epochs=4, batch_size=8)
    for j in range(4):
        model = net(outputs=6)
        if j:
            rm.deep.fit_stream(model, stream[:j], optimizer=sgd, epochs=4, batch_size=8)
        for i, task in enumerate(stream):
            answers = model(torch.as_tensor(task.X_test)).argmax(1).numpy()
            assert fit.matrix.values[i, j] == pytest.approx(np.mean(answers != task.Y_test))
    assert fit.matrix.loss == "zero_one" and fit.matrix.names == ("t0", "t1", "t2")
    assert fit.matrix.learner == "finetuning"


def test_numbers_are_measured_by_squared_error(net, numbers, sgd):
    stream = numbers()
    model = net(outputs=2)
    fit = rm.deep.fit_stream(model, stream, optimizer=sgd, epochs=30, batch_size=5)
    answers = model(torch.as_tensor(stream[1].X)).detach().numpy()
    assert fit.matrix.values[1, 2] == pytest.approx(np.mean((answers - stream[1].Y) ** 2), rel=1e-12)
    assert fit.matrix.values[1, 2] < fit.matrix.values[1, 0] / 2
    assert fit.labels == ()


def test_one_number_a_row_may_come_without_a_column(net, numbers, sgd, same):
    task = numbers(1, outputs=1)[0]
    flat = rm.Task("flat", task.X, task.Y[:, 0])
    ours, theirs = net(outputs=1), net(outputs=1)
    a = rm.deep.fit_stream(ours, [flat], optimizer=sgd, epochs=3)
    b = rm.deep.fit_stream(theirs, [task], optimizer=sgd, epochs=3)
    assert same(ours, theirs)
    np.testing.assert_array_equal(a.matrix.values, b.matrix.values)


def test_joint_training_learns_all_rows_in_one_heap(net, labelled, sgd, near):
    stream, ours = labelled(), net()
    fit = rm.deep.joint(ours, stream, optimizer=sgd, epochs=9, batch_size=48)
    heap = [(np.concatenate([t.X for t in stream]), np.concatenate([t.Y for t in stream]))]
    assert near(ours, by_hand(sgd, net(), heap, nn.functional.cross_entropy, 9))
    np.testing.assert_array_equal(fit.matrix.values[:, 1], fit.matrix.values[:, 2])
    assert fit.matrix.learner == "joint training" and len(fit.losses[0]) == 9 and fit.losses[1] == ()


def test_the_same_seed_gives_the_same_bits_and_no_global_seed_is_touched(net, labelled, sgd, same):
    def drop():
        model = net(outputs=4)
        return nn.Sequential(model[0], nn.Dropout(0.5), model[1], model[2])

    before, legacy = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    fits = []
    for seed, mess in ((0, 1), (0, 2), (1, 1)):
        with torch.random.fork_rng():
            torch.manual_seed(mess)
            model = drop()
            fits.append(
                (model, rm.deep.fit_stream(model, labelled(), optimizer=sgd, epochs=2, batch_size=5, seed=seed))
            )
    assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(legacy, np.random.get_state()[1])  # noqa: NPY002
    assert same(fits[0][0], fits[1][0])
    assert fits[0][1].losses == fits[1][1].losses
    assert fits[0][1].losses != fits[2][1].losses


def test_dropout_draws_anew_in_every_epoch(labelled, sgd):
    draws = []

    class Spy(nn.Dropout):
        def forward(self, x):
            out = super().forward(x)
            if self.training:
                draws.append((out != 0).clone())
            return out

    model = nn.Sequential(nn.Linear(6, 12), Spy(0.5), nn.Linear(12, 4)).double()
    rm.deep.fit_stream(model, labelled(1), optimizer=sgd, epochs=2, batch_size=24)
    assert len(draws) == 2 and not torch.equal(*draws)


def test_the_modes_and_gradients_of_the_model_are_left_as_found(net, labelled, sgd):
    model = net().eval()
    rm.deep.fit_stream(model, labelled(), optimizer=sgd, epochs=1)
    assert not any(module.training for module in model.modules())
    assert all(p.grad is None for p in model.parameters())


def test_closures_of_line_searches_are_served(net, numbers):
    lbfgs = lambda p: torch.optim.LBFGS(p, line_search_fn="strong_wolfe")
    fit = rm.deep.fit_stream(net(outputs=2), numbers(1), optimizer=lbfgs, epochs=3, batch_size=20)
    assert fit.losses[0][2] < fit.losses[0][0] / 3


def test_a_model_in_single_precision_takes_rows_in_double(net, labelled, sgd):
    fit = rm.deep.fit_stream(net().float(), labelled(), optimizer=sgd, epochs=1)
    assert np.isfinite(fit.matrix.values).all()


def test_read_only_rows_are_taken_without_a_warning(net, labelled, sgd, recwarn):
    task = labelled(1)[0]
    for array in (task.X, task.X_test, task.Y):
        array.flags.writeable = False
    rm.deep.fit_stream(net(), [task], optimizer=sgd)
    assert not [w for w in recwarn if "writ" in str(w.message)]


def test_a_fit_prints_what_happened(net, labelled, sgd):
    text = str(rm.deep.fit_stream(net(), labelled(), optimizer=sgd, epochs=3))
    assert "finetuning: zero_one error" in text and "t1" in text and "mean error of all tasks at the end" in text
    assert "–" in str(rm.deep.joint(net(), labelled(), optimizer=sgd))


def test_the_progress_bar_counts_steps_and_shows_the_task(net, labelled, sgd, monkeypatch):
    import io

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", terminal)
    stream = labelled()
    rm.deep.fit_stream(net(), stream, optimizer=sgd, epochs=3, batch_size=8, progress=True)
    written = terminal.getvalue()
    assert "18/18" in written and "task 2/2, epoch 3" in written


def test_the_example_of_its_documentation_is_true():
    runner = doctest.DocTestRunner()
    for example in doctest.DocTestFinder().find(rm.deep.fit_stream, "fit_stream", globs={}):
        runner.run(example)
    assert runner.tries == 6 and runner.failures == 0
