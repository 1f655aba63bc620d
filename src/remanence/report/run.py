"""A run: what several learners made of one stream, as one value that can be saved, printed and drawn."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from remanence.errors import FileError, InputError
from remanence.evaluation import ErrorMatrix, metrics
from remanence.files import write_atomically

SCHEMA = 1  # of results.json; raised when a reader of the old one would misread the new one

Role = Literal["learner", "floor", "ceiling"]


@dataclass(frozen=True)
class Outcome:
    """How one learner fared; a `floor` forgets by design and a `ceiling` breaks the rules by keeping all rows."""

    name: str
    label: str
    matrix: ErrorMatrix
    role: Role = "learner"
    note: str = ""

    def __post_init__(self) -> None:
        if self.matrix.loss != "zero_one":
            raise InputError(f"expected a matrix of loss 'zero_one', got {self.matrix.loss!r}; a run counts mistakes")
        if self.role not in get_args(Role):
            raise InputError(f"expected a role among {', '.join(get_args(Role))}, got {self.role!r}")

    @property
    def metrics(self) -> dict[str, float]:
        """The row of the table; shares of 1, and seconds of learning."""
        return {
            "average_accuracy": 1.0 - metrics.average(self.matrix),
            "forgetting": metrics.forgetting(self.matrix),
            "backward_transfer": metrics.backward_transfer(self.matrix),
            "forward_transfer": metrics.forward_transfer(self.matrix),
            "seconds": float(self.matrix.seconds.sum()),
        }

    @property
    def curve(self) -> list[float]:
        """The mean accuracy on the tasks learned so far, after each task."""
        return [1.0 - metrics.average(self.matrix, t) for t in range(1, len(self.matrix.values) + 1)]


@dataclass(frozen=True)
class Run:
    """Several learners on one stream, and all that is needed to run it again."""

    outcomes: tuple[Outcome, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.outcomes:
            raise InputError("expected at least one learner in a run, got none")
        if len({outcome.matrix.names for outcome in self.outcomes}) > 1:
            raise InputError("expected all learners of a run to learn the same tasks, got different ones")

    @property
    def tasks(self) -> tuple[str, ...]:
        return self.outcomes[0].matrix.names

    @property
    def headline(self) -> str:
        """The best learner beside the ceiling and the floor, in one sentence."""
        best = max(self._with_role("learner") or self.outcomes, key=_accuracy)
        after = f"after {len(self.tasks)} task{'s' if len(self.tasks) > 1 else ''}"
        parts = [f"{best.label} keeps {_accuracy(best):.1%} {after}".replace("%", " %")]
        for ceiling in self._with_role("ceiling"):
            if ceiling is not best:
                gap = round(100 * (_accuracy(ceiling) - _accuracy(best)), 1)
                parts[0] += f", {abs(gap):.1f} points {'above' if gap < 0 else 'below'} {_inline(ceiling.label)}"
        parts += [
            f"{_inline(floor.label)} keeps {_accuracy(floor):.1%}".replace("%", " %")
            for floor in self._with_role("floor")
            if floor is not best
        ]
        return "; ".join(parts) + "."

    def _with_role(self, role: Role) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.role == role]

    def to_dict(self) -> dict[str, Any]:
        """The run as plain JSON; what can be worked out from the matrices is written too, for those who only read."""
        return {
            "schema": SCHEMA,
            "headline": self.headline,
            "command": self.command,
            "versions": self.versions,
            "settings": self.settings,
            "notes": list(self.notes),
            "learners": [
                {
                    "name": o.name,
                    "label": o.label,
                    "role": o.role,
                    "note": o.note,
                    "metrics": o.metrics,
                    "accuracy_after_each_task": o.curve,
                    "matrix": o.matrix.to_dict(),
                }
                for o in self.outcomes
            ],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Run":
        """The run that `to_dict` wrote down; its metrics are worked out anew."""
        try:
            if data["schema"] != SCHEMA:
                raise InputError(f"expected a run of schema {SCHEMA}, got {data['schema']!r}; use its own version")
            outcomes = tuple(
                Outcome(o["name"], o["label"], ErrorMatrix.from_dict(o["matrix"]), o["role"], o["note"])
                for o in data["learners"]
            )
            return cls(outcomes, data["settings"], data["command"], data["versions"], tuple(data["notes"]))
        except (KeyError, TypeError) as problem:
            raise InputError(f"expected a dictionary made by Run.to_dict, got {problem!r}") from None

    def save(self, path: Path | str) -> None:
        """Write the run as JSON; a reader sees the old file or the new one."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        write_atomically(Path(path), text.encode() + b"\n")

    @classmethod
    def load(cls, path: Path | str) -> "Run":
        """The run that `save` wrote."""
        try:
            return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        except OSError as problem:
            raise FileError(f"cannot read {path}: {problem.strerror}") from None
        except ValueError as problem:  # not JSON, or JSON of something else
            raise FileError(f"expected {path} to be the results.json of a run: {problem}") from None


def _accuracy(outcome: Outcome) -> float:
    return 1.0 - metrics.average(outcome.matrix)


def _inline(label: str) -> str:
    """A label inside a sentence: words lose their capital, acronyms keep it."""
    return label if label[1:2].isupper() else label[:1].lower() + label[1:]
