"""What the data of a run are: rows, features, classes and test rows, in all and by task."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from remanence.streams import Task


@dataclass(frozen=True)
class TaskSummary:
    """The size of one task."""

    name: str
    rows: int
    test_rows: int
    classes: int


@dataclass(frozen=True)
class DataSummary:
    """The size of a stream of labelled rows."""

    tasks: tuple[TaskSummary, ...]
    features: int
    classes: int
    held_out: bool  # whether the test rows are others than the training rows

    @classmethod
    def of(cls, stream: Sequence[Task]) -> "DataSummary":
        """The summary of a stream."""
        tasks = [TaskSummary(t.name, len(t.X), len(t.X_test), len(np.unique(t.Y))) for t in stream]
        classes = len(np.unique(np.concatenate([np.unique(t.Y) for t in stream])))
        held_out = any(t.X_test is not t.X and not np.array_equal(t.X_test, t.X) for t in stream)
        return cls(tuple(tasks), stream[0].X[0].size, classes, held_out)

    @property
    def sentence(self) -> str:
        """The summary in one sentence."""
        rows, test = sum(t.rows for t in self.tasks), sum(t.test_rows for t in self.tasks)
        if self.held_out:
            size = f"{rows:,} training and {test:,} test rows ({100 * test / (rows + test):.0f} % of all)"
        else:
            size = f"{rows:,} rows, tested on the rows that were learned"
        tasks = f"{len(self.tasks)} task{'s' if len(self.tasks) > 1 else ''}"
        return f"{size}, {self.features:,} features, {self.classes:,} classes in {tasks}."

    def to_dict(self) -> dict[str, Any]:
        """The summary as a dictionary for JSON."""
        return asdict(self) | {"tasks": [asdict(task) for task in self.tasks]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "DataSummary":
        """The summary from a dictionary made by `to_dict`."""
        tasks = tuple(TaskSummary(str(t["name"]), *(int(t[k]) for k in SIZES)) for t in data["tasks"])
        return cls(tasks, int(data["features"]), int(data["classes"]), bool(data["held_out"]))


SIZES = ("rows", "test_rows", "classes")
