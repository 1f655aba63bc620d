"""`remanence learn`: teach a model file, every piece of data exactly once."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from remanence.cli.options import AsJson, DropMissing, Model, read_settings
from remanence.errors import FileError, InputError, MissingDependency, NumericalError

if TYPE_CHECKING:
    from remanence.store.teaching import Report


def learn(
    model: Model,
    data: Annotated[list[str], typer.Argument(help="CSV, NPZ or Parquet files, or patterns like 'data/*.csv'.")],
    label: Annotated[str | None, typer.Option(help="The column of labels, for a classifier.")] = None,
    target: Annotated[
        list[str] | None, typer.Option(help="A column of numbers to foretell, for a regressor; give it again for more.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="A column to leave out; give it again for more.")] = None,
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
    drop_nan: DropMissing = False,
    again: Annotated[bool, typer.Option("--again", help="Learn data that were learned before once more.")] = False,
    as_json: AsJson = False,
) -> None:
    """Teach a model file, making it at first use; data already in its ledger are skipped, known by their content."""
    from remanence.progress import progress_bar
    from remanence.store.teaching import lesson
    from remanence.store.wishes import Wishes
    from remanence.streams.tables import expand_paths

    settings = read_settings(setting, ridge=ridge, forget=forget)
    wishes = Wishes(label, tuple(target or ()), tuple(ignore or ()), method, settings, features)
    paths = expand_paths(data)
    with progress_bar("Learning", len(paths)) as advance, lesson(model, wishes, drop_nan, again) as taught:
        meter = Meter(advance)
        try:
            for path in paths:
                taught.learn(path, meter)
                advance(1)
        except (InputError, FileError, MissingDependency, NumericalError) as refusal:
            if as_json:
                _print_json(taught.report, str(refusal))
            elif taught.report.files:
                _print(taught.report, model)
            raise
    if as_json:
        _print_json(taught.report)
    else:
        _print(taught.report, model)


class Meter:
    """Says on the progress bar what is being learned, and how many rows a second."""

    def __init__(self, advance: Callable[..., None]) -> None:
        self.advance, self.begun, self.rows = advance, time.monotonic(), 0

    def __call__(self, name: str, rows: int) -> None:
        self.rows += rows
        rate = self.rows / max(time.monotonic() - self.begun, 1e-9)
        self.advance(0, f"{name}, {rate:,.0f} rows/s")


def _print_json(report: "Report", error: str = "") -> None:
    typer.echo(json.dumps(report.to_dict() | ({"error": error} if error else {}), ensure_ascii=False))


def _print(report: "Report", model: Path) -> None:
    for name, counts in report.files.items():
        said = [f"{n:,} {what}" for what, n in vars(counts).items() if n]
        typer.echo(f"{name}: {', '.join(said) or 'no rows'}")
    rate = report.total("learned") / max(report.seconds, 1e-9)
    typer.echo(
        f"{model}: {report.total('learned'):,} rows learned, {report.total('skipped'):,} known already"
        f" ({rate:,.0f} rows/s)"
    )
