"""Orthogonal weight modification against its dense projector, and as it turns into gradient projection."""

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim


def values(layer):
    parts = [layer.weight] if layer.bias is None else [layer.weight, layer.bias[:, None]]
    return torch.cat(parts, 1).detach()


def with_ones(x):
    return torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1)


def precise_projector(X, damping):
    """α (α I + XᵀX)⁻¹ in fifty digits: in sixteen the inverse alone would lose seven of them."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(50):
        M = mpmath.matrix(X.tolist())
        P = damping * mpmath.inverse(damping * mpmath.eye(X.shape[1]) + M.T * M)
    return torch.tensor([[float(v) for v in row] for row in P.tolist()], dtype=torch.float64)


def random_steps(layer, optimizer, count, seed=0):
    """The optimizer's own steps along random gradients."""
    noise = torch.Generator().manual_seed(seed)
    for _ in range(count):
        for p in layer.parameters():
            if p.requires_grad:
                p.grad = torch.randn(p.shape, generator=noise, dtype=p.dtype)
        optimizer.step()


def twin_of(layer, optimizer):
    """The same layer without a guard, to see what step the optimizer would make."""
    twin = nn.Linear(layer.in_features, layer.out_features, bias=layer.bias is not None).double()
    twin.load_state_dict(layer.state_dict())
    return twin, optimizer(twin.parameters())


@pytest.mark.parametrize("damping", [1e-6, 0.1, 10.0])
@pytest.mark.parametrize("bias", [True, False])
def test_the_step_loses_what_the_dense_projector_takes(damping, bias, rows):
    layer = nn.Linear(7, 3, bias=bias).double()
    guard = rm.deep.OWM(layer, damping=damping)
    old = rows(5, 7)
    guard.absorb([old[:2]])
    guard.absorb([old[2:4], old[4:]])
    X = with_ones(old) if bias else old
    eye = torch.eye(X.shape[1], dtype=torch.float64)
    P = precise_projector(X, damping)
    before = values(layer)
    make = lambda p: optim.SGD(p, lr=0.1, momentum=0.9)
    twin, theirs = twin_of(layer, make)
    ours = make(layer.parameters())
    random_steps(twin, theirs, 4)
    with guard.protect(ours):
        random_steps(layer, ours, 4)
    expected = before + (values(twin) - before) @ P  # every step is projected, and P is linear
    assert (values(layer) - expected).abs().max() < 1e-12
    strength = torch.linalg.eigvalsh(eye - P)
    assert guard.capacity()["linear"] == pytest.approx(float(strength.mean()))


@pytest.mark.parametrize("frozen", ["bias", "weight"])
@pytest.mark.parametrize("damping", [0.3, None])
def test_where_only_a_part_may_move_it_is_the_projector_of_that_part(frozen, damping, rows):
    layer = nn.Linear(7, 3).double()
    getattr(layer, frozen).requires_grad_(False)
    guard = rm.deep.GradientProjection(layer) if damping is None else rm.deep.OWM(layer, damping=damping)
    old = rows(4, 7)
    guard.absorb([old])
    X = old if frozen == "bias" else torch.ones(4, 1, dtype=torch.float64)
    eye = torch.eye(X.shape[1], dtype=torch.float64)
    P = eye - torch.linalg.pinv(X) @ X if damping is None else damping * torch.linalg.inv(damping * eye + X.T @ X)
    make = lambda p: optim.SGD([q for q in p if q.requires_grad], lr=0.1)
    before = values(layer)
    twin, theirs = twin_of(layer, lambda p: optim.SGD(p, lr=0.1))
    getattr(twin, frozen).requires_grad_(False)
    random_steps(twin, theirs, 3)
    ours = make(layer.parameters())
    with guard.protect(ours):
        random_steps(layer, ours, 3)
    moving = slice(0, 7) if frozen == "bias" else slice(7, 8)
    expected = before.clone()
    expected[:, moving] += (values(twin) - before)[:, moving] @ P
    assert (values(layer) - expected).abs().max() < 1e-12
    assert torch.equal(getattr(layer, frozen), getattr(twin, frozen))


@pytest.mark.parametrize("count", [2, 6])  # fewer and more directions than half of the inputs
@pytest.mark.parametrize("frozen", [None, "weight", "bias"])
def test_gradients_and_then_steps_lose_what_the_dense_projector_takes(count, frozen, rows):
    layer, damping = nn.Linear(7, 3).double(), 0.3
    if frozen:
        getattr(layer, frozen).requires_grad_(False)
    guard = rm.deep.OWM(layer, damping=damping)
    guard.absorb([old := rows(count, 7)])
    moving = {None: slice(0, 8), "weight": slice(7, 8), "bias": slice(0, 7)}[frozen]
    X, expected = with_ones(old)[:, moving], values(layer)
    P = damping * torch.linalg.inv(damping * torch.eye(X.shape[1], dtype=torch.float64) + X.T @ X)
    ours = optim.SGD([p for p in layer.parameters() if p.requires_grad], lr=0.1)
    with guard.protect(ours, gradients=True):
        for step in range(3):
            before = torch.Generator().manual_seed(step)
            G = torch.cat(
                [
                    torch.randn(p.shape, generator=before, dtype=p.dtype).reshape(3, -1)
                    for p in layer.parameters()
                    if p.requires_grad
                ],
                1,
            )  # as in random_steps
            random_steps(layer, ours, 1, seed=step)
            expected[:, moving] -= 0.1 * G @ P @ P
            seen = torch.cat([p.grad.reshape(3, -1) for p in layer.parameters() if p.requires_grad], 1)
            assert (seen - G @ P).abs().max() < 1e-12
            assert (values(layer) - expected).abs().max() < 1e-12


def test_freezing_and_thawing_inside_a_block_is_followed(rows):
    layer, damping = nn.Linear(7, 3).double(), 0.3
    guard = rm.deep.OWM(layer, damping=damping)
    old = rows(4, 7)
    guard.absorb([old])
    twin, theirs = twin_of(layer, lambda p: optim.SGD(p, lr=0.1))
    ours = optim.SGD(layer.parameters(), lr=0.1)
    expected = values(layer)
    X = with_ones(old)
    with guard.protect(ours):
        for step, moving in enumerate([slice(0, 8), slice(0, 7), slice(0, 8)]):
            for net in (layer, twin):
                net.zero_grad()
                net.bias.requires_grad_(moving.stop == 8)
            start = values(twin)
            random_steps(twin, theirs, 1, seed=step)
            random_steps(layer, ours, 1, seed=step)
            A = X[:, moving]
            P = damping * torch.linalg.inv(damping * torch.eye(A.shape[1], dtype=torch.float64) + A.T @ A)
            expected[:, moving] += (values(twin) - start)[:, moving] @ P
            assert (values(layer) - expected).abs().max() < 1e-12


def test_as_the_damping_falls_it_becomes_gradient_projection(mlp, rows, learn):
    def weights_after(make):
        net = mlp(hidden=20)
        guard = make(net)
        optimizer = optim.AdamW(net.parameters(), lr=0.01)
        for task in range(2):
            guard.absorb([rows(3, 10, seed=task)])
            learn(net, guard, rows(3, 10, seed=task + 1), optimizer, seed=task, steps=5)
        return torch.nn.utils.parameters_to_vector(net.parameters()).detach()

    limit = weights_after(rm.deep.GradientProjection)
    errors = [
        float((weights_after(lambda net, a=a: rm.deep.OWM(net, damping=a)) - limit).norm()) for a in (1e-3, 1e-5, 1e-7)
    ]
    assert errors[0] > 1e-5
    assert errors[1] < 0.05 * errors[0] and errors[2] < 0.05 * errors[1]
    assert errors[2] < 1e-6


def test_what_it_forgets_falls_with_the_damping(network, inputs, learn, moved, answers):
    shifts = []
    for damping in (1.0, 1e-3, 1e-6):
        net = network("cnn")
        guard = rm.deep.OWM(net, damping=damping)
        x = inputs("cnn", 0)
        guard.absorb([x])
        old = [(x, answers(net, x))]
        losses = learn(net, guard, inputs("cnn", 1), optim.AdamW(net.parameters(), lr=0.003), steps=8)
        assert losses[-1] < losses[0]
        shifts.append(moved(net, old))
    assert shifts[1] < 0.1 * shifts[0] and shifts[2] < 0.1 * shifts[1]


def test_a_full_layer_is_reported_to_learn_only_through_the_damping(rows):
    guard = rm.deep.OWM(nn.Linear(4, 2).double(), damping=1e-9)
    with pytest.warns(UserWarning, match=r"every direction of linear.*raise the damping"):
        guard.absorb([rows(50, 4)])


@pytest.mark.parametrize("damping", [0.0, -1.0, float("nan"), "much", {"linear": 0}, {"linear": None}, {"none": 1.0}])
def test_a_damping_that_is_no_positive_number_of_a_layer_raises_an_error(damping):
    with pytest.raises(rm.InputError, match="damping"):
        rm.deep.OWM(nn.Linear(2, 2), damping=damping)


def test_layers_may_have_dampings_of_their_own(mlp, rows):
    net, x = mlp(), rows(8, 10)
    some = rm.deep.OWM(net, {"2": 1e-3}).absorb([x])
    each = {damping: rm.deep.OWM(net, damping).absorb([x]) for damping in (1.0, 1e-3)}
    expected = [each[1.0].layers[0], each[1e-3].layers[1], each[1.0].layers[2]]  # 1 where none is named
    assert [layer.used for layer in some.layers] == [layer.used for layer in expected]
    assert each[1.0].layers[1].used < some.layers[1].used
