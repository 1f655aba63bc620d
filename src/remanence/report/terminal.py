"""A run on the terminal: error matrices, tables, guarantees and the headline."""

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from remanence.evaluation.matrix import shown
from remanence.report.outcome import Outcome
from remanence.report.run import Run
from remanence.report.words import MARKS, all_notes, best_mark, figures, measured, short
from remanence.terminal_text import plain_text

if TYPE_CHECKING:
    from rich.console import RenderableType

HEADINGS = ("accuracy\n%", "forget-\nting", "backward\ntransfer", "forward\ntransfer", "\nseconds", "\nmemory")


def show(run: Run, console: Console) -> None:
    """Print a run."""
    if run.data is not None:
        console.print(plain_text(run.data.sentence))
        console.print()
    console.print(Text("Error in % on each task (row) by the number of tasks learned (column)", "bold"))
    console.print(Columns([Padding(error_matrix(outcome), (1, 3, 0, 0)) for outcome in run.ranked], padding=0))
    if len(run.tasks) > 1:
        console.print(Text("\nAccuracy in % on the tasks learned so far, by the number of tasks learned", "bold"))
        console.print(course(run))
    console.print()
    console.print(summary(run))
    notes = Table.grid(padding=(0, 1))
    for note in all_notes(run):
        notes.add_row(Text(" ·", "dim"), plain_text(note, "dim"))
    if notes.rows:
        console.print(notes)
    if any(outcome.certificates for outcome in run.outcomes):
        console.print(Text("\nGuarantees and whether they held: measured ≤ allowed", "bold"))
        console.print(guarantees(run))
    console.print()
    console.print(plain_text(run.headline, "bold"))
    if run.command:
        console.print(plain_text(f"Again: {run.command}", "dim"))


def course(run: Run) -> Table:
    """The accuracy of every learner after each task, in per cent."""
    steps = shown(len(run.tasks))
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(overflow="fold")
    for _ in steps:
        grid.add_column(justify="right", min_width=3)
    grid.add_row("", *(Text("…" if t is None else str(t + 1), "dim") for t in steps))
    for outcome in run.ranked:
        cells = ("…" if t is None else f"{100 * outcome.curve[t]:.0f}" for t in steps)
        grid.add_row(plain_text(outcome.label, "italic" if outcome.role == "reference" else ""), *cells)
    return grid


def guarantees(run: Run) -> Table:
    """The guarantees that apply to each learner, with what was measured, and the number of those that do not."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    for _ in range(4):
        grid.add_column()
    for outcome in run.outcomes:
        applying = [c for c in outcome.certificates if c.status != "does not apply"]
        others = len(outcome.certificates) - len(applying)
        left_out = f"{others} do{'es' if others == 1 else ''} not apply" if others else ""
        grid.add_row(plain_text(outcome.label, "bold"), "", Text(left_out, "dim"), "")
        for c in applying:
            style = "green" if c.holds else "yellow"
            bound = Text(f"{measured(c)} {'≤' if c.holds else '>'} {short(c.allowed)}", style, no_wrap=True)
            grid.add_row("", Text(MARKS[c.status], style), plain_text(c.claim), bound)
    return grid


def error_matrix(outcome: Outcome) -> "RenderableType":
    """The error matrix in per cent; tasks not learned yet are dim."""
    values, names = outcome.matrix.values, outcome.matrix.names
    rows, columns = shown(len(values)), shown(len(values) + 1)
    grid = Table.grid()
    grid.add_column(no_wrap=True, overflow="ellipsis", max_width=14)
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
        grid.add_row(plain_text(names[i]), *cells)
    return Group(plain_text(outcome.label, "bold underline"), grid)


def summary(run: Run) -> Table:
    """The table of metrics, in per cent and percentage points; standard deviations are below the means."""
    table = Table(box=SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", overflow="fold")  # (a long label is broken, a figure never)
    rows = [[cell.replace(" ± ", "\n± ") for cell in figures(outcome)] for outcome in run.ranked]
    for heading, *cells in zip(HEADINGS, *rows, strict=True):
        widest = max(len(line) for cell in (heading, *cells) for line in cell.split("\n"))
        table.add_column(heading, justify="right", no_wrap=True, min_width=widest)
    for outcome, cells in zip(run.ranked, rows, strict=True):
        style = "bold" if best_mark(run, outcome) else "italic" if outcome.role == "reference" else ""
        table.add_row(plain_text(outcome.label, style), *cells, style="bold" if style == "bold" else None)
    return table


def _style(error: float, learned: bool) -> str:
    if not learned:
        return "dim"
    return "green" if error < 0.15 else "yellow" if error < 0.5 else "red"
