"""`remanence predict`: write a table with the predictions of a model beside the columns of the data."""

import json
from pathlib import Path
from typing import Annotated

import typer

from remanence.cli.common.meter import metered
from remanence.cli.common.options import (
    AsJson,
    CsvOption,
    DropMissing,
    Format,
    Ignore,
    Model,
    read_dialect,
    read_format,
)
from remanence.cli.common.terminated import exit_on_sigterm


def predict(
    model: Model,
    data: Annotated[
        str,
        typer.Argument(help="Table to predict on, or - for standard input; the label column may be missing."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Table to write, in the format of its ending.", show_default="<data>-predicted.<ending>"
        ),
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Add the score of every class as score_<class>.")] = False,
    column: Annotated[str, typer.Option(help="Name of the column of predictions.")] = "predicted",
    ignore: Ignore = None,
    drop_nan: DropMissing = False,
    force: Annotated[bool, typer.Option("--force", "--overwrite", help="Replace the table if it exists.")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write text that begins like a formula (=, +, -, @) to a CSV file as it is.")
    ] = False,
    given: Format = None,
    csv_option: CsvOption = None,
    as_json: AsJson = False,
) -> None:
    """Write a table with all columns of the data, in its order, and the predictions of the model."""
    from remanence.store.jobs.predict import default_out, predict_table

    target, dialect, kind = default_out(data) if out is None else out, read_dialect(csv_option), read_format(given)
    with metered("Predicting", 1) as (_, meter), exit_on_sigterm():
        found = predict_table(
            model, data, target, scores, column, ignore or (), drop_nan, meter, force, raw, dialect, kind
        )
    if as_json:
        typer.echo(json.dumps({"predicted": found.rows, "dropped": found.dropped, "out": found.out}))
    else:
        dropped = f", {found.dropped:,} rows with missing entries dropped" if found.dropped else ""
        typer.echo(f"{found.out}: {found.rows:,} rows with predictions{dropped}")
