"""The extended Kalman filter of networks against the filters of small models and against dense Gaussian algebra."""

from functools import cache

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.func import functional_call  # noqa: E402

FORMS = ("full", "layers", "lowrank")


def network(outputs=2, hidden=4):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, outputs)).double()


def batches(features, outputs, sizes=(1, 5, 3, 20, 1), seed=1):
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal((n, features)), rng.standard_normal((n, outputs))) for n in sizes]


def function(net, x):
    """The network on a batch as a function of one vector of weights, all outputs concatenated."""
    shapes = [(name, p.shape) for name, p in net.named_parameters()]
    ends = np.cumsum([shape.numel() for _, shape in shapes])[:-1].tolist()

    def answers(theta):
        parts = torch.tensor_split(theta, ends)
        point = {name: part.reshape(shape) for (name, shape), part in zip(shapes, parts, strict=True)}
        return functional_call(net, point, (torch.as_tensor(x),)).flatten()

    return answers


def precision(learner):
    """What a learner knows of its weights, as one dense matrix."""
    known = learner.memory.covariance
    if learner.covariance == "full":
        return np.linalg.inv(known.cov)
    if learner.covariance == "lowrank":
        return np.diag(known.diagonal) + known.factor @ known.factor.T
    dense = np.zeros((learner.flat.size, learner.flat.size))
    for name, place in known.places.items():
        dense[place, place] = np.linalg.inv(known.covs[name])
    return dense


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("drift", [0.0, 0.1])
def test_a_linear_network_is_the_streaming_filter(form, drift):
    torch.manual_seed(0)
    net = nn.Linear(4, 3, bias=False).double()
    method = rm.Kalman(drift, 0.5, 2.0)
    state = method.init(4, 3, net.weight.detach().numpy().T)
    learner = rm.deep.EKF(net, 0.5, drift, 2.0, covariance=form, rank=12)
    for X, Y in batches(4, 3):
        errors = learner.step(X, Y)
        state, expected = method.track(state, X, Y)
        np.testing.assert_allclose(net.weight.detach().numpy().T, method.weights(state), atol=1e-10)
        np.testing.assert_allclose(errors, expected, atol=1e-10)
    cov = np.linalg.inv(precision(learner))
    np.testing.assert_allclose(cov[:4, :4], state.best.known.cov, atol=1e-10)


@pytest.mark.parametrize("form", ["full", "lowrank"])
@pytest.mark.parametrize("per_weight", [True, False])
def test_a_network_is_the_extended_filter_of_its_weights(form, per_weight):
    """With as many directions as weights the low-rank form drops nothing and is the filter too, drift and all."""
    net = network()
    rng = np.random.default_rng(2)
    noise = np.array([0.1, 0.3])
    size = sum(p.numel() for p in net.parameters())
    Q = rng.uniform(0, 0.02, size) if per_weight else np.full(size, 0.01)
    data = batches(3, 2, sizes=(3, 3, 3, 3))
    mean = torch.cat([p.detach().flatten() for p in net.parameters()]).numpy()
    expected = rm.kalman.extended(
        lambda theta: theta,
        [function(network(), x) for x, _ in data],
        np.array([y.ravel() for _, y in data]),
        Q=np.diag(Q),
        R=np.diag(np.tile(noise, 3)),
        mean=mean,
        cov=np.eye(size) / 1.5,
    )
    learner = rm.deep.EKF(net, noise, Q if per_weight else 0.01, 1.5, covariance=form, rank=size)
    for t, (x, y) in enumerate(data):
        learner.step(x, y)
        np.testing.assert_allclose(learner.flat.vector(), expected.mean[t], atol=1e-10)
        np.testing.assert_allclose(np.linalg.inv(precision(learner)), expected.cov[t], atol=1e-9)


def test_the_layers_are_the_diagonal_blocks_of_the_full_update():
    net = network()
    learner = rm.deep.EKF(net, 0.2, 0.01, covariance="layers")
    size, first = learner.flat.size, 16
    P = np.eye(size)
    for t, (x, y) in enumerate(batches(3, 2)):
        theta = learner.flat.vector().numpy()
        outputs, J = (v.numpy() for v in learner.flat.linearized(torch.from_numpy(x)))
        J = J.reshape(-1, size)
        P = P + 0.01 * np.eye(size) * (t > 0)
        K = P @ J.T @ np.linalg.inv(J @ P @ J.T + 0.2 * np.eye(len(J)))
        P = P - K @ J @ P
        P[:first, first:] = P[first:, :first] = 0
        learner.step(x, y)
        np.testing.assert_allclose(learner.flat.vector(), theta + K @ (y - outputs).ravel(), atol=1e-10)
        np.testing.assert_allclose(np.linalg.inv(precision(learner)), P, atol=1e-10)
    assert set(learner.memory.covariance.places) == {"0", "2"}


def test_low_rank_steps_are_exact_and_what_is_dropped_stays_on_the_diagonal():
    """One step from a given state: the mean of the exact information, and its diagonal, whatever the rank."""
    learner = rm.deep.EKF(network(), 0.2, covariance="lowrank", rank=3)
    size = learner.flat.size
    for x, y in batches(3, 2, sizes=(2, 4, 1)):
        theta, before = learner.flat.vector().numpy(), precision(learner)
        outputs, J = (v.numpy() for v in learner.flat.linearized(torch.from_numpy(x)))
        J = J.reshape(-1, size)
        exact = before + J.T @ J / 0.2
        learner.step(x, y)
        change = np.linalg.solve(exact, J.T @ (y - outputs).ravel() / 0.2)
        np.testing.assert_allclose(learner.flat.vector(), theta + change, atol=1e-10)
        np.testing.assert_allclose(np.diag(precision(learner)), np.diag(exact), rtol=1e-10)
        assert learner.memory.covariance.factor.shape == (size, 3)


def test_drift_is_exact_in_the_low_rank_form():
    rng = np.random.default_rng(3)
    learner = rm.deep.EKF(network(), 0.2, covariance="lowrank", rank=3)
    learner.step(*batches(3, 2, sizes=(4,))[0])
    Q = rng.uniform(0, 2, learner.flat.size)
    before = np.linalg.inv(precision(learner))
    known = learner.memory.covariance.drifted(Q)
    after = np.diag(known.diagonal) + known.factor @ known.factor.T
    np.testing.assert_allclose(np.linalg.inv(after), before + np.diag(Q), atol=1e-12)


@pytest.mark.parametrize("noise", [1.0, 3.0])
@pytest.mark.parametrize("labels", ["integers", "one-hot", "tensor"])
def test_softmax_is_the_filter_that_observes_probabilities(noise, labels):
    """The extended filter of p = softmax f, R = noise (diag p − ppᵀ + εI), as ε goes to 0."""
    net, classes = network(3), np.array([2, 0, 1, 1])
    x = np.random.default_rng(4).standard_normal((4, 3))
    learner = rm.deep.EKF(net, noise, ridge=0.5, loss="softmax")
    p = net(torch.from_numpy(x)).softmax(1).detach().numpy()
    R = np.zeros((12, 12))
    for i in range(4):
        R[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] = noise * (np.diag(p[i]) - np.outer(p[i], p[i]) + 1e-8 * np.eye(3))
    answers = function(network(3), x)
    expected = rm.kalman.extended(
        lambda theta: theta,
        lambda theta: answers(theta).reshape(4, 3).softmax(1).flatten(),
        np.eye(3)[classes].reshape(1, -1),
        Q=np.zeros((learner.flat.size,) * 2),
        R=R,
        mean=learner.flat.vector().numpy(),
        cov=np.eye(learner.flat.size) / 0.5,
    )
    y = {"integers": classes, "one-hot": np.eye(3)[classes], "tensor": torch.from_numpy(classes)}[labels]
    errors = learner.step(x, y)
    np.testing.assert_allclose(errors, np.eye(3)[classes] - p, atol=1e-12)
    np.testing.assert_allclose(learner.flat.vector(), expected.mean[0], atol=1e-5)
    np.testing.assert_allclose(learner.memory.covariance.cov, expected.cov[0], atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_a_target_of_probability_zero_changes_the_weights_by_a_bounded_amount(form):
    net = nn.Linear(2, 2, bias=False).double()
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[400.0, 0.0], [-400.0, 0.0]]))
    learner = rm.deep.EKF(net, covariance=form, loss="softmax")
    before = learner.flat.vector()
    learner.step(np.array([[1.0, 0.0]]), np.array([1]))
    change = (learner.flat.vector() - before).reshape(2, 2)
    torch.testing.assert_close(change, torch.tensor([[-1.0, 0.0], [1.0, 0.0]]).double())  # Σ Jᵀ(y − p), Σ = I


@pytest.mark.parametrize(
    "y", [[0, 1, 3], [0, -1, 1], [0, 1], [0.0, 1.0, 1.0], np.ones((3, 3)), np.eye(3)[:, :2], np.full((3, 3), np.nan)]
)
def test_invalid_labels_raise_errors(y):
    learner = rm.deep.EKF(network(3), loss="softmax")
    before = learner.flat.vector()
    with pytest.raises(rm.InputError):
        learner.step(np.ones((3, 3)), np.asarray(y))
    assert torch.equal(learner.flat.vector(), before) and learner.memory.tasks == 0


def test_softmax_needs_two_classes_and_noise_fits_the_outputs():
    with pytest.raises(rm.InputError, match="two or more classes"):
        rm.deep.EKF(network(1), loss="softmax").step(np.ones((2, 3)), np.array([0, 0]))
    with pytest.raises(rm.InputError, match="noise for 2 outputs, got 3"):
        rm.deep.EKF(network(2), noise=[1.0, 1.0, 1.0]).step(np.ones((2, 3)), np.ones((2, 2)))


def sine(seed, n=300):
    x = np.random.default_rng(seed).uniform(-3, 3, (n, 1))
    return torch.from_numpy(x), torch.from_numpy(np.sin(2 * x))


def curve(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)).double()


def off(net):
    x, y = sine(2)
    return float(((net(x) - y) ** 2).mean().detach())


@cache
def best_of_plain_steps():
    x, y = sine(1)
    losses = []
    for rate in (0.03, 0.1, 0.2):
        net = curve(0)
        optimizer = torch.optim.SGD(net.parameters(), rate)
        for i in range(len(x)):
            optimizer.zero_grad()
            (0.5 * ((net(x[i : i + 1]) - y[i : i + 1]) ** 2).sum()).backward()
            optimizer.step()
        losses.append(off(net))
    return np.nanmin(losses)


@pytest.mark.parametrize("form", FORMS)
def test_a_curve_is_learned_in_one_pass_better_than_by_plain_steps_of_any_length(form):
    x, y = sine(1)
    learner = rm.deep.EKF(curve(0), noise=0.01, covariance=form, rank=10)
    for i in range(len(x)):
        learner.step(x[i : i + 1], y[i : i + 1])
    assert off(learner.model) < 0.5 * best_of_plain_steps()


def moons(seed, n=400):
    rng = np.random.default_rng(seed)
    label, angle = rng.integers(0, 2, n), rng.uniform(0, np.pi, n)
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x[label == 1] = [1.0, 0.5] - x[label == 1]
    return x + 0.1 * rng.standard_normal((n, 2)), label


@pytest.mark.parametrize("form", FORMS)
def test_two_moons_are_separated_after_one_pass(form):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 10), nn.Tanh(), nn.Linear(10, 2)).double()
    learner = rm.deep.EKF(net, covariance=form, rank=10, ridge=0.3, loss="softmax")
    x, labels = moons(0)
    for i in range(0, len(x), 2):
        learner.step(x[i : i + 2], labels[i : i + 2])
    fresh, truth = moons(1)
    found = net(torch.from_numpy(fresh)).argmax(1).numpy()
    assert (found == truth).mean() > 0.95


def test_a_drifting_model_is_followed():
    """Weights that turn: with drift the late errors are small, without it the filter has stiffened."""
    rng = np.random.default_rng(0)
    late = {}
    for drift in (0.0, 0.01):
        torch.manual_seed(0)
        learner = rm.deep.EKF(nn.Linear(2, 1, bias=False).double(), 0.01, drift)
        errors = []
        for t in range(200):
            X = rng.standard_normal((1, 2))
            truth = np.array([[np.cos(t / 20)], [np.sin(t / 20)]])
            errors.append(float(learner.step(X, X @ truth)[0, 0]))
        late[drift] = np.mean(np.square(errors[100:]))
    assert late[0.01] < 0.1 * late[0.0]
