"""Claims about the dictionary of tasks: atoms that all tasks share are a ridge solution, given the codes.

minimise over L   Σₜ ‖yₜ − Xₜ L sₜ‖² + λ‖L‖²,   a least-squares problem with rows sₜᵀ ⊗ xᵀ
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference, rounding
from remanence.certificates.instances.data import Generator, Instance
from remanence.methods import TaskDictionary

RIDGE = 0.1
Tasks = list[tuple[Array, Array]]


def related_tasks(rng: Generator) -> Iterator[Instance]:
    """Noisy tasks whose models are sums of two of three atoms; each has fewer or more rows than features."""
    while True:
        d, count = int(rng.integers(3, 8)), int(rng.integers(4, 9))
        atoms, tasks = rng.standard_normal((d, 3)), []
        for _ in range(count):
            code = rng.standard_normal(3) * (rng.permutation(3) < 2)
            X = rng.standard_normal((int(rng.integers(2, 15)), d))
            tasks.append((X, (X @ atoms @ code + 0.1 * rng.standard_normal(len(X)))[:, None]))
        yield {"tasks": tasks}


def _new() -> TaskDictionary:
    return TaskDictionary(atoms=3, sparsity=0.05, ridge=RIDGE)


def _learned(method: Any, tasks: Tasks) -> Any:
    state = method.init(tasks[0][0].shape[1], 1)
    for X, Y in tasks:
        state = method.update(state, X, Y)
    return state


def _system(tasks: Tasks, codes: Array) -> tuple[Array, Array]:
    """The rows sᵀ ⊗ xᵀ of all samples and those of the prior, and the targets."""
    rows = [np.kron(code[:, 0], X) for (X, _), code in zip(tasks, codes, strict=True)]
    width = rows[0].shape[1]
    A = np.concatenate([*rows, np.sqrt(RIDGE) * np.eye(width)])
    return A, np.concatenate([*(Y for _, Y in tasks), np.zeros((width, 1))])


@claim(
    "The atoms of a dictionary of tasks are the ridge solution over all samples of all tasks, given the codes",
    source="Ruvolo and Eaton (2013); related tasks in Table 1",
    instances=related_tasks,
    conditions=(f"ridge {RIDGE}",),
)
def dictionary_of_tasks_is_ridge_regression(tasks: Tasks, method: Any = None) -> Evidence:
    """The atoms after the last task, against least squares over the rows themselves."""
    method = method or _new()
    state = _learned(method, tasks)
    A, b = _system(tasks, state.codes)
    exact = np.linalg.lstsq(A, b, rcond=None)[0].reshape(state.atoms.shape[::-1]).T
    kappa = float(np.linalg.cond(A)) ** 2
    return Evidence(difference(state.atoms, exact), rounding(kappa, 4 * A.size), (f"cond² {kappa:.0e}",))


@claim(
    "A task learned in two parts has the model that all of its rows at once give, in a dictionary of tasks",
    source="completes Ruvolo and Eaton (2013), whose tasks come once",
    instances=related_tasks,
)
def old_tasks_of_a_dictionary_may_get_more_rows(tasks: Tasks, method: Any = None) -> Evidence:
    """The last task in two parts, against in one."""
    method = method or _new()
    whole, (X, Y) = _learned(method, tasks), tasks[-1]
    state = method.update(_learned(method, tasks[:-1]), X[:1], Y[:1])
    parts = method.update(state, X[1:], Y[1:], task=len(tasks) - 1)
    kappa = float(np.linalg.cond(_system(tasks, whole.codes)[0])) ** 2 * len(tasks)
    off = max(difference(parts.atoms @ parts.codes[-1], whole.atoms @ whole.codes[-1]), 0.0)
    return Evidence(off, rounding(kappa, 400 * whole.whole.factor.size), (f"cond² · tasks {kappa:.0e}",))
