"""`remanence report`: write the page, figures and tables of a run again from its results."""

import json
from pathlib import Path
from typing import Annotated

import typer

from remanence.terminal_text import printable


def report(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or its results.json.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the page and the figures.", show_default="the folder of the run")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else.")] = False,
) -> None:
    """Show the results of a run and write its page and figures again, without training."""
    from remanence.report import Run
    from remanence.report.files import write_run

    found = Run.load(run)
    files = write_run(found, out if out is not None else run if run.is_dir() else run.parent)
    if as_json:
        typer.echo(json.dumps(found.to_dict() | {"files": files}, ensure_ascii=False, allow_nan=False))
        return

    from rich.console import Console

    from remanence.report.terminal import show

    show(found, Console())
    typer.echo(f"\nPage: {printable(files[-1])}")
