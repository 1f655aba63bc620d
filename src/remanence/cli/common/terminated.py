"""SIGTERM ends a command like an interrupt, so that unfinished files are removed."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Exit with code 143 (128 + 15) on SIGTERM, after cleaning up; has no effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(number: int, frame: Any) -> None:
    sys.exit(128 + number)
