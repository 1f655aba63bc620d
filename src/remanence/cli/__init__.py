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
COMMANDS = (  # in the order of the help, each with an example
    (run_command, "run --methods finetune,rls,joint --out runs/first"),
    (report_command, "report runs/digits"),
    (compare_command, "compare runs/digits runs/first"),
    (learn_command, "learn model.safetensors 'data/*.csv' --label species"),
    (predict_command, "predict model.safetensors new.csv -o answers.csv"),
    (evaluate_command, "evaluate model.safetensors test.csv --label species"),
    (unlearn_command, "unlearn model.safetensors customer.csv"),
    (merge_command, "merge north.safetensors south.safetensors -o all.safetensors"),
    (inspect_command, "inspect model.safetensors --json"),
    (verify_command, "verify --seed 7 --draw map.svg"),
    (bench_command, "bench --quick --only memory"),
    (methods_command, "methods --json"),
)
for _command, _example in COMMANDS:  # (the lines of a paragraph are broken by the width of the terminal alone)
    _paragraphs = [" ".join(part.split()) for part in (_command.__doc__ or "").split("\n\n")]
    app.command(_example.split()[0], help="\n\n".join(_paragraphs), epilog=f"Example: remanence {_example}")(_command)


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
