"""`remanence run`: learn a stream with several methods, task by task, and report what each of them has kept."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from remanence.cli.choices import DEFAULT, LEARNERS, STREAMS, contenders, known, read_learners

if TYPE_CHECKING:
    from remanence.report import Run


def run(
    stream: Annotated[str, typer.Option(help=f"What to learn: {', '.join(STREAMS)}.")] = "digits",
    tasks: Annotated[int, typer.Option(help="How many tasks to cut it into.")] = 5,
    methods: Annotated[
        str, typer.Option(help=f"Learners separated by commas, or all: {', '.join(LEARNERS)}.")
    ] = ",".join(DEFAULT),
    seed: Annotated[int, typer.Option(help="Decides which rows are for testing and the order of SGD.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for numbers, pictures and page.", show_default="runs/<stream>")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else.")] = False,
) -> None:
    """Learn a stream task by task with several methods, and report what each of them has kept."""
    names = read_learners(methods)
    source = STREAMS[known(stream, STREAMS, "stream")]
    lessons = source.build(tasks, seed)

    from remanence.report import compare
    from remanence.files import make_folder

    folder = make_folder(out if out is not None else Path("runs") / stream)
    settings = {"stream": stream, "tasks": tasks, "methods": names, "seed": seed}
    command = f"remanence run --stream {stream} --tasks {tasks} --methods {','.join(names)} --seed {seed}"
    result = compare(contenders(names, seed), lessons, settings, command, source.notes if tasks > 1 else ())
    files = _save(result, folder)
    if as_json:
        typer.echo(json.dumps(result.to_dict() | {"files": files}, ensure_ascii=False, allow_nan=False))
        return

    from rich.console import Console

    from remanence.report.terminal import show

    show(result, Console())
    typer.echo(f"\nSaved in {shlex.quote(str(folder))}: {', '.join(Path(file).name for file in files)}")


def _save(result: "Run", folder: Path) -> list[str]:
    """Write everything there is to keep of a run; the page last, as it is what people open."""
    from remanence.progress import track_progress
    from remanence.files import write_atomically
    from remanence.report.page import page
    from remanence.report.pictures import accuracy_figure, matrices_figure, rendered

    result.save(folder / "results.json")
    written = [folder / "results.json"]
    pictures = [("matrices", matrices_figure), ("accuracy", accuracy_figure)]
    for name, draw in track_progress(pictures, "Drawing"):
        figure = draw(result)
        for kind in ("png", "svg"):
            written.append(folder / f"{name}.{kind}")
            write_atomically(written[-1], rendered(figure, kind))
    written.append(folder / "index.html")
    write_atomically(written[-1], page(result).encode())
    return [str(path) for path in written]
