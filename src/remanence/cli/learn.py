"""`remanence learn`: learn data files into a model file, every piece of data exactly once."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    Ignore,
    Model,
    read_dialect,
    read_format,
    read_kinds,
    read_settings,
)
from remanence.terminal_text import printable

if TYPE_CHECKING:
    from remanence.store.jobs.learn import LearnReport
    from remanence.store.model_file import ModelFile


def learn(
    model: Model,
    data: Data,
    label: Annotated[str | None, typer.Option(help="Column of class labels (classification).")] = None,
    label_separator: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="What separates labels, where rows have any number of them as text, like ';'; columns of lists need "
            "none.",
        ),
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option(help="Numeric column to predict (regression); repeatable.")
    ] = None,
    ignore: Ignore = None,
    method: Annotated[
        str | None, typer.Option(help="Learning method: rls, lms, … (see remanence methods).", show_default="rls")
    ] = None,
    ridge: Annotated[
        str | None,
        typer.Option(
            help="Ridge penalty: a number, auto to choose it from all rows, or loo (leave-one-out on the first rows).",
            show_default="1.0",
        ),
    ] = None,
    forget: Annotated[
        float | None,
        typer.Option(
            help="Forgetting factor: 1 weights all rows equally, below 1 favours recent rows.", show_default="1.0"
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting of the method, like step=0.1; repeatable."),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(metavar="random:WIDTH", help="Learn on random features (also random:3000:cos)."),
    ] = None,
    readout: Annotated[
        str | None,
        typer.Option(
            metavar="ridge|discriminant|auto",
            help="How classes are scored: ridge, discriminant, or auto to choose by answers to rows before they are "
            "learned. Only for a new model.",
            show_default="ridge",
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            metavar="standard",
            help="Standardize columns by the mean and deviation of everything learned so far. Only for a new model.",
        ),
    ] = None,
    class_weight: Annotated[
        str | None,
        typer.Option(
            metavar="balanced",
            help="Give all classes the same weight in total, whatever their numbers of rows; costs d² numbers per "
            "class for d features. Only for a new model.",
        ),
    ] = None,
    undo: Annotated[
        str | None,
        typer.Option(
            metavar="pieces",
            help="Keep a separate memory per piece of data (file or row group), so that whole pieces can be unlearned "
            "without rounding; costs d² numbers per piece for d features. Only for a new model.",
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="rows",
            help="Keep a key of 16 bytes for every row, so that rows are known one by one. Only for a new model.",
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:KIND",
            help="What a column is: number, truth, category, text, date or ignored (guessed if not given); repeatable.",
        ),
    ] = None,
    missing: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            help="Rows with missing features: refuse, drop (the same as --drop-nan), or indicator (0, and a column "
            "that says so). Only for a new model, but for drop.",
            show_default="refuse",
        ),
    ] = None,
    text_width: Annotated[
        int | None, typer.Option(help="Columns that the words of a text are hashed to.", show_default="256")
    ] = None,
    drop_nan: DropMissing = False,
    given: Format = None,
    csv_option: CsvOption = None,
    workers: Workers = None,
    cluster: Cluster = None,
    save_every: Annotated[
        float | None,
        typer.Option(
            metavar="MINUTES",
            help="Write what is finished to the model file after so many minutes.",
            show_default="as often as takes a sixth of the time",
        ),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Learn data that is in the ledger once more.")] = False,
    as_json: AsJson = False,
) -> None:
    """Learn data into a model file, creating it if needed. Rows already in its ledger are recognised and skipped.

    Rows are known by their content: of a file that has grown, only the new rows are learned, and a file that was
    renamed, converted or compressed brings nothing new. If a file is rejected, the files before it are kept. After an
    interruption, run the same command again. With --workers or --cluster the files are read and learned by several
    processes; the model is the same for any number of them.
    """
    from remanence.store.jobs.learn import learn_session
    from remanence.store.jobs.learn_options import LearnOptions
    from remanence.tables import EmptyTable, expand_paths
    from remanence.validation import check_number

    settings = read_settings(setting, ridge=ridge, forget=forget)
    kinds = read_kinds(column)
    drop_nan, missing = drop_nan or missing == "drop", None if missing == "drop" else missing
    columns = (label, tuple(target or ()), tuple(ignore or ()))
    options = LearnOptions(
        *columns,
        method,
        settings,
        features,
        undo,
        ledger,
        kinds,
        readout,
        missing,
        text_width,
        label_separator,
        class_weight,
        scale,
    )
    paths, dialect = expand_paths(data), read_dialect(csv_option)
    every = None if save_every is None else 60 * check_number(save_every, "--save-every")
    with (
        opened_cluster(workers, cluster) as client,
        metered("Learning", len(paths)) as (advance, meter),
        learn_session(model, options, drop_nan, again, dialect=dialect, given=read_format(given), every=every) as job,
    ):
        if client is None:
            error = for_each_file(paths, job.learn, advance, meter, skip=EmptyTable if len(paths) > 1 else ())
        else:
            from remanence.scale.jobs.learn import learn_files

            error = error_of(lambda: learn_files(job, paths, client, meter, advance))
    if as_json:
        failed = {"error": message(error)} if error else {}
        typer.echo(json.dumps(job.report.to_dict() | failed, ensure_ascii=False))
    elif job.report.files:
        _show(job.report, model)
        if job.session.new and undo is not None:
            _show_cost_of_pieces(job.session.model)
        for warning in job.report.warnings:
            typer.secho("Warning: ", fg="yellow", bold=True, nl=False, err=True)
            typer.echo(warning, err=True)
    if error is not None:
        raise error


def _show(report: "LearnReport", model: Path) -> None:
    if report.kinds:
        typer.echo(f"columns: {', '.join(f'{printable(name)} {kind}' for name, kind in report.kinds.items())}")
    for name, counts in report.files.items():
        shown = [f"{n:,} {what}" for what, n in vars(counts).items() if n]
        typer.echo(f"{name}: {', '.join(shown) or 'no rows'}")
    rate = report.total("learned") / max(report.seconds, 1e-9)
    typer.echo(
        f"{model}: {report.total('learned'):,} rows learned ({rate:,.0f} per second), "
        f"{report.total('skipped'):,} known already"
    )


def _show_cost_of_pieces(model: "ModelFile") -> None:
    if "state_" in vars(model.learner):
        from remanence.methods import RLS

        width = len(RLS().data(model.learner.state_).factor)
        typer.echo(f"every piece keeps a memory of its own: {width}² numbers, {8 * width**2:,} bytes each")
