"""`remanence unlearn`: take rows out of a model file, so that it never saw them."""

import json
from typing import Annotated

import typer

from remanence.cli.common.meter import metered
from remanence.cli.common.options import AsJson, Data, DropMissing, Model
from remanence.errors import FileError, InputError, MissingDependency, NumericalError


def unlearn(
    model: Model,
    data: Data,
    label: Annotated[str | None, typer.Option(help="The column of labels; must be the model's.")] = None,
    source: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="FILE", help="A learned file that the rows are a part of; again for more."),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Take out rows that are in no learned file at hand, if arithmetic allows.")
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Go on where rounding leaves fewer digits than promised; inspect shows it."),
    ] = False,
    drop_nan: DropMissing = False,
    as_json: AsJson = False,
) -> None:
    """Become the model that never saw these rows, exactly; rows that were never learned are refused.

    Every copy of the rows goes out of all learned files at hand: those of known names that lie beside the data or the
    model or in the current folder, and those named with --from. Learned files that are not at hand cannot be searched,
    and are named.
    """
    from remanence.store.jobs.learn_options import LearnOptions
    from remanence.store.jobs.unlearn import RowsNotFound, RowsOnTrust, unlearn_session
    from remanence.tables import expand_paths

    paths = expand_paths(data)
    with (
        metered("Unlearning", len(paths)) as (advance, meter),
        unlearn_session(model, LearnOptions(label), source or (), drop_nan, trust, accept_loss) as going,
    ):
        refused: Exception | None = None
        try:
            for path in paths:
                going.unlearn(path, meter)
                advance(1)
        except RowsNotFound as refusal:
            refused = InputError(f"{refusal} (options --from FILE and --trust)")
        except RowsOnTrust as refusal:
            refused = InputError(f"{refusal} (option --from FILE; with --trust you vouch that they are not)")
        except NumericalError as refusal:
            refused = NumericalError(f"{refusal} (option --accept-loss; models begun with --undo pieces lose nothing)")
        except (InputError, FileError, MissingDependency) as refusal:
            refused = refusal
    report = going.report
    if as_json:
        typer.echo(json.dumps(report.to_dict() | ({"error": str(refused)} if refused else {}), ensure_ascii=False))
    else:
        for name, counts in report.files.items():
            out_already = f", {counts.skipped:,} were out already" if counts.skipped else ""
            typer.echo(f"{name}: {counts.unlearned:,} rows unlearned{out_already}")
        if report.unsearched:
            _warn(report.unsearched)
    if refused is not None:
        raise refused


def _warn(unsearched: dict[str, int]) -> None:
    shown = [f"{name} ({rows:,} rows)" for name, rows in list(unsearched.items())[:5]]
    more = f" and {len(unsearched) - 5} more" if len(unsearched) > 5 else ""
    typer.secho("Warning: ", fg="yellow", bold=True, nl=False, err=True)
    typer.echo(
        f"not searched, as not at hand: {', '.join(shown)}{more}; copies of these rows in there, if any, are still in "
        f"the model. Name the files with --from to take those out too.",
        err=True,
    )
