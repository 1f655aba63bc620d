"""`remanence run`: train several methods on a stream, task by task, and report accuracy and forgetting."""

import glob
import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from remanence import __version__
from remanence.cli.run_options.features import with_features
from remanence.cli.run_options.learners import DEFAULT, LEARNERS, contenders, read_learners
from remanence.cli.run_options.settings import check_learners, read_learner_settings
from remanence.cli.run_options.streams import ORDERS, STREAMS, TASKS, Asked, Source, find_source
from remanence.errors import InputError
from remanence.terminal_text import printable


def run(
    stream: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Stream of tasks: {', '.join(STREAMS)}, or a table of numbers, as learn takes them, whose classes "
            "are split into tasks. Repeat it or give a pattern like 'days/*.csv' to make each file a task.",
            show_default="digits",
        ),
    ] = None,
    tasks: Annotated[
        int | None, typer.Option(help="Number of tasks.", show_default=f"{TASKS}, or one per class")
    ] = None,
    methods: Annotated[
        str, typer.Option(help=f"Methods, separated by commas, or all: {', '.join(LEARNERS)}.")
    ] = ",".join(DEFAULT),
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="METHOD.NAME=VALUE", help="Setting of a method, rls.ridge=auto; repeatable."),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(metavar="random:WIDTH", help="Random features of the rows for all methods (random:3000:cos)."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the test split and of SGD.")] = 0,
    seeds: Annotated[int, typer.Option(help="Number of seeds; report mean and standard deviation.")] = 1,
    order: Annotated[
        str, typer.Option(help=f"Order of the classes: {', '.join(ORDERS)} (by seed), or a list of all classes.")
    ] = "sorted",
    label: Annotated[str, typer.Option(help="Column of the file with the class labels.", show_default=False)] = "",
    ignore: Annotated[list[str] | None, typer.Option(help="Column of the file to ignore; repeatable.")] = None,
    test: Annotated[float, typer.Option(help="Fraction of rows for testing, if the data have no test set.")] = 0.25,
    data: Annotated[Path, typer.Option(help="Folder with the idx files of mnist and fashion-mnist.")] = Path("data"),
    certify: Annotated[
        bool | None,
        typer.Option(
            "--certify/--no-certify",
            help="Check the guarantees of each learner.",
            show_default="unless the stream is large",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Output folder for results, figures and page.", show_default="runs/<stream>")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Delete the run in the output folder and start from scratch.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else.")] = False,
) -> None:
    """Train several methods on a stream, task by task, and report accuracy and forgetting.

    Results are saved as they are computed: the same command resumes an interrupted run.
    """
    names = read_learners(methods)
    chosen = read_learner_settings(setting or (), names)
    if seeds < 1:
        raise InputError(f"expected --seeds to be at least 1, got {seeds}")
    if seed < 0:
        raise InputError(f"expected --seed to be at least 0, got {seed}")
    first, *others = stream or ["digits"]
    source = find_source(Asked(first, tasks, order, label, tuple(ignore or ()), test, data, tuple(others)))
    source = source if features is None else with_features(source, features)
    check_learners(contenders(list(chosen), seed, chosen))

    from remanence.report import RunFolder, repeat
    from remanence.report.files import write_run

    settings = {"stream": source.name, "tasks": source.tasks, "methods": names, "seed": seed, "seeds": seeds}
    settings |= source.settings | {"certify": certify} | ({"set": sorted(setting)} if setting else {})
    folder = out if out is not None else Path("runs") / _folder_name(first, len(others))
    more = ["--seed", str(seed), *(["--seeds", str(seeds)] if seeds > 1 else [])]
    kept = RunFolder(folder, settings | {"version": __version__}, again)
    result = repeat(
        lambda s: contenders(names, s, chosen),
        source.build,
        range(seed, seed + seeds),
        settings,
        _command([first, *others], source, names, setting or [], certify, *more),
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
        typer.echo(f"{kept.reused} of {total} results were reused from an earlier run; --again starts from scratch.")


def _folder_name(stream: str, others: int) -> str:
    """The name of the folder for a stream: the file's without its ending; that of its folder for several files."""
    path = Path(stream)
    name = path.parent.name if glob.has_magic(path.name) else path.stem
    return (name or "files") + (f"-and-{others}-more" if others else "")


def _command(
    streams: list[str], source: Source, names: list[str], settings: list[str], certify: bool | None, *others: str
) -> str:
    """The command that reproduces the results."""
    parts = ["remanence", "run", *_repeated("--stream", streams), "--tasks", str(source.tasks)]
    parts += ["--methods", ",".join(names), *_repeated("--set", settings), *others, *source.arguments]
    parts += [] if certify is None else ["--certify" if certify else "--no-certify"]
    return shlex.join(parts)


def _repeated(option: str, values: list[str]) -> list[str]:
    return [part for value in values for part in (option, value)]
