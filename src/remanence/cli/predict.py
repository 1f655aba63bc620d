"""`remanence predict`: write a table with the predictions of a model beside the columns of the data."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remanence.cli.common.cluster import Cluster, Workers, opened_cluster
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

if TYPE_CHECKING:
    from remanence.store.jobs.predict import PredictReport


def predict(
    model: Model,
    data: Annotated[
        list[str],
        typer.Argument(
            help="Tables to predict on: files, patterns, folders or addresses, or - for standard input; the label "
            "column may be missing."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Table to write, in the format of its ending; for several tables a folder.",
            show_default="<data>-predicted.<ending>",
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
    workers: Workers = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Write a table with all columns of the data, in its order, and the predictions of the model."""
    from remanence.store.jobs.predict import outputs_for, predict_table
    from remanence.tables import expand_paths

    paths, dialect, kind = expand_paths(data), read_dialect(csv_option), read_format(given)
    if len(paths) == 1 and out is not None and not out.is_dir() and (out.suffix or paths[0] == "-"):
        outs = [out]  # (an ending that says no format is an error there)
    else:  # (a name without an ending is a folder, for one table as for several)
        outs = outputs_for(paths, out)
    options: dict[str, Any] = {"scores": scores, "column": column, "ignored": tuple(ignore or ()), "drop": drop_nan}
    options |= {"overwrite": force, "raw": raw, "dialect": dialect, "given": kind}
    found: list[PredictReport] = []
    with (
        opened_cluster(workers, cluster) as client,
        metered("Predicting", len(paths)) as (advance, meter),
        exit_on_sigterm(),
    ):
        if client is None:
            for path, target in zip(paths, outs, strict=True):
                found.append(predict_table(model, path, target, on_rows=meter, **options))
                advance(1)
        else:
            from remanence.scale.jobs.predict import predict_files

            found = predict_files(model, paths, outs, client, advance, **options)
    _show(found, as_json)


def _show(found: "list[PredictReport]", as_json: bool) -> None:
    parts = [{"predicted": report.rows, "dropped": report.dropped, "out": report.out} for report in found]
    if as_json and len(parts) > 1:
        totals = {
            what: sum(getattr(r, name) for r in found) for what, name in (("predicted", "rows"), ("dropped",) * 2)
        }
        typer.echo(json.dumps({**totals, "files": parts}))
    elif as_json:
        typer.echo(json.dumps(parts[0]))
    else:
        for report in found:
            dropped = f", {report.dropped:,} rows with missing entries dropped" if report.dropped else ""
            typer.echo(f"{report.out}: {report.rows:,} rows with predictions{dropped}")
