"""`remanence predict`: a table with the model's predictions beside its columns."""

import json
from pathlib import Path
from typing import Annotated

import typer

from remanence.cli.common.meter import metered
from remanence.cli.common.options import AsJson, DropMissing, Ignore, Model
from remanence.cli.common.terminated import exit_on_sigterm
from remanence.errors import FileError


def predict(
    model: Model,
    data: Annotated[Path, typer.Argument(help="A CSV, NPZ or Parquet file; it need not have the label column.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The table to write, CSV, NPZ or Parquet by its ending.")],
    scores: Annotated[bool, typer.Option("--scores", help="Add the score of every class as score_<class>.")] = False,
    column: Annotated[str, typer.Option(help="What to call the column of predictions.")] = "predicted",
    ignore: Ignore = None,
    drop_nan: DropMissing = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the table if it is there already.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a table with all columns of the data and the predictions beside them, block by block."""
    from remanence.store.jobs.predict import predict_table

    if out.exists() and not overwrite:
        raise FileError(f"{out} is there already and would be lost; name a new file, or replace it with --overwrite")
    with metered("Predicting", 1) as (_, meter), exit_on_sigterm():
        found = predict_table(model, data, out, scores, column, ignore or (), drop_nan, meter, overwrite)
    if as_json:
        typer.echo(json.dumps({"predicted": found.rows, "dropped": found.dropped, "out": found.out}))
    else:
        dropped = f", {found.dropped:,} rows with missing entries left out" if found.dropped else ""
        typer.echo(f"{found.out}: {found.rows:,} rows with predictions{dropped}")
