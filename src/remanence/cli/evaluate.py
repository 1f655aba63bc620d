"""`remanence evaluate`: the errors of a model file on data with known labels or targets."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from remanence.cli.common.meter import metered
from remanence.cli.common.options import AsJson, Data, DropMissing, Ignore, Model
from remanence.terminal_text import plain_text

if TYPE_CHECKING:
    from remanence.store.jobs.evaluate import Evaluation

WIDEST = 20  # most classes for which the confusion matrix is shown


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
    as_json: AsJson = False,
) -> None:
    """Report accuracy and confusion counts per class; for regression RMSE, mean absolute error and R²."""
    from remanence.store.jobs.evaluate import evaluate_tables

    with metered("Evaluating", len(data)) as (_, meter):
        found = evaluate_tables(model, data, label, target or (), ignore or (), drop_nan, meter)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False))
    else:
        _show(found)


def _show(found: "Evaluation") -> None:
    from rich.console import Console
    from rich.table import Column, Table

    console, summary = Console(highlight=False), found.to_dict()
    if found.errors:
        table = Table("target", "rmse", "mae", "r²", header_style="bold")
        for name, e in found.errors.items():
            table.add_row(plain_text(name), *("–" if v is None else f"{v:.4g}" for v in (e["rmse"], e["mae"], e["r2"])))
        console.print(table)
        console.print(f"{found.rows:,} rows")
        return
    small = len(found.labels) <= WIDEST
    given = [Column(plain_text(f"as {label}")) for label in found.labels] if small else []
    table = Table("class", "rows", "correct", *given, header_style="bold")
    for row, entry in zip(found.confusion.tolist(), summary["classes"], strict=True):
        share = "–" if entry["accuracy"] is None else f"{entry['accuracy']:.1%}"
        table.add_row(plain_text(entry["label"]), f"{entry['rows']:,}", share, *(f"{n:,}" for n in row if small))
    console.print(table)
    console.print(f"accuracy {found.accuracy:.2%}: {summary['wrong']:,} of {found.rows:,} rows wrong")
