"""The stress that breaks recursions with an explicit inverse: badly scaled features, a tiny ridge, classes in order.

P ← P − P Xᵀ (I + X P Xᵀ)⁻¹ X P        W ← W + P Xᵀ (Y − X W)        P₀ = I/λ               (Woodbury)
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

import remanence as rm
from experiments import data
from experiments.card import Card, Claim, Table, percent, run
from experiments.learners import exact_joint, largest_difference
from remanence.arrays import Array
from remanence.errors import InputError
from remanence.progress import progress_bar

PRECISIONS = ("float64", "float32")
FULL = (20_000, 1_000, 1_500, 2_000, 5_000)  # rows and width of A, rows and width of B, rows taken out in C
QUICK = (3_000, 200, 300, 400, 500)


class ExplicitInverse:
    """The analytic classifier as it is commonly published: it keeps P = (λI + XᵀX)⁻¹ and updates it by Woodbury."""

    def __init__(self, width: int, ridge: float, dtype: str, batch: int, symmetric: bool) -> None:
        self.P = np.eye(width, dtype=dtype) / np.dtype(dtype).type(ridge)
        self.W = np.zeros((width, 10), dtype)
        self.batch, self.symmetric = batch, symmetric

    def learn(self, X: Array, y: Array) -> "ExplicitInverse":
        """Fold rows in, batch by batch; once anything overflows there is nothing left to update."""
        for i in range(0, len(X), self.batch):
            x = X[i : i + self.batch].astype(self.P.dtype)
            targets = np.eye(10, dtype=self.P.dtype)[y[i : i + self.batch]]
            image = self.P @ x.T
            try:
                shrink = np.linalg.solve(np.eye(len(x), dtype=self.P.dtype) + x @ image, x @ self.P)
            except np.linalg.LinAlgError:
                self.W[:] = np.nan
                break
            self.P = self.P - image @ shrink
            if self.symmetric:
                self.P = (self.P + self.P.T) / 2
            self.W = self.W + self.P @ (x.T @ (targets - x @ self.W))
        return self

    def decision_function(self, X: Array) -> Array:
        return np.asarray(X.astype(self.P.dtype) @ self.W)


def make(quick: bool, folder: Path) -> Card:
    """Ill-conditioned features in class order, fewer rows than features, and unlearning, against joint training."""
    X, y, X_test, y_test = data.fashion_mnist(folder / "fashion-mnist")
    y, y_test = y.astype(int), y_test.astype(int)
    rows, width, few, wide, removed = QUICK if quick else FULL
    with progress_bar("Stress", 11) as advance:
        order, few_order = (np.argsort(y[:n], kind="stable") for n in (rows, few))
        unscaled = rm.RandomFeatures(width, seed=0, scale=28.0).fit(X[:1] / 255.0)  # 28 = √784: entries of B ~ N(0, 1)
        F, F_test = unscaled.transform(X[order] / 255.0), unscaled.transform(X_test / 255.0)
        first, claims = _compared(
            f"A. {rows} rows in class order, {width} unscaled random features, ridge 1e-6",
            (F, y[order], F_test, y_test),
            1e-6,
            1e-3,
            advance,
        )
        plain = rm.RandomFeatures(wide, seed=0, scale=1.0).fit(X[:1] / 255.0)
        second, more = _compared(
            f"B. {few} rows in class order for {wide} random features, ridge 1e-2",
            (plain.transform(X[few_order] / 255.0), y[few_order], plain.transform(X_test / 255.0), y_test),
            1e-2,
            1e-2,
            advance,
        )
        third, last = _unlearned(F, y[order], F_test, removed, advance)
    return Card(
        name="stress",
        title="Stress: ill-conditioned features, classes in order, unlearning",
        what="Least squares on one-hot labels, taught class by class, against a joint fit on all rows; and rows taken "
        "out again, against never having seen them. The explicit inverse is how analytic classifiers are published.",
        data="Fashion-MNIST (Debian dataset-fashion-mnist), the first rows of the training file, all 10 000 test rows",
        settings={
            "Unscaled features (A, C)": "relu(x B + b), B and b ~ N(0, 1), x = pixels/255: "
            f"RandomFeatures({width}, seed=0, scale=28)",
            "Features (B)": f"RandomFeatures({wide}, seed=0, scale=1)",
            "Classifier": "ContinualClassifier(RLS(ridge), fit_intercept=False), one partial_fit a class",
            "Explicit inverse": "Woodbury updates of (λI + XᵀX)⁻¹; made symmetric: P ← (P + Pᵀ)/2 after each",
        },
        reference="the joint ridge fit in float64, computed beside it without this library (normal equations, refined)",
        tables=[first, second, third],
        claims=claims + more + last,
    )


def _compared(
    title: str, rows: tuple[Array, Array, Array, Array], ridge: float, allowed: float, advance: Any
) -> tuple[Table, list[Claim]]:
    F, y, F_test, y_test = rows
    table, claims = Table(title, ("learner", "accuracy", "largest difference of scores to joint")), []
    joint = exact_joint(F.copy(), y, ridge, F_test, refinements=10, intercept=False)
    right = float((joint.argmax(axis=1) == y_test).mean())
    table.rows.append(("Joint, float64", percent(right), ""))
    advance(1)
    for precision in PRECISIONS:
        learner = _taught(F, y, ridge, precision)
        accuracy = _accuracy(learner, F_test, y_test)
        table.rows.append((f"RLS, {precision}", percent(accuracy), largest_difference(learner, F_test, joint)))
        claims.append(Claim(f"{title[0]}, {precision}: accuracy as joint", abs(accuracy - right), allowed))
        advance(1)
    for precision in PRECISIONS:
        for batch, symmetric in ((100, False), (1000, False), (100, True)):
            with np.errstate(all="ignore"):
                inverse = ExplicitInverse(F.shape[1], ridge, precision, batch, symmetric).learn(F, y)
                accuracy, gap = _accuracy(inverse, F_test, y_test), largest_difference(inverse, F_test, joint)
            name = f"explicit inverse, {precision}, batches of {batch}{', made symmetric' if symmetric else ''}"
            table.rows.append((name, percent(accuracy), gap))
        advance(1)
    return table, claims


def _unlearned(F: Array, y: Array, F_test: Array, removed: int, advance: Any) -> tuple[Table, list[Claim]]:
    """Rows taken out again, against a classifier that never saw them."""
    table = Table(
        f"C. Unlearning from {len(F)} rows, float64", ("rows taken out", "ridge", "largest difference of scores")
    )
    claims = []
    at_random = np.zeros(len(F), dtype=bool)
    at_random[np.random.default_rng(0).choice(len(F), removed, replace=False)] = True
    for ridge in (1.0, 1e-6):
        whole = _taught(F, y, ridge, "float64")
        before = whole.decision_function(F_test)
        for name, out in ((f"{removed} at random", at_random), ("two whole classes", np.isin(y, [3, 7]))):
            learner = _taught(F, y, ridge, "float64").unlearn(F[out], y[out])
            never = _taught(F[~out], y[~out], ridge, "float64")
            assert np.array_equal(learner.classes_, never.classes_)
            gap = float(np.abs(learner.decision_function(F_test) - never.decision_function(F_test)).max())
            table.rows.append((name, f"{ridge:g}", gap))
            claims.append(Claim(f"C, ridge {ridge:g}: {name} unlearned, as if never seen", gap, 1e-8))
        refused = False
        try:
            whole.unlearn(100 * F_test[:50], y[:50])
        except InputError:
            refused = True
        change = float(np.abs(whole.decision_function(F_test) - before).max())
        claims.append(
            Claim(
                f"C, ridge {ridge:g}: rows never learned are refused, nothing changes", change if refused else np.inf, 0
            )
        )
        advance(1)
    return table, claims


def _taught(F: Array, y: Array, ridge: float, precision: str) -> Any:
    learner = rm.ContinualClassifier(rm.RLS(ridge=ridge), fit_intercept=False, dtype=precision)
    for label in np.unique(y):
        learner.partial_fit(F[y == label], y[y == label])
    return learner


def _accuracy(learner: Any, X: Array, y: Array) -> float:
    return float((np.asarray(learner.decision_function(X)).argmax(axis=1) == y).mean())


if __name__ == "__main__":
    sys.exit(run("stress", make))
