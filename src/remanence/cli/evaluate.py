"""`remanence evaluate`: the errors of a model file on data with known labels or targets."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from remanence.cli.common.cluster import Cluster, Workers, opened_cluster
from remanence.cli.common.meter import metered
from remanence.cli.common.options import (
    AsJson,
    CsvOption,
    Data,
    DropMissing,
    Format,
    Ignore,
    Model,
    read_dialect,
    read_format,
)
from remanence.terminal_text import plain_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from remanence.evaluation.confusion import Confusion
    from remanence.store.jobs.evaluate import Evaluation

GRID = 6  # classes, up to which all confusion counts are shown
HARDEST = 20  # classes listed beyond that
CONFUSIONS = 10  # pairs of classes listed


def evaluate(
    model: Model,
    data: Data,
    label: Annotated[str | None, typer.Option(help="Column of true labels.", show_default="the model's")] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(help="Numeric column of true values (regression); repeatable.", show_default="the model's"),
    ] = None,
    ignore: Ignore = None,
    drop_nan: DropMissing = False,
    given: Format = None,
    csv_option: CsvOption = None,
    workers: Workers = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Report accuracy per class, confusions, log-loss and calibration; for regression RMSE, mean absolute error, R²."""
    from remanence.store.jobs.evaluate import evaluate_tables

    ways = read_dialect(csv_option), read_format(given)
    with opened_cluster(workers, cluster) as client:
        if client is None:
            with metered("Evaluating", len(data)) as (_, meter):
                found = evaluate_tables(model, data, label, target or (), ignore or (), drop_nan, meter, *ways)
        else:
            from remanence.scale.jobs.evaluate import evaluate_files
            from remanence.store.jobs.evaluate import EvaluateOptions
            from remanence.tables import expand_paths

            paths, asked = (
                expand_paths(data),
                EvaluateOptions(label, tuple(target or ()), tuple(ignore or ()), drop_nan, *ways),
            )
            with metered("Evaluating", len(paths)) as (advance, meter):
                found = evaluate_files(model, paths, asked, client, meter, advance)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False))
    else:
        _show(found)


def _show(found: "Evaluation") -> None:
    from rich.console import Console
    from rich.table import Column, Table

    console = Console(highlight=False)
    if found.errors:
        table = Table(Column("target", overflow="fold"), "rmse", "mae", "r²", header_style="bold")
        for name, e in found.errors.items():
            table.add_row(plain_text(name), *("–" if v is None else f"{v:.4g}" for v in (e["rmse"], e["mae"], e["r2"])))
        console.print(table)
        console.print(f"{found.rows:,} rows")
        return
    if found.sets is not None:
        table = Table(Column("label", overflow="fold"), "rows", "precision", "recall", header_style="bold")
        for one in found.sets.to_list():
            shares = ("–" if one[name] is None else f"{one[name]:.1%}" for name in ("precision", "recall"))
            table.add_row(plain_text(one["label"]), f"{one['rows']:,}", *shares)
        console.print(table)
        console.print(f"all labels right in {found.accuracy:.2%} of {found.rows:,} rows")
        return
    from remanence.evaluation.confusion import Confusion

    confusion = Confusion(tuple(found.labels), found.confusion)
    grid = _grid(confusion) if len(found.labels) <= GRID else None
    if grid is not None and _fits(grid, console):
        console.print(grid)
    else:
        _print_lists(confusion, console)
    console.print(f"accuracy {found.accuracy:.2%}: {confusion.wrong:,} of {found.rows:,} rows wrong")
    if found.reliability is not None:
        loss, error = found.reliability.log_loss, found.reliability.error
        console.print(f"probabilities: log-loss {loss:.3f}, calibration error {error:.3f}")


def _fits(table: "Table", console: "Console") -> bool:
    """Whether a table can be shown without breaking or cutting its cells."""
    return console.measure(table, options=console.options.update_width(sys.maxsize)).maximum <= console.width


def _grid(confusion: "Confusion") -> "Table":
    """All confusion counts."""
    from rich.table import Column, Table

    given = [Column(plain_text(f"as {label}")) for label in confusion.labels]
    table = Table("class", "rows", "correct", *given, header_style="bold")
    for label, row, share in zip(confusion.labels, confusion.counts, confusion.accuracies.tolist(), strict=True):
        right = "–" if share != share else f"{share:.1%}"
        table.add_row(plain_text(label), f"{row.sum():,}", right, *(f"{n:,}" for n in row.tolist()))
    return table


def _print_lists(confusion: "Confusion", console: "Console") -> None:
    """The classes with the lowest accuracy, and the most frequent confusions."""
    classes, pairs = confusion.hardest(), confusion.most_frequent(CONFUSIONS)
    table = _list("class, worst first", "rows", "correct")
    for label, rows, share in classes[:HARDEST]:
        table.add_row(plain_text(label), f"{rows:,}", f"{share:.1%}")
    console.print(table)
    if len(classes) > HARDEST:
        more, least = len(classes) - HARDEST, classes[HARDEST][2]
        console.print(f"… and {more:,} more classes at {least:.1%} or above; --json has all", style="dim")
    if pairs:
        table = _list("most frequent confusions", "rows")
        for true, predicted, rows in pairs:
            table.add_row(plain_text(true).append(" → ", "dim").append(plain_text(predicted)), f"{rows:,}")
        console.print()
        console.print(table)


def _list(heading: str, *numbers: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False)
    table.add_column(heading, overflow="fold")
    for number in numbers:
        table.add_column(number, justify="right", no_wrap=True)
    return table
