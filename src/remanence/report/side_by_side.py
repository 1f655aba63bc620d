"""Several runs side by side: what each learner kept in each of them, and in which settings they differ."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from remanence.errors import InputError
from remanence.report.outcome import Outcome
from remanence.report.page import render
from remanence.report.pictures import accuracy_figure, rendered
from remanence.report.run import Run
from remanence.report.vector import curve_picture
from remanence.report.words import figures
from remanence.terminal_text import plain_text


@dataclass(frozen=True)
class SideBySide:
    """Runs by name, in the order given."""

    runs: Mapping[str, Run]

    def __post_init__(self) -> None:
        if len(self.runs) < 2:
            raise InputError(f"expected at least two different runs, got {len(self.runs)}; name two or more folders")

    @property
    def learners(self) -> dict[str, list[Outcome | None]]:
        """For each learner its outcome in every run, None where it is missing."""
        labels = dict.fromkeys(outcome.label for run in self.runs.values() for outcome in run.outcomes)
        found = [{outcome.label: outcome for outcome in run.outcomes} for run in self.runs.values()]
        return {label: [outcomes.get(label) for outcomes in found] for label in labels}

    @property
    def differing(self) -> dict[str, list[Any]]:
        """The settings that are not the same in all runs, with the value in each."""
        keys = dict.fromkeys(key for run in self.runs.values() for key in run.settings)
        values = {key: [run.settings.get(key) for run in self.runs.values()] for key in keys}
        return {key: found for key, found in values.items() if any(value != found[0] for value in found)}

    def to_dict(self) -> dict[str, Any]:
        """The comparison as a dictionary for JSON."""
        return {
            "runs": [
                {"name": name, "headline": run.headline, "command": run.command, "settings": run.settings}
                for name, run in self.runs.items()
            ],
            "differing": self.differing,
            "learners": {
                label: [None if outcome is None else outcome.to_dict()["metrics"] for outcome in outcomes]
                for label, outcomes in self.learners.items()
            },
        }

    def page(self) -> str:
        """The comparison as a self-contained HTML page."""
        places = [o.label for run in self.runs.values() for o in run.outcomes if o.role != "reference"]
        curves = [
            curve_picture(run, rendered(accuracy_figure(run, places), "svg"), f"run{k}")
            for k, run in enumerate(self.runs.values())
        ]
        return render(
            "side_by_side.html.j2",
            runs=[(*named, curve) for named, curve in zip(self.runs.items(), curves, strict=True)],
            rows=[(label, [_cells(outcome) for outcome in found]) for label, found in self.learners.items()],
            differing=[(key, [_said(value) for value in found]) for key, found in self.differing.items()],
        )

    def table(self) -> Table:
        """Accuracy and forgetting of every learner in every run, for the terminal."""
        table = Table(box=SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False)
        table.add_column("", no_wrap=True)
        for name in self.runs:
            table.add_column(plain_text(name).append("\naccuracy %"), justify="right", overflow="fold")
            table.add_column("forgetting", justify="right", vertical="bottom")
        for label, found in self.learners.items():
            table.add_row(plain_text(label), *(cell for outcome in found for cell in _cells(outcome)))
        return table


def _cells(outcome: Outcome | None) -> list[str]:
    """Accuracy and forgetting, or dashes if the learner was not in the run."""
    return ["–", "–"] if outcome is None else figures(outcome)[:2]


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else "–" if value is None else str(value)
