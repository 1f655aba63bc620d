"""Claims about removing samples from RLS, merging learners and adding classes without retraining.

    Φ' = Φ + Φx xᵀΦ/(1 − h)      θ' = θ − Φx(y − xᵀθ)/(1 − h)      h = xᵀΦx                          (R1)
    ‖Δθ'‖ ≤ ε (‖A‖/σ')² (1 + ‖B‖/(‖A‖‖θ'‖)) ‖θ'‖                                                 (R2)

(R1) removes a sample. Removal subtracts squares, so a relative change ε of A and B before it counts with the square of
‖A‖ over σ', the smallest singular value of what remains (R2). The only sample in some direction has leverage 1 up to
rounding; `remove` allows each such sample up to GRANTED units of rounding.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference, rounding
from remanence.certificates.claims.rls.rls import noisy, noisy_streams, settings
from remanence.certificates.claims.rls.rls_evidence import unweighted_streams
from remanence.certificates.claims.rls.rls_phi import phi, state_after
from remanence.certificates.instances.data import Generator, Instance, graded_rows, unit_rows
from remanence.certificates.instances.runs import learned
from remanence.certificates.oracles import LeastSquares
from remanence.estimators import ContinualClassifier
from remanence.methods import RLS, LowRankRLS
from remanence.methods.protocol import Method

GRANTED = 1e3


def leaving_samples(rng: Generator) -> Iterator[Instance]:
    """Streams of which the first few samples are removed again."""
    for data in unweighted_streams(rng):
        yield data | {"leaving": int(rng.integers(1, len(data["X"])))}


def _left(before: LeastSquares, after: LeastSquares) -> float:
    """Maximum of (R2) and the condition number of what remains."""
    share = before.length * after.condition / after.length
    moved = float(np.linalg.norm(before.B)) / max(before.length * float(np.linalg.norm(after.weights)), 1e-300)
    return share**2 * (1 + moved) + after.magnification()


def _granted(X: Array, leaving: int) -> float:
    """Roundings that `remove` allows if the remaining samples do not span a direction of the removed ones."""
    U, s, _ = np.linalg.svd(X, full_matrices=False)
    U = U[leaving:, s > len(X) * np.finfo(float).eps * s[0]]
    least = float(np.linalg.svd(U, compute_uv=False)[-1]) if len(U) >= U.shape[1] else 0.0
    granted = 2 * GRANTED * leaving  # an eps is two units of rounding
    return granted if least**2 < granted * np.finfo(float).eps else 0.0


@claim(
    "A model from which samples were removed is the model that never saw them",
    source="removal of a sample",
    instances=leaving_samples,
    conditions=("β = 1",),
)
def removed_samples_were_never_seen(
    X: Array, Y: Array, leaving: int, ridge: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare `remove` with the problem of the remaining samples."""
    rls = method or RLS(ridge)
    # (what rounding may do is computed below, so that the method need not refuse it)
    state = rls.remove(state_after(rls, X, Y), X[:leaving], Y[:leaving], accept_loss=True)
    before, after = LeastSquares(X, Y, ridge), LeastSquares(X[leaving:], Y[leaving:], ridge)
    kappa, size = _left(before, after), 2 * before.size + _granted(X, leaving)
    given = (f"λ = {ridge:g}", f"{leaving} of {len(X)} leave", f"condition {kappa:.0e}")
    return Evidence(difference(rls.weights(state), after.weights), rounding(kappa, size), given)


@claim(
    "Removing a sample changes the weights by Φx times its error, divided by one minus its leverage",
    source="removal of a sample",
    instances=unweighted_streams,
    conditions=("β = 1", "θ − Φx(y − xᵀθ)/(1 − xᵀΦx)"),
)
def removal_has_a_closed_form(X: Array, Y: Array, ridge: float = 1.0, method: RLS | None = None) -> Evidence:
    """Compare `remove` for the first sample with (R1) from the weights and variances before it."""
    rls, before, after = method or RLS(ridge), LeastSquares(X, Y, ridge), LeastSquares(X[1:], Y[1:], ridge)
    state = state_after(rls, X, Y)
    W, x = rls.weights(state), X[0]
    seen = phi(rls, state, before) @ x
    expected = W - np.outer(seen, Y[0] - x @ W) / (1 - x @ seen)
    found = rls.weights(rls.remove(state, X[:1], Y[:1], accept_loss=True))
    leverage = float(x @ before.phi @ x)
    kappa = _left(before, after) + (before.pending_magnification() + 2 * before.condition) / (1 - leverage) ** 2
    size = float(np.linalg.norm(after.weights) + np.linalg.norm(before.weights))
    given = (f"λ = {ridge:g}", f"leverage {leverage:.4f}", f"condition {kappa:.0e}")
    return Evidence(difference(found, expected, size), rounding(kappa, 2 * before.size + _granted(X, 1)), given)


def separated_streams(rng: Generator) -> Iterator[Instance]:
    """Samples divided between two learners, evenly or not."""
    for data in unweighted_streams(rng):
        yield data | {"cut": int(rng.integers(1, len(data["X"])))}


@claim(
    "Two learners of disjoint data merge into the one that saw all of it, with the prior counted once",
    source="RLS, merging",
    instances=separated_streams,
    conditions=("β = 1",),
)
def merged_learners_saw_everything(
    X: Array, Y: Array, cut: int, ridge: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare `merge` with the problem of all samples."""
    rls, whole = method or RLS(ridge), LeastSquares(X, Y, ridge)
    state = rls.merge(state_after(rls, X[:cut], Y[:cut]), state_after(rls, X[cut:], Y[cut:]))
    given = (f"λ = {ridge:g}", f"condition of least squares {whole.magnification():.0e}")
    return Evidence(difference(rls.weights(state), whole.weights), whole.allowed(), given)


@claim(
    "The ridge can be changed after learning, with the same result as learning with the new ridge",
    source="problem (RLS)",
    instances=noisy_streams,
)
def ridge_can_change_after_learning(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare a model learned with 10λ and then changed to λ with the problem with λ."""
    rls, system = method or RLS(10 * ridge, forget), LeastSquares(X, Y, ridge, forget)
    state = rls.with_ridge(state_after(rls, X, Y), ridge)
    return Evidence(difference(rls.weights(state), system.weights), system.allowed(), settings(ridge, forget))


def arriving_classes(rng: Generator) -> Iterator[Instance]:
    """Tasks that each bring new classes, and sometimes old ones again; nearly dependent features among them."""
    while True:
        for forget, cond in ((1.0, 10.0), (1.0, 1e4), (0.9, 10.0), (1.1, 10.0)):
            d, tasks = int(rng.integers(3, 9)), int(rng.integers(2, 5))
            labels = [rng.permutation(np.r_[2 * t, 2 * t + 1, rng.integers(0, 2 * t + 2, 4)]) for t in range(tasks)]
            X = graded_rows(rng, 6 * tasks, d, cond)
            yield {"X": X, "labels": np.array(labels), "ridge": float(10 ** rng.uniform(-3, 1)), "forget": forget}


@claim(
    "D-RLS, whose classes arrive one after the other, is joint training on all classes at once",
    source="problem (D-RLS)",
    instances=arriving_classes,
    edge=("D-RLS", "RLS"),
    conditions=("one-hot labels, padded with zeros",),
)
def d_rls_is_joint_training(
    X: Array, labels: Array, ridge: float = 1.0, forget: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare a classifier that grows task by task with ridge regression on the one-hot labels of all tasks."""
    model = ContinualClassifier(method or RLS(ridge, forget), fit_intercept=False)
    for t, task in enumerate(labels):
        model.partial_fit(X[t * len(task) : (t + 1) * len(task)], task)
    Y = np.eye(int(labels.max()) + 1)[labels.ravel()]
    system = LeastSquares(X, Y, ridge, forget)
    given = (*settings(ridge, forget), f"{Y.shape[1]} classes", f"condition {system.pending_magnification():.0e}")
    found = model.method_.weights(model.state_)
    return Evidence(difference(found, system.weights), system.allowed_pending(), given)


@claim(
    "Low-rank RLS that keeps all directions is RLS",
    source="RLS with a truncated decomposition",
    instances=unweighted_streams,
    conditions=("β = 1", "rank = number of features"),
)
def rls_of_full_rank_is_rls(X: Array, Y: Array, ridge: float = 1.0, method: Method[Any] | None = None) -> Evidence:
    """The weights of both."""
    system = LeastSquares(X, Y, ridge)
    found, expected = learned(method or LowRankRLS(X.shape[1], ridge), X, Y), learned(RLS(ridge), X, Y)
    given = (f"λ = {ridge:g}", f"condition {system.pending_magnification():.0e}")
    return Evidence(difference(found, expected), system.allowed_pending(), given)


def small_layers(rng: Generator) -> Iterator[Instance]:
    """The inputs and targets of a layer with a few outputs."""
    while True:
        X = unit_rows(rng, int(rng.integers(1, 12)), int(rng.integers(1, 5)))
        settings = {"ridge": float(10 ** rng.uniform(-3, 1)), "forget": float(rng.choice([0.5, 1.0, 2.0]))}
        yield noisy(rng, X, int(rng.integers(1, 4))) | settings


@claim(
    "The outputs of a layer share one small Φ: learning them together equals learning all weights as one model",
    source="layer-wise RLS",
    instances=small_layers,
    conditions=("every output has a target for every sample",),
)
def outputs_of_a_layer_share_their_memory(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare RLS with c outputs with the problem of all d·c weights, one row per output and sample."""
    (n, d), c = X.shape, Y.shape[1]
    rows = np.kron(X, np.eye(c))  # row (i, k) asks output k on sample i, weights in the order of W.ravel()
    weight = np.repeat(np.sqrt(forget ** -np.arange(1.0, n + 1)), c)[:, None]
    whole = LeastSquares(weight * rows, weight * Y.reshape(-1, 1), ridge)
    system = LeastSquares(X, Y, ridge, forget)
    found = learned(method or RLS(ridge, forget), X, Y)
    allowed = system.allowed_pending() + whole.allowed()
    return Evidence(difference(found.reshape(d * c, 1), whole.weights), allowed, settings(ridge, forget))
