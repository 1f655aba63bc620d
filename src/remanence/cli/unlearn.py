"""`remanence unlearn`: take rows out of a model file, so that it never saw them."""

import json
from typing import Annotated

import typer

from remanence.cli.meter import metered
from remanence.cli.options import AsJson, Data, DropMissing, Model
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
    drop_nan: DropMissing = False,
    as_json: AsJson = False,
) -> None:
    """Become the model that never saw these rows, exactly; rows that were never learned are refused.

    A file that was learned is known by its content. Rows that are a part of learned files are looked for in those
    files, where they lie beside the data or the model or are named with --from.
    """
    from remanence.store.unlearning import removal
    from remanence.store.wishes import Wishes
    from remanence.streams.tables import expand_paths

    paths = expand_paths(data)
    with (
        metered("Unlearning", len(paths)) as (advance, meter),
        removal(model, Wishes(label), source or (), drop_nan, trust) as going,
    ):
        refused: Exception | None = None
        try:
            for path in paths:
                going.unlearn(path, meter)
                advance(1)
        except (InputError, FileError, MissingDependency, NumericalError) as refusal:
            refused = refusal
    report = going.report
    if as_json:
        typer.echo(json.dumps(report.to_dict() | ({"error": str(refused)} if refused else {}), ensure_ascii=False))
    else:
        for name, counts in report.files.items():
            out_already = f", {counts.skipped:,} were out already" if counts.skipped else ""
            typer.echo(f"{name}: {counts.unlearned:,} rows unlearned{out_already}")
    if refused is not None:
        raise refused
