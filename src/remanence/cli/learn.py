"""`remanence learn`: teach a model file, every piece of data exactly once."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from remanence.cli.common.meter import metered
from remanence.cli.common.options import AsJson, Data, DropMissing, Ignore, Model, read_settings
from remanence.errors import FileError, InputError, MissingDependency, NumericalError

if TYPE_CHECKING:
    from remanence.store.jobs.learn import Report
    from remanence.store.model_file import ModelFile


def learn(
    model: Model,
    data: Data,
    label: Annotated[str | None, typer.Option(help="The column of labels, for a classifier.")] = None,
    target: Annotated[
        list[str] | None, typer.Option(help="A column of numbers to foretell, for a regressor; give it again for more.")
    ] = None,
    ignore: Ignore = None,
    method: Annotated[
        str | None, typer.Option(help="How to learn: rls, lms, … (see remanence methods).", show_default="rls")
    ] = None,
    ridge: Annotated[str | None, typer.Option(help="The ridge: a number, or auto.", show_default="1.0")] = None,
    forget: Annotated[
        float | None, typer.Option(help="Below 1 old rows fade, 1 keeps all.", show_default="1.0")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Another setting of the method, like step=0.1."),
    ] = None,
    features: Annotated[
        str | None, typer.Option(metavar="random:WIDTH", help="Learn on random features of the columns.")
    ] = None,
    undo: Annotated[
        str | None,
        typer.Option(
            metavar="pieces",
            help="Keep a memory of its own for every piece (a file, a row group), so that whole pieces are unlearned "
            "without rounding; each takes d² numbers for d features. Fixed when the model is made.",
        ),
    ] = None,
    drop_nan: DropMissing = False,
    again: Annotated[bool, typer.Option("--again", help="Learn data that were learned before once more.")] = False,
    as_json: AsJson = False,
) -> None:
    """Teach a model file, making it at first use; data already in its ledger are skipped, known by their content.

    Files before one that is refused are kept. After an interruption, run the same command again.
    """
    from remanence.store.jobs.learn import GrownFile, learn_session
    from remanence.store.jobs.learn_options import LearnOptions
    from remanence.tables import expand_paths

    settings = read_settings(setting, ridge=ridge, forget=forget)
    options = LearnOptions(label, tuple(target or ()), tuple(ignore or ()), method, settings, features, undo)
    paths = expand_paths(data)
    refused: Exception | None = None
    with metered("Learning", len(paths)) as (advance, meter), learn_session(model, options, drop_nan, again) as taught:
        try:
            for path in paths:
                taught.learn(path, meter)
                advance(1)
        except GrownFile as refusal:
            refused = InputError(f"{refusal} (option --again)")
        except (InputError, FileError, MissingDependency, NumericalError) as refusal:
            refused = refusal
    if as_json:
        error = {"error": str(refused)} if refused else {}
        typer.echo(json.dumps(taught.report.to_dict() | error, ensure_ascii=False))
    elif taught.report.files:
        _show(taught.report, model)
        if taught.session.new and undo is not None:
            _say_what_pieces_cost(taught.session.model)
        for warning in taught.report.warnings:
            typer.secho("Warning: ", fg="yellow", bold=True, nl=False, err=True)
            typer.echo(f"{warning} (option --ignore)", err=True)
    if refused is not None:
        raise refused


def _show(report: "Report", model: Path) -> None:
    for name, counts in report.files.items():
        said = [f"{n:,} {what}" for what, n in vars(counts).items() if n]
        typer.echo(f"{name}: {', '.join(said) or 'no rows'}")
    rate = report.total("learned") / max(report.seconds, 1e-9)
    typer.echo(
        f"{model}: {report.total('learned'):,} rows learned ({rate:,.0f} a second), "
        f"{report.total('skipped'):,} known already"
    )


def _say_what_pieces_cost(model: "ModelFile") -> None:
    if "state_" in vars(model.learner):
        from remanence.methods import RLS

        width = len(RLS().data(model.learner.state_).factor)
        typer.echo(f"every piece keeps a memory of its own: {width}² numbers, {8 * width**2:,} bytes each")
