"""The command `remanence`: parse options, call the library, print the result.

Exit code 0 on success, 1 if a check fails, 2 on errors.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from remanence import __version__
from remanence.cli.bench import bench as bench_command
from remanence.cli.common.flags import message
from remanence.cli.common.output import OutputLost, plain_warnings, safe_output
from remanence.cli.compare import compare as compare_command
from remanence.cli.evaluate import evaluate as evaluate_command
from remanence.cli.inspect import inspect as inspect_command
from remanence.cli.learn import learn as learn_command
from remanence.cli.merge import merge as merge_command
from remanence.cli.methods import methods as methods_command
from remanence.cli.predict import predict as predict_command
from remanence.cli.report import report as report_command
from remanence.cli.run import run as run_command
from remanence.cli.unlearn import unlearn as unlearn_command
from remanence.cli.verify import verify as verify_command
from remanence.errors import FileError, InputError, MissingDependency, NumericalError

app = typer.Typer(
    name="remanence",
    help="Exact continual learning: keep a model up to date as data arrives, and prove what it has kept.",
    epilog="Example: remanence run",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run", epilog="Example: remanence run --methods finetune,rls,joint --out runs/first")(run_command)
app.command("report", epilog="Example: remanence report runs/digits")(report_command)
app.command("compare", epilog="Example: remanence compare runs/digits runs/first")(compare_command)
app.command("learn", epilog="Example: remanence learn model.safetensors 'data/*.csv' --label species")(learn_command)
app.command("predict", epilog="Example: remanence predict model.safetensors new.csv -o answers.csv")(predict_command)
app.command("evaluate", epilog="Example: remanence evaluate model.safetensors test.csv --label species")(
    evaluate_command
)
app.command("unlearn", epilog="Example: remanence unlearn model.safetensors customer.csv")(unlearn_command)
app.command("merge", epilog="Example: remanence merge north.safetensors south.safetensors -o all.safetensors")(
    merge_command
)
app.command("inspect", epilog="Example: remanence inspect model.safetensors --json")(inspect_command)
app.command("verify", epilog="Example: remanence verify --seed 7 --draw map.svg")(verify_command)
app.command("bench", epilog="Example: remanence bench --quick --only memory")(bench_command)
app.command("methods", epilog="Example: remanence methods --json")(methods_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"remanence {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code; with REMANENCE_DEBUG=1 exceptions are not caught."""
    try:
        with plain_warnings(), safe_output():
            app(args=None if arguments is None else list(arguments), prog_name="remanence")
    except Exception as problem:
        if os.environ.get("REMANENCE_DEBUG", "") not in ("", "0"):
            raise
        text = _message_of(problem)
        if text:
            typer.secho("Error: ", fg="red", bold=True, nl=False, err=True)
            typer.echo(" ".join(text.split()), err=True)
        sys.exit(2)


def _message_of(problem: Exception) -> str:
    """The message for an exception; empty if the reader of a pipe has closed it."""
    if isinstance(problem, (InputError, FileError, MissingDependency, NumericalError)):
        return message(problem)
    if isinstance(problem, OutputLost):
        if isinstance(problem.problem, BrokenPipeError):
            return ""
        return (
            f"cannot write to standard output: {problem}; the work was done before: a model file, a table or a run "
            f"that this command writes is saved"
        )
    if isinstance(problem, MemoryError):
        return (
            f"not enough memory{f': {problem}' if str(problem) else ''}; use fewer features or columns, or a method "
            f"that needs less memory (see remanence methods)"
        )
    if isinstance(problem, OSError) and problem.filename is not None:
        return f"{problem.filename}: {problem.strerror}"
    places = [
        frame for frame in traceback.extract_tb(problem.__traceback__) if "remanence" in Path(frame.filename).parts
    ]
    where = f" ({Path(places[-1].filename).name}, line {places[-1].lineno})" if places else ""
    return (
        f"{type(problem).__name__}: {problem}{where}. That is a defect of remanence {__version__}, not of your data: "
        f"please report this line and the command; REMANENCE_DEBUG=1 shows the whole traceback"
    )
