"""The results of several learners on one stream, as one value that can be saved, printed and drawn."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remanence.certificates import Certificate
from remanence.errors import FileError, InputError
from remanence.files import write_atomically
from remanence.report.data_summary import DataSummary
from remanence.report.folders import RESULTS
from remanence.report.outcome import Outcome, Role

SCHEMA = 2  # of results.json; raised when a reader of the old one would misread the new one
READABLE = (1, 2)  # 1 had one matrix per learner, 2 has one per seed
PARTS = {"learners": list, "settings": dict, "command": str, "versions": dict, "notes": list}  # in both


@dataclass(frozen=True)
class Run:
    """The results of several learners on one stream, with all that is needed to repeat it.

    Parameters
    ----------
    outcomes : tuple of Outcome
    settings : dict
    command : str
        The command that repeats the run.
    versions : dict
        Versions of the packages that the numbers depend on.
    notes : tuple of str
        Remarks about the stream.
    relations : tuple of Certificate
        Between methods of the run; empty if they were not checked.
    data : DataSummary, optional
        The size of the stream.

    Examples
    --------
    >>> import remanence as rm, tempfile
    >>> matrix = rm.evaluate(rm.ContinualClassifier(), rm.streams.digits(tasks=2))
    >>> run = rm.report.Run((rm.report.Outcome("rls", "RLS", (matrix,)),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run.save(folder + "/results.json")
    ...     rm.report.Run.load(folder).headline
    'RLS keeps 93.3 % after 2 tasks.'
    """

    outcomes: tuple[Outcome, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    relations: tuple[Certificate, ...] = ()  # between methods of the run
    data: DataSummary | None = None

    def __post_init__(self) -> None:
        if not self.outcomes:
            raise InputError("expected at least one learner in a run, got none")
        if len({tuple(matrix.names for matrix in outcome.matrices) for outcome in self.outcomes}) > 1:
            raise InputError("expected all learners of a run to learn the same tasks, got different ones")

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks, in the order they were learned."""
        return self.outcomes[0].matrix.names

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return len(self.outcomes[0].matrices)

    @property
    def ranked(self) -> tuple[Outcome, ...]:
        """The outcomes with the highest accuracy first."""
        return tuple(sorted(self.outcomes, key=_accuracy, reverse=True))

    @property
    def best(self) -> Outcome:
        """The best learner; the best of all if there are only floors and references."""
        return max(self._with_role("learner") or self.outcomes, key=_accuracy)

    @property
    def best_reference(self) -> Outcome | None:
        """The best of the references other than `best`, if there is one."""
        return max((o for o in self._with_role("reference") if o is not self.best), key=_accuracy, default=None)

    @property
    def headline(self) -> str:
        """One sentence: the best learner, how far it is from the best reference, and what the floor keeps."""
        best, reference = self.best, self.best_reference
        after = f"after {len(self.tasks)} task{'s' if len(self.tasks) > 1 else ''}"
        over = f" (mean of {self.seeds} seeds)" if self.seeds > 1 else ""
        parts = [f"{best.short_label} keeps {_percent(best)} {after}{over}"]
        if reference is not None:
            parts[0] += f", {_distance(best, reference, len(self._with_role('reference')))}"
        parts += [
            f"{_inline(floor.short_label)} keeps {_percent(floor)}"
            for floor in self._with_role("floor")
            if floor is not best
        ]
        return "; ".join(parts) + "."

    def _with_role(self, role: Role) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.role == role]

    def to_dict(self) -> dict[str, Any]:
        """The run as a dictionary for JSON; figures derived from the matrices are included for readers."""
        return {
            "schema": SCHEMA,
            "headline": self.headline,
            "command": self.command,
            "versions": self.versions,
            "settings": self.settings,
            "notes": list(self.notes),
            "learners": [outcome.to_dict() for outcome in self.outcomes],
            "relations": [certificate.to_dict() for certificate in self.relations],
            "data": None if self.data is None else self.data.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Run":
        """The run from a dictionary made by `to_dict`; its metrics are computed from the matrices."""
        try:
            if data["schema"] not in READABLE:
                raise InputError(f"expected a run of schema {SCHEMA}, got {data['schema']!r}; use its own version")
            for name, kind in PARTS.items():
                if not isinstance(data[name], kind):
                    raise TypeError(f"{name} that is no {kind.__name__}")
            outcomes = tuple(Outcome.from_dict(outcome) for outcome in data["learners"])
            relations = tuple(Certificate.from_dict(certificate) for certificate in data.get("relations", ()))
            notes = tuple(map(str, data["notes"]))
            summary = DataSummary.from_dict(data["data"]) if data.get("data") else None
            return cls(outcomes, data["settings"], data["command"], data["versions"], notes, relations, summary)
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as problem:
            raise InputError(f"expected a dictionary made by Run.to_dict, got {problem!r}") from None

    def save(self, path: Path | str) -> None:
        """Write the run as JSON, atomically."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        write_atomically(Path(path), text.encode() + b"\n")

    @classmethod
    def load(cls, path: Path | str) -> "Run":
        """Load a run; `path` is the file written by `save`, or the folder of a run."""
        path = Path(path)
        path = path / RESULTS if path.is_dir() else path
        try:
            return cls.from_dict(json.loads(path.read_text(encoding="utf-8")))
        except OSError as problem:
            raise FileError(f"cannot read {path}: {problem.strerror}; expected the folder of a finished run") from None
        except RecursionError:
            raise FileError(f"expected {path} to be the results.json of a run, got too deeply nested JSON") from None
        except ValueError as problem:  # not JSON, or JSON of something else
            raise FileError(f"expected {path} to be the results.json of a run: {problem}") from None

    def plot(self, ax: Any = None) -> Any:
        """Draw the accuracy after each task on the given or new matplotlib axes and return them."""
        import matplotlib.pyplot as plt

        from remanence.report.pictures import draw_accuracy

        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        draw_accuracy(ax, self)
        ax.legend(frameon=False)
        return ax

    def _repr_html_(self) -> str:
        """Headline, table and curve for notebooks."""
        from remanence.report.page import notebook_view

        return notebook_view(self)


def _accuracy(outcome: Outcome) -> float:
    return outcome.metrics["average_accuracy"]


def _percent(outcome: Outcome) -> str:
    return f"{100 * _accuracy(outcome):.1f} %"


def _distance(best: Outcome, reference: Outcome, count: int) -> str:
    """How far the best learner is from the best of the references, which are retrained on all rows."""
    gap = round(100 * (_accuracy(reference) - _accuracy(best)), 1)
    where = "level with" if gap == 0 else f"{abs(gap):.1f} points {'above' if gap < 0 else 'below'}"
    which = "the better reference, " if count == 2 else "the best reference, " if count > 2 else ""
    return f"{where} {which}{_inline(reference.short_label)} ({_percent(reference)})"


def _inline(label: str) -> str:
    """A label inside a sentence: words in lower case, acronyms unchanged."""
    return label if label[1:2].isupper() else label[:1].lower() + label[1:]
