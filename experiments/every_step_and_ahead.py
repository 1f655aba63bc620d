"""Between the ends of tasks and ahead of them: the stability gap of replay, and learners of a periodic future."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import remanence as rm
from experiments.card import Card, Claim, Table, percent, run
from remanence.arrays import Array
from remanence.evaluation import ErrorMatrix
from remanence.streams import Task

EVERY = 10
PERIOD, HARMONICS, FEATURES, ROWS, NOISE = 20, 10, 3, 8, 0.1
SEEDS = 5
KEPT = (50, 200, 500)  # rows that replay keeps: the gap closes as they become many


# Every step


def stability(tasks: int) -> dict[str, ErrorMatrix]:
    """The digits, two classes per task, with errors after every few rows."""
    stream = rm.streams.digits(tasks=tasks)
    learners: dict[str, Any] = {"RLS": rm.ContinualClassifier(rm.RLS(1.0))}
    learners |= {f"replay of {kept} rows": rm.Replay(memory=kept, epochs=5) for kept in KEPT}
    return {name: rm.evaluate(learner, stream, every=EVERY, progress=False) for name, learner in learners.items()}


# Ahead


def periodic(tasks: int, seed: int) -> list[Task]:
    """Tasks whose model is one of two, by turns, ten tasks each; the first column is the time."""
    rng = np.random.default_rng(seed)
    models = np.outer([1.0, -1.0], rng.standard_normal(FEATURES))
    stream = []
    for t in range(tasks):
        W = models[t // (PERIOD // 2) % 2]
        X, X_test = (np.column_stack([np.full(n, float(t)), rng.standard_normal((n, FEATURES))]) for n in (ROWS, 40))
        Y, Y_test = ((A[:, 1:] @ W)[:, None] for A in (X, X_test))
        stream.append(Task(f"time {t}", X, Y + NOISE * rng.standard_normal(Y.shape), X_test, Y_test))
    return stream


class TimeBlind:
    """RLS on the columns without the time."""

    def __init__(self, forget: float = 1.0) -> None:
        self.model = rm.ContinualRegressor(rm.RLS(1.0, forget))

    def partial_fit(self, X: Array, y: Array) -> "TimeBlind":
        self.model.partial_fit(X[:, 1:], y)
        return self

    def predict(self, X: Array) -> Array:
        return np.asarray(self.model.predict(X[:, 1:]))


class Forecaster:
    """A Kalman filter whose weights are sums of waves of known period, and its forecast at the time asked for."""

    def __init__(self, noise: float = NOISE) -> None:
        self.noise, self.rows, self.targets = noise, list[Array](), list[Array]()

    def _model(self) -> rm.kalman.LinearGaussian:
        turns = [np.eye(1)]
        for k in range(1, HARMONICS + 1):
            c, s = np.cos(2 * np.pi * k / PERIOD), np.sin(2 * np.pi * k / PERIOD)
            turns.append(np.array([[c, s], [-s, c]]))
        size = sum(map(len, turns))
        turn = np.zeros((size, size))
        at = 0
        for block in turns:
            turn[at : at + len(block), at : at + len(block)] = block
            at += len(block)
        A, d = np.kron(np.eye(FEATURES), turn), FEATURES * size
        self.read = np.kron(np.eye(FEATURES), np.array([[1.0, *([1.0, 0.0] * HARMONICS)]]))  # weights now, of the state
        X = np.array([rows @ self.read for rows in self.rows])
        return rm.kalman.LinearGaussian(A, np.zeros((d, d)), X, self.noise**2 * np.eye(ROWS), np.zeros(d), np.eye(d))

    def partial_fit(self, X: Array, y: Array) -> "Forecaster":
        self.rows, self.targets = [*self.rows, X[:, 1:]], [*self.targets, y.ravel()]
        return self

    def predict(self, X: Array) -> Array:
        if not self.rows:
            return np.zeros((len(X), 1))
        model = self._model()
        filtered = rm.kalman.filter(model, np.array(self.targets))
        ahead = max(int(X[:, 0].max()) - len(self.rows) + 1, 1)
        means = np.concatenate([filtered.mean, rm.kalman.forecast(model, filtered, ahead).mean])
        W = means[X[:, 0].astype(int)] @ self.read.T
        return np.einsum("ij,ij->i", X[:, 1:], W)[:, None]


def futures(tasks: int, seeds: int) -> dict[str, Array]:
    """For each learner the error on the tasks to come after each task, mean over seeds, (T − 1,)."""
    learners: dict[str, Any] = {
        "RLS without the time": TimeBlind(),
        "RLS that forgets": TimeBlind(0.97),
        "RLS with periodic features": rm.ContinualRegressor(
            rm.RLS(0.1), features=rm.PeriodicFeatures(float(PERIOD), HARMONICS).fit(np.zeros((2, 1 + FEATURES)))
        ),
        "forecast of a Kalman filter": Forecaster(),
    }
    found: dict[str, Array] = {}
    for name, learner in learners.items():
        lines = []
        for seed in range(seeds):
            matrix = rm.evaluate(learner, periodic(tasks, seed), loss="squared", progress=False)
            lines.append([rm.metrics.prospective(matrix, t) for t in range(1, tasks)])
        found[name] = np.mean(lines, axis=0)
    return found


def make(quick: bool, folder: Path) -> Card:
    """The stability gap at every step, and prospective errors on a stream of period 20. Needs no data."""
    matrices, tasks = stability(3 if quick else 5), 45 if quick else 60
    lines = futures(tasks, 1 if quick else SEEDS)
    metrics = rm.metrics
    gap = Table(
        f"Digits, two classes per task, evaluated after every {EVERY} rows",
        ("learner", "accuracy at the end", "min-ACC", "WC-ACC", "WF, 10 steps", "WP, 10 steps"),
    )
    for name, matrix in matrices.items():
        values = (1 - metrics.average(matrix), metrics.min_accuracy(matrix), metrics.worst_case_accuracy(matrix))
        windowed = (metrics.windowed_forgetting(matrix), metrics.windowed_plasticity(matrix))
        gap.rows.append((name, *map(percent, values), *map(percent, windowed)))
    late = slice(PERIOD, None)
    ahead = Table(
        f"A stream of period {PERIOD}: mean squared error on the tasks to come (rm.metrics.prospective)",
        ("learner", "after 10 tasks", f"after {PERIOD} tasks", f"mean after more than {PERIOD} tasks"),
    )
    for name, line in lines.items():
        ahead.rows.append((name, *(f"{value:.3g}" for value in (line[9], line[19], line[late].mean()))))
    picture(matrices, lines, Path("runs/cards" if quick else "experiments/cards") / "every_step_and_ahead.svg")
    names = list(lines)
    blind, seen = lines[names[0]][late].mean(), max(lines[names[2]][late].mean(), lines[names[3]][late].mean())
    falls = [metrics.windowed_forgetting(matrix) for matrix in list(matrices.values())[:2]]
    return Card(
        name="every_step_and_ahead",
        title="Between the ends of tasks, and ahead of them",
        what="Left: the accuracy on the first task while later ones are learned, after every few rows. Replay of "
        "few rows dips when a task begins and recovers; least squares over all rows, of which it keeps none, does not. "
        "Right: the error on tasks to come. A "
        "learner that does not know the time stays at the error of the mixture; periodic features, and the forecast of "
        "a Kalman filter, predict the tasks of the next period once they have seen one.\n\n"
        "![Accuracy on the first task at every step, and errors on tasks to come](every_step_and_ahead.svg)",
        data="scikit-learn's digits; generated regression tasks of two models, w and −w, in turns of ten tasks",
        settings={"Replay": "5 epochs per block", "Seeds": f"{1 if quick else SEEDS} (right)"},
        reference="De Lange et al. (2023) for the metrics and the gap; De Silva et al. (2023) for prospective learning",
        tables=[gap, ahead],
        claims=[
            Claim(
                f"largest fall of an accuracy within 10 steps, RLS over replay of {KEPT[0]} rows",
                falls[0] / falls[1],
                0.8,
            ),
            Claim("error on tasks to come, learners that know the time over RLS without it", float(seen / blind), 0.1),
        ],
    )


def picture(matrices: dict[str, ErrorMatrix], lines: dict[str, Sequence[float]] | dict[str, Array], path: Path) -> None:
    """Left: accuracy on the first task at every step. Right: errors on the tasks to come."""
    import matplotlib
    from matplotlib.figure import Figure

    from remanence.report.pictures import PALETTE, STYLE

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.2, 3.9), layout="constrained")
        left, right = figure.subplots(1, 2)
        for (name, matrix), colour in zip(matrices.items(), PALETTE, strict=False):
            if (curve := matrix.curve) is not None:
                left.plot(curve.rows, 100 * (1 - curve.values[0]), color=colour, label=name, linewidth=1.5)
                for start in curve.rows[np.flatnonzero(np.diff(curve.tasks))]:
                    left.axvline(start, color="#8c8c8c", linewidth=0.5)
        left.set(xlabel="rows learned", ylabel="accuracy on the first task, %")
        left.legend(fontsize=8)
        for (name, line), colour in zip(lines.items(), PALETTE, strict=False):
            right.plot(range(1, len(line) + 1), line, color=colour, label=name, linewidth=1.5)
        right.set(xlabel="tasks learned", ylabel="squared error on tasks to come", yscale="log")
        right.yaxis.set_major_formatter(lambda value, _: f"{value:g}")  # (no formulas: they are off in STYLE)
        right.legend(fontsize=8)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(run("every_step_and_ahead", make))
