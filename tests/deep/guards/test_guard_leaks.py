"""Why the step is projected and not the gradient: each shortcut below changes old outputs, the guard does not.

The shortcut is what is often done: P = I − UUᵀ of the features, G ← G P before the optimizer's step.
"""

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim


def with_ones(x):
    return torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1)


def projectors(net, x, biases=True):
    """I − UUᵀ of each layer's inputs at the current weights, by layer."""
    found = {}
    for layer in net:
        if isinstance(layer, nn.Linear):
            X = (with_ones(x) if biases else x).detach()
            found[layer] = torch.eye(X.shape[1], dtype=X.dtype) - torch.linalg.pinv(X) @ X
        x = layer(x)
    return found


def project_gradients(found, biases=True):
    for layer, P in found.items():
        if biases:
            G = torch.cat([layer.weight.grad, layer.bias.grad[:, None]], 1) @ P
            layer.weight.grad, layer.bias.grad = G[:, :-1].clone(), G[:, -1].clone()
        else:
            layer.weight.grad = layer.weight.grad @ P


def gradient(net, x):
    net.zero_grad()
    (net(x) - 1).square().mean().backward()


def short_cut(net, optimizer, old, new, biases=True, found=None):
    found = projectors(net, old, biases) if found is None else found
    for _ in range(10):
        gradient(net, new)
        project_gradients(found, biases)
        optimizer.step()


def guarded(net, optimizer, guard, new):
    with guard.protect(optimizer):
        for _ in range(10):
            gradient(net, new)
            optimizer.step()


OPTIMIZERS = {
    "momentum carried over": lambda p: optim.SGD(p, lr=0.01, momentum=0.9),
    "Adam's scaling": lambda p: optim.Adam(p, lr=0.01),
    "weight decay": lambda p: optim.SGD(p, lr=0.01, weight_decay=0.1),
}


def first_task(mlp, rows, make):
    net, x = mlp(), rows(3, 10)
    optimizer = make(net.parameters())
    for _ in range(10):
        gradient(net, x)
        optimizer.step()
    return net, x, optimizer


@pytest.mark.parametrize("why", OPTIMIZERS)
def test_a_projected_gradient_leaks_through_the_optimizer(why, mlp, rows, moved, answers):
    net, x, optimizer = first_task(mlp, rows, OPTIMIZERS[why])
    old = [(x, answers(net, x))]
    short_cut(net, optimizer, x, rows(3, 10, seed=1))
    assert moved(net, old) > 1e-4

    net, x, optimizer = first_task(mlp, rows, OPTIMIZERS[why])
    guard = rm.deep.GradientProjection(net)
    guard.absorb([x])
    guarded(net, optimizer, guard, rows(3, 10, seed=1))
    assert moved(net, old) < 1e-13


def test_the_short_cut_is_exact_for_plain_gradient_descent(mlp, rows, moved, answers):
    """So it is the optimizers above that leak, not a mistake in the short cut."""
    net, x, optimizer = first_task(mlp, rows, lambda p: optim.SGD(p, lr=0.01))
    old = [(x, answers(net, x))]
    short_cut(net, optimizer, x, rows(3, 10, seed=1))
    assert moved(net, old) < 1e-13


def test_a_bias_outside_the_projection_leaks(mlp, rows, moved, answers):
    net, x, optimizer = first_task(mlp, rows, lambda p: optim.SGD(p, lr=0.01))
    old = [(x, answers(net, x))]
    short_cut(net, optimizer, x, rows(3, 10, seed=1), biases=False)
    assert moved(net, old) > 1e-2


def test_features_from_before_the_tasks_own_update_leak(mlp, rows, moved, answers):
    net, x, optimizer = first_task(mlp, rows, lambda p: optim.SGD(p, lr=0.05))
    early = dict(
        zip((layer for layer in net if isinstance(layer, nn.Linear)), projectors(mlp(), x).values(), strict=True)
    )
    old = [(x, answers(net, x))]
    short_cut(net, optimizer, x, rows(3, 10, seed=1), found=early)
    assert moved(net, old) > 1e-3
