"""A run on the terminal: small matrices of errors, one table, and the sentence that sums it up."""

from typing import TYPE_CHECKING

from rich.columns import Columns
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from remanence.report.run import Outcome, Run

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN = 10  # tasks; more are left out of the middle of a printed matrix


def show(run: Run, console: Console) -> None:
    """Print everything about a run but its files."""
    console.print(Text("Wrong answers in % on each task (row), after learning so many tasks (column)", "bold"))
    console.print(Columns([Padding(error_matrix(outcome), (1, 3, 0, 0)) for outcome in run.outcomes], padding=0))
    console.print()
    console.print(summary(run))
    notes = Table.grid(padding=(0, 1))
    for note in all_notes(run):
        notes.add_row(Text(" ·", "dim"), Text(note, "dim"))
    if notes.rows:
        console.print(notes)
    console.print(Text(f"\n{run.headline}", "bold"))


def all_notes(run: Run) -> list[str]:
    """What a reader of the table should know: about the stream, then about single learners."""
    return [*run.notes, *(outcome.note for outcome in run.outcomes if outcome.note)]


def error_matrix(outcome: Outcome) -> "RenderableType":
    """The matrix in whole per cent; what was not learned yet is dim."""
    values, names = outcome.matrix.values, outcome.matrix.names
    rows, columns = _shown(len(values)), _shown(len(values) + 1)
    grid = Table.grid()
    grid.add_column(no_wrap=True, max_width=14)
    for _ in columns:
        grid.add_column(justify="right", width=4)
    grid.add_row("", *(Text("…" if j is None else str(j), "dim") for j in columns))
    for i in rows:
        if i is None:
            grid.add_row(*["…"] * (len(columns) + 1))
            continue
        cells = (
            Text("…") if j is None else Text(f"{100 * values[i, j]:.0f}", _style(values[i, j], j > i)) for j in columns
        )
        grid.add_row(Text(names[i], overflow="ellipsis"), *cells)
    return Group(Text(outcome.label, "bold underline"), grid)


def summary(run: Run) -> Table:
    """The table of metrics, in per cent and points."""
    table = Table(title_justify="left", header_style="bold", padding=(0, 1), expand=False)
    table.add_column("", no_wrap=True)
    for heading in ("average\naccuracy %", "\nforgetting", "backward\ntransfer", "forward\ntransfer", "\nseconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for outcome in run.outcomes:
        table.add_row(Text(outcome.label, "italic" if outcome.role == "ceiling" else ""), *figures(outcome))
    return table


def figures(outcome: Outcome) -> list[str]:
    """The metrics as they are printed everywhere: accuracy in per cent, differences in points with their sign."""
    m = outcome.metrics
    points = [_points(m[key]) for key in ("forgetting", "backward_transfer", "forward_transfer")]
    return [f"{100 * m['average_accuracy']:.1f}", *points, f"{m['seconds']:.3f}"]


def _points(share: float) -> str:
    rounded = round(100 * share, 1) + 0.0  # no minus before a zero
    return f"{rounded:.1f}".replace("-", "−")


def _style(error: float, learned: bool) -> str:
    if not learned:
        return "dim"
    return "green" if error < 0.15 else "yellow" if error < 0.5 else "red"


def _shown(count: int) -> list[int | None]:
    if count <= SHOWN + 1:
        return list(range(count))
    half = SHOWN // 2
    return [*range(half), None, *range(count - half, count)]
