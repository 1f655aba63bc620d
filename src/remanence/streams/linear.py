"""Synthetic regression streams with known weights: one fixed model, or one that drifts.

y_i = x_iᵀ W* + noise                        one model for all tasks, ‖x_i‖ = 1
θ_i = A θ_{i−1} + w_i,   w_i ~ N(0, Q)       (LGM) the model of task i
y_i = X_i θ_i + v_i,     v_i ~ N(0, R)       (LGM) its observations
"""

from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.streams.recurring import recurring as repeated
from remanence.streams.task import Task
from remanence.validation import check_count, check_number, check_rows, check_start


def linear(
    tasks: int,
    features: int,
    outputs: int = 1,
    rows: int = 1,
    seed: int = 0,
    noise: float = 0.0,
    recurring: int | None = None,
    weights: Any = None,
) -> list[Task]:
    """Generate linear regression tasks that share one model W*, with rows uniform on the unit sphere.

    The test rows are the training rows, as in the paper.

    Parameters
    ----------
    tasks, features, outputs, rows : int
        The number of tasks, their shape, and the rows per task.
    seed : int
        Seed of the random numbers.
    noise : float
        The variance of the noise in the targets.
    recurring : int, optional
        The number of distinct tasks, which are repeated cyclically.
    weights : array (features, outputs), optional
        W*; drawn from N(0, I) unless given.

    Returns
    -------
    list of Task

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> stream = rm.streams.linear(tasks=4, features=6, recurring=2)
    >>> stream[0], bool((stream[2].X == stream[0].X).all())
    (Task('task 1', X (1, 6), Y (1, 1), X_test (1, 6)), True)
    """
    tasks, features = check_count(tasks, "tasks"), check_count(features, "features")
    outputs, rows = check_count(outputs, "outputs"), check_count(rows, "rows")
    noise = check_number(noise, "noise", closed=True, hint="it is a variance")
    distinct = tasks if recurring is None else min(tasks, check_count(recurring, "recurring"))
    rng = np.random.default_rng(check_count(seed, "seed", 0))
    drawn = rng.standard_normal((features, outputs))
    W = drawn if weights is None else check_start(weights, features, outputs)
    stream = []
    for t in range(1, distinct + 1):
        X = rng.standard_normal((rows, features))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        v = rng.standard_normal((rows, outputs))  # drawn in any case: the rows do not depend on the noise
        stream.append(Task(f"task {t}", X, X @ W + np.sqrt(noise) * v))
    return repeated(stream, tasks)


def linear_gaussian(
    tasks: int,
    features: int,
    rows: int = 10,
    drift: Any = 0.1,
    noise: float = 0.1,
    transition: Any = 1.0,
    seed: int = 0,
    test_rows: int = 100,
) -> list[Task]:
    """Generate tasks from the paper's linear Gaussian model, whose weights drift from task to task.

    The first weights are drawn from N(0, I). Test targets have no noise, so that the test error is that of the model
    alone.

    Parameters
    ----------
    tasks, features, rows : int
        The number of tasks, of features, and of rows per task.
    drift, transition : float or array (features, features)
        Q and A; a number is times I.
    noise : float
        The variance R.
    seed : int
        Seed of the random numbers.
    test_rows : int
        The number of test rows per task.

    Returns
    -------
    list of Task

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> stream = rm.streams.linear_gaussian(tasks=3, features=2)
    >>> stream[0]
    Task('task 1', X (10, 2), Y (10, 1), X_test (100, 2))

    References
    ----------
    Peng and Vidal (2025), "Mathematics of continual learning".
    """
    tasks, d = check_count(tasks, "tasks"), check_count(features, "features")
    rows, test_rows = check_count(rows, "rows"), check_count(test_rows, "test_rows")
    noise = check_number(noise, "noise", closed=True, hint="it is a variance")
    A, root = _square(transition, "transition", d), _root(_square(drift, "drift", d))
    rng = np.random.default_rng(check_count(seed, "seed", 0))
    theta = rng.standard_normal((d, 1))
    stream = []
    for t in range(1, tasks + 1):
        if t > 1:
            theta = A @ theta + root @ rng.standard_normal((d, 1))
        X, X_test = rng.standard_normal((rows, d)), rng.standard_normal((test_rows, d))
        Y = X @ theta + np.sqrt(noise) * rng.standard_normal((rows, 1))
        stream.append(Task(f"task {t}", X, Y, X_test, X_test @ theta))
    return stream


def _square(value: Any, name: str, d: int) -> Array:
    """A number times the identity, or the matrix itself."""
    if np.ndim(value) == 0:
        return check_number(value, name, -np.inf) * np.eye(d)
    if np.shape(value) != (d, d):
        raise InputError(f"expected {name} to be a number or a ({d}, {d}) matrix, got shape {np.shape(value)}")
    return check_rows(value, d)


def _root(Q: Array) -> Array:
    """A matrix whose product with its transpose is Q; Q may be singular, so not a Cholesky factor."""
    eigenvalues, vectors = np.linalg.eigh(Q)
    slack = 1e-12 * max(float(np.abs(Q).max()), np.finfo(float).tiny)
    if not np.allclose(Q, Q.T, rtol=1e-10, atol=slack) or eigenvalues[0] < -slack * len(Q):
        raise InputError(
            "expected drift to be a covariance: symmetric, no eigenvalue below 0; try (Q + Q.T)/2, or a variance"
        )
    root: Array = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    return root
