"""`remanence compare`: compare several runs in one table and on one page."""

import json
from pathlib import Path
from typing import Annotated

import typer

from remanence.terminal_text import printable


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, two or more.")],
    out: Annotated[Path, typer.Option(help="Folder for the page and the results.")] = Path("runs/compare"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON, and nothing else.")] = False,
) -> None:
    """Compare runs: the results of every learner in each run, and the settings in which the runs differ."""
    from remanence.files import make_folder, write_atomically
    from remanence.report import Run
    from remanence.report.folders import COMPARISON, check_folder
    from remanence.report.side_by_side import SideBySide

    both = SideBySide({str(run): Run.load(run) for run in runs})
    check_folder(out)
    page, numbers = make_folder(out) / "index.html", out / COMPARISON
    text = json.dumps(both.to_dict(), ensure_ascii=False, allow_nan=False)
    write_atomically(numbers, text.encode() + b"\n")
    write_atomically(page, both.page().encode())
    if as_json:
        typer.echo(json.dumps(both.to_dict() | {"files": [str(numbers), str(page)]}, ensure_ascii=False))
        return

    from rich.console import Console

    console = Console()
    console.print(both.table())
    for key, values in both.differing.items():
        typer.echo(printable(f"{key}: {' | '.join(map(str, values))}"))
    typer.echo(f"\nPage: {printable(page)}")
