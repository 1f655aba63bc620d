"""SIGTERM ends a command as an interruption does: what it was writing is removed on the way out."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Within such a block SIGTERM exits with 143 (128 + 15) after cleaning up; only the main thread can ask for it."""
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
