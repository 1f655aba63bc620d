"""`remanence predict`: write a table with the predictions of a model beside the columns of the data."""

import json
from pathlib import Path
from typing import Annotated

import typer

from remanence.cli.common.meter import metered
from remanence.cli.common.options import AsJson, DropMissing, Ignore, Model
from remanence.cli.common.terminated import exit_on_sigterm


def predict(
    model: Model,
    data: Annotated[Path, typer.Argument(help="CSV, NPZ or Parquet file; the label column may be missing.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Table to write: CSV, NPZ or Parquet, by its ending.")],
    scores: Annotated[bool, typer.Option("--scores", help="Add the score of every class as score_<class>.")] = False,
    column: Annotated[str, typer.Option(help="Name of the column of predictions.")] = "predicted",
    ignore: Ignore = None,
    drop_nan: DropMissing = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the table if it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a table with all columns of the data and the predictions of the model."""
    from remanence.store.jobs.predict import predict_table

    with metered("Predicting", 1) as (_, meter), exit_on_sigterm():
        found = predict_table(model, data, out, scores, column, ignore or (), drop_nan, meter, overwrite)
    if as_json:
        typer.echo(json.dumps({"predicted": found.rows, "dropped": found.dropped, "out": found.out}))
    else:
        dropped = f", {found.dropped:,} rows with missing entries dropped" if found.dropped else ""
        typer.echo(f"{found.out}: {found.rows:,} rows with predictions{dropped}")
