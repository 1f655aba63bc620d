"""Many small related tasks: a model for each, one model for all, and a dictionary of tasks that learns them in turn.

    python -m experiments.related_tasks

The model of each task is a sum of two of four atoms, with noisy samples of it; few rows, then the same number again of
every task in another order. Settings are chosen on other seeds. Errors are those of the models, relative to their size.
"""

import numpy as np

import remanence as rm
from remanence.arrays import Array

FEATURES, ATOMS, TASKS, NOISE, SEEDS = 20, 4, 40, 0.3, 3
SPARSITY, RIDGE = (0.3, 3.0, 30.0), (0.1, 1.0, 10.0)
Tasks = list[tuple[Array, Array, Array]]


def related(rows: int, seed: int) -> Tasks:
    """Rows, targets and the true model of every task."""
    rng = np.random.default_rng(seed)
    atoms, tasks = rng.standard_normal((FEATURES, ATOMS)), []
    for _ in range(TASKS):
        W = atoms @ (rng.standard_normal(ATOMS) * (rng.permutation(ATOMS) < 2))
        X = rng.standard_normal((rows, FEATURES))
        tasks.append((X, X @ W + NOISE * rng.standard_normal(rows), W))
    return tasks


def error(models: list[Array], tasks: Tasks) -> float:
    """√(Σ‖found − true‖² / Σ‖true‖²)."""
    true = np.array([W for _, _, W in tasks])
    return float(np.linalg.norm(np.array(models) - true) / np.linalg.norm(true))


def single(tasks: Tasks) -> list[Array]:
    """Ridge regression for every task, its ridge chosen from the rows of the task."""
    rls = rm.RLS("auto")
    return [rls.weights(rls.update(rls.init(FEATURES, 1), X, y[:, None]))[:, 0] for X, y, _ in tasks]


def joint(tasks: Tasks) -> list[Array]:
    """One ridge regression over the rows of all tasks."""
    rls = rm.RLS("auto")
    state = rls.init(FEATURES, 1)
    for X, y, _ in tasks:
        state = rls.update(state, X, y[:, None])
    return [rls.weights(state)[:, 0]] * len(tasks)


def dictionary(tasks: Tasks, method: rm.TaskDictionary, parts: int = 1, rounds: int = 0) -> list[Array]:
    """The dictionary, which gets the rows of each task in so many parts, one pass over the tasks for each part."""
    state, order = method.init(FEATURES, 1), np.random.default_rng(0)
    for part in range(parts):
        for t in range(TASKS) if part == 0 else order.permutation(TASKS):
            X, y, _ = tasks[t]
            own = slice(part * len(X) // parts, (part + 1) * len(X) // parts)
            state = method.update(state, X[own], y[own, None], task=int(t))
    if rounds:
        state = method.refined(state, rounds)
    return [method.weights(state, t)[:, 0] for t in range(TASKS)]


def main() -> None:
    print("rows per task   a model for each   one for all   dictionary   refined   in two parts, refined   atoms used")
    for rows in (5, 10, 20, 40):
        tried = related(rows, 100)
        settings = [rm.TaskDictionary(ATOMS, mu, ridge) for mu in SPARSITY for ridge in RIDGE]
        method = min(settings, key=lambda m: error(dictionary(tried, m), tried))
        found = []
        for seed in range(SEEDS):
            tasks = related(rows, seed)
            ways = (
                single(tasks),
                joint(tasks),
                dictionary(tasks, method),
                dictionary(tasks, method, rounds=10),
                dictionary(tasks, method, parts=2, rounds=10),
            )
            state = method.init(FEATURES, 1)
            for X, y, _ in tasks:
                state = method.update(state, X, y[:, None])
            found.append([*(error(models, tasks) for models in ways), (state.codes != 0).sum(axis=1).mean()])
        alone, one, once, refined, parts, used = np.mean(found, axis=0)
        print(f"{rows:13d}{alone:19.3f}{one:14.3f}{once:13.3f}{refined:10.3f}{parts:24.3f}{used:13.1f}")


if __name__ == "__main__":
    main()
