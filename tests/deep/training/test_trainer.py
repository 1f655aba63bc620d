"""Guards and validation rows inside the training loop."""

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=0.01)


def answers(model, task, *where):
    return model(torch.as_tensor(task.X), *where).detach()


def test_what_was_absorbed_stays_while_the_next_tasks_are_learned(net, labelled):
    stream, model = labelled(3, rows=6, inputs=30), net(30, 6, 40)
    guard = rm.deep.GradientProjection(model)
    rm.deep.fit_stream(model, stream[:1], optimizer=adam, guard=guard, epochs=20, batch_size=4)
    old, new = answers(model, stream[0]), answers(model, stream[1])
    fit = rm.deep.fit_stream(model, stream[1:], optimizer=adam, guard=guard, epochs=20, batch_size=4)
    torch.testing.assert_close(answers(model, stream[0]), old, rtol=0, atol=1e-11)
    assert (answers(model, stream[1]) - new).abs().max() > 0.1 and fit.losses[0][-1] < fit.losses[0][0]
    assert [report.tasks for report in fit.reports] == [2, 3]
    assert fit.matrix.learner == "GradientProjection(energy=1.0)"


def test_without_a_guard_the_same_training_forgets(net, labelled):
    stream, model = labelled(3, rows=6, inputs=30), net(30, 6, 40)
    rm.deep.fit_stream(model, stream[:1], optimizer=adam, epochs=20, batch_size=4)
    old = answers(model, stream[0])
    rm.deep.fit_stream(model, stream[1:], optimizer=adam, epochs=20, batch_size=4)
    assert (answers(model, stream[0]) - old).abs().max() > 1.0


def test_a_head_of_its_own_is_protected_for_its_own_task_only(net, labelled):
    stream, model = labelled(2, rows=6, inputs=30), net(30, 4, 40)
    model = rm.deep.MultiHead(nn.Sequential(model[0], model[1]), 40, [2, 2]).double()
    guard = rm.deep.GradientProjection(model)
    rm.deep.fit_stream(model, stream[:1], optimizer=adam, guard=guard, epochs=20, heads="task")
    old = answers(model, stream[0], 0)
    fit = rm.deep.fit_stream(model, stream, optimizer=adam, guard=guard, epochs=20, heads="task", absorb_samples=2)
    torch.testing.assert_close(answers(model, stream[0], 0), old, rtol=0, atol=1e-11)
    last = {layer.name: layer for layer in fit.reports[-1].layers}
    assert (last["heads.0"].rows, last["heads.1"].rows, last["trunk.0"].rows) == (6 + 2, 2, 6 + 2 + 2)


@pytest.mark.parametrize("of", ["logits", "label", "loss"])
@pytest.mark.parametrize("heads", ["single", "task"])
def test_gradients_are_taken_of_the_outputs_that_compete_and_the_labels_among_them(net, labelled, of, heads):
    stream, model = labelled(2, rows=6), net(6, 4, 20)
    guard = rm.deep.OGD(model, of=of)
    fit = rm.deep.fit_stream(model, stream, optimizer=adam, guard=guard, epochs=3, heads=heads, absorb_samples=5)
    outputs = {"single": 4, "task": 2}[heads] if of == "logits" else 1
    assert [report.rows for report in fit.reports] == [5 * outputs, 10 * outputs]


def test_rows_to_absorb_are_drawn_from_the_rows_that_were_trained_on(net):
    absorbed, trained = [], []

    class Notes(rm.deep.OWM):
        def absorb(self, batches, forward):
            batches = list(batches)
            absorbed.append(torch.cat(batches)[:, 0].tolist())
            return super().absorb(batches, forward)

    def loss(outputs, targets):
        if torch.is_grad_enabled():
            trained.extend(targets[:, 0].tolist())
        return nn.functional.mse_loss(outputs, targets)

    X = np.random.default_rng(0).standard_normal((100, 6))
    task = [rm.Task("first input", X, X[:, :2])]  # a target that tells which row it belongs to
    for seed in (0, 0, 1):
        model = net(outputs=2)
        settings = {"guard": Notes(model), "validation": 0.2, "absorb_samples": 70, "seed": seed}
        rm.deep.fit_stream(model, task, optimizer=adam, loss=loss, **settings)
    assert absorbed[0] == absorbed[1] != absorbed[2]
    assert len(trained) == 3 * 80 and len(set(absorbed[0])) == 70
    assert set(absorbed[0]) <= set(trained[:80])


def test_a_task_ends_with_the_weights_that_were_best_on_the_validation_rows(net, numbers, same):
    stream = numbers(1, rows=30)
    wild = lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9)
    settings = {"optimizer": wild, "batch_size": 4, "validation": 0.3}
    model = net(outputs=2)
    fit = rm.deep.fit_stream(model, stream, epochs=50, patience=4, **settings)
    aside = fit.validation_losses[0]
    best = int(np.argmin(aside))
    assert len(aside) == len(fit.losses[0]) == best + 1 + 4 < 50
    short = net(outputs=2)
    rm.deep.fit_stream(short, stream, epochs=best + 1, **settings)
    assert same(model, short)
    longer = net(outputs=2)
    rm.deep.fit_stream(longer, stream, epochs=len(aside), **settings)
    assert same(model, longer), "whether or not it was patience that ended it"


def test_validation_rows_are_not_trained_on_and_no_row_is_lost(net, numbers):
    seen = {True: [], False: []}

    def loss(outputs, targets):
        seen[torch.is_grad_enabled()].extend(targets[:, 0].tolist())
        return nn.functional.mse_loss(outputs, targets)

    task = numbers(1, rows=20)
    rm.deep.fit_stream(net(outputs=2), task, optimizer=adam, loss=loss, validation=0.25)
    assert len(seen[True]) == 15 and len(seen[False]) == 5
    assert sorted(seen[True] + seen[False]) == sorted(task[0].Y[:, 0])


def test_the_learning_rate_falls_on_a_plateau_of_the_validation_loss_and_its_floor_ends_the_task(net, labelled):
    told = []

    class Plateau(torch.optim.lr_scheduler.ReduceLROnPlateau):
        def step(self, metrics, epoch=None):
            told.append(metrics)
            super().step(metrics)

    still = lambda p: torch.optim.SGD(p, lr=1e-30)  # nothing moves: a plateau from the first epoch on
    halve = lambda optimizer: Plateau(optimizer, factor=0.5, patience=1, eps=0.0)
    settings = {"optimizer": still, "scheduler": halve, "epochs": 50, "min_lr": 0.3e-30}
    fit = rm.deep.fit_stream(net(), labelled(1), validation=0.25, **settings)
    assert tuple(told) == fit.validation_losses[0]
    assert len(told) == 5, "two epochs for each halving after the first, until a quarter is left"
    told.clear()
    fit = rm.deep.fit_stream(net(), labelled(1), **settings)
    assert tuple(told) == fit.losses[0] and fit.validation_losses == ((),)
