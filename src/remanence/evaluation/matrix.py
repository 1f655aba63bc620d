"""The error matrix: the error on every task after every task, from which all metrics are computed.

    values[i, j] = ε_{i+1, j}     error on task i+1 of the model after j tasks,  j = 0, …, T

The paper prints j = 1..T; column 0, before anything was learned, is needed by the online diagonal ε_{i, i−1}.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.evaluation.curve import ErrorCurve
from remanence.files import json_value

SHOWN = 10  # rows and columns beyond this are left out of the middle of a printed table
ANNOTATED = 15  # more tasks than this and the numbers in a picture become unreadable


@dataclass(frozen=True, eq=False)
class ErrorMatrix:
    """Errors on every task (row) after every task of the stream (column), with the time each task took to learn.

    Parameters
    ----------
    values : array (T, T + 1)
        values[i, j] is the error on task i + 1 of the model after j tasks; column 0 is the model before any task.
    names : sequence of str
        Names of the tasks.
    loss : str
        The loss: "squared", "zero_one" or the name of a function.
    seconds : array (T,)
        How long each task took to learn, NaN where unknown.
    learner : str
        The learner and its settings.
    memory : float
        Bytes of the arrays the learner holds after the last task, NaN where unknown.
    curve : ErrorCurve, optional
        Errors after every few rows, where `evaluate` was asked for them.

    Examples
    --------
    >>> import remanence as rm
    >>> matrix = rm.evaluate(rm.ContinualClassifier(), rm.streams.digits(tasks=2))
    >>> matrix.values.shape, matrix.loss
    ((2, 3), 'zero_one')
    >>> float(matrix.accuracy[0, 0])
    0.0

    References
    ----------
    Lopez-Paz and Ranzato (2017), "Gradient episodic memory for continual learning", NeurIPS.
    """

    values: Array  # (T, T + 1)
    names: tuple[str, ...] = ()
    loss: str = "squared"
    seconds: Array = field(default_factory=lambda: np.empty(0))  # (T,), NaN where unknown
    learner: str = ""
    memory: float = float("nan")  # bytes
    curve: ErrorCurve | None = None

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=float)
        if values.ndim != 2 or not len(values) or values.shape[1] != len(values) + 1:
            raise InputError(
                f"expected values of shape (T, T + 1), got {values.shape}; column 0 is the model before any task"
            )
        names = tuple(map(str, self.names)) or tuple(f"task {t}" for t in range(1, len(values) + 1))
        seconds = np.array(self.seconds, dtype=float)
        seconds = seconds if seconds.size else np.full(len(values), np.nan)
        if len(names) != len(values) or seconds.shape != (len(values),):
            raise InputError(
                f"expected one name and one time for each of {len(values)} tasks, got {len(names)} and {seconds.shape}"
            )
        values.flags.writeable = seconds.flags.writeable = False  # a frozen value, arrays included
        for name, value in (("values", values), ("names", names), ("seconds", seconds)):
            object.__setattr__(self, name, value)

    @property
    def accuracy(self) -> Array:
        """The accuracy, 1 − values; only for loss "zero_one"."""
        if self.loss != "zero_one":
            raise InputError(f"expected errors of loss 'zero_one', got {self.loss!r}; read .values instead")
        return 1.0 - self.values

    def to_dict(self) -> dict[str, Any]:
        """The matrix as a dictionary for JSON; infinity and NaN, which JSON lacks, become text."""
        return {
            "learner": self.learner,
            "loss": self.loss,
            "names": list(self.names),
            "values": json_value(self.values.tolist()),
            "seconds": json_value(self.seconds.tolist()),
            "memory": json_value(self.memory),
            **({} if self.curve is None else {"curve": self.curve.to_dict()}),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "ErrorMatrix":
        """The matrix from a dictionary made by `to_dict`."""
        try:
            values = np.array([[float(v) for v in row] for row in data["values"]])
            seconds = np.array([float(v) for v in data["seconds"]])
            memory = float(data.get("memory", "nan"))  # matrices of early versions do not say
            curve = ErrorCurve.from_dict(data["curve"]) if "curve" in data else None
            return cls(values, tuple(data["names"]), str(data["loss"]), seconds, str(data["learner"]), memory, curve)
        except (KeyError, TypeError) as problem:
            raise InputError(f"expected a dictionary made by ErrorMatrix.to_dict, got {problem!r}") from None

    def __str__(self) -> str:
        tasks = len(self.values)
        digits = ".3f" if self.loss == "zero_one" else ".4g"
        rows, columns = shown(tasks), shown(tasks + 1)
        lines = [["tasks learned", *("…" if j is None else str(j) for j in columns)]]
        for i in rows:
            name = "…" if i is None else self.names[i]
            lines.append(
                [name, *("…" if i is None or j is None else format(self.values[i, j], digits) for j in columns)]
            )
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        title = f"{self.learner + ': ' if self.learner else ''}{self.loss} error on each task"
        return "\n".join([title, *(_line(cells, widths) for cells in lines)])

    def _repr_html_(self) -> str:
        """The matrix as an HTML table for notebooks; larger errors have a stronger colour."""
        from remanence.evaluation.matrix_table import html_table

        return html_table(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw a heat map on the given or new matplotlib axes and return them; one row per task."""
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        tasks = len(self.values)
        finite = self.values[np.isfinite(self.values)]
        highest = 1.0 if self.loss == "zero_one" else max(finite.max(initial=0.0), np.finfo(float).tiny)
        image = ax.imshow(self.values, vmin=0.0, vmax=highest, cmap="viridis", aspect="auto")
        ax.figure.colorbar(image, ax=ax, label=f"{self.loss} error")
        if tasks <= ANNOTATED:
            ax.set_xticks(range(tasks + 1))
            ax.set_yticks(range(tasks), self.names)
            for (i, j), value in np.ndenumerate(self.values):
                dark = value < 0.6 * highest  # viridis turns light towards its top
                ax.text(j, i, f"{value:.2g}", ha="center", va="center", fontsize=8, color="white" if dark else "black")
        ax.set(xlabel="tasks learned", ylabel="error on task", title=self.learner)
        return ax


def shown(count: int) -> list[int | None]:
    """Which of so many rows or columns a table prints; None stands for those left out of the middle."""
    if count <= SHOWN + 1:
        return list(range(count))
    half = SHOWN // 2
    return [*range(half), None, *range(count - half, count)]


def _line(cells: list[str], widths: list[int]) -> str:
    return "  ".join([cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))])
