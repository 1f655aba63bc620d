"""`remanence run`: learn a stream with several methods, task by task, and report what each of them has kept."""

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from remanence import __version__
from remanence.cli.run_options.learners import DEFAULT, LEARNERS, contenders, read_learners
from remanence.cli.run_options.streams import ORDERS, STREAMS, TASKS, Asked, Source, find_source
from remanence.errors import InputError
from remanence.terminal_text import printable


def run(
    stream: Annotated[
        str, typer.Option(help=f"What to learn: {', '.join(STREAMS)}, or a CSV, NPZ or Parquet file.")
    ] = "digits",
    tasks: Annotated[
        int | None, typer.Option(help="Number of tasks to split it into.", show_default=f"{TASKS}, or a class a task")
    ] = None,
    methods: Annotated[
        str, typer.Option(help=f"Learners separated by commas, or all: {', '.join(LEARNERS)}.")
    ] = ",".join(DEFAULT),
    seed: Annotated[int, typer.Option(help="Seed of the test split and of the order of SGD.")] = 0,
    seeds: Annotated[int, typer.Option(help="Number of seeds; reports mean and standard deviation.")] = 1,
    order: Annotated[
        str, typer.Option(help=f"Order of the classes: {', '.join(ORDERS)} (by seed), or all, separated by commas.")
    ] = "sorted",
    label: Annotated[str, typer.Option(help="Column of a file that holds the classes.", show_default=False)] = "",
    ignore: Annotated[list[str] | None, typer.Option(help="Column of a file to leave out; repeatable.")] = None,
    test: Annotated[float, typer.Option(help="Share of rows set aside, where the data bring no test rows.")] = 0.25,
    data: Annotated[Path, typer.Option(help="Folder of the idx files of mnist and fashion-mnist.")] = Path("data"),
    certify: Annotated[
        bool | None,
        typer.Option(
            "--certify/--no-certify", help="Check the guarantees of each learner.", show_default="unless it takes long"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for numbers, pictures and page.", show_default="runs/<stream>")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Delete the run in the folder and start from scratch.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else.")] = False,
) -> None:
    """Learn a stream task by task with several methods, and report what each of them has kept.

    What is learned is kept at once: after a stop the same command goes on where it was.
    """
    names = read_learners(methods)
    if seeds < 1:
        raise InputError(f"expected --seeds to be at least 1, got {seeds}")
    if seed < 0:
        raise InputError(f"expected --seed to be at least 0, got {seed}")
    source = find_source(Asked(stream, tasks, order, label, tuple(ignore or ()), test, data))

    from remanence.report import RunFolder, repeat
    from remanence.report.files import write_run

    settings = {"stream": stream, "tasks": source.tasks, "methods": names, "seed": seed, "seeds": seeds}
    settings |= source.settings | {"certify": certify}
    folder = out if out is not None else Path("runs") / (Path(stream).stem or stream)
    kept = RunFolder(folder, settings | {"version": __version__}, again)
    result = repeat(
        lambda s: contenders(names, s),
        source.build,
        range(seed, seed + seeds),
        settings,
        _command(source, names, seed, seeds, certify),
        source.notes,
        certified=certify,
        kept=kept,
    )
    files = write_run(result, folder)
    if as_json:
        found = result.to_dict() | {"files": files, "reused": kept.reused}
        typer.echo(json.dumps(found, ensure_ascii=False, allow_nan=False))
        return

    from rich.console import Console

    from remanence.report.terminal import show

    show(result, Console())
    names_of_files = ", ".join(Path(file).name for file in files)
    typer.echo(f"\nSaved in {printable(shlex.quote(str(folder)))}: {names_of_files}")
    if kept.reused:
        total = len(names) * seeds
        typer.echo(f"{kept.reused} of {total} were learned before and not again; --again starts anew.")


def _command(source: Source, names: list[str], seed: int, seeds: int, certify: bool | None) -> str:
    """What to type to get the same numbers."""
    parts = ["remanence", "run", "--stream", source.name, "--tasks", str(source.tasks), "--methods", ",".join(names)]
    parts += ["--seed", str(seed), *(["--seeds", str(seeds)] if seeds > 1 else []), *source.arguments]
    parts += [] if certify is None else ["--certify" if certify else "--no-certify"]
    return shlex.join(parts)
