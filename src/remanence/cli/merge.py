"""`remanence merge`: merge model files that learned on different data."""

import json
from pathlib import Path
from typing import Annotated

import typer

from remanence.cli.common.options import AsJson


def merge(
    models: Annotated[
        list[Path], typer.Argument(help="Two or more model files with the same settings, learned on different data.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Model file to write: a new one, or one of those merged.")],
    as_json: AsJson = False,
) -> None:
    """Merge model files into the model that saw the rows of all. Data that two of them have learned is an error."""
    from remanence.store.jobs.merge import merge_files
    from remanence.store.jobs.session import rows_of

    merged = merge_files(models, out)
    rows, pieces = rows_of(merged.learner), len(merged.ledger.in_force())
    if as_json:
        typer.echo(json.dumps({"out": str(out), "rows": rows, "pieces": pieces, "models": [str(m) for m in models]}))
    else:
        typer.echo(f"{out}: {rows:,} rows in {pieces:,} pieces from {len(models)} models")
