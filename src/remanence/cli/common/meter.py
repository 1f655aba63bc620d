"""A progress bar that says how many rows a second go by."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from remanence.progress import progress_bar


class Meter:
    """Says on a progress bar what is being read, and how many rows a second."""

    def __init__(self, advance: Callable[..., None]) -> None:
        self.advance, self.begun, self.rows = advance, time.monotonic(), 0

    def __call__(self, name: str, rows: int) -> None:
        self.rows += rows
        rate = self.rows / max(time.monotonic() - self.begun, 1e-9)
        self.advance(0, f"{name}, {rate:,.0f} rows/s")


@contextmanager
def metered(what: str, files: int) -> Iterator[tuple[Callable[..., None], Meter]]:
    """A bar that counts files, and a meter that counts rows beside it."""
    with progress_bar(what, files) as advance:
        yield advance, Meter(advance)
