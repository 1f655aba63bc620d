"""`remanence bench`: run the benchmarks, which are part of the source tree and not installed with the package."""

import json
import sys
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

import remanence
from remanence.cli.common.options import AsJson
from remanence.errors import InputError, MissingDependency

WHERE = "benchmarks/"


def bench(
    only: Annotated[list[str] | None, typer.Option(help="Group, benchmark or pattern to run; repeatable.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few rounds, under a minute; results are not saved.")] = False,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Only check that all of them run; results are not saved.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="benchmarks/results for a full run")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a goal is missed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure speed and memory relative to other libraries; needs a clone of the source tree."""
    root = source_tree()
    arguments = [word for name in only or [] for word in ("--only", name)]
    arguments += ["--quick"] * quick + ["--smoke"] * smoke + ["--strict"] * strict
    sys.path.insert(0, str(root))
    run, chosen = import_module("benchmarks.__main__").main, import_module("benchmarks.registry").chosen
    try:
        chosen(list(only or []))
    except SystemExit as problem:  # (with which the module itself ends)
        raise InputError(str(problem)) from None
    if not as_json:
        raise typer.Exit(run([*arguments, *(["--out", str(out)] if out else [])]))
    with TemporaryDirectory() as aside:
        folder = out if out is not None else Path(aside)
        with redirect_stdout(sys.stderr):
            code = run([*arguments, "--out", str(folder)])
        groups = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    typer.echo(json.dumps({"groups": groups}, ensure_ascii=False))
    raise typer.Exit(code)


def source_tree() -> Path:
    """The root of the source tree; a MissingDependency error if the package was installed without it."""
    root = Path(remanence.__file__).resolve().parents[2]
    if not (root / WHERE / "__main__.py").is_file():
        raise MissingDependency(
            f"expected to run from a clone of the source tree, which has the folder {WHERE}; the installed package "
            f"has not: clone it and run `make bench` there"
        )
    return root
