"""What cannot be trained raises an error with advice, and errors change nothing."""

import copy

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"optimizer": "sgd"}, "lambda parameters"),
        ({"optimizer": lambda p: 3}, "return a torch optimizer"),
        ({"scheduler": 3}, "lambda optimizer"),
        ({"scheduler_step": "step"}, "'epoch' or 'batch'"),
        (
            {"scheduler_step": "batch", "scheduler": torch.optim.lr_scheduler.ReduceLROnPlateau},
            "needs the loss of an epoch",
        ),
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"validation": 1.0}, "validation"),
        ({"patience": 3}, "validation=0.1"),
        ({"absorb_samples": 0}, "absorb_samples"),
        ({"seed": -1}, "seed"),
        ({"loss": "hinge"}, "cross_entropy"),
        ({"loss": "squared"}, "expected a model of 1 outputs"),
        ({"heads": "many"}, "'single' or 'task'"),
        ({"error": "hinge"}, "zero_one"),
        ({"guard": "gp"}, "GradientProjection"),
        ({"grow": "1"}, "there are \\['0', '2'\\]"),
        ({"grow": "2", "heads": "task"}, "heads='single'"),
        ({"grow": "2", "keep_optimizer": True}, "new parameters"),
        ({"checkpoint": __file__ + "/there/ckpt"}, "folder"),
    ],
)
def test_settings_that_make_no_sense_raise_an_error(net, labelled, sgd, same, settings, advice):
    model = net()
    with pytest.raises((rm.InputError, rm.FileError), match=advice):
        rm.deep.fit_stream(model, labelled(), **{"optimizer": sgd, **settings})
    assert same(model, net())


def test_models_that_do_not_fit_the_stream_raise_an_error(net, labelled, numbers, sgd):
    stream, fit = labelled(), rm.deep.fit_stream
    with pytest.raises(rm.InputError, match="4 labels of the stream, the model has 3"):
        fit(net(outputs=3), stream, optimizer=sgd)
    with pytest.raises(rm.InputError, match=r"nn\.Flatten"):
        fit(net(inputs=5), stream, optimizer=sgd)
    with pytest.raises(rm.InputError, match=r"torch\.nn\.Module"):
        fit(lambda x: x, stream, optimizer=sgd)
    with pytest.raises(rm.InputError, match="requires_grad"):
        fit(net().requires_grad_(False), stream, optimizer=sgd)
    with pytest.raises(rm.InputError, match="without any"):
        fit(nn.Identity(), stream, optimizer=sgd)
    with pytest.raises(rm.InputError, match="of 3 outputs, as Y has, got 2"):
        fit(net(outputs=2), numbers(outputs=3), optimizer=sgd)
    with pytest.raises(rm.InputError, match="guard of this model"):
        fit(net(), stream, optimizer=sgd, guard=rm.deep.OWM(net()))
    with pytest.raises(rm.InputError, match="tuple"):
        fit(nn.RNN(6, 4).double(), stream, optimizer=sgd)
    with pytest.raises(rm.InputError, match=r"one of shape \(2, 4, 1\)"):
        fit(nn.Sequential(net(), nn.Unflatten(1, (4, 1))), stream, optimizer=sgd)
    with pytest.raises(rm.InputError, match="loss 'cross_entropy'"):
        fit(net(outputs=2), numbers(), optimizer=sgd, loss="cross_entropy")
    with pytest.raises(rm.InputError, match="list of tasks"):
        fit(net(), stream[0], optimizer=sgd)


def test_heads_that_do_not_fit_the_stream_raise_an_error(net, labelled, numbers, sgd):
    stream, fit = labelled(), rm.deep.fit_stream
    heads = lambda *outputs: rm.deep.MultiHead(nn.Identity(), 6, outputs).double()
    with pytest.raises(rm.InputError, match="heads='task'"):
        fit(heads(2, 2), stream, optimizer=sgd)
    with pytest.raises(rm.InputError, match="2 tasks, the model has 1"):
        fit(heads(2), stream, optimizer=sgd, heads="task")
    with pytest.raises(rm.InputError, match="2 labels of task 't1', got one of 1"):
        fit(heads(2, 1), stream, optimizer=sgd, heads="task")
    with pytest.raises(rm.InputError, match="heads of 2 outputs"):
        fit(heads(2, 1), numbers(), optimizer=sgd, heads="task")
    with pytest.raises(rm.InputError, match="expected a MultiHead"):
        fit(net(outputs=2), numbers(), optimizer=sgd, heads="task")


def test_a_guard_that_cannot_grow_a_layer_raises_an_error(net, labelled, sgd):
    model = net(outputs=2)
    with pytest.raises(rm.InputError, match="OGD cannot grow"):
        rm.deep.fit_stream(model, labelled(), optimizer=sgd, guard=rm.deep.OGD(model), grow="2")


def test_a_last_batch_of_one_row_raises_an_error_where_batch_norm_would_fail_on_it(net, labelled, sgd):
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)).double()
    with pytest.raises(rm.InputError, match="24 rows in batches of 23"):
        rm.deep.fit_stream(model, labelled(), optimizer=sgd, batch_size=23)
    rm.deep.fit_stream(model, labelled(), optimizer=sgd, batch_size=22)
    rm.deep.fit_stream(net(), labelled(), optimizer=sgd, batch_size=23)


@pytest.mark.parametrize("share", [0.01, 0.99])
def test_a_share_that_leaves_no_rows_on_one_side_raises_an_error(net, labelled, sgd, share):
    with pytest.raises(rm.InputError, match="in task 't0'; change validation=0"):
        rm.deep.fit_stream(net(), labelled(), optimizer=sgd, validation=share)


class Stumbling:
    """A loss that raises at a given call."""

    def __init__(self, at):
        self.left = at

    def __call__(self, outputs, targets):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return nn.functional.cross_entropy(outputs, targets)


@pytest.mark.parametrize("at", [0, 1, 8, 20])
def test_a_run_that_stops_half_way_leaves_the_model_and_the_guard_as_they_were(net, labelled, sgd, same, at):
    stream, model = labelled(3), net(outputs=2).eval()
    guard = rm.deep.OWM(model)
    guard.absorb([torch.as_tensor(stream[0].X)])
    memory = copy.deepcopy(guard.state_dict())
    parameters = list(model.parameters())
    with pytest.raises(KeyboardInterrupt):
        rm.deep.fit_stream(
            model, stream, optimizer=sgd, guard=guard, loss=Stumbling(at), grow="2", epochs=2, batch_size=7
        )
    assert same(model, net(outputs=2)) and model[2].out_features == 2 and not model.training
    assert all(p is q for p, q in zip(parameters, model.parameters(), strict=True))
    after = guard.state_dict()
    assert after["tasks"] == memory["tasks"] == 1
    for name, layer in memory["layers"].items():
        assert all(torch.equal(value, after["layers"][name][k]) for k, value in layer.items() if k != "rows")


def test_a_loss_that_is_no_number_ends_the_run_and_nothing_is_kept(sgd, net, numbers, same):
    model = net(outputs=2)
    wild = lambda p: torch.optim.SGD(p, lr=1e200)
    with pytest.raises(rm.NumericalError, match=r"task 1, epoch 2.*smaller learning rate"):
        rm.deep.fit_stream(model, numbers(), optimizer=wild, epochs=5, batch_size=20)
    assert same(model, net(outputs=2))
    blind = lambda outputs, y: nn.functional.mse_loss(outputs, y) / torch.is_grad_enabled()
    with pytest.raises(rm.NumericalError, match="validation loss became inf in task 1, epoch 1"):
        rm.deep.fit_stream(model, numbers(), optimizer=sgd, loss=blind, validation=0.2)
    assert same(model, net(outputs=2))
