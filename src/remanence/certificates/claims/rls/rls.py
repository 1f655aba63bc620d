"""Claims about RLS: the recursion, and the objective it minimises.

θ^t = argmin  λ‖θ − θ⁰‖² + Σ_{i≤t} (yᵢ − xᵢᵀθ)²/βⁱ                                          (RLS)
"""

from collections.abc import Iterator

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference
from remanence.certificates.instances.data import Generator, Instance, graded_rows, nearly_dependent_rows, unit_rows
from remanence.certificates.instances.runs import largest, learned, tightest, walked
from remanence.certificates.oracles import LeastSquares, weakest
from remanence.methods import RLS

FORGETTING = (0.5, 0.9, 1.0, 1.1, 2.0)


def noisy(rng: Generator, X: Array, outputs: int = 2) -> Instance:
    """X with targets that no model fits exactly."""
    return {"X": X, "Y": X @ rng.standard_normal((X.shape[1], outputs)) + 0.3 * rng.standard_normal((len(X), outputs))}


def noisy_streams(rng: Generator) -> Iterator[Instance]:
    """Fewer samples than features, as many, and more; nearly dependent and graded ones; β from 0.5 to 2."""
    yield noisy(rng, unit_rows(rng, 1, 4)) | {"ridge": 1.0, "forget": 0.5}
    for forget in FORGETTING:
        yield noisy(rng, unit_rows(rng, 6, 6)) | {"ridge": 0.1, "forget": forget}
    yield noisy(rng, nearly_dependent_rows(rng, 12, 5, 1e-3)) | {"ridge": 1e-6, "forget": 0.9}
    yield noisy(rng, graded_rows(rng, 20, 8, 1e5)) | {"ridge": 1e-8, "forget": 1.0}
    yield noisy(rng, 1e3 * unit_rows(rng, 15, 3)) | {"ridge": 1e3, "forget": 2.0}
    while True:
        d = int(rng.integers(1, 12))
        X = rng.standard_normal((int(rng.integers(1, 25)), d))
        settings = {"ridge": float(10 ** rng.uniform(-4, 2)), "forget": float(rng.uniform(0.5, 2.0))}
        yield noisy(rng, X, int(rng.integers(1, 4))) | settings


def settings(ridge: float, forget: float) -> tuple[str, ...]:
    return f"λ = {ridge:g}", f"β = {forget:g}"


@claim(
    "RLS, learning row by row, is at the minimiser of its objective after every row",
    source="Proposition 2",
    instances=noisy_streams,
    conditions=("β < 1, β = 1 and β > 1",),
)
def rls_recursion_minimises_its_objective(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare the weights after every row with those of the weighted problem of all rows so far."""
    rls = method or RLS(ridge, forget)
    state = rls.init(X.shape[1], Y.shape[1])
    found = []
    for t in range(1, len(X) + 1):
        state, _ = rls.track(state, X[t - 1 : t], Y[t - 1 : t])
        system = LeastSquares(X[:t], Y[:t], ridge, forget)
        given = (*settings(ridge, forget), f"condition of least squares {system.magnification():.0e}")
        found.append(Evidence(difference(rls.weights(state), system.weights), system.allowed(), given))
    return weakest(found)


@claim(
    "The error that RLS reports for a sample is that of the minimiser over all samples before it",
    source="Proposition 2",
    instances=noisy_streams,
    conditions=("β < 1, β = 1 and β > 1",),
)
def rls_tracks_the_errors_of_the_previous_minimiser(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare the errors of one pass with y − xᵀθ, where θ solves the problem of the samples before."""
    rls = method or RLS(ridge, forget)
    _, errors = rls.track(rls.init(X.shape[1], Y.shape[1]), X, Y)
    found = []
    for t in range(len(X)):
        system = LeastSquares(X[:t], Y[:t], ridge, forget)
        W = system.weights
        size = float(np.linalg.norm(Y[t]) + np.linalg.norm(X[t]) * np.linalg.norm(W))
        found.append(Evidence(difference(errors[t], Y[t] - X[t] @ W, size), system.allowed(), settings(ridge, forget)))
    return weakest(found)


@claim(
    "RLS learns the same weights from rows one by one, in blocks or all at once",
    source="Proposition 2",
    instances=noisy_streams,
    conditions=("β < 1, β = 1 and β > 1",),
)
def rls_learns_the_same_from_rows_and_blocks(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare one call per row, and blocks of seven, with one call for all rows."""
    rls = method or RLS(ridge, forget)
    system, whole = LeastSquares(X, Y, ridge, forget), learned(rls, X, Y)
    state = rls.init(X.shape[1], Y.shape[1])
    for i in range(0, len(X), 7):
        state = rls.update(state, X[i : i + 7], Y[i : i + 7])
    off = largest(np.array([difference(W, whole) for W in (walked(rls, X, Y)[-1], rls.weights(state))]))
    given = (*settings(ridge, forget), f"condition of waiting rows {system.pending_magnification():.0e}")
    return Evidence(off, system.allowed_pending(), given)


def started_elsewhere(rng: Generator) -> Iterator[Instance]:
    """Noisy streams learned from a start other than zero."""
    for data in noisy_streams(rng):
        yield data | {"start": rng.standard_normal((data["X"].shape[1], data["Y"].shape[1]))}


@claim(
    "RLS started from a model minimises the objective whose regulariser is centred at that model",
    source="RLS with θ⁰ ≠ 0",
    instances=started_elsewhere,
)
def rls_is_centred_at_its_start(
    X: Array, Y: Array, start: Array, ridge: float = 1.0, forget: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare the weights after all rows with those of the problem with λ‖θ − θ⁰‖²."""
    system = LeastSquares(X, Y, ridge, forget, start)
    found = learned(method or RLS(ridge, forget), X, Y, start)
    return Evidence(difference(found, system.weights), system.allowed_pending(), settings(ridge, forget))


def single_features(rng: Generator) -> Iterator[Instance]:
    """Tasks of one feature with contradicting targets; the two of the paper come first."""
    for forget in FORGETTING:
        yield {"X": np.array([[2.0], [1.0]]), "Y": np.array([[4.0], [1.0]]), "ridge": 1e-12, "forget": forget}
    while True:
        X, Y = rng.standard_normal((2, int(rng.integers(1, 20)), 1))
        settings = {"ridge": float(10 ** rng.uniform(-6, 1)), "forget": float(rng.uniform(0.5, 2.0))}
        yield {"X": X, "Y": Y} | settings


@claim(
    "With one feature RLS is the weighted average of the solutions of the single tasks",
    source="Figure 5",
    instances=single_features,
    conditions=("y/x weighs x²/βⁱ, and 0 weighs λ",),
)
def rls_averages_the_solutions_of_the_tasks(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, method: RLS | None = None
) -> Evidence:
    """Compare the weight after all tasks with the average of y/x."""
    weights = X[:, 0] ** 2 / forget ** np.arange(1.0, len(X) + 1)
    wanted, total = Y / X, ridge + weights.sum()
    size = float(np.linalg.norm(weights @ np.abs(wanted)) / total)
    off = difference(learned(method or RLS(ridge, forget), X, Y)[0], weights @ wanted / total, size)
    return Evidence(off, LeastSquares(X, Y, ridge, forget).allowed_pending(), settings(ridge, forget))


def bounded_streams(rng: Generator) -> Iterator[Instance]:
    """Samples of bounded size whose targets alternate; β above 1."""
    sign = (-1.0) ** (np.arange(40) // 5)
    for forget in (1.1, 1.3, 2.0):
        yield {"X": np.ones((40, 1)), "Y": sign[:, None], "ridge": 1.0, "forget": forget}
    while True:
        X = unit_rows(rng, 40, int(rng.integers(1, 6)))
        yield {
            "X": X,
            "Y": sign[:, None] * X[:, :1],
            "ridge": float(rng.uniform(0.5, 2)),
            "forget": float(rng.uniform(1.1, 2)),
        }


@claim(
    "If past samples weigh more (β > 1), RLS converges: later samples change it by at most a geometric tail",
    source="convergence of RLS, for β > 1",
    instances=bounded_streams,
    kind="bound",
    conditions=(
        "β > 1 and bounded data",
        "‖θ^T − θ^t‖ ≤ x(y + xy/√(λ(β−1)))/(λ(β−1)βᵗ), x and y the largest input and target",
    ),
)
def rls_settles_when_the_past_weighs_more(
    X: Array, Y: Array, ridge: float = 1.0, forget: float = 2.0, method: RLS | None = None
) -> Evidence:
    """Distance of the last model from every earlier one: a step is at most ‖x‖‖ε‖/(λβᵗ), and ‖θ‖² at most J(0)/λ."""
    path = walked(method or RLS(ridge, forget), X, Y)
    x, y = np.linalg.norm(X, axis=1).max(), np.linalg.norm(Y, axis=1).max()
    reach = y / np.sqrt(ridge * (forget - 1))
    tails = x * (y + x * reach) / (ridge * (forget - 1)) / forget ** np.arange(len(path))
    moved = np.linalg.norm(path[-1] - path, axis=(1, 2))
    slack = float(reach) * LeastSquares(X, Y, ridge, forget).allowed_pending()
    return tightest(zip(moved.tolist(), tails.tolist(), strict=True), slack, *settings(ridge, forget))
