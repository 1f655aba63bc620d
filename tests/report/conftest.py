"""Small runs made by hand, whose every figure is known."""

import numpy as np
import pytest

from remanence.certificates import Certificate
from remanence.evaluation import ErrorMatrix
from remanence.report import Outcome, Run

HELD = Certificate("It equals joint training", "a <source>", ("cond 2",), 1e-15, 1e-12, name="equal")
FAILED = Certificate("Answers have not moved", "here", (), 0.5, 1e-12)
UNMET = Certificate("Information grows", "there", (), float("nan"), float("nan"), unmet="it keeps <nothing>")


def make(name, label, last, role="learner", note="", learned=0.0, tasks=2, certificates=()):
    """Errors 1 before a task is learned, `learned` just after, `last` at the end; a list of `last` is one a seed."""
    several = last if isinstance(last[0], list) else [last]
    matrices = tuple(matrix(name, one, learned, tasks) for one in several)
    return Outcome(name, label, matrices, role, note, certificates)


def matrix(name, last, learned, tasks):
    values = np.ones((tasks, tasks + 1))
    for i in range(tasks):
        values[i, i + 1 :] = learned
    values[:, -1] = last
    names = [f"task {t}" for t in range(1, tasks + 1)]
    return ErrorMatrix(values, tuple(names), "zero_one", np.full(tasks, 0.5), name, 2048)


@pytest.fixture
def outcome():
    return make


@pytest.fixture
def run():
    return Run(
        (
            make("finetune", "Fine-tuning", [1.0, 0.0], "floor"),
            make("rls", "RLS", [0.1, 0.1], note="A note with <b> & quotes.", certificates=(HELD, FAILED, UNMET)),
            make("lms", "LMS", [0.9, 0.1]),
            make("joint", "Joint training", [0.05, 0.05], "ceiling"),
        ),
        {"stream": "by hand", "seed": 0},
        "remanence run --stream 'by hand'",
        {"python": "3"},
        ("About <the> stream.",),
    )


@pytest.fixture
def seeded():
    """Two seeds, whose mean and spread are known."""
    rls = make("rls", "RLS", [[0.1, 0.1], [0.3, 0.1]])
    return Run((rls, make("joint", "Joint training", [[0.0, 0.0], [0.2, 0.2]], "ceiling")), {"stream": "by hand"})
