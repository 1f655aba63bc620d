"""Standard output that cannot take every sign, is full, or is no longer read: told apart from everything else."""

import codecs
import io
import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

SIGNS = {"✓": "+", "✗": "x", "–": "-", "−": "-", "…": "...", "≤": "<=", "→": "->"}


class OutputLost(Exception):
    """Standard output failed; `problem` says how. (An OSError would be taken for one of a file.)"""

    def __init__(self, problem: OSError) -> None:
        super().__init__(problem.strerror)
        self.problem = problem


class Output:
    """A stream as it is, but for what it raises."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: Any) -> Any:
        try:
            return self._stream.write(text)
        except OSError as problem:
            raise OutputLost(problem) from problem

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as problem:
            raise OutputLost(problem) from problem

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """A block whose warnings are said in a line of their own, without the place in the code that raised them."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_: f"Warning: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


@contextmanager
def safe_output() -> Iterator[None]:
    """A block whose failing output raises OutputLost, and in which signs that cannot be encoded are written around."""
    real = sys.stdout
    if real is None:  # closed by whoever called
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
            yield
        return
    codecs.register_error("remanence", _in_ascii)
    for stream in (real, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="remanence")
    sys.stdout = Output(real)
    try:
        yield
    except OutputLost:
        with suppress(OSError, ValueError):  # what is left in the buffer must not fail once more when Python ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), real.fileno())
        raise
    finally:
        sys.stdout = real


def _in_ascii(problem: UnicodeError) -> tuple[str, int]:
    """A sign that means the same, or an escape as JSON has it."""
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    text = problem.object[problem.start : problem.end]
    return "".join(SIGNS.get(c) or json.dumps(c)[1:-1] for c in text), problem.end
