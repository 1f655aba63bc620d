"""Tasks that drift, and past tasks that get better as new ones arrive: filter, smoother, RLS, a fit for every task.

    θ_{i|t}   the model of task i from tasks 1..t:   filter t = i   smoother t ≥ i   E‖θ_{i|t} − θ_i‖² = trace Σ_{i|t}

A method is asked about task i after task t, for all i ≤ t. One with a single model is asked twice: the model it had
when task i was learned, kept since (its own), and the one it has now (the last).
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import remanence as rm
from experiments.card import Card, Claim, Table, percent, run
from remanence import kalman
from remanence.arrays import Array
from remanence.progress import progress_bar
from remanence.streams import Task

FEATURES, ROWS, DRIFT, NOISE = 8, 6, 0.05, 0.2  # of the linear stream: fewer rows a task than unknowns
FADING = (1.0, 0.98, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)  # forgetting coefficients of a task
RIDGES, DRIFTS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0), (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
POOL, TASK_ROWS, DEGREES = 797, 45, 6.0  # digits: images for validation; rows and turn of a task


@dataclass(frozen=True)
class Size:
    """How much of both streams: tasks and seeds, for the test and for choosing settings."""

    tasks: int
    seeds: int
    validation: int
    digits: int
    digits_validation: int


FULL, QUICK = Size(12, 500, 100, 40, 8), Size(8, 60, 20, 4, 2)
PICTURES = (Path("experiments/cards/drifting_tasks.svg"), Path("docs/pictures/backward_transfer.svg"))
QUICK_PICTURES = (Path("runs/cards/drifting_tasks.svg"),)


# Models: paths[t][i] is what answers for task i after task t


def filtered_and_smoothed(stream: Sequence[Task], A: Array) -> tuple[list[Any], kalman.LinearGaussian]:
    """θ_{i|t} of the linear stream for all i ≤ t, believing A; the last of each is the filter's."""
    d, rows = stream[0].X.shape[1], len(stream[0].X)
    X, Y = np.array([task.X for task in stream]), np.array([task.Y[:, 0] for task in stream])
    model = kalman.LinearGaussian(A, DRIFT * np.eye(d), X, NOISE * np.eye(rows), np.zeros(d), np.eye(d))
    parts = [kalman.LinearGaussian(A, model.Q, X[:t], model.R, model.mean, model.cov) for t in range(1, len(X) + 1)]
    paths = [kalman.smooth(p, kalman.filter(p, Y[:t])).mean[..., None] for t, p in enumerate(parts, 1)]
    return paths, model


def learned(method: Any, stream: Sequence[Task]) -> list[Array]:
    """The weights of a method after each task."""
    state, found = method.init(stream[0].X.shape[1], stream[0].Y.shape[1]), []
    for task in stream:
        state = method.update(state, task.X, task.Y)
        found.append(method.weights(state))
    return found


def smoothed(method: rm.Kalman, stream: Sequence[Task]) -> list[list[Array]]:
    """The same for the streaming filter: the models of all tasks so far after each task, improved by the later ones."""
    state, paths = method.init(stream[0].X.shape[1], stream[0].Y.shape[1]), []
    for task in stream:
        state = method.update(state, task.X, task.Y)
        paths.append([g.mean for g in method.smoothed(state)])
    return paths


def fading(ridge: float, forget: float, rows: int) -> Any:
    """RLS that forgets by `forget` a task, an equal part of it at every row."""
    return rm.RLS(ridge=ridge, forget=forget ** (1 / rows))


# Errors: values[i, t] on task i after task t, NaN for i > t

Loss = Callable[[Array, Task], float]


def squared(W: Array, task: Task) -> float:
    return float(np.mean((task.X_test @ W - task.Y_test) ** 2))


def wrong(W: Array, task: Task) -> float:
    return float(np.mean((task.X_test @ W).argmax(axis=1) != task.Y_test.argmax(axis=1)))


def errors(paths: Sequence[Sequence[Array]], stream: Sequence[Task], loss: Loss) -> Array:
    values = np.full((len(stream), len(stream)), np.nan)
    for t, path in enumerate(paths):
        values[: t + 1, t] = [loss(W, task) for W, task in zip(path, stream[: t + 1], strict=True)]
    return values


def kept(models: Sequence[Array]) -> list[Sequence[Array]]:
    return [models[: t + 1] for t in range(len(models))]


def last(models: Sequence[Array]) -> list[Sequence[Array]]:
    return [[W] * (t + 1) for t, W in enumerate(models)]


def newest(values: Array) -> Array:
    """The error on the task just learned, a mean over tasks; one for each seed."""
    return np.asarray(np.diagonal(values, axis1=-2, axis2=-1).mean(axis=-1))


def past(values: Array) -> Array:
    """The error on all tasks but the last after the last, a mean over tasks; one for each seed."""
    return np.asarray(values[..., :-1, -1].mean(axis=-1))


def standard(values: Array) -> Array:
    """Standard errors of a mean over seeds."""
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(len(values)))


def worst_gain(values: Array) -> float:
    """What the smoother adds to the filter's error on the past task it helps least, in standard errors; after the last.

    Negative is better.
    """
    added = (values[:, :, -1] - np.diagonal(values, axis1=1, axis2=2))[:, :-1]
    return float((added.mean(axis=0) / standard(added)).max())


# The linear Gaussian stream


def linear(tasks: int, seed: int) -> list[Task]:
    return rm.streams.linear_gaussian(tasks, FEATURES, ROWS, DRIFT, NOISE, seed=seed, test_rows=100)


def turned(degrees: float) -> Array:
    """The identity turned in every plane of two neighbouring coordinates."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.kron(np.eye(FEATURES // 2), [[c, -s], [s, c]])


WRONG = {
    "A, the truth: I": np.eye(FEATURES),
    "0.9 I": 0.9 * np.eye(FEATURES),
    "turned by 15°": turned(15),
    "turned by 45°": turned(45),
    "0.3 I": 0.3 * np.eye(FEATURES),
    "−I": -np.eye(FEATURES),
}


def linear_part(size: Size, advance: Any) -> tuple[list[Table], list[Claim], tuple[Array, Array]]:
    seeds, trials = range(size.seeds), range(10**6, 10**6 + size.validation)  # the latter to choose settings on
    tried = [linear(size.tasks, seed) for seed in trials]
    scores = [np.mean([newest(_own(fading(NOISE, f, ROWS), s, squared)) for s in tried]) for f in FADING]
    best = FADING[int(np.argmin(scores))]
    advance(1)
    streams = [linear(size.tasks, seed) for seed in seeds]
    believed: dict[str, Array] = {}
    for name, A in WRONG.items():
        found = [filtered_and_smoothed(stream, A) for stream in streams]
        believed[name] = np.array([errors(p, s, squared) for (p, _), s in zip(found, streams, strict=True)])
        if name.startswith("A,"):
            theory = np.array([kalman.backward_transfer(model, size.tasks) for _, model in found])
        advance(1)
    ours = believed["A, the truth: I"]
    variance = 1 + DRIFT * (size.tasks - 1) / 2  # of a weight, over the tasks
    fits = {
        "RLS, forget = 1": [learned(fading(NOISE, 1.0, ROWS), s) for s in streams],
        f"RLS, best forget ({best:g} a task)": [learned(fading(NOISE, best, ROWS), s) for s in streams],
        "a ridge fit for every task": [[learned(rm.RLS(ridge=NOISE / variance), [t])[0] for t in s] for s in streams],
    }
    columns = ("method", "newest task", "past tasks, their own models", "past tasks, the last model")
    table = Table(f"A. Linear Gaussian stream: squared error, mean of {size.seeds} seeds ± standard error", columns)
    kept_errors = {name: _all(kept, models, streams, squared) for name, models in fits.items()}
    last_errors = {name: _all(last, models, streams, squared) for name, models in fits.items()}
    diagonal = np.diagonal(ours, axis1=1, axis2=2)
    table.rows.append(("Kalman filter", _pm(diagonal.mean(axis=1)), _pm(diagonal[:, :-1].mean(axis=1)), ""))
    table.rows.append(("Kalman smoother", "the same", _pm(past(ours)), ""))
    expected = (f"{newest(theory).mean():.3f}", f"{past(theory).mean():.3f}")
    table.rows.append(("trace Σ_{i\\|t}, the theory of the smoother", *expected, ""))
    for name, values in kept_errors.items():
        own = np.diagonal(values, axis1=1, axis2=2)
        final = "" if name.startswith("a ridge") else _pm(past(last_errors[name]))
        table.rows.append((name, _pm(own.mean(axis=1)), _pm(own[:, :-1].mean(axis=1)), final))
    advance(1)
    upper = np.triu_indices(size.tasks)
    z = (ours - theory)[:, *upper]
    z = z.mean(axis=0) / standard(z)
    on_diagonal = upper[0] == upper[1]
    over_fading = newest(ours).mean() / newest(list(kept_errors.values())[1]).mean()
    over_all, over_wrong = _over_others(ours, kept_errors, last_errors), past(ours).mean() / past(believed["−I"]).mean()
    single, worse = single_runs(ours)
    claims = [
        Claim("A: filter's mean error minus trace Σ, largest, standard errors", abs(z[on_diagonal]).max(), 4),
        Claim("A: smoother's mean error minus trace Σ, largest of all i ≤ t, standard errors", abs(z).max(), 4),
        Claim("A: smoother's mean error minus filter's, worst past task, standard errors", worst_gain(ours), 1),
        Claim("A: filter's error over that of RLS with the best forget, newest task", over_fading, 1),
        Claim("A: smoother's error over the best of RLS and single fits, own or last models, past tasks", over_all, 1),
        Claim("A: share of single runs that one later task makes worse", worse, 0.5),
        Claim("A: error of the correct smoother over that of one with A = −I, past tasks", over_wrong, 0.2),
    ]
    return [table, single, wrong_beliefs(believed)], claims, (ours, theory)


def single_runs(ours: Array) -> tuple[Table, float]:
    """How often a past task got worse in a single run, though not in the mean."""
    count = ours.shape[1]
    columns = ("on a past task, after", "share worse")
    table = Table("A. In a single run: how often does the smoother get worse?", columns)
    for later in range(1, min(count, 6)):
        share = np.mean([(ours[:, i, i + later] > ours[:, i, i + later - 1]).mean() for i in range(count - later)])
        table.rows.append((f"the {_ordinal(later)} later task, against before that task", percent(float(share))))
    every = [(ours[:, i, t] > ours[:, i, t - 1]).mean() for t in range(1, count) for i in range(t)]
    measured = float(np.mean(every))
    table.rows.append(("any one later task, against before that task", percent(measured)))
    whole = (ours[:, :-1, -1] > np.diagonal(ours, axis1=1, axis2=2)[:, :-1]).mean()
    table.rows.append(("all later tasks, against the filter", percent(float(whole))))
    over = (past(ours) > np.diagonal(ours, axis1=1, axis2=2)[:, :-1].mean(axis=1)).mean()
    table.rows.append(("all later tasks, against the filter, mean over the past tasks of a run", percent(float(over))))
    return table, measured


def wrong_beliefs(believed: dict[str, Array]) -> Table:
    columns = ("A believed", "filter, newest", "smoother, past tasks", "times the right smoother", "smoother/filter")
    table = Table("A. What a wrong A does (Q and R are correct)", columns)
    right = past(next(iter(believed.values()))).mean()
    for name, values in believed.items():
        filtered = np.diagonal(values, axis1=1, axis2=2)[:, :-1].mean()
        mine = past(values).mean()
        ratios = (f"{mine / right:.1f}", f"{mine / filtered:.2f}")
        table.rows.append((name, _pm(newest(values)), _pm(past(values)), *ratios))
    return table


# Digits that turn


def turning_digits(size: Size, seed: int, validation: bool) -> list[Task]:
    """Digits turned a little further in every task, other images in each; no image of a validation stream is here."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X, y = (X[:POOL], y[:POOL]) if validation else (X[POOL:], y[POOL:])
    order, used = np.random.default_rng(seed).permutation(len(X)), size.tasks * TASK_ROWS
    X, y = X[order] / 16, np.eye(10)[y[order]]
    whole = rm.streams.rotated(X[:used], y[:used], size.tasks, DEGREES, X_test=X[used:], y_test=y[used:])
    rows = [slice(k * TASK_ROWS, (k + 1) * TASK_ROWS) for k in range(size.tasks)]
    return [Task(t.name, _one(t.X[r]), t.Y[r], _one(t.X_test), t.Y_test) for t, r in zip(whole, rows, strict=True)]


def digits_part(size: Size, advance: Any) -> tuple[list[Table], list[Claim], dict[str, Array], str]:
    tried = [turning_digits(size, seed, True) for seed in range(size.digits_validation)]

    def score(method: Any) -> float:
        return float(np.mean([newest(_own(method, s, wrong)) for s in tried]))

    filters = [rm.Kalman(drift=q, ridge=r, lag=size.tasks) for r in RIDGES for q in DRIFTS]
    forgetful = [(r, f) for r in RIDGES for f in FADING]
    auto = min((rm.Kalman(drift="auto", ridge=r) for r in RIDGES), key=score)
    chosen = min(filters, key=score)
    advance(1)
    ridge, forget = min(forgetful, key=lambda pair: score(fading(pair[0], pair[1], TASK_ROWS)))
    whole = min(RIDGES, key=lambda r: score(rm.RLS(ridge=r)))
    alone = min(RIDGES, key=lambda r: float(np.mean([_alone(s, r) for s in tried])))
    advance(1)
    streams = [turning_digits(size, seed, False) for seed in range(size.digits)]
    ours = np.array([errors(smoothed(chosen, s), s, wrong) for s in streams])
    advance(1)
    fits = {
        "Kalman filter": [learned(chosen, s) for s in streams],
        'Kalman filter, drift="auto"': [learned(auto, s) for s in streams],
        "RLS, forget = 1": [learned(rm.RLS(ridge=whole), s) for s in streams],
        f"RLS, best forget ({forget:g} a task)": [learned(fading(ridge, forget, TASK_ROWS), s) for s in streams],
        "a ridge fit for every task": [[learned(rm.RLS(ridge=alone), [t])[0] for t in s] for s in streams],
    }
    own = {name: _all(kept, models, streams, wrong) for name, models in fits.items()}
    final = {name: _all(last, models, streams, wrong) for name, models in fits.items()}
    columns = ("method", "newest task", "past tasks, their own models", "past tasks, the last model")
    title = f"B. Digits, turned by {DEGREES:g}° more in every task: % wrong predictions, mean of {size.digits} seeds"
    table = Table(f"{title} ± standard error", columns)
    for name in fits:
        now = "" if name.startswith("a ridge") else _pm(100 * past(final[name]), 2)
        table.rows.append((name, _pm(100 * newest(own[name]), 2), _pm(100 * past(own[name]), 2), now))
        if name == "Kalman filter":
            table.rows.append(("Kalman smoother", "the same", _pm(100 * past(ours), 2), ""))
    advance(1)
    rivals = list(fits)[2:]
    over_plain = newest(ours).mean() / newest(own["RLS, forget = 1"]).mean()
    best = _over_others(ours, {n: own[n] for n in rivals}, {n: final[n] for n in rivals})
    claims = [
        Claim("B: smoother's mean error minus filter's, worst past task, standard errors", worst_gain(ours), 1),
        Claim("B: smoother's error over the best of RLS and single fits, own or last models, past tasks", best, 1),
        Claim("B: filter's error over that of RLS with forget = 1, newest task", over_plain, 1),
    ]
    settings = (
        f"filter drift {chosen.drift:g}, ridge {chosen.ridge:g}; auto ridge {auto.ridge:g}; RLS ridge {whole:g}; "
        f"with forgetting ridge {ridge:g}, forget {forget:g} per task; a fit for every task ridge {alone:g}"
    )
    lines = {"smoother": ours, "filter, kept": own["Kalman filter"]}
    lines |= {f"{key.split(' (')[0]}, last model": final[key] for key in rivals[:2]}
    return [table, later_table(lines)], claims, lines, settings


def later_errors(values: Array) -> Array:
    """The error on the tasks of the first half, 0, 1, … tasks after each was learned: always the same tasks."""
    half = values.shape[1] // 2
    return np.array([np.mean([values[:, i, i + n] for i in range(half)]) for n in range(half + 1)])


def later_table(lines: dict[str, Array]) -> Table:
    half = next(iter(lines.values())).shape[1] // 2
    columns = ("tasks learned since", *map(str, range(half + 1)))
    rows: list[tuple[Any, ...]] = [
        (k, *(f"{100 * v:.2f}" for v in later_errors(values))) for k, values in lines.items()
    ]
    title = f"B. The same by time: % wrong predictions, mean of tasks 1 to {half} (turning is no random walk)"
    return Table(title, columns, rows)


def make(quick: bool, folder: Path) -> Card:
    """Drifting tasks: filter, smoother, RLS with and without forgetting, a fit for every task. Needs no data."""
    size = QUICK if quick else FULL
    with progress_bar("Drifting tasks", len(WRONG) + 6) as advance:
        tables, claims, (ours, theory) = linear_part(size, advance)
        digits, more, lines, settings = digits_part(size, advance)
    for path in QUICK_PICTURES if quick else PICTURES:
        picture(ours, theory, lines, path)
    return Card(
        name="drifting_tasks",
        title="Drifting tasks: past tasks get better as new ones arrive",
        what="Every task has its own model, drifted from the one before. After every task t each method is tested on "
        "every task i ≤ t. The filter keeps the model of task i as it was when it was learned; the smoother improves "
        "it with every later task (positive backward transfer), on average and under a correct model, not "
        "in every run.\n\n"
        "![Error on a task as later tasks arrive](drifting_tasks.svg)",
        data=f"A: rm.streams.linear_gaussian({size.tasks} tasks, {FEATURES} features, {ROWS} rows, drift {DRIFT:g}, "
        f"noise {NOISE:g}), 100 new noiseless test rows per task. B: scikit-learn's 1797 digits, {size.tasks} tasks of "
        f"{TASK_ROWS} images of their own, pixels/16 and an intercept, one-hot targets, all test images turned as the "
        "task is",
        settings={
            "Seeds": f"A: {size.seeds} to measure, {size.validation} others to choose; B: {size.digits} to measure, "
            f"{size.digits_validation} to choose, on images that the measured streams do not hold (the first {POOL})",
            "Chosen on validation seeds, for the newest task": f"A: forget of RLS; B: {settings}",
            "Given": "A: filter and smoother know A = I, Q, R; RLS has the right prior (ridge = R), the fits for every "
            "task that of the mean variance of a weight",
            "Its own models, the last model": "a method with one model is tested on past tasks with the model it had "
            "when the task was learned, and with the model it has at the end",
        },
        reference="A: trace Σ_{i|t} of kalman.backward_transfer, the theory (Theorem 7). Corrected: positive backward "
        "transfer holds in expectation under a correct model; about 40 % of single runs get worse, a wrong A gives 5 "
        "times worse",
        tables=[*tables, *digits],
        claims=claims + more,
    )


def picture(ours: Array, theory: Array, lines: dict[str, Array], path: Path) -> None:
    """Left: tasks of the linear stream, measured and in theory. Right: the first half of the digits' tasks, later."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    from remanence.report.pictures import MARKERS, STYLE

    count, colours = ours.shape[1], ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c8c8c")
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.2, 3.9), layout="constrained")
        left, right = figure.subplots(1, 2)
        after, mean, spread, wanted = np.arange(1, count + 1), ours.mean(axis=0), standard(ours), theory.mean(axis=0)
        for k, i in enumerate(range(0, count - 1, max(1, count // 4))):
            look = {"fmt": MARKERS[k], "ms": 4, "color": colours[k], "label": f"task {i + 1}"}
            left.errorbar(after[i:], mean[i, i:], spread[i, i:], **look)
            left.plot(after[i:], wanted[i, i:], color=colours[k], linewidth=1.2)
        left.plot(after, np.diagonal(mean), ":", color="#8c8c8c", label="filter, newest task")
        left.set_yscale("log")
        left.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        left.yaxis.set_major_formatter(ScalarFormatter())
        left.yaxis.set_minor_formatter(NullFormatter())
        left.set(xlabel="after task", ylabel="squared error on the task", xticks=after)
        left.set_title("Linear stream: dots measured, lines theory")
        left.legend(fontsize=8)
        half = count // 2
        for k, (name, values) in enumerate(lines.items()):
            right.plot(
                range(half + 1), 100 * later_errors(values), marker=MARKERS[k], ms=4, color=colours[k], label=name
            )
        right.set(xlabel="tasks learned since", ylabel="% of test images wrong", ylim=(0, None))
        right.set_title(f"Turning digits: tasks 1 to {half}, later")
        right.legend(fontsize=8)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _own(method: Any, stream: Sequence[Task], loss: Loss) -> Array:
    return errors(kept(learned(method, stream)), stream, loss)


def _alone(stream: Sequence[Task], ridge: float) -> float:
    return float(np.mean([wrong(learned(rm.RLS(ridge=ridge), [task])[0], task) for task in stream]))


def _all(how: Any, models: Sequence[Any], streams: Sequence[Any], loss: Loss) -> Array:
    return np.array([errors(how(m), s, loss) for m, s in zip(models, streams, strict=True)])


def _over_others(ours: Array, *others: dict[str, Array]) -> float:
    return float(past(ours).mean() / min(past(values).mean() for group in others for values in group.values()))


def _one(X: Array) -> Array:
    return np.column_stack([np.ones(len(X)), X])


def _pm(values: Array, digits: int = 3) -> str:
    return f"{values.mean():.{digits}f} ± {float(standard(values)):.{digits}f}"


def _ordinal(n: int) -> str:
    return ("1st", "2nd", "3rd", "4th", "5th")[n - 1]


if __name__ == "__main__":
    sys.exit(run("drifting_tasks", make))
