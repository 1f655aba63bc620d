"""What the experiments share: a run read from its error matrix, and an independent joint fit to compare with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

import remanence as rm
from remanence.arrays import Array


@dataclass(frozen=True)
class Outcome:
    """A learner after its stream: accuracy and forgetting as means over tasks, and the plain share of right answers."""

    learner: Any
    accuracy: float
    forgetting: float
    plain: float
    seconds: float


class Kept:
    """A learner that `rm.evaluate` may copy while we keep hold of the copy."""

    def __init__(self, learner: Any) -> None:
        self.learner = learner
        self.last: Any = None

    def __sklearn_clone__(self) -> "Kept":
        self.last = Kept(clone(self.learner))
        return self.last

    def partial_fit(self, X: Any, y: Any) -> Any:
        return self.learner.partial_fit(X, y)

    def predict(self, X: Any) -> Any:
        return self.learner.predict(X)


def outcome(learner: Any, stream: Sequence[rm.Task]) -> Outcome:
    """Run the stream through the one task loop and keep the learner it leaves behind."""
    kept = Kept(learner)
    matrix = rm.evaluate(kept, stream, loss="zero_one")
    sizes = np.array([len(task.Y_test) for task in stream])
    return Outcome(
        learner=kept.last.learner,
        accuracy=1 - rm.metrics.average(matrix),
        forgetting=rm.metrics.forgetting(matrix),
        plain=float(1 - matrix.values[:, -1] @ sizes / sizes.sum()),
        seconds=float(matrix.seconds.sum()),
    )


def exact_joint(X: Array, y: Array, ridge: float, X_test: Array, refinements: int = 3, intercept: bool = True) -> Array:
    """Scores (n, classes) on X_test of one ridge fit on all rows of X (float64, overwritten); an intercept is free.

    Normal equations of the centred rows by Cholesky, then refined with residuals of the rows themselves, so that the
    answer does not suffer from the squared condition number; no code of the library is used.
    """
    from scipy.linalg import cho_factor, cho_solve

    Y = np.eye(int(y.max()) + 1)[y]
    center, target = X.mean(axis=0) * intercept, Y.mean(axis=0) * intercept
    X -= center
    Y -= target
    gram = X.T @ X
    gram[np.diag_indices_from(gram)] += ridge
    factor = cho_factor(gram, overwrite_a=True, check_finite=False)
    W = cho_solve(factor, X.T @ Y, check_finite=False)
    for _ in range(refinements):
        W += cho_solve(factor, X.T @ (Y - X @ W) - ridge * W, check_finite=False)
    return np.asarray((X_test - center) @ W + target)


def largest_difference(learner: Any, X: Array, scores: Array, rows: int = 2000) -> float:
    """max |score − score of the joint fit| over all rows and classes."""
    gaps = [
        np.abs(learner.decision_function(X[i : i + rows]) - scores[i : i + rows]).max() for i in range(0, len(X), rows)
    ]
    return float(max(gaps))
