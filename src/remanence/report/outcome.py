"""The results of one learner on a stream, for one seed or several: means and standard deviations.

mean = Σ m_s / S,     sd = √(Σ (m_s − mean)² / (S − 1))     over the seeds s = 1, …, S     (O1)
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from remanence.arrays import Array
from remanence.certificates import Certificate
from remanence.errors import InputError
from remanence.evaluation import ErrorMatrix, metrics
from remanence.evaluation.confusion import Confusion
from remanence.evaluation.reliability import Reliability

Role = Literal["learner", "floor", "reference"]


@dataclass(frozen=True)
class Outcome:
    """The results of one learner.

    Parameters
    ----------
    name, label : str
        The name in files, and the label in tables and pictures.
    matrices : tuple of ErrorMatrix
        One per seed, of loss "zero_one".
    role : "learner", "floor" or "reference"
        A floor forgets by design; a reference keeps all rows and is retrained on them.
    note : str
        A remark for the reader of the table.
    certificates : tuple of Certificate
        Of the first seed; empty if they were not checked.
    confusion : Confusion, optional
        Of the test rows of all tasks after the last one, for the first seed.
    reliability : Reliability, optional
        Of the probabilities given to these rows, where the learner gives any.

    Examples
    --------
    >>> import remanence as rm
    >>> matrix = rm.evaluate(rm.ContinualClassifier(), rm.streams.digits(tasks=2))
    >>> outcome = rm.report.Outcome("rls", "RLS", (matrix,))
    >>> print(f"{outcome.metrics['average_accuracy']:.2f}")
    0.93
    """

    name: str
    label: str
    matrices: tuple[ErrorMatrix, ...]  # one per seed
    role: Role = "learner"
    note: str = ""
    certificates: tuple[Certificate, ...] = ()  # of the first seed
    confusion: Confusion | None = None  # of the first seed, after the last task
    reliability: Reliability | None = None  # likewise

    def __post_init__(self) -> None:
        if not self.matrices:
            raise InputError(f"expected at least one error matrix of {self.name!r}, got none")
        for matrix in self.matrices:
            if matrix.loss != "zero_one":
                raise InputError(f"expected a matrix of loss 'zero_one', got {matrix.loss!r}; reports show classifiers")
            if not np.isfinite(matrix.values).all():
                raise InputError(f"expected finite errors of {self.name!r}, got NaN or infinity")
            if len(matrix.values) != len(self.matrices[0].values):
                raise InputError("expected as many tasks for every seed, got different numbers of them")
        if self.role not in get_args(Role):
            raise InputError(f"expected a role among {', '.join(get_args(Role))}, got {self.role!r}")

    @property
    def short_label(self) -> str:
        """The label without the settings in parentheses after it."""
        return self.label.partition(" (")[0]

    @cached_property
    def matrix(self) -> ErrorMatrix:
        """The mean over the seeds; tasks that are not the same for all of them are numbered."""
        first = self.matrices[0]
        if len(self.matrices) == 1:
            return first
        values, seconds = (np.mean([getattr(m, part) for m in self.matrices], axis=0) for part in ("values", "seconds"))
        names = first.names if len({m.names for m in self.matrices}) == 1 else ()
        memory = float(np.mean([m.memory for m in self.matrices]))
        return ErrorMatrix(values, names, first.loss, seconds, first.learner, memory)

    @cached_property
    def metrics(self) -> dict[str, float]:
        """The row of the table: fractions, seconds of learning, bytes of memory; means over the seeds."""
        return {key: float(values.mean()) for key, values in self._metrics.items()}

    @cached_property
    def spread(self) -> dict[str, float]:
        """The standard deviation of each metric over the seeds (O1); nothing for a single seed."""
        if len(self.matrices) == 1:
            return {}
        return {key: float(values.std(ddof=1)) for key, values in self._metrics.items()}

    @cached_property
    def _metrics(self) -> dict[str, Array]:
        rows = [_metrics_of(matrix) for matrix in self.matrices]
        return {key: np.array([row[key] for row in rows]) for key in rows[0]}

    @cached_property
    def curves(self) -> Array:
        """(seeds, T): the mean accuracy on the tasks learned so far, after each task."""
        tasks = len(self.matrices[0].values)
        return np.array([[1.0 - metrics.average(m, t) for t in range(1, tasks + 1)] for m in self.matrices])

    @property
    def curve(self) -> list[float]:
        """The mean of the curves over the seeds."""
        return [float(share) for share in self.curves.mean(axis=0)]

    def to_dict(self) -> dict[str, Any]:
        """The outcome as a dictionary for JSON; derived figures are included for readers."""
        return {
            "name": self.name,
            "label": self.label,
            "role": self.role,
            "note": self.note,
            "metrics": _without_nan(self.metrics),
            "spread": _without_nan(self.spread),
            "accuracy_after_each_task": self.curve,
            "matrix": self.matrix.to_dict(),
            "matrices": [matrix.to_dict() for matrix in self.matrices],
            "certificates": [certificate.to_dict() for certificate in self.certificates],
            "confusion": None if self.confusion is None else self.confusion.to_dict(),
            "reliability": None if self.reliability is None else self.reliability.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Outcome":
        """The outcome from a dictionary made by `to_dict`; early versions had one seed and no certificates."""
        matrices = tuple(ErrorMatrix.from_dict(matrix) for matrix in data.get("matrices", [data["matrix"]]))
        certificates = tuple(Certificate.from_dict(certificate) for certificate in data.get("certificates", ()))
        name, label, note = (str(data[part]) for part in ("name", "label", "note"))
        role: Role = "reference" if data["role"] == "ceiling" else data["role"]  # its name in schemas 1 and 2
        confusion = Confusion.from_dict(data["confusion"]) if data.get("confusion") else None
        reliability = Reliability.from_dict(data["reliability"]) if data.get("reliability") else None
        return cls(name, label, matrices, role, note, certificates, confusion, reliability)


def _metrics_of(matrix: ErrorMatrix) -> dict[str, float]:
    return {
        "average_accuracy": 1.0 - metrics.average(matrix),
        "forgetting": metrics.forgetting(matrix),
        "backward_transfer": metrics.backward_transfer(matrix),
        "forward_transfer": metrics.forward_transfer(matrix),
        "seconds": float(matrix.seconds.sum()),
        "memory": matrix.memory,
    }


def _without_nan(values: dict[str, float]) -> dict[str, float | None]:
    return {key: value if np.isfinite(value) else None for key, value in values.items()}
