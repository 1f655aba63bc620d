"""Standard output that cannot encode a character, is full or was closed, told apart from other errors."""

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

SIGNS = {"✓": "+", "✗": "x", "–": "-", "−": "-", "…": "...", "≤": "<=", "→": "->", "²": "2", "³": "3"}


class OutputLost(Exception):
    """Standard output failed with `problem`. (Not an OSError, which would be taken for that of a file.)"""

    def __init__(self, problem: OSError) -> None:
        super().__init__(problem.strerror)
        self.problem = problem


class Output:
    """A stream that raises OutputLost instead of OSError."""

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
    """Print warnings as one line, without the place in the code that raised them."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_: f"Warning: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


@contextmanager
def safe_output() -> Iterator[None]:
    """Raise OutputLost where standard output fails, and replace characters that cannot be encoded."""
    real = sys.stdout
    if real is None:  # closed by the caller
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
            yield
        return
    codecs.register_error("remanence", _in_ascii)
    for stream in (real, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):  # (the C locale)
            stream.reconfigure(errors="remanence")
    sys.stdout = Output(real)
    try:
        yield
    except OutputLost:
        with suppress(OSError, ValueError):  # (else the rest of the buffer fails again when Python exits)
            os.dup2(os.open(os.devnull, os.O_WRONLY), real.fileno())
        raise
    finally:
        sys.stdout = real


def _in_ascii(problem: UnicodeError) -> tuple[str, int]:
    """An ASCII replacement, or an escape as in JSON."""
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    text = problem.object[problem.start : problem.end]
    return "".join(SIGNS.get(c) or json.dumps(c)[1:-1] for c in text), problem.end
