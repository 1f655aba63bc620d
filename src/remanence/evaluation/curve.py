"""The errors on all tasks while tasks are being learned: a column after every few rows.

values[i, s] = error on task i+1 of the model after rows[s] rows, the last of them of task tasks[s]
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.files import json_value


@dataclass(frozen=True, eq=False)
class ErrorCurve:
    """Errors on every task after every few rows, as `evaluate` with `every` records them.

    Parameters
    ----------
    values : array (T, S)
        values[i, s] is the error on task i + 1 at step s.
    tasks : array (S,)
        The task that was being learned, counting from 1.
    rows : array (S,)
        How many rows had been learned, of all tasks.

    Examples
    --------
    >>> import remanence as rm
    >>> matrix = rm.evaluate(rm.ContinualClassifier(), rm.streams.digits(tasks=2), every=100)
    >>> matrix.curve.rows[:3].tolist(), matrix.curve.tasks[-1].item()
    ([100, 200, 300], 2)
    """

    values: Array  # (T, S)
    tasks: Array  # (S,)
    rows: Array  # (S,)

    def __post_init__(self) -> None:
        values, tasks, rows = np.array(self.values, float), np.array(self.tasks, int), np.array(self.rows, int)
        if values.ndim != 2 or not values.size or tasks.shape != rows.shape or tasks.shape != values.shape[1:]:
            raise InputError(f"expected values (T, S), tasks (S,), rows (S,), got {values.shape}, {tasks.shape}")
        if (np.diff(tasks) < 0).any() or tasks.min() < 1 or tasks.max() > len(values):
            raise InputError(f"expected tasks in order, from 1 to {len(values)}, got {tasks.tolist()!r:.60}")
        for name, value in (("values", values), ("tasks", tasks), ("rows", rows)):
            value.flags.writeable = False
            object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """The curve as a dictionary for JSON."""
        return {"values": json_value(self.values.tolist()), "tasks": self.tasks.tolist(), "rows": self.rows.tolist()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "ErrorCurve":
        """The curve from a dictionary made by `to_dict`."""
        try:
            values = np.array([[float(v) for v in row] for row in data["values"]])
            return cls(values, np.array(data["tasks"]), np.array(data["rows"]))
        except (KeyError, TypeError) as problem:
            raise InputError(f"expected a dictionary made by ErrorCurve.to_dict, got {problem!r}") from None

    def plot(self, ax: Any = None) -> Any:
        """Draw the error on each task over the rows learned, from its own first row on; return the axes."""
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        for i, errors in enumerate(self.values):
            met = self.tasks > i
            ax.plot(self.rows[met], errors[met], label=f"task {i + 1}")
        for start in self.rows[np.flatnonzero(np.diff(self.tasks))]:
            ax.axvline(start, color="0.7", linewidth=0.8)
        ax.set(xlabel="rows learned", ylabel="error on task")
        ax.legend()
        return ax
