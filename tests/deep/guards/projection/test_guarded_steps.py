"""Changes inside a block other than guarded steps are restored, with a warning when the block ends."""

import warnings

import pytest

import remanence as rm

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim

MOVED = r"changed inside protect\(\) other than by a step of its optimizers.*restored"


def loss_of(net, x):
    return (net(x) - 1).square().mean()


def second_optimizer(net, guarded, new):
    other = optim.SGD(net[2:].parameters(), lr=0.1)
    other.step()
    guarded.step()


def clamped(net, guarded, new):
    guarded.step()
    with torch.no_grad():
        for p in net.parameters():
            p.clamp_(-0.1, 0.1)


def clamped_by_data(net, guarded, new):
    guarded.step()
    for p in net.parameters():
        p.data.clamp_(-0.1, 0.1)


@pytest.mark.parametrize("kind", [rm.deep.GradientProjection, rm.deep.OGD])
@pytest.mark.parametrize("move", [second_optimizer, clamped, clamped_by_data])
def test_a_warning_is_given_at_the_end_of_the_block(kind, move, started, moved):
    net, guard, old, new = started(make=kind)
    before = net[2].weight.detach().clone()
    guarded = optim.SGD(net.parameters(), lr=1e-3)
    with pytest.warns(UserWarning, match=MOVED) as told, guard.protect(guarded):
        for _ in range(3):
            guarded.zero_grad()
            loss_of(net, new).backward()
            move(net, guarded, new)
    assert len([w for w in told if "other than" in str(w.message)]) == 1
    assert told[0].filename == __file__
    assert not torch.equal(net[2].weight, before)
    if kind is rm.deep.GradientProjection:
        assert moved(net, old) < 1e-12


def test_frozen_tensors_and_embedding_rows_are_named_too(answers, moved):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(6, 8), nn.LayerNorm(8), nn.Linear(8, 2)).double()
    guard = rm.deep.GradientProjection(net)
    guard.absorb([torch.arange(3)])
    old = [(torch.arange(3), answers(net, torch.arange(3)))]
    guarded = optim.SGD(net[2].parameters(), lr=0.1)
    with pytest.warns(UserWarning, match=r"^1\.weight, 0 " + MOVED), guard.protect(guarded), torch.no_grad():
        net[0].weight += 1
        net[1].weight += 1
    assert moved(net, old) < 1e-15


def sam_step(net, base, new, rho=0.05):
    """Sharpness-aware minimisation: up the gradient, the gradient there, back again, and the step."""
    loss_of(net, new).backward()
    shift = [rho * p.grad for p in net.parameters()]
    with torch.no_grad():
        for p, s in zip(net.parameters(), shift, strict=True):
            p.add_(s)
    base.zero_grad()
    loss_of(net, new).backward()
    with torch.no_grad():
        for p, s in zip(net.parameters(), shift, strict=True):
            p.sub_(s)
    base.step()


def asked_with_other_weights(net, optimizer, new):
    """Other weights are loaded for prediction and replaced again, as with averaged weights."""
    loss_of(net, new).backward()
    optimizer.step()
    own = [p.detach().clone() for p in net.parameters()]
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(0.5)
        net(new)
        for p, value in zip(net.parameters(), own, strict=True):
            p.copy_(value)


def plain_step(net, optimizer, new):
    loss_of(net, new).backward()
    optimizer.step()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", [rm.deep.GradientProjection, rm.deep.OWM, rm.deep.OGD])
@pytest.mark.parametrize("step", [plain_step, sam_step, asked_with_other_weights])
def test_no_warning_for_values_that_end_unchanged(kind, step, dtype, started):
    if kind is rm.deep.OGD and dtype is torch.bfloat16:
        pytest.skip("per-sample gradients of this network are not made in bfloat16 here")
    net, guard, _, new = started(dtype, make=kind)
    optimizer = optim.AdamW(net.parameters(), lr=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with guard.protect(optimizer):
            for _ in range(5):
                optimizer.zero_grad()
                step(net, optimizer, new)


def test_what_was_reported_at_the_start_is_not_reported_again(started):
    net, guard, _, new = started()
    with torch.no_grad():
        net[0].weight += 0.1
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    for steps in (0, 2):
        with pytest.warns(UserWarning, match="changed outside") as told, guard.protect(optimizer):
            for _ in range(steps):
                plain_step(net, optimizer, new)
        assert len(told) == 1
        with torch.no_grad():
            net[0].weight += 0.1


def test_no_further_warning_after_an_exception(started, moved):
    net, guard, old, _ = started()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ZeroDivisionError), guard.protect(optimizer):
            with torch.no_grad():
                net[0].weight += 0.1
            raise ZeroDivisionError
    assert moved(net, old) < 1e-12


@pytest.mark.parametrize("kind", [rm.deep.GradientProjection, rm.deep.OWM])
def test_optimizers_that_step_during_the_backward_pass(kind, started, moved):
    """One optimizer a parameter, stepped by a hook as soon as its gradient is there."""
    net, guard, old, new = started(make=kind)
    optimizers = {p: optim.SGD([p], lr=0.05) for p in net.parameters()}

    def step(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    hooks = [p.register_post_accumulate_grad_hook(step) for p in net.parameters()]
    with guard.protect(*optimizers.values()):
        losses = []
        for _ in range(10):
            loss = loss_of(net, new)
            loss.backward()
            losses.append(float(loss.detach()))
            if kind is rm.deep.GradientProjection:
                assert moved(net, old) < 1e-12
    for hook in hooks:
        hook.remove()
    assert losses[-1] < 0.9 * losses[0]
    if kind is rm.deep.GradientProjection:
        assert moved(net, old) < 1e-12


def test_a_guard_of_all_parameters_together_cannot_step_during_the_backward_pass(started):
    net, guard, _, new = started(make=rm.deep.OGD)
    optimizers = {p: optim.SGD([p], lr=0.05) for p in net.parameters()}
    for p in net.parameters():
        p.register_post_accumulate_grad_hook(lambda p: optimizers[p].step())
    with (
        pytest.raises(rm.InputError, match=r"during the backward pass.*GradientProjection or OWM"),
        guard.protect(*optimizers.values()),
    ):
        loss_of(net, new).backward()


class WithTeacher(nn.Module):
    """Answers with a second network that follows the first without gradients."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.student, self.teacher = nn.Linear(10, 3), nn.Linear(10, 3).requires_grad_(False)
        self.code = nn.Parameter(torch.zeros(3), requires_grad=False)

    def forward(self, x):
        return self.student(x) + self.teacher(x) + self.code

    def follow(self):
        for p, q in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
            p.data.lerp_(q.data, 0.5)
        with torch.no_grad():
            self.code += 0.1


@pytest.mark.parametrize("kind", [rm.deep.GradientProjection, rm.deep.OWM, rm.deep.OGD])
def test_what_moves_without_gradients_is_named_when_the_block_ends(kind, rows):
    net, x = WithTeacher().double(), rows(3, 10)
    guard = kind(net)
    guard.absorb([x])
    optimizer = optim.SGD(net.student.parameters(), lr=0.1)
    named = r"^code, teacher\.weight, teacher\.bias changed .*require gradients.*frozen="
    with pytest.warns(UserWarning, match=named) as told, guard.protect(optimizer):
        loss_of(net, rows(3, 10, seed=1)).backward()
        optimizer.step()
        net.follow()
    assert len(told) == 1 and told[0].filename == __file__
    for names, held in (({"frozen": ["teacher", "code"]}, True), ({"free": ["teacher", "code"]}, False)):
        net = WithTeacher().double()
        guard = kind(net, **names)
        guard.absorb([x])
        before = net.teacher.weight.detach().clone()
        optimizer = optim.SGD(net.student.parameters(), lr=0.1)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*no gradient")
            warnings.filterwarnings("ignore", message=".*other than by a step")
            with guard.protect(optimizer):
                loss_of(net, rows(3, 10, seed=1)).backward()
                optimizer.step()
                net.follow()
        assert torch.equal(net.teacher.weight, before) == held


@pytest.mark.parametrize("kind", [rm.deep.GradientProjection, rm.deep.OGD])
def test_a_training_that_diverges_is_named_as_such(kind, started):
    net, guard, _, new = started(make=kind)
    optimizer = optim.SGD(net.parameters(), lr=float("inf"))
    with pytest.warns(UserWarning, match="became NaN or infinite.*diverged") as told, guard.protect(optimizer):
        loss_of(net, new).backward()
        optimizer.step()
    assert not any("restored" in str(w.message) for w in told)
