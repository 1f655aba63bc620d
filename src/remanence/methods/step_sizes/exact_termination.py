"""Step sizes with which LMS solves p recurring tasks exactly after p(p+1)/2 samples, for any targets and start.

    z ← z − γ x (xᵀz)                              (T1)   the error z = θ* − θ at a unit input x
    V = the errors still possible                  (T2)   p dimensions at first; none means solved
    u = x + Σ σᵢ yᵢ ∈ V,   i = 1..j                (T3)   linear in σ: j equations, j unknowns
    γᵢ = σᵢ / yᵢᵀuᵢ₋₁,   uᵢ = uᵢ₋₁ − σᵢ yᵢ          (T4)   u₀ = u arrives at uⱼ = x
    γ = 1 at x                                     (T5)   erases x ∈ V: one dimension less

Only γ = 1 is singular, so p unit steps are needed, and each erases a dimension only if its own x is a possible
error. Once j dimensions are gone, j free steps at the tasks y₁..yⱼ that come next steer one possible error onto the
task x after them (T3, T4). Segments of j + 1 samples, j = 0..p−1, add up to p(p+1)/2 with unit steps at the
triangular numbers 1, 3, 6, 10, 15, and every segment is a linear system: no search, no start values. The
transposed product runs the tasks backwards and vanishes together with the product, so there is a second solution,
with unit steps at N+1 − {1, 3, 6, ...}; the one that lets errors grow less on the way is kept.
Between orthogonal tasks a segment may be shorter or need more samples; both are tried while the budget lasts.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError, NumericalError
from remanence.validation import check_rows

MOST_TASKS = 5
TIES = 16  # solutions compared a direction; more than one only where tasks are orthogonal
EPS = float(np.finfo(float).eps)


def terminating(X: Any) -> tuple[float, ...]:
    """Compute the p(p+1)/2 steps after which LMS, cycling through the rows of X, is at the solution nearest its start.

    The steps are those of normalized LMS, so they depend on the directions only. They may be negative or above 2.

    Parameters
    ----------
    X : array (p, d)
        p ≤ 5 linearly independent rows of any norm, in the order in which they recur.

    Returns
    -------
    tuple of float
        The p(p+1)/2 steps, for the argument `step` of `LMS`.

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> X = np.random.default_rng(0).standard_normal((3, 5))
    >>> Y = X @ np.ones((5, 1))
    >>> lms = rm.LMS(rm.steps.terminating(X))
    >>> W = lms.weights(lms.update(lms.init(5, 1), np.tile(X, (2, 1)), np.tile(Y, (2, 1))))
    >>> bool(np.allclose(W, rm.min_norm(X, Y)))
    True

    References
    ----------
    Peng and Vidal (2025), "Mathematics of continual learning", Theorem 3 (p = 2).
    """
    Z = _coordinates(X)
    p = len(Z)
    if p == 1:
        return (1.0,)
    if p == 2:  # Theorem 3; 1 − c is the squared sine, Z[1, 1]²
        return (1.0, float(1 / Z[1, 1] ** 2), 1.0)
    stream = Z[np.arange(p * (p + 1) // 2) % p]  # (N, p) the task of each step
    found = [np.array(steps) for steps in islice(_solutions(stream, np.eye(p)), TIES)]
    found += [np.array(steps[::-1]) for steps in islice(_solutions(stream[::-1], np.eye(p)), TIES)]
    best, closest = (np.inf, np.ones(len(stream))), _quality(stream, np.ones(len(stream)))
    for steps in found:
        steps = _polished(stream, steps)
        left, growth = _quality(stream, steps)
        if left <= min(1e-10 * growth, 1e-6) and growth < best[0]:
            best = (growth, steps)
        closest = min(closest, (left, growth))
    if np.isinf(best[0]):
        raise NumericalError(
            f"found no {len(stream)} steps that end LMS on these {p} tasks in this order: the closest leave "
            f"{closest[0]:.1e} of the error, which grew {closest[1]:.1e}-fold on the way (condition number "
            f"{np.linalg.cond(Z):.1e}); try another order of the tasks, or APA(buffer={p - 1}), which ends at t = {p}"
        )
    return tuple(float(step) for step in best[1])


def _coordinates(X: Any) -> Array:
    """The rows of X, scaled to norm 1, in an orthonormal basis of their span: (p, p), lower triangular."""
    shape = np.asarray(X, dtype=object).shape
    if len(shape) != 2 or not 1 <= shape[0] <= min(MOST_TASKS, shape[1]):
        raise InputError(
            f"expected X of shape (p, d) with 1 ≤ p ≤ {MOST_TASKS} recurring tasks and p ≤ d, got {shape}; "
            f"for more tasks use APA(buffer=p-1), which ends at t = p"
        )
    X = check_rows(X, shape[1])
    largest = np.abs(X).max(axis=1, keepdims=True)
    if not largest.all():
        raise InputError(f"expected rows that are not zero, got row {int(np.argmin(largest))} = 0; leave it out")
    X = X / largest
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    if np.linalg.matrix_rank(X) < len(X):
        raise InputError(
            f"expected {len(X)} linearly independent rows, got rank {np.linalg.matrix_rank(X)}; "
            f"leave out rows that are combinations of others, or use APA"
        )
    R = np.linalg.qr(X.T, mode="r")
    return np.asarray((R / np.linalg.norm(R, axis=0)).T)


def _solutions(stream: Array, V: Array) -> Iterator[list[float]]:
    """All steps the elimination finds for the rest of the stream; V (p, q) is a basis of the possible errors."""
    p, q = V.shape
    if not q:
        yield [1.0] * len(stream)
        return
    later = p * (p + 1) // 2 - (p - q + 1) * (p - q + 2) // 2  # samples the segments after this one will need
    for length in range(min(p, len(stream) - later)):
        steps = _segment(stream[:length], stream[length], V)
        if steps is not None:
            after = V
            for step, x in zip(steps[:-1], stream, strict=False):
                after = _moved(after, x, step, 0)
            after = _moved(after, stream[length], 1.0, 1)
            for rest in _solutions(stream[length + 1 :], after):
                yield [*steps, *rest]


def _segment(Y: Array, x: Array, V: Array) -> list[float] | None:
    """Steps at the tasks Y that steer a possible error onto x, and the unit step there; None if there are none."""
    W = np.linalg.qr(V, mode="complete")[0][:, V.shape[1] :]  # (p, j) what an error cannot contain
    A, b = W.T @ Y.T, -W.T @ x
    sigma = np.linalg.lstsq(A, b, rcond=1e-13)[0] if A.size else np.zeros(len(Y))  # (T3)
    if np.linalg.norm(A @ sigma - b) > 1e-12 * (1 + np.linalg.norm(sigma)):
        return None
    u, steps = x + sigma @ Y, []
    for s, y in zip(sigma, Y, strict=True):
        along = float(y @ u)
        if max(abs(s), abs(along)) <= 16 * EPS:  # any step leaves u alone
            steps.append(1.0)
        elif abs(along) <= 16 * EPS * abs(s):  # no step moves u along y
            return None
        else:
            step = float(s / along)  # (T4)
            steps.append(1.0 if abs(step - 1) <= 16 * EPS else step)
        u = u - s * y
    return [*steps, 1.0]  # (T5)


def _moved(V: Array, x: Array, step: float, lost: int) -> Array:
    """A basis of the possible errors after a step at x that erases at least `lost` of them."""
    U, size, _ = np.linalg.svd(V - step * np.outer(x, x @ V), full_matrices=False)  # (T1), (T2)
    if step == 1.0:
        lost = max(lost, int(np.sum(size <= 1e-12)))
    return np.asarray(U[:, : V.shape[1] - lost])


def _products(stream: Array, steps: Array) -> list[Array]:
    """What the first 0, 1, ..., N steps together do to an error."""
    maps = [np.eye(stream.shape[1])]
    with np.errstate(over="ignore", invalid="ignore"):
        for x, step in zip(stream, steps, strict=True):
            maps.append(maps[-1] - step * np.outer(x, x @ maps[-1]))  # (T1)
    return maps


def _quality(stream: Array, steps: Array) -> tuple[float, float]:
    """How much of an error all steps leave, and the most it grew on the way (at least 1), in the worst direction."""
    maps = np.array(_products(stream, steps))
    if not np.isfinite(maps).all():
        return np.inf, np.inf
    norms = np.linalg.norm(maps, 2, axis=(1, 2))
    return float(norms[-1]), float(norms.max())


def _polished(stream: Array, steps: Array, rounds: int = 4) -> Array:
    """Gauss–Newton on the whole product, unit steps fixed; takes back what rounding did to the linear systems."""
    free = np.flatnonzero((steps != 1.0) & (steps != 0.0))
    best, left = steps, _quality(stream, steps)[0]
    for _ in range(rounds if free.size else 0):
        before = _products(stream, steps)
        after = [M.T for M in _products(stream[::-1], steps[::-1])][-2::-1]  # what is still to come after each step
        J = np.stack([np.outer(after[t] @ stream[t], stream[t] @ before[t]).ravel() * steps[t] for t in free], axis=1)
        change = np.linalg.lstsq(J, before[-1].ravel(), rcond=1e-14)[0]
        steps = steps.copy()
        steps[free] *= 1 + change
        now = _quality(stream, steps)[0]
        if not now < left:
            break
        best, left = steps, now
    return best
