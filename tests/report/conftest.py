"""Small runs made by hand, whose every figure is known."""

import numpy as np
import pytest

from remanence.evaluation import ErrorMatrix
from remanence.report import Outcome, Run


def make(name, label, last, role="learner", note="", learned=0.0, tasks=2):
    """Errors 1 before a task is learned, `learned` just after, `last` at the end."""
    values = np.ones((tasks, tasks + 1))
    for i in range(tasks):
        values[i, i + 1 :] = learned
    values[:, -1] = last
    names = [f"task {t}" for t in range(1, tasks + 1)]
    return Outcome(name, label, ErrorMatrix(values, tuple(names), "zero_one", np.full(tasks, 0.5), name), role, note)


@pytest.fixture
def outcome():
    return make


@pytest.fixture
def run():
    return Run(
        (
            make("finetune", "Fine-tuning", [1.0, 0.0], "floor"),
            make("rls", "RLS", [0.1, 0.1], note="A note with <b> & quotes."),
            make("lms", "LMS", [0.9, 0.1]),
            make("joint", "Joint training", [0.05, 0.05], "ceiling"),
        ),
        {"stream": "by hand", "seed": 0},
        "remanence run --stream 'by hand'",
        {"python": "3"},
        ("About <the> stream.",),
    )
