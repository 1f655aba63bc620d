"""`remanence unlearn`: remove rows from a model file, as if it had never seen them."""

import json
from pathlib import Path
from typing import Annotated

import typer

from remanence.cli.common.cluster import Cluster, Workers, opened_cluster
from remanence.cli.common.flags import message
from remanence.cli.common.meter import error_of, for_each_file, metered
from remanence.cli.common.options import (
    AsJson,
    CsvOption,
    Data,
    DropMissing,
    Format,
    Model,
    read_dialect,
    read_format,
    read_pairs,
)


def unlearn(
    model: Model,
    data: Data,
    label: Annotated[str | None, typer.Option(help="Column of class labels; must be that of the model.")] = None,
    source: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="FILE", help="Learned file to search for copies of the rows; repeatable."),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Also remove rows that are in no learned file that was found, if possible.")
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Continue if rounding leaves fewer digits than promised (see inspect)."),
    ] = False,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Only rows with this value in this column; repeatable."),
    ] = None,
    drop_nan: DropMissing = False,
    given: Format = None,
    csv_option: CsvOption = None,
    workers: Workers = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Remove rows exactly, as if the model had never seen them. Rows that were never learned are an error.

    Every copy of the rows is removed from all learned files that can be found: files with the name of a ledger entry
    next to the data, next to the model or in the current folder, and those named with --from. Learned files that are
    not found cannot be searched, and are listed. With --workers or --cluster they are read by several processes. A
    model made with --ledger rows knows its rows and needs no files.
    """
    from remanence.store.jobs.unlearn import unlearn_session
    from remanence.tables import expand_paths

    paths, dialect = expand_paths(data), read_dialect(csv_option)
    with (
        opened_cluster(workers, cluster) as client,
        metered("Unlearning", len(paths)) as (advance, meter),
        unlearn_session(
            model,
            label,
            [*(source or ()), *(path for path in paths if isinstance(path, Path))],
            drop_nan,
            trust,
            accept_loss,
            where=read_pairs(where, "=", "customer=7"),
            dialect=dialect,
            given=read_format(given),
        ) as job,
    ):
        if client is not None:
            from remanence.scale.jobs.unlearn import ClusterKeys

            job.read_keys = ClusterKeys(client, dialect)
        error = for_each_file(paths, job.unlearn, advance, meter) or error_of(job.check_met)
    report = job.report
    if as_json:
        typer.echo(json.dumps(report.to_dict() | ({"error": message(error)} if error else {}), ensure_ascii=False))
    else:
        every = job.session.model.row_keys is not None and job.session.model.row_keys.every
        for name, counts in report.files.items():
            gone = "are not in the model" if every else "were removed before"
            before = f", {counts.skipped:,} {gone}" if counts.skipped else ""
            typer.echo(f"{name}: {counts.unlearned:,} rows unlearned{before}")
        if report.unsearched:
            _warn(report.unsearched)
    if error is not None:
        raise error


def _warn(unsearched: dict[str, int]) -> None:
    shown = [f"{name} ({rows:,} rows)" for name, rows in list(unsearched.items())[:5]]
    more = f" and {len(unsearched) - 5} more" if len(unsearched) > 5 else ""
    typer.secho("Warning: ", fg="yellow", bold=True, nl=False, err=True)
    typer.echo(
        f"not searched, as not found: {', '.join(shown)}{more}; copies of these rows in there, if any, are still in "
        f"the model. Name the files with --from to remove those too.",
        err=True,
    )
