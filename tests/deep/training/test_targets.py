"""What outputs stand for: one head for all labels, heads by task, a head that grows."""

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402


def plain(parameters):
    """No momentum, no decay: a parameter without a gradient does not move."""
    return torch.optim.SGD(parameters, lr=0.1)


def many_heads(net, tasks=3, outputs=2):
    model = net()
    heads = rm.deep.MultiHead(nn.Sequential(model[0], model[1]), 12, [outputs] * tasks).double()
    with torch.no_grad():
        for p in heads.heads.parameters():
            p.copy_(torch.linspace(-0.5, 0.5, p.numel()).reshape(p.shape))
    return heads


def answers_given(model, stream, **settings):
    """The predictions behind the matrix, recorded by a custom error."""
    seen = []

    def look(prediction, target):
        seen.append(np.asarray(prediction))
        return float(np.mean(prediction != target))

    fit = rm.deep.fit_stream(model, stream, error=look, **settings)
    return fit, seen


@pytest.mark.parametrize(
    "names", [np.array(["a", "b", "c", "dd"]), np.array([7, -3, 20, 5]), np.array([0.5, 2, -1, 3])]
)
def test_labels_of_any_kind_are_learned_as_the_numbers_of_outputs(net, labelled, sgd, names):
    stream = [rm.Task(t.name, t.X, names[t.Y], t.X_test, names[t.Y_test]) for t in labelled()]
    model = net()
    fit = rm.deep.fit_stream(model, stream, optimizer=sgd, epochs=20, loss="cross_entropy")
    assert fit.matrix.values[1, 2] <= 0.1 and fit.matrix.loss == "zero_one"
    np.testing.assert_array_equal(fit.labels[0], np.sort(names))
    answers = fit.labels[1][model(torch.as_tensor(stream[1].X_test)).argmax(1).numpy()]
    assert np.mean(answers != stream[1].Y_test) == fit.matrix.values[1, 2]


def test_integer_labels_that_are_output_indices_are_used_as_they_are(net, labelled, sgd):
    model = net(outputs=9)
    later = [rm.Task(t.name, t.X, t.Y + 5, t.X_test, t.Y_test + 5) for t in labelled()]
    fit = rm.deep.fit_stream(model, later, optimizer=sgd, epochs=20)
    assert model(torch.as_tensor(later[1].X)).argmax(1).min() >= 7
    np.testing.assert_array_equal(fit.labels[0], np.arange(9))


def test_with_heads_by_task_only_the_labels_of_the_task_compete(net, labelled):
    stream, model = labelled(3), net(outputs=6)
    before = model[2].weight.detach().clone()
    _, answers = answers_given(model, stream[:2], optimizer=plain, epochs=3, batch_size=8, heads="task")
    assert len(answers) == 2 * 3
    for k, given in enumerate(answers):
        assert set(given) <= set(stream[k % 2].Y), "even before anything was learned"
    assert torch.equal(model[2].weight[4:], before[4:]), "the outputs of task 3 had no part in tasks 1 and 2"
    assert not torch.equal(model[2].weight[:4], before[:4])


def test_a_masked_head_is_trained_as_if_the_other_outputs_were_not_there(net, labelled, near):
    stream, ours, theirs = labelled(), net(), net()
    rm.deep.fit_stream(ours, stream[1:], optimizer=plain, epochs=6, batch_size=24, heads="task")
    optimizer, task = plain(theirs.parameters()), stream[1]
    for _ in range(6):
        optimizer.zero_grad()
        nn.functional.cross_entropy(theirs(torch.as_tensor(task.X))[:, 2:], torch.as_tensor(task.Y - 2)).backward()
        optimizer.step()
    assert near(ours, theirs)


def test_each_task_trains_its_own_head_and_leaves_the_others(net, labelled, sgd):
    stream, model = labelled(3), many_heads(net)
    before = [head.weight.detach().clone() for head in model.heads]
    first = rm.deep.fit_stream(model, stream[:2], optimizer=sgd, epochs=25, heads="task")
    moved = [not torch.equal(head.weight, old) for head, old in zip(model.heads, before, strict=True)]
    assert moved == [True, True, False]
    assert first.matrix.values[1, 2] <= 0.1
    np.testing.assert_array_equal(first.labels[1], [2, 3])
    task = stream[0]
    answers = first.labels[0][model(torch.as_tensor(task.X_test), 0).argmax(1).numpy()]
    assert first.matrix.values[0, 2] == np.mean(answers != task.Y_test)


def test_all_heads_side_by_side_are_the_heads(net):
    model, x = many_heads(net), torch.ones(5, 6, dtype=torch.float64)
    torch.testing.assert_close(model(x), torch.cat([model(x, t) for t in range(3)], dim=1), rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["mask", "heads"])
def test_joint_training_by_task_is_the_mean_of_the_losses_of_the_tasks(net, labelled, numbers, near, kind):
    stream = labelled(3)
    make = (lambda: net(outputs=6)) if kind == "mask" else (lambda: many_heads(net))
    ours, theirs = make(), make()
    rm.deep.joint(ours, stream, optimizer=plain, epochs=4, batch_size=72, heads="task")
    optimizer = plain(theirs.parameters())
    for _ in range(4):
        optimizer.zero_grad()
        for t, task in enumerate(stream):  # equal numbers of rows: the mean over rows is the mean over tasks
            x, y = torch.as_tensor(task.X), torch.as_tensor(task.Y - 2 * t)
            out = theirs(x)[:, 2 * t : 2 * t + 2] if kind == "mask" else theirs(x, t)
            (nn.functional.cross_entropy(out, y) / 3).backward()
        optimizer.step()
    assert near(ours, theirs)


def test_heads_of_numbers_one_after_the_other_and_together(net, numbers, sgd, near):
    stream = numbers(3)
    fit = rm.deep.fit_stream(many_heads(net), stream, optimizer=sgd, epochs=40, heads="task")
    assert (fit.matrix.values[[0, 1, 2], [1, 2, 3]] < fit.matrix.values[:, 0] / 2).all()
    ours, theirs = many_heads(net), many_heads(net)
    rm.deep.joint(ours, stream, optimizer=plain, epochs=3, batch_size=60, heads="task")
    optimizer = plain(theirs.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        for t, task in enumerate(stream):
            (nn.functional.mse_loss(theirs(torch.as_tensor(task.X), t), torch.as_tensor(task.Y)) / 3).backward()
        optimizer.step()
    assert near(ours, theirs)


@pytest.mark.parametrize("guarded", [False, True])
def test_a_head_grows_with_the_labels_that_come(net, labelled, sgd, guarded):
    stream, model = labelled(3), net(outputs=2)
    guard = rm.deep.OWM(model, damping=1.0) if guarded else None
    fit = rm.deep.fit_stream(model, stream, optimizer=sgd, guard=guard, epochs=20, batch_size=8, grow="2")
    assert model[2].out_features == 6 and model[2].weight.shape == (6, 12) and len(model[2].bias) == 6
    unseen = [fit.matrix.values[i, j] for i in range(3) for j in range(1, i + 1)]
    assert unseen == [1.0, 1.0, 1.0], "no output predicts a label that has not appeared yet"
    assert fit.matrix.values[2, 3] <= 0.2
    np.testing.assert_array_equal(fit.labels[0], np.arange(6))


def test_labels_of_a_growing_head_stand_in_the_order_in_which_they_come(net, labelled, sgd):
    stream = labelled(3)[::-1]
    fit = rm.deep.fit_stream(net(outputs=1), stream, optimizer=sgd, epochs=20, batch_size=8, grow="2")
    np.testing.assert_array_equal(fit.labels[0], [4, 5, 2, 3, 0, 1])
    assert fit.matrix.values[2, 3] <= 0.2


def test_joint_training_grows_the_head_at_once(net, labelled, sgd):
    model = net(outputs=2)
    fit = rm.deep.joint(model, labelled(3), optimizer=sgd, epochs=40, batch_size=8, grow="2")
    assert model[2].out_features == 6 and fit.matrix.values[:, 1].max() <= 0.1


@pytest.mark.parametrize("outputs", [3, [], [2, 0]])
def test_heads_that_make_no_sense_raise_an_error(outputs):
    with pytest.raises(rm.InputError):
        rm.deep.MultiHead(nn.Identity(), 6, outputs)
